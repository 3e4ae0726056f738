"""Jobs by filter: newest first, bounded, and going on misses none and repeats none."""

from __future__ import annotations

import pytest

from waterclock.clock import ManualClock
from waterclock.model.job import Cron, JobSpec, JobStatus, Tier
from waterclock.store import job_filter
from waterclock.store.job_filter import JobFilter, Place, jobs_meant
from waterclock.store.memory import MemoryStore
from waterclock.store.port import JobChange, JobRow

NOW = 1_795_000_000_000_000


@pytest.fixture
def store() -> MemoryStore:
    clock = ManualClock()
    store = MemoryStore(clock)
    now = clock.now()
    for number in range(30):
        spec = JobSpec(f"h{number % 3}", Cron("0 9 * * *"), list(Tier)[number % 3])
        status = JobStatus(number % 5 % 3)
        name = f"acme:{'ab'[number % 2]}{number:02}"
        # Several have one created_at: the job id tells them apart.
        row = JobRow(name, spec, status, 1, 0, 1, now + number // 4, now, 0, number, now)
        store.apply([JobChange(row, None)])
    return store


def names(store: MemoryStore, wanted: JobFilter, limit: int = 100, bound: int = 1_000) -> list[str]:
    """All of them, in as many searches as it takes."""
    found: list[str] = []
    after: Place | None = None
    for _ in range(60):
        part = jobs_meant(store, "acme", wanted, limit, after, bound)
        assert len(part.rows) <= limit
        found += [row.job_id for row in part.rows]
        after = part.next_at
        if after is None:
            return found
    raise AssertionError("it goes on for ever")


def plainly(store: MemoryStore, wanted: JobFilter) -> list[str]:
    rows = store.job_rows([line.job_id for line in store.jobs("acme", 1_000)])
    return [
        row.job_id
        for row in rows
        if row is not None
        and row.status in wanted.statuses
        and row.job_id.partition(":")[2].startswith(wanted.prefix)
        and (not wanted.tiers or row.spec.tier in wanted.tiers)
        and wanted.handler in ("", row.spec.handler)
    ]


FILTERS = [
    JobFilter(),
    JobFilter(prefix="a"),
    JobFilter(prefix="nobody"),
    JobFilter(tiers=frozenset({Tier.LOW})),
    JobFilter(handler="h1", prefix="b"),
    JobFilter(statuses=frozenset({JobStatus.PAUSED})),
]


@pytest.mark.parametrize("wanted", FILTERS)
@pytest.mark.parametrize(("limit", "bound", "page"), [(100, 1_000, 200), (1, 1_000, 200), (3, 4, 4), (2, 5, 3)])
def test_every_job_that_is_meant_is_found_once_however_small_the_steps(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, wanted: JobFilter, limit: int, bound: int, page: int
) -> None:
    monkeypatch.setattr(job_filter, "_PAGE", page)
    assert names(store, wanted, limit, bound) == plainly(store, wanted)


def test_a_deleted_job_is_never_meant(store: MemoryStore) -> None:
    rows = jobs_meant(store, "acme", JobFilter(), 100).rows
    assert {row.status for row in rows} == {JobStatus.ACTIVE, JobStatus.PAUSED}
