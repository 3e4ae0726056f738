"""``make wheel`` runs this with the Python of an empty environment that holds the wheel alone, away from the checkout.

It shows that nothing was left behind: every role and every data file is there, and every command answers ``--help``.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import typer


def _roles() -> None:
    for point in importlib.metadata.entry_points(group="waterclock.roles"):
        importlib.import_module(f"{point.value}.__main__")
        print(f"role {point.name}")


def _data() -> None:
    schemata = importlib.import_module("waterclock.wire.schemata")
    migrate = importlib.import_module("waterclock.store.migrate")
    for kind in schemata.KINDS:
        schemata.current(kind)
    print(f"{len(schemata.KINDS)} schemas, {len(schemata.released())} releases, {len(migrate.migrations())} migrations")


def _commands() -> Iterator[list[str]]:
    cli = importlib.import_module("waterclock.cli")
    group = typer.main.get_command(cli.app)
    context = group.make_context("waterclock", ["--help"], resilient_parsing=True)
    for name in group.list_commands(context):
        yield [name]
        _, command, _ = group.resolve_command(context, [name])
        yield from ([name, inner] for inner in getattr(command, "commands", {}))


def main() -> None:
    checkout = Path(__file__).resolve().parents[1]
    found = Path(str(importlib.import_module("waterclock").__file__)).resolve()
    if (checkout / "waterclock") in found.parents:
        sys.exit("this is the checkout, not the wheel")
    _roles()
    _data()
    waterclock = Path(sys.executable).with_name("waterclock")
    for words in ([], *_commands()):
        subprocess.run([waterclock, *words, "--help"], check=True, stdout=subprocess.DEVNULL, timeout=60)
        print(f"waterclock {' '.join(words)}")


if __name__ == "__main__":
    main()
