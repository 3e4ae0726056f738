"""``waterclock up | down | status | logs``: the local stack of this folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from waterclock.model.errors import BackendDown, NotFound
from waterclock.settings import load_settings
from waterclock.stack.down import purge, stop_stack
from waterclock.stack.following import follow_logs, last_lines
from waterclock.stack.state import birth_of, read_state, sole_owner

from .failing import CommandFailed
from .output import OutputOption, say, show_rows

app = typer.Typer(add_completion=False)

_DETACHED_READY_S = 360.0
_DETACH = re.compile("-d+")
"""Also said twice: a supervisor that detaches another one would never come to an end."""

DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", help="Where data, logs and state are (.waterclock)", show_default=False)
]


def port_option(usual: int) -> Any:
    """Which port, where it matters."""
    told = f"({usual}, or another where it is taken)"
    return typer.Option(min=0, max=65_535, help=told, show_default=False)


@app.command()
def up(
    app_target: Annotated[str | None, typer.Option("--app", help="MODULE:APP, your handlers (the demo's)")] = None,
    workers: Annotated[int | None, typer.Option(min=0, max=64, help="How many (2)")] = None,
    dispatchers: Annotated[int | None, typer.Option(min=1, max=16, help="How many (2)")] = None,
    kafka_port: Annotated[int, port_option(9092)] = 0,
    cql_port: Annotated[int, port_option(9042)] = 0,
    api_port: Annotated[int, port_option(8080)] = 0,
    bootstrap: Annotated[str | None, typer.Option(help="Use this Kafka instead of starting one")] = None,
    contact_points: Annotated[str | None, typer.Option(help="Use this Cassandra instead of starting one")] = None,
    java_home: Annotated[Path | None, typer.Option(help="The Java to use")] = None,
    data_dir: DataDirOption = None,
    quick: Annotated[
        bool | None, typer.Option("--quick", help="Servers start for half the CPU time, and carry less")
    ] = None,
    began_s: Annotated[float, typer.Option(hidden=True, help="When it all began: seconds since the epoch")] = 0.0,
    detach: Annotated[bool, typer.Option("-d", "--detach", help="Return once all is ready; it goes on")] = False,
) -> None:
    """Start Kafka, Cassandra and all roles, and keep them running until Ctrl-C."""
    flags = _flags(
        kafka={"bootstrap": bootstrap},
        cassandra={"contact_points": contact_points},
        worker={"app": app_target},
        stack={
            "data_dir": data_dir,
            "java_home": java_home,
            "workers": workers,
            "dispatchers": dispatchers,
            "quick": quick,
        },
    )
    settings = load_settings(flags)
    if detach:
        _detach(settings.stack.data_dir.resolve())
        return
    from waterclock.stack.up import Up

    Up(settings, say, kafka_port=kafka_port, cql_port=cql_port, api_port=api_port, began_s=began_s).run()


@app.command()
def down(
    data_dir: DataDirOption = None,
    purge_data: Annotated[bool, typer.Option("--purge", help="Delete its data too")] = False,
) -> None:
    """Stop the stack of this folder; with --purge delete its data."""
    folder = _data_dir(data_dir)
    say("stopped" if stop_stack(folder) else "nothing was running")
    if purge_data:
        say(f"deleted {folder}" if purge(folder) else f"there was nothing in {folder}")


@app.command()
def status(data_dir: DataDirOption = None, output: OutputOption = None) -> None:
    """Show the processes of the stack. Exit code 0 when all is ready, 1 when not."""
    folder = _data_dir(data_dir)
    state = read_state(folder)
    if state is None or not state.alive:
        raise CommandFailed(f"No stack runs in {folder}", hint="`waterclock up` starts one")
    rows: list[dict[str, Any]] = [
        {
            **process._asdict(),
            "pid": process.pid or None,
            "life": process.life if not process.pid or birth_of(process.pid) else "ended",
        }
        for process in state.processes
    ]
    show_rows(rows, ("name", "life", "pid", "restart_count", "address", "version"), output)
    say(f"{state.phase} for {time.time() - state.started_at_s:.0f} s (supervisor: pid {state.pid})")
    if state.phase == "ready":
        for pool in _unserved_pools(state.bootstrap):
            say(f"no worker for pool {pool}: its runs wait (waterclock worker MODULE:APP --pool {pool})")
    if state.phase != "ready" or any(row["life"] != "ready" for row in rows):
        raise typer.Exit(1)


@app.command()
def logs(
    name: Annotated[list[str] | None, typer.Argument(help="Which processes (all)")] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Wait for more; Ctrl-C ends")] = False,
    lines: Annotated[int, typer.Option("-n", help="Begin with so many of the last lines of each")] = 20,
    data_dir: DataDirOption = None,
) -> None:
    """Print the logs of the stack's processes."""
    folder = _data_dir(data_dir) / "logs"
    known = {path.stem: path for path in sorted(folder.glob("*.log"))}
    unknown = [each for each in name or () if each not in known]
    if unknown or not known:
        what = f"There is no log of {unknown[0]}" if unknown else f"There are no logs in {folder}"
        raise NotFound(what, hint=f"There are: {', '.join(known)}" if known else "`waterclock up` starts a stack")
    chosen = {each: known[each] for each in name or known}
    width = max(map(len, chosen)) if len(chosen) > 1 else 0
    for each, path in chosen.items():
        for line in last_lines(path, lines):
            typer.echo(_labelled(each, line, width))
    if follow:
        for each, line in follow_logs(chosen):
            typer.echo(_labelled(each, line, width))


