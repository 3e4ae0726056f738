"""A job that says ``expect_within`` and has not succeeded for so long is found; nobody waits for one that is paused."""

from __future__ import annotations

import pytest

from tests.unit.later_release import not_understood
from waterclock.clock import ManualClock
from waterclock.clusters.doctor_upkeep import judge_overdue
from waterclock.clusters.finding import State
from waterclock.model.errors import BackendDown, RequestError
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import US_PER_S, Instant, partition_of
from waterclock.model.job import Cron, Every, JobSpec, JobStatus, JobVersion, Once, Pause, Tier
from waterclock.model.timing import Timing, timing_from_json, timing_to_json
from waterclock.model.timing_document import timing_from_document, timing_to_document
from waterclock.recorder import overdue
from waterclock.recorder.overdue import OverdueWatch
from waterclock.store.expecting import Expectation, expectation_of
from waterclock.store.memory import MemoryStore
from waterclock.store.port import History, JobChange, JobRow, RunRow
from waterclock.store.upkeep import OVERDUE, Told

HOUR_US = 3_600 * US_PER_S
NOW = 1_795_000_020 * US_PER_S
WITHIN_US = 26 * HOUR_US
HOURLY = JobSpec("demo.noop", Cron("0 * * * *"), timing=Timing(expect_within_us=WITHIN_US))


