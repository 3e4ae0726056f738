"""The judge of backfills passes a good history, and sees each thing that is wrong in a bad one."""

from __future__ import annotations

import re
from collections.abc import Callable
from unittest import mock

import pytest
from waterclock.dispatcher import window

from tests.oracle import backfills, makings
from tests.oracle.records import decode
from tests.unit.backfill_world import JOB, BackfillWorld
from tests.unit.dispatcher_world import NAMES, raw
from waterclock.model.backfill import Backfilled, BackfillStatus
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.events import Answered, CommandVerdict, Ended, EventKind, Origin, Pending, RunEvent, Started
from waterclock.model.job import CommandKind, Cron, JobSpec, Tier
from waterclock.wire.codec import decode_event, encode_event

Records = list[dict[str, object]]


@pytest.fixture(scope="module")
def history() -> tuple[Records, Records]:
    """A pause was run after it, and what lies before the job: two backfills, the second one after the first."""
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        world = BackfillWorld()
        world.define()
        world.wait(65)
        world.command(CommandKind.PAUSE, JOB)
        world.wait(180)
        world.command(CommandKind.RESUME, JOB)
        world.wait(5)
        for run in world.pendings():
            world.end(run.run_id)
        world.ask(-3, 4, concurrency=2)
        world.ask(-4, 5, concurrency=1)
        for _ in range(12):
            world.wait(10)
            world.end_all()
        for run in world.pendings():
            if run.detail.origin is not Origin.BACKFILL:  # type: ignore[union-attr]
                world.end(run.run_id)
        return [raw(each) for each in world.records(NAMES.commands)], [
            raw(each) for each in world.records(NAMES.run_events)
        ]


def judged(history: tuple[Records, Records], events: Records) -> list[str]:
    complaints: list[str] = backfills.check(history[0], events)[0]
    return complaints


def test_a_good_history_passes_and_something_happened(history: tuple[Records, Records]) -> None:
    complaints, counts = backfills.check(*history)
    assert complaints == []
    assert (counts["backfills done"], counts["backfilled over a skip"]) == (
        2,
        1,
    )  # of a range the first is known by name
    assert counts["backfilled: left out"] > 0


def test_no_run_of_it_can_be_missing_or_made_twice(history: tuple[Records, Records]) -> None:
    made = [record for record in history[1] if _origin(record) is Origin.BACKFILL]
    assert made
    for record in made:
        assert judged(history, [each for each in history[1] if each is not record])
        again = {**record, "offset": 1 + max(int(str(each["offset"])) for each in history[1])}
        assert judged(history, [*history[1], again])


def test_no_end_of_its_runs_can_be_missing(history: tuple[Records, Records]) -> None:
    ids = {_event(record).run_id for record in history[1] if _origin(record) is Origin.BACKFILL}
    for record in history[1]:
        event = _event(record)
        if event.run_id in ids and event.kind is EventKind.ATTEMPT_SUCCEEDED:
            assert judged(history, [each for each in history[1] if each is not record])


def test_what_it_never_said_is_seen(history: tuple[Records, Records]) -> None:
    silent = [record for record in history[1] if _event(record).kind is not EventKind.BACKFILL]
    assert any("nothing was ever told of it" in complaint for complaint in judged(history, silent))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda told: told._replace(made_count=told.made_count + 1), "runs were made"),
        (lambda told: told._replace(left_count=told.left_count - 1), "fires"),
        (lambda told: told._replace(status=BackfillStatus.RUNNING), "at rest"),
        (lambda told: told._replace(status=BackfillStatus.WAITING), "at rest"),
        (lambda told: told._replace(succeeded_count=0), "they came to"),
        (lambda told: told._replace(fire_count=told.fire_count + 1), "asked was"),
        (lambda told: told._replace(position_at=told.from_at), "it goes back"),
        (lambda told: told._replace(seq=0), "numbered"),
    ],
)
def test_a_last_word_that_is_not_so_is_seen(
    history: tuple[Records, Records], change: Callable[[Backfilled], Backfilled], said: str
) -> None:
    last = [record for record in history[1] if _event(record).kind is EventKind.BACKFILL][-1]
    event = _event(last)
    assert isinstance(event.detail, Backfilled)
    changed = {**last, "value": encode_event(event._replace(detail=change(event.detail)))}
    complaints = judged(history, [changed if each is last else each for each in history[1]])
    assert any(said in complaint for complaint in complaints), complaints


@pytest.mark.parametrize(
    "change",
    [
        lambda pending: pending._replace(tier=Tier.HIGH),
        lambda pending: pending._replace(revision=pending.revision + 1),
        lambda pending: pending._replace(backfill=pending.backfill + 1),
        lambda pending: pending._replace(origin=Origin.SCHEDULE, backfill=0),
    ],
)
def test_a_run_that_says_something_else_is_seen(
    history: tuple[Records, Records], change: Callable[[Pending], Pending]
) -> None:
    first = next(record for record in history[1] if _origin(record) is Origin.BACKFILL)
    event = _event(first)
    assert isinstance(event.detail, Pending)
    changed = {**first, "value": encode_event(event._replace(detail=change(event.detail)))}
    assert judged(history, [changed if each is first else each for each in history[1]])


