"""Owed = runs + skipped: a history in which it is so balances, and every way in which it is not so is named."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.ledger_history import (
    HOUR_S,
    JOB,
    START_S,
    History,
    due_at,
    every,
    jitter,
    kinds,
    second_cron,
    spec,
    total,
)
from waterclock.ledger.facts import Facts
from waterclock.ledger.sums import FaultKind
from waterclock.model.errors import Busy
from waterclock.model.events import EventKind, Revised, RunEvent
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Cron, Dates, JobSpec, JobStatus, Once
from waterclock.model.timing import Timing


def hourly(until_s: int = HOUR_S) -> History:
    """A job of every minute, with a pause of ten minutes in the middle and six fires that came too late."""
    history = History()
    history.command(0)
    history.fire(1_200, coalesced=(600, 960))
    history.command(1_210, JobStatus.PAUSED)
    history.fire(1_800)
    history.command(1_810)
    history.fire(until_s)
    return history


def test_a_history_in_which_every_fire_is_decided_balances() -> None:
    summed = total(hourly().judged())
    assert summed.is_balanced
    assert (summed.owed, summed.runs) == (59, 43)
    assert summed.skipped == Counter(coalesced=6, paused=10)


def bounded(seconds: int = 60, most: int = 9) -> JobSpec:
    return every(seconds, Timing(max_runs=most))


def test_what_fires_after_the_end_of_a_job_is_not_owed() -> None:
    history = History()
    history.command(0, spec=bounded())
    history.fire(9 * 60)
    history.command(12 * 60 + 10, JobStatus.ENDED)  # late: three fires are skipped with it
    summed = total(history.judged())
    assert summed.is_balanced
    assert (summed.owed, summed.runs) == (12, 9)
    assert summed.skipped == Counter(ended=3)


def test_a_fire_beyond_the_last_run_is_a_skip_where_runs_are_bounded_and_nowhere_else() -> None:
    for job, is_right in ((bounded(), True), (every(60), False)):
        history = History()
        history.command(0, spec=job)
        history.fire(9 * 60)
        history.skip(1, 600, 600, 1, "max_runs")
        history.edge_s = 600
        history.command(610, JobStatus.DELETED)
        assert total(history.judged()).is_balanced is is_right


def test_a_run_after_the_end_is_named() -> None:
    history = History()
    history.command(0, spec=bounded())
    history.fire(9 * 60)
    history.command(550, JobStatus.ENDED)
    history.run(1, 600)
    assert not total(history.judged()).is_balanced


def test_sums_are_by_the_hour() -> None:
    history = hourly(2 * HOUR_S)
    hours = history.judged(decided_s=2 * HOUR_S).hours
    assert [(hour.owed, hour.runs) for _, hour in sorted(hours.items())] == [(59, 43), (60, 60)]


def test_a_fire_that_is_neither_made_nor_skipped_is_missing_and_named() -> None:
    history = hourly()
    gone = next(event for event in history.events if event.kind is EventKind.PENDING)
    history.events.remove(gone)
    sums = history.judged()
    assert kinds(sums) == {FaultKind.MISSING: 1}
    assert [fault.run_id for fault in total(sums).named] == [gone.run_id]


def test_a_job_of_which_the_log_says_nothing_misses_every_fire() -> None:
    history = hourly()
    history.events = [event for event in history.events if event.kind is EventKind.REVISED]
    sums = history.judged()
    assert kinds(sums) == {FaultKind.MISSING: 59}
    assert len(total(sums).named) == 3, "the names end at the bound, the count does not"


def test_a_run_that_was_made_twice_is_doubled() -> None:
    history = hourly()
    history.run(1, 60)
    sums = history.judged()
    assert kinds(sums) == {FaultKind.DOUBLED: 1}
    assert total(sums).named[0].run_id == make_run_id(JOB, History.at(60))


def test_a_fire_that_ran_and_was_skipped_is_doubled() -> None:
    history = hourly()
    history.skip(1, 60, 60, 1, "coalesced")
    assert kinds(history.judged()) == {FaultKind.DOUBLED: 1}


def test_ranges_that_overlap_skip_twice() -> None:
    history = hourly()
    history.skip(1, 900, 960, 2, "coalesced")
    found = kinds(history.judged())
    assert found[FaultKind.DOUBLED] == 2, "of 900 the skip, of 960 the run"


def test_a_run_of_another_revision_is_wrong() -> None:
    history = History()
    history.command(0)
    history.fire(600)
    history.command(610, spec=every(30))
    history.fire(900)
    history.events = [event for event in history.events if event.run_id != make_run_id(JOB, History.at(640))]
    history.run(1, 640)
    assert kinds(history.judged(decided_s=900)) == {FaultKind.WRONG: 1}


def test_a_run_at_an_instant_at_which_nothing_fires_is_wrong() -> None:
    history = hourly()
    history.run(1, 61)
    assert kinds(history.judged()) == {FaultKind.WRONG: 1}


def test_a_run_inside_a_pause_is_wrong() -> None:
    history = History()
    history.command(0)
    history.fire(600)
    history.command(610, JobStatus.PAUSED)
    history.run(1, 660)
    assert kinds(history.judged(decided_s=900)) == {FaultKind.WRONG: 1}


def test_a_pause_that_stands_is_counted_as_paused_though_nothing_is_recorded_yet() -> None:
    history = History()
    history.command(0)
    history.fire(600)
    history.command(610, JobStatus.PAUSED)
    summed = total(history.judged(decided_s=1_201))
    assert summed.is_balanced
    assert (summed.owed, summed.runs, summed.skipped["paused"]) == (20, 10, 10)


@pytest.mark.parametrize(("first", "last", "count"), [(600, 900, 5), (600, 900, 7), (601, 900, 5), (600, 930, 6)])
def test_a_range_that_lies_about_its_fires_is_wrong(first: int, last: int, count: int) -> None:
    history = hourly()
    history.events = [event for event in history.events if event.reason != "coalesced"]
    history.skip(1, first, last, count, "coalesced")
    assert kinds(history.judged())[FaultKind.WRONG] == 1


def test_a_skip_for_another_reason_than_was_owed_is_wrong() -> None:
    history = hourly()
    history.events = [
        event._replace(reason="coalesced") if event.reason == "paused" else event for event in history.events
    ]
    assert kinds(history.judged())[FaultKind.WRONG] == 10


def test_a_range_of_a_revision_that_nobody_knows_is_wrong() -> None:
    history = hourly()
    history.skip(77, 60, 60, 1, "coalesced")
    assert kinds(history.judged()) == {FaultKind.WRONG: 1}


def test_what_was_decided_when_an_edit_came_stays_with_the_older_revision() -> None:
    """Its owner's clock is ahead of the broker's: the edge lies beyond the stamp."""
    history = History()
    history.command(0)
    history.fire(630)
    history.command(590, spec=every(30))
    history.fire(900)
    summed = total(history.judged(decided_s=901))
    assert summed.is_balanced
    assert summed.runs == 10 + 9


def test_what_was_undecided_when_a_delete_came_is_skipped_as_deleted() -> None:
    history = History()
    history.command(0)
    history.fire(300)
    history.command(610, JobStatus.DELETED)
    summed = total(history.judged())
    assert summed.is_balanced
    assert (summed.owed, summed.skipped["deleted"]) == (10, 5)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_version_without_its_revised_is_told(number: int) -> None:
    history = hourly()
    gone = [event for event in history.events if event.kind is EventKind.REVISED][number]
    history.events.remove(gone)
    assert FaultKind.MISSING in kinds(history.judged())


def test_an_edge_far_ahead_of_its_record_excuses_nothing() -> None:
    history = History()
    history.command(0)
    history.fire(600)
    history.edge_s = HOUR_S
    history.command(610, spec=every(30))
    assert kinds(history.judged())[FaultKind.WRONG] == 1


def test_runs_of_triggers_and_redrives_are_no_fires() -> None:
    history = hourly()
    history.run(1, 75, series=9)
    history.run(1, 60, series=9)
    assert total(history.judged()).is_balanced


def test_a_fire_that_is_held_is_made_and_its_release_is_the_same_fire() -> None:
    history = hourly()
    gone = next(event for event in history.events if event.kind is EventKind.PENDING)
    held = RunEvent(EventKind.HELD, JOB, gone.run_id, gone.at, reason="overlap")
    history.events.append(held)
    assert total(history.judged()).is_balanced
    history.events.remove(gone)
    summed = total(history.judged())
    assert summed.is_balanced
    assert summed.runs == 43


def test_what_lies_beyond_the_cursor_is_not_judged() -> None:
    history = hourly(1_860)
    summed = total(history.judged(decided_s=1_861, until_s=HOUR_S))
    assert summed.is_balanced
    assert (summed.owed, summed.not_yet) == (31, 28)


@pytest.mark.parametrize("late_s", [1, 600])
def test_a_one_off_that_lay_behind_at_its_first_command_is_owed_once(late_s: int) -> None:
    history = History()
    history.edge_s = 1_000
    history.command(1_000, spec=spec(Once(History.at(1_000 - late_s))))
    history.run(1, 1_000 - late_s)
    summed = total(history.judged())
    assert (summed.owed, summed.runs, summed.is_balanced) == (1, 1, True)
    history.events.pop()
    assert kinds(history.judged()) == {FaultKind.MISSING: 1}


def test_a_year_of_seconds_is_counted_and_not_walked() -> None:
    """One range stands for 31 million fires; fire by fire it would take minutes."""
    days = 365
    history = History()
    history.command(0, spec=spec(Cron("* * * * * *", seconds=True)))
    last = days * 86_400
    history.skip(1, 1, last, last, "coalesced")
    sums = history.judged(decided_s=last + 1)
    assert total(sums).owed == last
    assert total(sums).is_balanced
    assert len(sums.hours) == days * 24 + 1


def test_hours_with_a_missing_fire_alone_are_gone_through() -> None:
    history = History()
    history.command(0, spec=spec(Cron("* * * * * *", seconds=True)))
    history.skip(1, 1, 86_400, 86_400, "coalesced")
    history.skip(1, 86_402, 172_800, 86_399, "coalesced")
    sums = history.judged(decided_s=172_801)
    assert kinds(sums) == {FaultKind.MISSING: 1}
    assert total(sums).named[0].run_id == make_run_id(JOB, History.at(86_401))


def test_what_is_over_the_bound_is_left_for_another_pass() -> None:
    history = hourly(3 * HOUR_S)
    facts = Facts(History.at(0), History.at(3 * HOUR_S), facts_max=110)
    for event in history.events:
        facts.take(event, event.at)
    assert facts.until_at == (START_S + 2 * HOUR_S) * US_PER_S
    assert max(fire_at for fire_at, _ in facts.jobs[JOB].runs) < facts.until_at


def test_an_hour_over_the_bound_is_refused() -> None:
    facts = Facts(History.at(0), History.at(HOUR_S), facts_max=10)
    *most, last = [event for event in hourly().events if event.kind is EventKind.PENDING][:11]
    for event in most:
        facts.take(event, event.at)
    with pytest.raises(Busy, match="more than 10 facts"):
        facts.take(last, last.at)


@pytest.mark.parametrize("per_fire", [False, True])
def test_a_fire_counts_when_it_is_due_and_not_before(per_fire: bool) -> None:
    """The cursor is a due time: what is due beyond it is not due yet, though its fire time is over."""
    history = History()
    history.command(0, spec=every(60, jitter(30, per_fire=per_fire)))
    history.fire(600)
    late = [event for event in history.events if event.kind is EventKind.PENDING][-1]
    due = due_at(history.versions[0], History.at(600))
    assert due > History.at(600)
    before = total(history.judged(decided_s=601))
    assert (before.owed, before.runs, before.not_yet, before.is_balanced) == (9, 9, 1, True)
    history.fire(660)
    assert late in history.events
    after = total(history.judged(decided_s=661))
    assert (after.owed, after.not_yet, after.is_balanced) == (10, 1, True)
    history.events = [event for event in history.events if event.run_id != make_run_id(JOB, History.at(600))]
    assert kinds(history.judged(decided_s=661)) == {FaultKind.MISSING: 1}


def test_what_the_log_says_beyond_the_cursor_is_left_for_later() -> None:
    """The log went on while it was read."""
    history = History()
    history.command(0, spec=every(60, jitter(30)))
    history.fire(690)
    judged_early = total(history.judged(decided_s=602))
    assert (judged_early.runs, judged_early.not_yet, judged_early.is_balanced) == (9, 1, True)


def test_a_fire_that_waits_for_its_due_time_stays_with_the_version_of_its_fire_time() -> None:
    history = History()
    history.command(0, spec=every(60, jitter(30)))
    history.fire(600)
    assert due_at(history.versions[0], History.at(600)) > History.at(601)
    history.command(601, spec=every(60))
    history.fire(700)
    run = next(event for event in history.events if event.run_id == make_run_id(JOB, History.at(600)))
    assert total(history.judged(decided_s=701)).is_balanced
    history.events.remove(run)
    history.run(2, 600)
    assert kinds(history.judged(decided_s=701)) == {FaultKind.WRONG: 1}


def test_a_fire_time_that_an_older_version_has_decided_is_nobody_elses() -> None:
    """The command is applied late. The older version decided the fire after the stamp; by the newer it would be due."""
    history = History()
    history.command(0, spec=second_cron(30))
    history.fire(600)
    history.command(595, spec=second_cron(30, jitter(15)))
    assert due_at(history.versions[1], History.at(600)) > History.at(600)
    history.fire(700)
    summed = total(history.judged(decided_s=701))
    assert summed.is_balanced
    history.run(2, 600)
    assert kinds(history.judged(decided_s=701)) == {FaultKind.DOUBLED: 1}


def test_two_versions_may_owe_in_one_stretch_of_time_where_their_jitter_differs() -> None:
    """As above, but the newer one's fire is another: both are owed, beside one another."""
    history = History()
    history.command(0, spec=second_cron(15))
    history.fire(600)
    history.command(586, spec=spec(Dates((History.at(599), History.at(640))), jitter(15)))
    assert due_at(history.versions[1], History.at(599)) > History.at(600)
    history.fire(700)
    summed = total(history.judged(decided_s=701))
    assert summed.is_balanced
    assert summed.runs == 600 // 15 + 2
    for fire_s in (599, 600):
        kept = history.events
        history.events = [event for event in kept if event.run_id != make_run_id(JOB, History.at(fire_s))]
        assert kinds(history.judged(decided_s=701)) == {FaultKind.MISSING: 1}
        history.events = kept


