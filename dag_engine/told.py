"""Tells people how the engine goes, now and then, on a thread of its own: nothing that happens here holds it up.

In the table ``upkeep``, a line for each partition. How it fails: while the store is away nothing is told, and the
figures that were told last stand with their age.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from waterclock.clock import Clock
from waterclock.store.upkeep import DAG_ENGINE, UpkeepKeeping

EVERY_S = 5.0


class Telling:
    """The core. ``figures``: by partition what there is to be told."""

    ready = True

    def __init__(self, store: UpkeepKeeping, clock: Clock, figures: Callable[[], Mapping[int, dict[str, Any]]]) -> None:
        self._store = store
        self._clock = clock
        self._figures = figures
        self._due_s = 0.0

    def step(self) -> bool:
        """Tell what there is, if it is time. Always False. Raises BackendDown, WriteUnknown."""
        if self._clock.monotonic_s() < self._due_s:
            return False
        self._due_s = self._clock.monotonic_s() + EVERY_S
        for partition, parts in sorted(self._figures().items()):
            self._store.tell(DAG_ENGINE, str(partition), parts, self._clock.now())
        return False

    def drain(self) -> bool:
        """The next owner tells the rest."""
        return False

    def close(self) -> None:
        """Nothing is held."""
