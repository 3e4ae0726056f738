"""Goes round the open runs of a shard, a stretch at a time: every one of them is come to, however many there are.

Nothing is kept for each run: a round walks the names that were open when it began, and what opens later is the next
round's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from waterclock.model.fold import OpenRun

from .trail import Note


class Sweep:
    """One shard's."""

    __slots__ = ("_at", "_run_ids")

    def __init__(self) -> None:
        self._run_ids: list[str] = []
        self._at = 0

    def onward(self, runs: Mapping[str, OpenRun[Note]], limit: int) -> Iterator[tuple[str, OpenRun[Note]]]:
        """The next open runs, at most ``limit``. Whoever stops earlier goes on behind the last one next time."""
        if self._at >= len(self._run_ids):
            self._run_ids, self._at = list(runs), 0
        for run_id in self._run_ids[self._at : self._at + limit]:
            self._at += 1
            run = runs.get(run_id)
            if run is not None:
                yield run_id, run