@pytest.mark.parametrize("status", [JobStatus.PAUSED, JobStatus.DELETED])
def test_a_pause_or_a_delete_ends_what_is_still_due(status: JobStatus) -> None:
    history = History()
    history.command(0, spec=every(60, jitter(30)))
    history.fire(600)
    history.command(601, status)
    reason = "paused" if status is JobStatus.PAUSED else "deleted"
    summed = total(history.judged(decided_s=602))
    assert (summed.runs, summed.skipped[reason], summed.is_balanced) == (9, 1, True)
    history.events = [event for event in history.events if event.kind is not EventKind.SKIPPED]
    history.run(1, 600)
    assert kinds(history.judged(decided_s=661))[FaultKind.WRONG] == 1


def test_nothing_is_owed_outside_the_ends_of_a_job() -> None:
    history = History()
    ends = Timing(from_at=History.at(300), until_at=History.at(900))
    history.command(0, spec=every(60, ends))
    history.fire(HOUR_S)
    summed = total(history.judged())
    assert (summed.owed, summed.runs, summed.is_balanced) == (10, 10, True)
    history.run(1, 900)
    assert kinds(history.judged()) == {FaultKind.WRONG: 1}


def test_a_range_is_counted_within_the_ends_of_its_job() -> None:
    history = History()
    history.command(0, spec=every(60, Timing(until_at=History.at(600))))
    history.fire(HOUR_S, coalesced=(0, 540))
    assert total(history.judged()).is_balanced
    history.events = [event for event in history.events if event.kind is not EventKind.SKIPPED]
    history.skip(1, 60, 660, 11, "coalesced")
    assert FaultKind.WRONG in kinds(history.judged())


