"""``waterclock run list`` on a store in memory: what failed is found behind what did not; an empty answer says why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.in_process import documents_of, let_open, run_command
from waterclock.clock import ManualClock, SystemClock
from waterclock.commands import run
from waterclock.model.events import Origin, Outcome, RunStatus
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Tier
from waterclock.store.memory import MemoryStore
from waterclock.store.port import FailureRow, History, RunRow

JOB = "default:nightly"
Run = Callable[..., tuple[list[str], str]]


class Shelf:
    """Runs of one job; the higher its number, the older a run."""

    def __init__(self) -> None:
        self.clock = ManualClock(SystemClock().now())
        self.store = MemoryStore(self.clock)

    def put(self, number: int, status: RunStatus = RunStatus.SUCCEEDED) -> str:
        at = self.clock.now() // US_PER_S * US_PER_S - number * US_PER_S
        row = RunRow(JOB, at, 0, 1, Tier.HIGH, Origin.SCHEDULE, status, Outcome.NONE, 1, at, at, at, "w", 1, "", None,
                     "", "", "", 0, 0, at)  # fmt: skip
        self.store.record(History([row])).wait(1)
        return make_run_id(JOB, at)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def listed(shelf: Shelf, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The runs that a list names, and what it says beside."""

    let_open(monkeypatch, run, shelf.store)
    monkeypatch.setattr(run, "_PAGE", 10)

    def named(*words: str) -> tuple[list[str], str]:
        code, out, err = run_command(monkeypatch, capsys, "run", "list", *words)
        assert code == 0, err
        return [each["run"] for each in documents_of(out)], err

    return named


def test_failed_runs_are_found_behind_any_number_of_others(shelf: Shelf, listed: Run) -> None:
    for number in range(45):
        shelf.put(number)
    failed = [shelf.put(number, RunStatus.FAILED) for number in (50, 51, 90)]
    assert listed("nightly", "--failed") == (failed, "")
    assert listed("nightly", "--failed", "--limit", "2") == (failed[:2], "")


def test_a_search_that_reaches_its_bound_says_so(shelf: Shelf, listed: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(45):
        shelf.put(number)
    shelf.put(50, RunStatus.FAILED)
    monkeypatch.setattr(run, "_LOOKED_AT_MAX", 20)
    found, said = listed("nightly", "--failed")
    assert found == []
    assert "only its 20 newest runs were looked at" in said


def test_an_empty_list_answers_what_was_asked(shelf: Shelf, listed: Run) -> None:
    assert "no runs yet: `waterclock job show default:nightly`" in listed("nightly")[1]
    shelf.put(1)
    assert "no run of default:nightly has failed" in listed("nightly", "--failed")[1]
    assert "no run was given up in the last 24 hours" in listed("--failed")[1]


def test_what_was_given_up_names_nodes_as_well(shelf: Shelf, listed: Run) -> None:
    now = shelf.clock.now()
    shelf.store.record(History(failures=[FailureRow(JOB, now, 0, "load.1", now, "attempts", "f", now)])).wait(1)
    assert listed("--failed") == ([make_run_id(JOB, now, 0, "load.1")], "")
