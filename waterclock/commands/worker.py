"""``waterclock worker app:app``: run your own handlers."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from waterclock.app import load_app
from waterclock.stack.role_process import said_once

from .connect import here
from .output import say

app = typer.Typer(add_completion=False, help="Run your own handlers.")


@app.command()
def worker(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="Where your App is, such as jobs:app")],
    instance: Annotated[
        str, typer.Option(help="Stable name of this process; another one for each worker")
    ] = "worker-own",
    slots: Annotated[int | None, typer.Option(min=1, help="How many runs at once (32)")] = None,
    pool: Annotated[str | None, typer.Option(help="Take work of this pool (default)")] = None,
) -> None:
    """Run a worker with the handlers of your App, in the foreground; Ctrl-C drains.

    Every worker of a pool must know every handler that its jobs name: start the stack beside it with
    `waterclock up --workers 0`, or let the stack run your handlers itself with `waterclock up --app MODULE:APP`.
    """
    settings = here()
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - what `python -m` does: your module lies here
    handlers = load_app(target).handlers  # before anything else: a typing error ends here, with its own message
    say(f"worker {instance} of pool {pool or settings.worker.pool}: {', '.join(sorted(handlers)) or 'no handlers'}")
    env = said_once(
        {
            **os.environ,
            "WATERCLOCK_KAFKA__BOOTSTRAP": settings.kafka.bootstrap,
            "WATERCLOCK_CASSANDRA__CONTACT_POINTS": ",".join(settings.cassandra.contact_points),
            "WATERCLOCK_CASSANDRA__PORT": str(settings.cassandra.port),
            "WATERCLOCK_WORKER__APP": target,
            "WATERCLOCK_INSTANCE": instance,
            **({"WATERCLOCK_WORKER__SLOTS": str(slots)} if slots else {}),
            **({"WATERCLOCK_WORKER__POOL": pool} if pool else {}),
        }
    )
    # Become the worker: signals reach it, and its exit code is ours. Roles are never imported from here.
    os.execve(sys.executable, [sys.executable, "-m", "waterclock.workers"], env)  # noqa: S606 - becoming it is the purpose
