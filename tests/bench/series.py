"""The figures of several rounds: each round's, then median, range, and the median scaled by the raw loop.

The same machine is now faster, now slower, by up to 1.65 times. The raw loop of the same round tells how fast it was: a
scaled figure is what it would have been where the raw loop makes ``REFERENCE_RUNS_PER_S``.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import NamedTuple

from tests.bench.figures import Figures

REFERENCE_RUNS_PER_S = 70_000.0
"""By it figures are scaled: about the best that the raw transactional produce loop made on our two cores. Readings went
from 26,000 to 71,000 while others used them too; until one left alone confirms it, trust no scaled one."""

_RATES = ("runs/s", "calls/s")
_TIMES = ("ms", "us", "s")


class Judged(NamedTuple):
    """One figure over all rounds. ``scaled`` is the median, too."""

    median: float
    lowest: float
    highest: float
    scaled: float


def scaled(value: float, unit: str, raw_runs_per_s: float) -> float:
    """A rate or a time on the machine that is the reference; other units are no matter of speed."""
    speed = raw_runs_per_s / REFERENCE_RUNS_PER_S
    if unit in _RATES:
        return value / speed
    return value * speed if unit in _TIMES else value


class Series:
    """Takes figures round by round."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self._values: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._units: dict[str, str] = {}
        self._n: dict[str, int] = defaultdict(int)
        self._raw = REFERENCE_RUNS_PER_S

    def take(self, name: str, value: float, unit: str, *, vs: str = "", ratio: float | None = None, n: int = 0) -> None:
        """One figure of this round; ``vs`` and ``ratio``: the limit beside it, and how much of it was reached."""
        self._values[name].append((value, scaled(value, unit, self._raw)))
        self._units[name] = unit
        self._n[name] += n
        self._figures.add(f"{name}.round-{len(self._values[name])}", value, unit, vs=vs, ratio=ratio, n=n)

    def raw(self, runs_per_s: float) -> None:
        """The raw loop of this round; what is taken from now on is scaled by it."""
        self._raw = runs_per_s
        self.take("raw.runs_per_s", runs_per_s, "runs/s")

    def judged(self, name: str) -> Judged:
        """The figure over all rounds; its lines are printed and kept."""
        values, on_reference = zip(*self._values[name], strict=True)
        unit, n = self._units[name], self._n[name]
        found = Judged(statistics.median(values), min(values), max(values), statistics.median(on_reference))
        words = ["", ".lowest", ".highest"] + [".scaled"] * (unit in _RATES + _TIMES)
        for word, value in zip(words, found, strict=False):
            self._figures.add(name + word, value, unit, n=n)
        return found

    def names(self) -> list[str]:
        """All that was taken, in the order in which it came."""
        return list(self._values)
