"""What the peers made of the same task, from a file of their results (``beside.py``, ``make bench-peers``).

Its lines are like ours; ``bench`` is ``peer.<name>.<task>.<what>``, such as ``peer.river-tuned.drain.runs_per_s``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_NOT_PYTHON = ("river", "db-scheduler", "temporal")


class NoPeers(LookupError):
    """There is nothing to compare with; the text says which file lacks what."""


class Peer(NamedTuple):
    """One peer's figure."""

    name: str
    value: float


class Peers:
    """The figures of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        told = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        self._found = {str(line["bench"]): float(line["value"]) for line in told}

    def best(self, of: Callable[[str], bool], figure: str, *, lowest: bool = False) -> Peer:
        """The best of the peers whose name is ``of`` them. Raises NoPeers where none has this figure."""
        found = [
            Peer(name, value)
            for bench, value in self._found.items()
            if bench.startswith("peer.") and bench.endswith(f".{figure}")
            if of(name := bench.removeprefix("peer.").removesuffix(f".{figure}"))
        ]
        if not found:
            raise NoPeers(f"{self.path.name} has no peer figure {figure!r} to compare with")
        return (min if lowest else max)(found, key=lambda peer: peer.value)


def called(start: str) -> Callable[[str], bool]:
    """Every peer whose name begins so, in any of its configurations."""
    return lambda name: name == start or name.startswith(f"{start}-")


def in_python(name: str) -> bool:
    """Whether its workers are Python's."""
    return not name.startswith(_NOT_PYTHON)
