"""Owed = runs + skipped: a history in which it is so balances, and every way in which it is not so is named."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.ledger_history import HOUR_S, JOB, START_S, History, every, kinds, spec, total
from waterclock.ledger.facts import Facts
from waterclock.ledger.sums import FaultKind
from waterclock.model.errors import Busy
from waterclock.model.events import EventKind, RunEvent
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Cron, JobStatus, Once


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
