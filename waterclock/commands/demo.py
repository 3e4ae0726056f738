"""``waterclock demo``: everything at once: the stack, a small living world in it, and a look at what happens.

The story: start the stack -> load the world -> watch. At a terminal it stays until Ctrl-C. Unattended it ends by
itself, with 0 once a run of each kind has ended as it should, on the log and in history; else with 1 and what is
missing, after a bound.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from waterclock.clock import SystemClock
from waterclock.model.errors import BackendDown
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Tier
from waterclock.settings import Settings, load_settings
from waterclock.stack.demo_proof import Proof
from waterclock.stack.demo_sight import SeenRun, Sight
from waterclock.stack.demo_stack import DemoStack
from waterclock.stack.demo_table import Display, View, display, ended_line, trigger_delay
from waterclock.stack.demo_world import kinds, load

from .failing import CommandFailed

if TYPE_CHECKING:
    from waterclock.log.port import Log
    from waterclock.store.port import Reading

app = typer.Typer(add_completion=False, help="Start everything and watch it.", invoke_without_command=True)

_WITHIN_S = 150.0
_LOOK_S = 0.25
_LAG_EVERY_S = 2.0
_CHECK_EVERY_S = 0.5


@app.callback()
def demo(
    unattended: Annotated[
        bool, typer.Option("--unattended", help="End once a run of each kind has ended as it should")
    ] = False,
    began_s: Annotated[float, typer.Option(hidden=True, help="When it all began, seconds since the epoch")] = 0.0,
) -> None:
    """Start the stack with a small living world in it, and show what happens. Ctrl-C stops everything."""
    began_s = began_s or time.time()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stopped either way, it stops its stack
    data_dir = load_settings().stack.data_dir.resolve()
    with display() as shown:
        stack = DemoStack(data_dir, shown.tell)
        try:
            from .connect import here, open_log, open_store  # the drivers load while the servers start

            servers_s = stack.wait_ready().started_at_s
            settings = here()
            with open_log(settings) as log, open_store(settings) as store:
                _Demo(settings, log, store, shown, stack, began_s, servers_s).run(unattended=unattended)
        except KeyboardInterrupt:
            shown.tell("")
        finally:
            stack.stop()
    typer.echo(
        f"Stopped. Its data is kept in {data_dir}: `waterclock up` goes on, `waterclock down --purge` deletes it."
    )


class _Demo:
    """One demo on a stack that is ready."""

    def __init__(
        self,
        settings: Settings,
        log: Log,
        store: Reading,
        shown: Display,
        stack: DemoStack,
        began_s: float,
        servers_s: float,
    ) -> None:
        self._settings = settings
        self._log = log
        self._store = store
        self._shown = shown
        self._stack = stack
        self._began_s = began_s
        self._servers_s = servers_s
        self._clock = SystemClock()
