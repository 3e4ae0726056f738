"""What the rounds measured, as JSON lines in bench/results/: every round's figure, then median and range."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).parents[1] / "results"


class Figure(NamedTuple):
    """One figure of one round; ``n`` tasks were counted for it."""

    what: str
    value: float
    unit: str
    n: int


class Report:
    """Collects the figures of all rounds, and writes each as it comes: a run that is cut short keeps what it has."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._found: dict[tuple[str, str], list[Figure]] = {}
        self.missing: dict[str, str] = {}

    def add(self, peer: str, round_number: int, figure: Figure) -> None:
        """One figure of one round."""
        self._found.setdefault((peer, figure.what), []).append(figure)
        name = f"peer.{peer}.{figure.what}.round"
        self._line(name, figure.value, figure.unit, f"round {round_number}", figure.n)

    def miss(self, peer: str, reason: str) -> None:
        """A peer that was not measured, or not wholly: the reason is part of the results."""
        self.missing[peer] = reason
        self._line(f"peer.{peer}.missing", 0, "", reason, 0)

    def rounds(self, peer: str, what: str) -> list[Figure]:
        """A peer's figure, round by round."""
        return self._found.get((peer, what), [])

    def close(self) -> None:
        """Median and range of each figure; the ratio is that of the range: largest to smallest."""
        for (peer, what), rounds in self._found.items():
            median, least, most = spread(rounds)
            vs = f"median of {len(rounds)}, {least:.1f} to {most:.1f}"
            ratio = round(most / least, 3) if least > 0 else None
            self._line(f"peer.{peer}.{what}", median, rounds[0].unit, vs, rounds[0].n, ratio)

    def _line(self, bench: str, value: float, unit: str, vs: str, n: int, ratio: float | None = None) -> None:
        line = {"bench": bench, "value": round(value, 3), "unit": unit, "vs": vs, "ratio": ratio, "n": n}
        text = json.dumps(line)
        print(text, flush=True)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(text + "\n")


def figures(lines: Iterable[str]) -> dict[tuple[str, str], list[Figure]]:
    """The rounds of each (peer, figure), out of files of results: of several runs together."""
    found: dict[tuple[str, str], list[Figure]] = {}
    for line in lines:
        read = json.loads(line)
        name = str(read["bench"])
        if name.startswith("peer.") and name.endswith(".round"):
            _, peer, what = name.removesuffix(".round").split(".", 2)
            found.setdefault((peer, what), []).append(Figure(what, float(read["value"]), read["unit"], read["n"]))
    return found


def spread(rounds: Sequence[Figure]) -> tuple[float, float, float]:
    """Median, smallest and largest."""
    values = [figure.value for figure in rounds]
    return statistics.median(values), min(values), max(values)
