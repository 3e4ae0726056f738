"""What a backfill owes and has run: the ledger counts each run once, and names what was passed and nobody ran."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.ledger_history import HOUR_S, JOB, History, every, kinds, total
from waterclock.ledger.sums import FaultKind
from waterclock.model.backfill import Backfilled, BackfillStatus
from waterclock.model.events import EventKind, Origin, Pending, RunEvent
from waterclock.model.ids import make_run_id
from waterclock.model.job import JobStatus, Tier

NUMBER = 4711


def paused_hour() -> History:
    """A job of every minute that was paused from 600 to 1200: ten fires are skipped."""
    history = History()
    history.command(0, spec=every(60))
    history.fire(600)
    history.command(610, JobStatus.PAUSED)
    history.fire(1_200)
    history.command(1_210)
    history.fire(HOUR_S)
    return history


def backfill(history: History, fires: list[int], *, from_s: int, to_s: int, position_s: int | None = None) -> None:
    """Its runs, and its word of how far it has come."""
    for second in fires:
        at = history.at(second)
        detail = Pending(1, at, None, Tier.LOW, Origin.BACKFILL, backfill=NUMBER)
        history.events.append(RunEvent(EventKind.PENDING, JOB, make_run_id(JOB, at), history.at(3_000), detail=detail))
    position = history.at(to_s) - 1 if position_s is None else history.at(position_s)
    told = Backfilled(
        NUMBER, 3, BackfillStatus.RUNNING, history.at(from_s), history.at(to_s), position, 1, Tier.LOW, 10,
        *[0] * 8, history.at(3_000), history.at(3_000), "test", "", "",
    )  # fmt: skip
    told = told._replace(ready_at=history.at(to_s))
    history.events.append(RunEvent(EventKind.BACKFILL, JOB, "", history.at(3_100), detail=told))


PAUSED = list(range(660, 1_201, 60))


def test_a_skipped_fire_that_is_run_counts_as_a_run() -> None:
    history = paused_hour()
    backfill(history, PAUSED, from_s=630, to_s=1_230)
    summed = total(history.judged())
    assert summed.is_balanced
    assert (summed.owed, summed.runs, +summed.skipped) == (59, 59, Counter())


def test_a_fire_that_the_schedule_never_owed_counts_as_owed_and_run() -> None:
    history = History()
    history.command(0, spec=every(60))
    history.fire(HOUR_S)
    history.command(HOUR_S, JobStatus.PAUSED)
    late = history.versions[-1]
    history.versions = [history.versions[0]._replace(stamp_at=history.at(1_800)), late]
    history.events = [event for event in history.events if event.kind is not EventKind.PENDING or _of(event) > 1_800]
    history.events = [event for event in history.events if event.kind is not EventKind.REVISED]
    history.revised(history.versions[0], 1_800)
    before = total(history.judged())
    backfill(history, list(range(60, 1_800, 60)), from_s=30, to_s=1_800)
    after = total(history.judged())
    assert after.faults == before.faults
    assert (after.owed - before.owed, after.runs - before.runs) == (29, 29)


def test_what_it_has_passed_and_nobody_ran_is_missing() -> None:
    history = paused_hour()
    backfill(history, PAUSED[:-2], from_s=630, to_s=1_230)
    sums = history.judged()
    assert kinds(sums) == {FaultKind.MISSING: 2}
    assert "has passed it, and nobody ran it" in total(sums).named[0].why


def test_what_it_has_not_come_to_is_not_missing() -> None:
    history = paused_hour()
    backfill(history, PAUSED[:3], from_s=630, to_s=1_230, position_s=PAUSED[2])
    assert total(history.judged()).is_balanced


def test_what_ran_before_is_left_out_and_not_missing() -> None:
    history = paused_hour()
    backfill(history, PAUSED, from_s=300, to_s=1_500)
    assert total(history.judged()).is_balanced


@pytest.mark.parametrize(
    ("fires", "kind", "count"),
    [
        ([*PAUSED, PAUSED[0]], FaultKind.DOUBLED, 1),
        ([*PAUSED, 600], FaultKind.DOUBLED, 1),
        ([*PAUSED, 1_260], FaultKind.DOUBLED, 1),
        ([*PAUSED, 661], FaultKind.WRONG, 1),
    ],
)
def test_a_run_twice_and_a_run_of_no_fire_are_named(fires: list[int], kind: FaultKind, count: int) -> None:
    history = paused_hour()
    backfill(history, fires, from_s=630, to_s=1_230)
    assert kinds(history.judged())[kind] == count


def test_a_run_of_a_backfill_of_which_nothing_is_told_is_wrong() -> None:
    history = paused_hour()
    backfill(history, PAUSED[:1], from_s=630, to_s=1_230)
    history.events = [event for event in history.events if event.kind is not EventKind.BACKFILL]
    assert kinds(history.judged()) == {FaultKind.WRONG: 1}


def test_what_the_schedule_owes_and_nobody_decided_stays_missing_whoever_ran_it_since() -> None:
    history = paused_hour()
    gone = make_run_id(JOB, history.at(300))
    history.events = [event for event in history.events if event.run_id != gone]
    backfill(history, [300], from_s=270, to_s=330)
    assert kinds(history.judged()) == {FaultKind.MISSING: 1}


def _of(event: RunEvent) -> int:
    assert isinstance(event.detail, Pending)
    return event.detail.fire_at // 1_000_000 - History.at(0) // 1_000_000
