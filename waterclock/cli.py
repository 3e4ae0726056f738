"""``waterclock``: the operator's front door. Names the commands, and loads only the one that is asked for.

``waterclock --help`` therefore answers in a fifth of a second, whatever a command needs. Errors of ours become what,
why and the next command on stderr, and an exit code (``commands/failing.py``); anything else is a bug, with its trace.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from waterclock.leaving import leave_after
from waterclock.model.errors import WaterclockError


class _Entry(NamedTuple):
    """Where a command lives. ``whole``: the module's app is the command itself, else one of its commands."""

    module: str
    help: str
    panel: str
    whole: bool = True


_GRUMBLERS = ("waterclock.kafka", "cassandra")
"""Loggers of the drivers. What they say while a server is away is for the logs of roles: a person is told once, by the
error."""
_UNHEARD = logging.NullHandler()

_JOBS, _LOOK, _OWN, _STACK = "Jobs and runs", "Look inside", "Own clusters", "Local stack"

_ENTRIES = {
    "job": _Entry("job", "Define, look at and change jobs.", _JOBS),
    "run": _Entry("run", "Look at runs, and end them.", _JOBS),
    "dag": _Entry("dag", "Check and draw Dags; look at DagRuns, and act on them.", _JOBS),
    "backfill": _Entry("backfill", "Run a job's fires of a past range.", _JOBS),
    "dlq": _Entry("dlq", "Dead letters: look, redrive, discard.", _JOBS),
    "worker": _Entry("worker", "Run your own handlers.", _JOBS),
    "calendar": _Entry("calendar", "Days and instants on which jobs do not fire.", _JOBS),
    "key": _Entry("key", "Let programs use the API.", _JOBS),
    "cron": _Entry("cron", "Understand cron expressions.", _JOBS),
    "forecast": _Entry("forecast", "The load of the next 24 hours, by minute.", _LOOK),
    "schema": _Entry("schema", "Try a job event before it is sent; export the Avro schemas.", _LOOK),
    "topics": _Entry("topics", "Look into topics.", _LOOK),
    "lag": _Entry("lag", "How far behind each group is.", _LOOK),
    "ledger": _Entry("ledger", "Prove that every owed fire ran or was skipped.", _LOOK),
    "upkeep": _Entry("upkeep", "How far sweeps and checks are, and what they found.", _LOOK),
    "sim": _Entry("sim", "Play the whole system from one seed (in a checkout).", _LOOK),
    "init": _Entry("init", "Make topics, rights and tables; --plan shows them first.", _OWN),
    "doctor": _Entry("doctor", "Say what is wrong with the clusters, and what to do.", _OWN),
    "demo": _Entry("demo", "Start everything with a few jobs in it, and watch.", _STACK),
    "up": _Entry("stack", "Start Kafka, Cassandra and all roles.", _STACK, whole=False),
    "down": _Entry("stack", "Stop the stack of this folder.", _STACK, whole=False),
    "status": _Entry("stack", "Show the processes of the stack.", _STACK, whole=False),
    "logs": _Entry("stack", "Print the logs of the stack's processes.", _STACK, whole=False),
}


class _LazyGroup(TyperGroup):
    """Lists stand-ins, and puts the real command in place when one is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, stand_in, rest = super().resolve_command(ctx, args)
        return name, stand_in if name is None or stand_in is None else _load(name), rest


def _load(name: str) -> Any:
    entry = _ENTRIES[name]
    command: Any = typer.main.get_command(import_module(f"waterclock.commands.{entry.module}").app)
    return command if entry.whole else command.commands[name]


app = typer.Typer(
    cls=_LazyGroup,
    help="A distributed job scheduler on Kafka and Cassandra.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"waterclock {version('waterclock')}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: bool = typer.Option(False, "--version", callback=lambda value: _show_version(wanted=value), is_eager=True),
) -> None:
    """A distributed job scheduler on Kafka and Cassandra."""


def _stand_in() -> None:
    """Never called: ``_LazyGroup`` puts the real command in its place."""


for _name, _entry in _ENTRIES.items():
    app.command(_name, help=_entry.help, rich_help_panel=_entry.panel)(_stand_in)


def main() -> None:
    """Run the command that ``sys.argv`` names; raises SystemExit with its exit code."""
    for name in _GRUMBLERS:
        logging.getLogger(name).addHandler(_UNHEARD)
    try:
        app(prog_name="waterclock")
    except WaterclockError as error:
        from waterclock.commands.failing import told

        lines, exit_code = told(error)
        for line in lines:
            typer.echo(line, err=True)
        sys.exit(exit_code)


def process() -> None:
    """The whole of a ``waterclock`` process."""
    leave_after(main)


if __name__ == "__main__":
    process()