def test_a_one_off_that_was_due_by_the_edge_is_owed_by_the_command_that_brought_it() -> None:
    history = History()
    history.edge_s = 1_000
    history.command(980, spec=spec(Once(History.at(985)), jitter(10)))
    history.run(1, 985)
    summed = total(history.judged(decided_s=1_001))
    assert (summed.owed, summed.runs, summed.is_balanced) == (1, 1, True)


def test_a_one_off_that_lies_behind_takes_nothing_from_the_interval_before_it() -> None:
    """It was found by simulation: the run after the one-off's instant was called wrong, and missing at once."""
    history = History()
    history.command(0, spec=every(30))
    history.fire(35)
    history.command(17, spec=spec(Once(History.at(23))))
    history.run(2, 23)
    history.command(20, JobStatus.PAUSED)
    summed = total(history.judged(decided_s=60))
    assert summed.is_balanced, summed.named
    assert (summed.owed, summed.runs) == (2, 2)


def test_a_gap_is_one_of_due_times() -> None:
    """What was due in it is undecided when the edit comes: the newer version owes its part beyond its stamp."""
    history = History()
    history.command(0, spec=second_cron(30, jitter(15)))
    history.fire(600)
    offset_us = due_at(history.versions[0], History.at(540)) - History.at(540)
    gap = (History.at(540) + offset_us, History.at(570) + offset_us)  # the fire at 540 s, and not that at 570 s
    history.command(530)
    (revised,) = [event for event in history.events if event.kind is EventKind.REVISED][1:]
    assert isinstance(revised.detail, Revised)
    history.events[history.events.index(revised)] = revised._replace(detail=revised.detail._replace(gaps=(gap,)))
    assert kinds(history.judged(decided_s=601)) == {FaultKind.WRONG: 1}
    history.events = [event for event in history.events if event.run_id != make_run_id(JOB, History.at(540))]
    assert kinds(history.judged(decided_s=601)) == {FaultKind.MISSING: 1}
    history.run(2, 540)
    assert total(history.judged(decided_s=601)).is_balanced


