"""Taking partitions over part by part, for roles that keep what stays open for long.

Why: to put in what is kept of a million runs takes most of a minute, and a process may own many partitions. Whoever
stays away from his polls for that long has left his group when he is back, and begins again; a core of a process ends
it for that (``cores.py``). So he would never come to the end.

What must hold: a step does so much of it as ``STEP_S`` allows, and one part at least; what was begun is dropped as soon
as the partitions change, for what was committed may have moved since it was asked for. How it fails: memberships that
change again before it is done have it begun again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from waterclock.clock import Clock

STEP_S = 5.0

PART = 5_000
"""Runs, DagRuns or nodes that are put in between two looks at the time: a quarter of a second."""


class TakingOver:
    """One role's. ``take_all``: all of it, part by part; what raises in it has it begun again."""

    def __init__(self, clock: Clock, take_all: Callable[[], Iterator[None]]) -> None:
        self._clock = clock
        self._take_all = take_all
        self._parts: Iterator[None] | None = None

    @property
    def is_under_way(self) -> bool:
        """It was begun and is not done."""
        return self._parts is not None

    def go_on(self) -> None:
        """Some parts more, from the beginning where none was done. Raises what ``take_all`` does."""
        parts, self._parts = self._parts or self._take_all(), None
        until_s = self._clock.monotonic_s() + STEP_S
        for _ in parts:
            if self._clock.monotonic_s() >= until_s:
                self._parts = parts
                return

    def drop(self) -> None:
        """Other partitions are ours, or all are to be begun anew."""
        self._parts = None