class Desk:
    """A store with jobs and runs in it."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.store = MemoryStore(self.clock)
        self.revision = 0

    def put(
        self, spec: JobSpec = HOURLY, job_id: str = "acme:job", *, at: Instant, action: str = "create",
        status: JobStatus = JobStatus.ACTIVE, created_at: Instant = 0, pause: Pause | None = None,
    ) -> JobRow:  # fmt: skip
        self.revision += 1
        row = JobRow(job_id, spec, status, self.revision, 0, self.revision, created_at or at, at, 0, 1, at, pause)
        version = JobVersion(
            job_id, self.revision, spec, status, "me", at, 0, self.revision, created_at or at, action, pause=pause
        )
        self.store.apply([JobChange(row, version)])
        return row

    def run(self, fire_at: Instant, status: RunStatus = RunStatus.SUCCEEDED, job_id: str = "acme:job") -> None:
        outcome = Outcome.SUCCEEDED if status is RunStatus.SUCCEEDED else Outcome.FAILED
        row = RunRow(job_id, fire_at, 0, 1, Tier.MEDIUM, "SCHEDULE", status, outcome, 1, fire_at, fire_at,
                     fire_at + US_PER_S, "w", 1, "", None, "", "UTC", "2026f", 0, 0, fire_at + 96)  # fmt: skip
        self.store.record(History(runs=[row])).wait(1.0)

    def asked(self, row: JobRow) -> Expectation | None:
        return expectation_of(self.store, row, self.clock.now())


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_success_within_the_time_is_enough(desk: Desk) -> None:
    row = desk.put(at=NOW - 100 * HOUR_US)
    desk.run(NOW - 25 * HOUR_US)
    assert desk.asked(row) == Expectation(NOW - 25 * HOUR_US + US_PER_S, NOW + HOUR_US + US_PER_S, is_overdue=False)


def test_an_older_success_is_overdue_however_many_runs_have_failed_since(desk: Desk) -> None:
    row = desk.put(at=NOW - 200 * HOUR_US)
    desk.run(NOW - 100 * HOUR_US)
    for number in range(99):
        desk.run(NOW - number * HOUR_US, RunStatus.FAILED)
    found = desk.asked(row)
    assert found is not None
    assert (found.is_overdue, found.by) == (True, NOW - 74 * HOUR_US + US_PER_S)


def test_a_new_job_has_its_time_from_its_beginning(desk: Desk) -> None:
    fresh = desk.put(job_id="acme:fresh", at=NOW - 25 * HOUR_US)
    old = desk.put(job_id="acme:old", at=NOW - 27 * HOUR_US)
    assert [found.is_overdue for row in (fresh, old) if (found := desk.asked(row))] == [False, True]


def test_nobody_waits_while_it_is_paused_and_a_resume_begins_anew(desk: Desk) -> None:
    desk.put(at=NOW - 100 * HOUR_US)
    paused = desk.put(at=NOW - 60 * HOUR_US, action="pause", status=JobStatus.PAUSED, created_at=NOW - 100 * HOUR_US)
    assert desk.asked(paused) is None
    desk.put(at=NOW - 20 * HOUR_US, action="resume", created_at=NOW - 100 * HOUR_US)
    edited = desk.put(at=NOW - HOUR_US, action="update", created_at=NOW - 100 * HOUR_US)
    found = desk.asked(edited)
    assert found is not None
    assert (found.is_overdue, found.by) == (False, NOW + 6 * HOUR_US)


def test_a_pause_for_its_failures_is_no_reason_not_to_wait(desk: Desk) -> None:
    created_at = NOW - 100 * HOUR_US
    desk.put(at=created_at)
    desk.run(NOW - 90 * HOUR_US)
    pause = Pause("dispatcher", "3 runs in a row failed", NOW - 80 * HOUR_US)
    paused = desk.put(
        at=NOW - 80 * HOUR_US, action="pause", status=JobStatus.PAUSED, created_at=created_at, pause=pause
    )
    found = desk.asked(paused)
    assert found is not None
    assert (found.is_overdue, found.by) == (True, NOW - 64 * HOUR_US + US_PER_S)
    desk.put(job_id="acme:by-hand", at=created_at, status=JobStatus.PAUSED, pause=pause._replace(actor="me"))
    watch = OverdueWatch(desk.store, desk.clock, 1, lambda: (0,))
    for _ in range(60):
        watch.step()
        desk.clock.advance(US_PER_S // 10)
    (told,) = desk.store.told_of_all(OVERDUE)
    assert (told.parts["watched"], told.parts["count"]) == (1, 1)
    resumed = desk.put(at=NOW - HOUR_US, action="resume", created_at=created_at)
    found = desk.asked(resumed)
    assert found is not None
    assert not found.is_overdue, "its resume begins anew, as any"


def test_nobody_waits_for_what_has_ended_and_an_edit_that_lets_it_go_on_begins_anew(desk: Desk) -> None:
    created_at = NOW - 100 * HOUR_US
    desk.put(at=created_at)
    ended = desk.put(at=NOW - 60 * HOUR_US, action="end", status=JobStatus.ENDED, created_at=created_at)
    assert desk.asked(ended) is None
    desk.put(at=NOW - 20 * HOUR_US, action="update", created_at=created_at)
    edited = desk.put(at=NOW - HOUR_US, action="update", created_at=created_at)
    found = desk.asked(edited)
    assert found is not None
    assert (found.is_overdue, found.by) == (False, NOW + 6 * HOUR_US)


def test_an_edit_does_not_silence_it(desk: Desk) -> None:
    desk.put(at=NOW - 100 * HOUR_US)
    row = desk.put(at=NOW - HOUR_US, action="update", created_at=NOW - 100 * HOUR_US)
    found = desk.asked(row)
    assert found is not None
    assert found.is_overdue


def test_a_schedule_that_is_over_is_waited_for_until_its_last_fire_has_succeeded(desk: Desk) -> None:
    timing = Timing(expect_within_us=HOUR_US)
    once = desk.put(JobSpec("demo.noop", Once(NOW - 50 * HOUR_US), timing=timing), at=NOW - 60 * HOUR_US)
    found = desk.asked(once)
    assert found is not None
    assert found.is_overdue, "it fired, and has not succeeded"
    desk.run(NOW - 50 * HOUR_US)
    assert desk.asked(once) is None


def test_the_watch_tells_who_is_overdue_by_shard_and_forgets_nothing(desk: Desk) -> None:
    jobs = [f"acme:j{number}" for number in range(30)]
    for job_id in jobs:
        desk.put(job_id=job_id, at=NOW - 100 * HOUR_US)
    desk.put(JobSpec("demo.noop", Every(60 * US_PER_S)), "acme:unwatched", at=NOW - 100 * HOUR_US)
    for job_id in jobs[10:]:
        desk.run(NOW - HOUR_US, job_id=job_id)
    for _ in range(2):  # a restart finds the same
        watch = OverdueWatch(desk.store, desk.clock, 2, lambda: (0, 1))
        for _ in range(60):
            watch.step()
            desk.clock.advance(US_PER_S // 10)
        told = {int(each.place): each.parts for each in desk.store.told_of_all(OVERDUE)}
        assert sum(parts["watched"] for parts in told.values()) == 30
        for number, parts in told.items():
            overdue = [job_id for job_id in jobs[:10] if partition_of(job_id, 2) == number]
            assert parts["count"] == len(overdue)
            assert sorted(each["job_id"] for each in parts["named"]) == sorted(overdue)


def test_a_shard_of_many_jobs_keeps_no_other_waiting(desk: Desk) -> None:
    """Its laps take longer than the least time of a lap, so the next one may begin at once."""
    for number in range(400):
        if partition_of(f"acme:j{number}", 2) == 0:
            desk.put(job_id=f"acme:j{number}", at=NOW - 100 * HOUR_US)
    watch = OverdueWatch(desk.store, desk.clock, 2, lambda: (0, 1), lap_s=5.0)
    for _ in range(30):
        watch.step()
        desk.clock.advance(US_PER_S)
    assert {each.place for each in desk.store.told_of_all(OVERDUE)} == {"0", "1"}


def test_an_absent_store_is_waited_for(desk: Desk) -> None:
    desk.put(at=NOW - 100 * HOUR_US)
    watch = OverdueWatch(desk.store, desk.clock, 1, lambda: (0,))

    def away(*_: object) -> None:
        raise BackendDown("cassandra", "away")

    desk.store.tables.on_call = away
    watch.step()
    desk.store.tables.on_call = None
    for _ in range(100):
        watch.step()
        desk.clock.advance(US_PER_S)
    assert [each.parts["count"] for each in desk.store.told_of_all(OVERDUE)] == [1]


def test_the_field_goes_through_documents_and_is_kept() -> None:
    document = {"expect_within": "26h"}
    timing = timing_from_document(document, HOURLY.schedule)
    assert timing == Timing(expect_within_us=WITHIN_US) == timing_from_json(timing_to_json(timing))
    assert timing_from_document(timing_to_document(timing), HOURLY.schedule) == timing


@pytest.mark.parametrize("within", ["30s", "31d", 26, "soon"])
def test_a_time_that_cannot_be_kept_is_refused(within: object) -> None:
    with pytest.raises(RequestError) as refused:
        timing_from_document({"expect_within": within}, HOURLY.schedule)
    assert refused.value.pointer == "/expect_within"


def test_a_job_whose_runs_cannot_be_read_hides_no_other_and_is_named(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = ["acme:heavy", *(f"acme:job{number}" for number in range(5))]
    for job_id in jobs:
        desk.put(job_id=job_id, at=NOW - 200 * HOUR_US)
    _unreadable(monkeypatch, {"acme:heavy"})
    watch = OverdueWatch(desk.store, desk.clock, 1, lambda: (0,))
    told = _lap_of(watch, desk)
    assert told is not None
    assert told.parts["count"] == told.parts["watched"] == 5
    assert (told.parts["unread"], told.parts["unread_named"]) == (1, ["acme:heavy"])
    for job_id in jobs[1:]:
        desk.run(NOW - HOUR_US, job_id=job_id)
    while (told := desk.store.told(OVERDUE, "0")) is not None and told.parts["count"]:
        watch.step()
        desk.clock.advance(6 * US_PER_S)
    found = judge_overdue(desk.store.told_of_all(OVERDUE), desk.clock.now())
    assert (found.state, found.found) == (State.WARN, "of 1 it cannot be read: acme:heavy")


def test_no_job_is_passed_over_while_the_store_is_away(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.put(at=NOW - 200 * HOUR_US)
    watch = OverdueWatch(desk.store, desk.clock, 1, lambda: (0,))
    with monkeypatch.context() as away:
        _unreadable(away, {"acme:job"})
        away.setattr(desk.store, "told", _away)
        for _ in range(20):
            watch.step()
            desk.clock.advance(6 * US_PER_S)
    told = _lap_of(watch, desk)
    assert told is not None
    assert (told.parts["count"], told.parts["unread"]) == (1, 0)


def _lap_of(watch: OverdueWatch, desk: Desk) -> Told | None:
    for _ in range(200):
        if told := desk.store.told(OVERDUE, "0"):
            return told
        watch.step()
        desk.clock.advance(6 * US_PER_S)
    return None


def _unreadable(monkeypatch: pytest.MonkeyPatch, job_ids: set[str]) -> None:
    monkeypatch.setattr(
        overdue, "expectation_of",
        lambda store, row, now: _away() if row.job_id in job_ids else expectation_of(store, row, now),
    )  # fmt: skip


def _away(*_: object) -> None:
    raise BackendDown("cassandra", "ReadFailure: too many tombstones")


def test_a_job_of_a_later_release_hides_no_other_and_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for job_id in ("acme:later", *(f"acme:job{number}" for number in range(5))):
        desk.put(job_id=job_id, at=NOW - 200 * HOUR_US)
    not_understood(monkeypatch, "job_row", "acme:later")
    told = _lap_of(OverdueWatch(desk.store, desk.clock, 1, lambda: (0,)), desk)
    assert told is not None
    assert told.parts["count"] == told.parts["watched"] == 5
    assert (told.parts["unread"], told.parts["unread_named"]) == (1, ["acme:later"])