@pytest.mark.parametrize("timing", [Timing(), jitter(30), jitter(30, per_fire=True)])
@pytest.mark.parametrize("status", [JobStatus.ACTIVE, JobStatus.PAUSED, JobStatus.DELETED])
def test_what_comes_before_the_next_command_of_a_paused_job_is_applied_is_skipped_with_the_pause(
    status: JobStatus, timing: Timing
) -> None:
    history = History()
    history.command(0, spec=every(60, timing))
    history.fire(600)
    history.command(630, JobStatus.PAUSED)
    history.edge_s = 1_245  # the command waits for the store, and is applied then
    history.command(900, status)
    history.fire(1_500)
    summed = total(history.judged(decided_s=1_200))
    assert summed.is_balanced, summed.named
    assert summed.owed == 19
    assert summed.skipped["paused"] >= 9
    (kept,) = [event for event in history.events if event.reason == "paused" and event.detail.revision == 2]
    history.events.remove(kept)
    assert kinds(history.judged(decided_s=1_200))[FaultKind.MISSING] >= 9 - (status is JobStatus.PAUSED)


def test_a_record_of_a_pause_that_ends_at_the_stamp_of_a_late_resume_is_short() -> None:
    history = History()
    history.command(0)
    history.fire(600)
    history.command(630, JobStatus.PAUSED)
    history.edge_s = 1_200
    history.command(900)
    history.fire(1_800)
    history.events = [event for event in history.events if event.kind is not EventKind.SKIPPED]
    history.skip(2, 660, 900, 5, "paused")
    assert kinds(history.judged(decided_s=1_800)) == {FaultKind.MISSING: 5}


def test_a_run_behind_the_stamp_of_a_late_resume_is_wrong() -> None:
    history = History()
    history.command(0)
    history.fire(600)
    history.command(630, JobStatus.PAUSED)
    history.edge_s = 1_200
    history.command(900)
    history.run(3, 960)
    assert kinds(history.judged(decided_s=1_201))[FaultKind.WRONG] == 1
