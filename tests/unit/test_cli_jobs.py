"""``waterclock job list`` on a store in memory: deleted jobs take nobody's place, and a list that was cut says so."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.unit.in_process import documents_of, let_open, run_command
from waterclock.clock import ManualClock, SystemClock
from waterclock.commands import job
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Every, JobSpec, JobStatus, JobVersion
from waterclock.store import job_filter
from waterclock.store.memory import MemoryStore
from waterclock.store.port import JobChange, JobRow

SPEC = JobSpec("h", Every(3_600 * US_PER_S))
List = Callable[..., tuple[list[str], str]]


class Shelf:
    """Jobs of the tenant, each newer than the one before."""

    def __init__(self) -> None:
        self.clock = ManualClock(SystemClock().now())
        self.store = MemoryStore(self.clock)

    def put(self, name: str, status: JobStatus = JobStatus.ACTIVE) -> str:
        self.clock.advance(US_PER_S)
        job_id, now = f"default:{name}", self.clock.now()
        version = JobVersion(job_id, 5, SPEC, status, "ann", now, 0, 5, now, "create")
        self.store.apply([JobChange(JobRow(job_id, SPEC, status, 5, 0, 5, now, now, 0, 1, now), version)])
        return job_id


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def listed(shelf: Shelf, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> List:
    """The jobs that a list names, and what it says beside."""

    let_open(monkeypatch, job, shelf.store)

    def named(*words: str) -> tuple[list[str], str]:
        code, out, err = run_command(monkeypatch, capsys, "job", "list", *words)
        assert code == 0, err
        return [each["job"] for each in documents_of(out)], err

    return named


def test_deleted_jobs_take_no_place_in_a_list(shelf: Shelf, listed: List, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_filter, "_PAGE", 4)
    standing = [shelf.put("old"), shelf.put("paused", JobStatus.PAUSED)]
    for number in range(9):
        shelf.put(f"gone-{number}", JobStatus.DELETED)
    assert listed("--limit", "3") == (standing[::-1], "")


def test_a_list_that_was_cut_says_so_and_how_to_go_on(shelf: Shelf, listed: List) -> None:
    made = [shelf.put(f"job-{number}") for number in range(5)][::-1]
    assert listed("--limit", "5") == (made, "")
    found, said = listed("--limit", "3")
    assert found == made[:3]
    [place] = re.findall(r"--after '([^']+)'", said)
    assert listed("--limit", "3", "--after", place) == (made[3:], "")
    found, said = listed("--after", f"1|{made[-1]}")
    assert found == []
    assert "no more jobs" in said


def test_a_tenant_without_a_job_that_stands_is_told_so(shelf: Shelf, listed: List) -> None:
    shelf.put("gone", JobStatus.DELETED)
    found, said = listed()
    assert found == []
    assert "no jobs in tenant default" in said