def test_a_fire_that_the_schedule_held_and_gave_up_may_be_run_by_a_backfill() -> None:
    """HELD speaks of the schedule's run, which would have been made of something else."""
    world = BackfillWorld()
    limits = Concurrency(Overlap.TERMINATE_OTHER, max_concurrent=1)
    world.define(JobSpec("demo.noop", Cron("* * * * *"), tier=Tier.HIGH, concurrency=limits))
    world.wait(65)
    (first,) = world.pendings()
    token = world.say(first.run_id, EventKind.STARTED, detail=Started("x", 0, 0))
    world.wait(180)
    world.command(CommandKind.PAUSE, JOB)
    world.say(first.run_id, EventKind.ATTEMPT_SUCCEEDED, token=token, detail=Ended(0))
    world.rest()
    backfill, ended = world.ask(0, 4), {first.run_id}
    for _ in range(12):
        for run in world.pendings():
            if run.run_id not in ended:
                world.end(run.run_id)
                ended.add(run.run_id)
        world.wait(5)
    assert world.statuses(backfill)[-1] == BackfillStatus.DONE
    held = {event.run_id for event in world.events(EventKind.HELD)}
    assert held & set(world.made()), "no fire was held and then backfilled"
    commands, events = ([raw(each) for each in world.records(topic)] for topic in (NAMES.commands, NAMES.run_events))
    assert makings.check(commands, events, [])[0] == []


def test_a_backfill_that_nobody_asked_for_is_seen(history: tuple[Records, Records]) -> None:
    commands = [each for each in history[0] if decode(each["value"])[1]["kind"] != "BACKFILL"]
    complaints: list[str] = backfills.check(commands, history[1])[0]
    assert any("nobody asked for it" in complaint for complaint in complaints)


@pytest.fixture(scope="module")
def turned() -> tuple[Records, Records]:
    """One is paused, told so again, and goes on; one is cancelled; one goes with its job."""
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        world = BackfillWorld()
        world.define()
        paused, cancelled, deleted = (world.ask(-5, 0, concurrency=1) for _ in range(3))
        world.rest()
        for kind in (CommandKind.PAUSE_BACKFILL, CommandKind.PAUSE_BACKFILL, CommandKind.RESUME_BACKFILL):
            world.turn(kind, paused)
        world.turn(CommandKind.CANCEL_BACKFILL, cancelled, note="not needed")
        world.turn(CommandKind.RESUME_BACKFILL, cancelled)
        world.command(CommandKind.DELETE, JOB)
        world.rest()
        world.end_all()
        assert [world.told(each)[-1].status for each in (cancelled, deleted)] == ["CANCELLED", "CANCELLED"]
        return [raw(each) for each in world.records(NAMES.commands)], [
            raw(each) for each in world.records(NAMES.run_events)
        ]


def test_what_was_turned_by_those_who_may_passes(turned: tuple[Records, Records]) -> None:
    complaints, counts = backfills.check(*turned)
    assert complaints == []
    kinds = ("PAUSE_BACKFILL applied", "PAUSE_BACKFILL unchanged", "RESUME_BACKFILL applied",
             "RESUME_BACKFILL refused", "CANCEL_BACKFILL applied")  # fmt: skip
    assert [counts[kind] for kind in kinds] == [1] * len(kinds)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (CommandKind.PAUSE_BACKFILL, "PAUSED .*nobody asked"),
        (CommandKind.RESUME_BACKFILL, "WAITING .*nobody asked"),
        (CommandKind.CANCEL_BACKFILL, "CANCELLED .*not needed.*nobody asked"),
        (CommandKind.DELETE, "CANCELLED .*deleted.*nobody asked"),
    ],
)
def test_who_turns_one_unasked_is_seen(turned: tuple[Records, Records], kind: CommandKind, said: str) -> None:
    commands = [each for each in turned[0] if decode(each["value"])[1]["kind"] != kind.value]
    complaints: list[str] = backfills.check(commands, turned[1])[0]
    assert any(re.search(said, complaint) for complaint in complaints), complaints


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (BackfillStatus.PAUSED, "PAUSE_BACKFILL .* answered applied"),
        (BackfillStatus.CANCELLED, "CANCEL_BACKFILL .* answered applied"),
    ],
)
def test_a_turn_that_was_answered_and_never_came_is_seen(
    turned: tuple[Records, Records], status: BackfillStatus, said: str
) -> None:
    kept = [each for each in turned[1] if _status(each) is not status]
    assert any(re.search(said, complaint) for complaint in judged(turned, kept)), judged(turned, kept)


def test_a_refusal_of_what_goes_on_is_seen(turned: tuple[Records, Records]) -> None:
    events = [
        {**each, "value": encode_event(_event(each)._replace(detail=detail._replace(verdict=CommandVerdict.REFUSED)))}
        if isinstance(detail := _event(each).detail, Answered) and detail.verdict == CommandVerdict.UNCHANGED
        else each
        for each in turned[1]
    ]
    assert any("was refused, and it stands PAUSED" in complaint for complaint in judged(turned, events))


def _status(record: dict[str, object]) -> BackfillStatus | None:
    detail = _event(record).detail
    return detail.status if isinstance(detail, Backfilled) else None


def _event(record: dict[str, object]) -> RunEvent:
    value = record["value"]
    assert isinstance(value, bytes)
    return decode_event(value)


def _origin(record: dict[str, object]) -> Origin | None:
    detail = _event(record).detail
    return detail.origin if isinstance(detail, Pending) else None
