"""Rows of the time index that the store loses, as no client can lose them, and whether the sweep makes them good.

Only rows that no window has loaded, each the first of its job, with a fire minutes ahead. Lost later, a fire would pass
before any sweep could see it, and nobody has promised it then. What must hold: the sweep repairs these, and never
anything else: in a play that loses nothing it repairs nothing.
"""

from __future__ import annotations

import random

from waterclock.model.ids import US_PER_MINUTE, US_PER_S, minute_of
from waterclock.model.job import JobStatus
from waterclock.store.memory import MemoryStore
from waterclock.store.port import DueRow
from waterclock.store.tables import DUE
from waterclock.store.upkeep import DUE_SWEEP

from .world import World
from .zone_people import ABROAD

_LOST_MAX = 3
_BEYOND_US = 6 * US_PER_MINUTE
"""Beyond the furthest that anybody looks ahead."""


class Losses:
    """Of one play."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._store = MemoryStore(world.clock, world.tables, "losses")
        self._lost: list[DueRow] = []

    def lose(self) -> list[DueRow]:
        """Some rows, drawn; none where there are no such rows."""
        candidates = self._candidates()
        self._lost = self._rng.sample(candidates, min(_LOST_MAX, len(candidates)))
        for row in self._lost:
            key = (row.slot, row.minute, row.due_at, row.job_id, row.revision, row.entry)
            assert self._world.tables.forget_row(DUE, key)
        self._world.rows_lost = [row.job_id for row in self._lost]
        return self._lost

    def are_made_good(self) -> bool:
        """Whether each stands again; one whose job was changed meanwhile is nobody's any more."""
        return not self._missing()

    def note_missing(self) -> None:
        """Whose rows do not, by now."""
        self._world.rows_missing = [row.job_id for row in self._missing()]

    def note_repairs(self) -> None:
        """Whose rows the sweeps have told that they repaired."""
        told = self._store.told_of_all(DUE_SWEEP)
        self._world.rows_repaired = [each["job_id"] for line in told for each in line.parts.get("named", ())]

    def _candidates(self) -> list[DueRow]:
        now = self._world.clock.now()
        first: dict[str, DueRow] = {}
        for slot, minute in sorted(self._world.tables.keys_of(DUE), key=lambda key: (key[1], key[0])):
            if minute >= minute_of(now):
                for row in self._store.load_due([slot], minute):
                    # Nobody can make a row again of a zone that is gone.
                    if not row.entry and row.job_id != ABROAD and self._is_its_jobs(row):
                        first.setdefault(row.job_id, row)
        looks_us = round(max(self._world.plan.looks_s, default=0) * US_PER_S)
        # One whose time has passed, and which a jitter puts off, may be an older version's: no sweep can tell.
        return [
            row for row in first.values() if row.minute > minute_of(now + looks_us + _BEYOND_US) and row.fire_at > now
        ]

    def _missing(self) -> list[DueRow]:
        stands = self._store.standing_due(self._lost)
        return [row for row, there in zip(self._lost, stands, strict=True) if not there and self._is_its_jobs(row)]

    def _is_its_jobs(self, row: DueRow) -> bool:
        job = self._store.job(row.job_id)
        return job is not None and job.status is JobStatus.ACTIVE and job.revision == row.revision
