"""A bulk cancel finds every open run, behind any number of others, by going on where a search ended."""

from __future__ import annotations

import pytest

from waterclock.clock import ManualClock
from waterclock.model.events import Origin, Outcome, RunStatus
from waterclock.model.ids import make_run_id
from waterclock.model.job import Every, JobSpec, JobStatus, Tier
from waterclock.store import open_runs as searching
from waterclock.store.memory import MemoryStore
from waterclock.store.open_runs import OPEN, open_runs, parse_place
from waterclock.store.port import History, JobChange, JobRow, RunRow

NOW = 1_795_000_000_000_000


class Shelf:
    """Jobs and their runs; pages hold five."""

    def __init__(self) -> None:
        self.store = MemoryStore(ManualClock(NOW))

    def job(self, name: str, number: int) -> None:
        spec = JobSpec("demo.ping", Every(5_000_000))
        row = JobRow(f"acme:{name}", spec, JobStatus.ACTIVE, 1, 0, 1, NOW - number, NOW, 0, number, NOW)
        self.store.apply([JobChange(row, None)])

    def run(self, name: str, number: int, status: RunStatus) -> str:
        fire_at = NOW - number * 1_000_000
        run = RunRow(f"acme:{name}", fire_at, number % 3, 1, Tier.HIGH, Origin.SCHEDULE, status, Outcome.NONE, 1, NOW,
                     NOW, 0, "w", 1, "", None, "", "", "", 0, 0, NOW)  # fmt: skip
        self.store.record(History([run])).wait(1)
        return make_run_id(run.job_id, fire_at, run.series)

    def all_open(self, job_id: str, limit: int) -> tuple[list[str], int]:
        """The open runs by as many searches as it takes, and how many those were."""
        found = open_runs(self.store, "acme", job_id, frozenset(OPEN), None, limit, None, 20)
        rows, turns = list(found.rows), 1
        while found.next_at is not None:
            place = parse_place(str(found.next_at))
            found = open_runs(self.store, "acme", job_id, frozenset(OPEN), None, limit, place, 20)
            rows, turns = rows + found.rows, turns + 1
        return [make_run_id(row.job_id, row.fire_at, row.series) for row in rows], turns


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_PAGE", 5)
    monkeypatch.setattr(searching, "_PAGE_COUNTS", 2)
    monkeypatch.setattr(searching, "_JOBS_PAGE", 3)


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_open_runs_behind_a_bound_are_reached_by_going_on(limit: int) -> None:
    shelf = Shelf()
    for number in range(60):
        shelf.run("busy", number, RunStatus.SUCCEEDED)
    waiting = [shelf.run("busy", 100 + number, RunStatus.PENDING) for number in range(7)]
    found, turns = shelf.all_open("acme:busy", limit)
    assert found == waiting
    assert turns > 3


@pytest.mark.parametrize("limit", [1, 4, 100])
def test_open_runs_of_every_job_are_reached_each_once(limit: int) -> None:
    shelf = Shelf()
    made = []
    for number in range(30):
        shelf.job(f"job-{number:02}", number)
        if number % 4 == 1:
            made += [shelf.run(f"job-{number:02}", each, RunStatus.RETRYING) for each in range(8)]
    found, _ = shelf.all_open("", limit)
    assert found == made
