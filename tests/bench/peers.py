"""What the peers made of the same task, from the newest ``bench/results/peers-*.jsonl`` (``make bench-peers``).

Its lines are like ours; ``bench`` is ``peer.<name>.<task>.<what>``, such as ``peer.river-tuned.drain.runs_per_s``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tests.bench.figures import RESULTS

_NOT_PYTHON = ("river", "db-scheduler", "temporal")


class NoPeers(LookupError):
    """There is nothing to compare with; the text says what to do."""


class Peer(NamedTuple):
    """One peer's figure."""

    name: str
    value: float


class Peers:
    """The figures of one file."""

    def __init__(self, path: Path | None, lines: Iterable[str]) -> None:
        self.path = path
        self._found: dict[str, float] = {}
        for line in lines:
            told = json.loads(line)
            self._found[told["bench"]] = float(told["value"])

    def best(self, of: Callable[[str], bool], figure: str, *, lowest: bool = False) -> Peer:
        """The best of the peers whose name is ``of`` them. Raises NoPeers where none has this figure."""
        found = [
            Peer(name, value)
            for bench, value in self._found.items()
            if bench.startswith("peer.") and bench.endswith(f".{figure}")
            if of(name := bench.removeprefix("peer.").removesuffix(f".{figure}"))
        ]
        if not found:
            where = f"{self.path.name} has no" if self.path else "there is no bench/results/peers-*.jsonl, so no"
            raise NoPeers(f"{where} peer figure {figure!r} to compare with: `make bench-peers` makes one")
        return (min if lowest else max)(found, key=lambda peer: peer.value)


def newest(results: Path = RESULTS) -> Peers:
    """The newest file's, by its name, which ends with when it was made; an empty one where there is none."""
    paths = sorted(results.glob("peers-*.jsonl"))
    return Peers(paths[-1], paths[-1].read_text(encoding="utf-8").splitlines()) if paths else Peers(None, ())


def called(start: str) -> Callable[[str], bool]:
    """Every peer whose name begins so, in any of its configurations."""
    return lambda name: name == start or name.startswith(f"{start}-")


def in_python(name: str) -> bool:
    """Whether its workers are Python's."""
    return not name.startswith(_NOT_PYTHON)
