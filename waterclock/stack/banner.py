"""What ``waterclock up`` tells about the machine before it starts, and where to look once it runs."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from .kit import Kit
from .memory import available_mb
from .ports import PickedPort

NEXT_COMMANDS = (
    'job create hello --every 5s --handler demo.echo --payload "hello"',
    'cron explain "0 9 * * 1-5" --tz Europe/Berlin',
    "topics tail run-events",
)
OWN_HANDLERS = "job create --help"


def program() -> str:
    """How a person in this folder types this program: by its name where the shell finds it, else by its path."""
    ours = Path(sys.executable).parent / "waterclock"
    if not ours.exists() or shutil.which("waterclock") == str(ours):
        return "waterclock"
    return str(ours.relative_to(Path.cwd()) if ours.is_relative_to(Path.cwd()) else ours)


def machine(kit: Kit | None) -> list[str]:
    """One line about versions and room; a second one where memory is short."""
    free_mb = available_mb()
    java = f", java {kit.java.major}" if kit else ""
    versions = f"waterclock {version('waterclock')}, python {platform.python_version()}{java}"
    lines = [f"{versions}, {free_mb / 1024:.1f} GB free, {os.cpu_count()} cores"]
    if kit and kit.heaps.small:
        lines.append(kit.heaps.told(free_mb))
    return lines


def other_port(name: str, picked: PickedPort, option: str) -> str:
    """Why a server is not on its usual port."""
    return (
        f"{name}: port {picked.wanted} is taken by {picked.holder}, using {picked.port} instead "
        f"(or choose one with {option})"
    )


def where_to_look(bootstrap: str, cassandra: str, api: str, data_dir: Path, *, own_app: bool = False) -> Sequence[str]:
    """The last words of a start: addresses, folder, how to stop, what to do next.

    ``own_app``: the user's handlers run, so that those of the demo cannot be named.
    """
    ours = program()
    first, *others = NEXT_COMMANDS
    commands = (OWN_HANDLERS if own_app else first, *others)
    return (
        "",
        f"  Page       {api}/   (API: {api}/docs)",
        f"  Kafka      {bootstrap}",
        f"  Cassandra  {cassandra}",
        f"  Data       {data_dir}",
        f"  Logs       {data_dir}/logs   ({ours} logs -f worker-1)",
        "",
        f"  Ctrl-C or `{ours} down` stops, `{ours} down --purge` deletes the data too. Next:",
        *(f"    {ours} {command}" for command in commands),
        "",
    )
