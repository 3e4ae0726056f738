"""``waterclock demo``: everything at once: the stack, a small living world in it, and a look at what happens.

At a terminal it stays until Ctrl-C. Unattended it ends by itself: with 0 once a run of each kind has ended as it
should, on the log and in history; else, after a bound, with 1 and what is missing.
"""

from __future__ import annotations

import signal
import time
from contextlib import closing
from types import FrameType
from typing import Annotated

import typer

from waterclock.settings import load_settings
from waterclock.stack.banner import program
from waterclock.stack.demo_stack import DemoStack
from waterclock.stack.demo_table import Display, display

from .output import say
from .stack import port_option

app = typer.Typer(add_completion=False, help="Start everything and watch it.")


@app.command()
def demo(
    unattended: Annotated[
        bool, typer.Option("--unattended", help="End by itself once a run of each kind has ended as it should")
    ] = False,
    kafka_port: Annotated[int, port_option(9092)] = 0,
    cql_port: Annotated[int, port_option(9042)] = 0,
    api_port: Annotated[int, port_option(8080)] = 0,
    began_s: Annotated[float, typer.Option(hidden=True, help="When it all began: seconds since the epoch")] = 0.0,
) -> None:
    """Start the stack with a small living world in it, and show what happens. Ctrl-C stops everything."""
    began_s = began_s or time.time()
    asked = _AskedToStop()  # however it is stopped, it stops its stack
    data_dir = load_settings().stack.data_dir.resolve()
    with display() as shown:
        ports = (f"--kafka-port={kafka_port}", f"--cql-port={cql_port}", f"--api-port={api_port}")
        options = (f"--began-s={began_s}", *ports)
        stack = DemoStack(data_dir, shown.tell, options)
        try:
            _watch(stack, shown, began_s, asked, unattended=unattended)
        except KeyboardInterrupt:
            if unattended:
                raise
        finally:
            stack.stop()
    say(f"Its data is kept in {data_dir}: the next start goes on with it, `{program()} down --purge` deletes it.")


class _AskedToStop:
    """By Ctrl-C or SIGTERM. Remembered: an interrupt that is raised in a driver's callback may end there, unseen."""

    def __init__(self) -> None:
        self._is_asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._is_asked = True
        raise KeyboardInterrupt

    def heed(self) -> None:
        """Raises KeyboardInterrupt where somebody has asked."""
        if self._is_asked:
            raise KeyboardInterrupt


def _watch(stack: DemoStack, shown: Display, began_s: float, asked: _AskedToStop, *, unattended: bool) -> None:
    """The drivers are loaded while the servers start."""
    from waterclock.stack.demo import Beginnings, Demo

    from .connect import here, open_log, open_store

    ready = stack.wait_ready()
    began = Beginnings(began_s, ready.started_at_s)
    settings = here()
    with (
        open_log(settings) as log,
        open_store(settings) as store,
        closing(Demo(settings, log, store, stack, shown, began, page=ready.api)) as watched,
    ):
        watched.run(unattended=unattended, heed=asked.heed)