def _labelled(name: str, line: str, width: int) -> str:
    return f"{name:<{width}} | {line}" if width else line


def _flags(**groups: dict[str, Any]) -> dict[str, Any]:
    """Only what was given: what is not given must not hide what a file says."""
    given = {group: {key: value for key, value in keys.items() if value is not None} for group, keys in groups.items()}
    return {group: keys for group, keys in given.items() if keys}


def _unserved_pools(bootstrap: str) -> list[str]:
    """The pools that are set and have no worker; none where Kafka does not answer: that is told elsewhere."""
    from waterclock.clock import SystemClock
    from waterclock.serving import who_serves

    from .connect import names_of, open_log

    settings = load_settings({"kafka": {"bootstrap": bootstrap}})
    try:
        with open_log(settings) as log:
            now, ttl_s = SystemClock().now(), settings.worker.lease_ttl_s
            serving = who_serves(log, names_of(settings), lease_ttl_s=ttl_s, now=now)
    except BackendDown:
        return []
    return [pool for pool in settings.pools if pool not in serving]


def _data_dir(data_dir: Path | None) -> Path:
    return (data_dir or load_settings().stack.data_dir).resolve()


def _detach(data_dir: Path) -> None:
    """The same command without ``--detach``, in a session of its own; return when its state file says ready."""
    log_path = data_dir / "logs" / "supervisor.log"
    words = [word for word in sys.argv[1:] if word != "--detach" and not _DETACH.fullmatch(word)]
    with sole_owner(data_dir):  # else the log is that of a stack that runs, and stays its own
        log_path.parent.mkdir(exist_ok=True)
        log_path.unlink(missing_ok=True)
    with log_path.open("wb") as log:
        supervisor = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", "waterclock.cli", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=dict(os.environ),
        )
    give_up_at = time.monotonic() + _DETACHED_READY_S
    while supervisor.poll() is None:
        state = read_state(data_dir)
        if state is not None and state.pid == supervisor.pid and state.phase == "ready":
            say(log_path.read_text())
            return
        if time.monotonic() > give_up_at:
            raise CommandFailed(
                f"Not ready after {_DETACHED_READY_S:.0f} s; it still tries (pid {supervisor.pid}). Its words are in "
                f"{log_path}",
                hint="waterclock status, waterclock logs",
            )
        time.sleep(0.1)
    raise CommandFailed(log_path.read_text().strip() or "The supervisor ended without a word", hint="waterclock logs")
