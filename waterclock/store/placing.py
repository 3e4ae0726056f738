"""The jobs that a balanced placement counts: those of all tenants that are known, as they stood a moment ago.

Kept for ``KEPT_S``, so that saving many jobs does not read the same lists again and again; it is a hint, and may be
old. Bounds: ``JOBS_MAX`` jobs, the newest of each tenant first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from waterclock.clock import Clock
from waterclock.model.forecast import Planned
from waterclock.model.ids import Instant
from waterclock.model.job import Every, JobSpec
from waterclock.model.placement import Placed, place

from .planned import known_tenants, planned_pages
from .port import Access, Reading

JOBS_MAX = 10_000
KEPT_S = 30.0


class Jobs(Access, Reading, Protocol):
    """What is asked of the store."""


class Placing:
    """Picks seconds, for one process; one caller at a time."""

    def __init__(self, clock: Clock, tenants: Iterable[str]) -> None:
        self._clock = clock
        self._tenants = tuple(tenants)
        self._jobs: list[Planned] = []
        self._is_whole = True
        self._read_at_s = -KEPT_S

    def pick(self, store: Jobs, job_id: str, spec: JobSpec, now: Instant) -> Placed | None:
        """The least loaded second for this job; None where it never runs. Raises BackendDown."""
        if self._clock.monotonic_s() - self._read_at_s >= KEPT_S:
            self._read(store)
        schedule = spec.schedule
        anchor_at = schedule.start_at or now if isinstance(schedule, Every) else 0
        return place(spec, job_id, anchor_at, now, self._jobs, is_whole=self._is_whole)

    def _read(self, store: Jobs) -> None:
        jobs: list[Planned] = []
        self._is_whole = True
        for page in planned_pages(store, known_tenants(store, self._tenants)):
            jobs += page.jobs
            if len(jobs) >= JOBS_MAX:
                self._is_whole = False
                break
        self._jobs = jobs[:JOBS_MAX]
        self._read_at_s = self._clock.monotonic_s()
