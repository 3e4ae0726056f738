"""Fixed delays: each run comes so long after the end of the one before, once, whatever happens in between."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import pytest
from waterclock.dispatcher import admitting, flow, window
from waterclock.dispatcher.store_rest import StoreRest

from tests.oracle import counted, delays
from tests.oracle.books import balance
from tests.unit.dispatcher_world import NAMES, START, World, raw, store_away
from tests.unit.ledger_of import ledger_of
from tests.unit.test_overlap import rest, say, start
from waterclock.log.port import TopicPartition
from waterclock.model.calendar import Calendar, side_of
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import CommandVerdict, Ended, EventKind, RunEvent
from waterclock.model.flow_state import JobFlow
from waterclock.model.ids import US_PER_MINUTE, US_PER_S, Instant, job_of_run, make_run_id, parse_run_id
from waterclock.model.job import CommandKind, Delay, Every, JobSpec, JobStatus
from waterclock.model.timing import CalendarUse, Timing
from waterclock.store.memory import MemoryStore
from waterclock.store.port import JobRow
from waterclock.wire.messages import event_message

JOB = "acme:after"
DELAY_US = 10 * US_PER_S
YEAR_US = 365 * 86_400 * US_PER_S


@pytest.fixture
def world():
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        yield World(partitions=1)


def spec(delay_s: int = 10, **more: object) -> JobSpec:
    return JobSpec("demo.noop", Delay(delay_s * US_PER_S), **more)  # type: ignore[arg-type]


def ordered(world: World, kind: CommandKind, wanted: JobSpec | None = None, **more: object) -> None:
    world.command(kind, JOB, wanted, **more)
    rest(world)
    wait(world, 0.001)  # a version fires after its own stamp


def wait(world: World, seconds: float) -> None:
    """The clock goes on, in steps that keep the dispatcher a member of its group."""
    left_us = round(seconds * US_PER_S)
    while left_us > 0:
        world.clock.advance(min(left_us, 2 * US_PER_S))
        left_us -= 2 * US_PER_S
        rest(world)


def ended(world: World, run_id: str = "", kind: EventKind = EventKind.ATTEMPT_SUCCEEDED, off_us: int = 0) -> Instant:
    """The newest run ends now, by a worker whose clock is so far off. Answers when it does, by the brokers' clock."""
    run_id = run_id or fires(world)[-1]
    say(world, run_id, kind, token=start(world, run_id), detail=Ended(0)) if not off_us else said_by(
        world, run_id, off_us
    )
    if kind is not EventKind.ATTEMPT_SUCCEEDED:
        say(world, run_id, EventKind.RUN_FAILED)
    rest(world)
    return world.clock.now()


def said_by(world: World, run_id: str, off_us: int) -> None:
    at = world.clock.now() + off_us
    owner = {"attempt": 1, "worker": "w", "incarnation": 1, "token": start(world, run_id)}
    event = RunEvent(EventKind.ATTEMPT_SUCCEEDED, job_of_run(run_id), run_id, at, detail=Ended(0), **owner)  # type: ignore[arg-type]
    appender = world.outside.appender()
    appender.append(event_message(NAMES, event))
    appender.flush(1.0)


def fires(world: World) -> list[str]:
    """Run ids of what the schedule has made, in the order of the log."""
    return [run_id for run_id in world.runs(JOB) if "~" not in run_id]


def at(run_id: str) -> Instant:
    return parse_run_id(run_id).fire_at


def skips(world: World) -> Counter[str]:
    found: Counter[str] = Counter()
    for event in world.events(EventKind.SKIPPED):
        found[event.reason] += event.detail.fire_count  # type: ignore[union-attr]
    return found


def judged(world: World) -> list[str]:
    """What the judges complain of, and the ledger beside them."""
    given = [raw(record) for record in world.records(NAMES.commands)]
    events = [raw(record) for record in world.records(NAMES.run_events)]
    now = world.clock.now()
    bounds = delays.Bounds(0, US_PER_S)
    complaints = delays.check(given, events, now - 1, START, bounds)[0]
    complaints += balance(given, events, now - 1)[0] + counted.check(given, events)[0]
    sums = ledger_of(world, JOB)
    return complaints + [fault.why for hour in sums.hours.values() for fault in hour.named]


def test_the_first_run_comes_at_once_and_each_other_so_long_after_the_end_before(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    assert len(fires(world)) == 1
    wait(world, 25)  # it is open for longer than the delay
    assert len(fires(world)) == 1
    end_at = ended(world)
    wait(world, 9.9)
    assert len(fires(world)) == 1
    wait(world, 0.2)
    assert at(fires(world)[1]) == end_at + DELAY_US
    assert judged(world) == []


@pytest.mark.parametrize("kind", [EventKind.ATTEMPT_SUCCEEDED, EventKind.ATTEMPT_FAILED])
def test_it_goes_on_whatever_the_end_is(world: World, kind: EventKind) -> None:
    ordered(world, CommandKind.CREATE, spec())
    end_at = ended(world, kind=kind)
    wait(world, 10)
    assert at(fires(world)[-1]) == end_at + DELAY_US
    ordered(world, CommandKind.CANCEL, run_id=fires(world)[-1])
    wait(world, 10)
    assert at(fires(world)[-1]) == end_at + 2 * DELAY_US
    say(world, fires(world)[-1], EventKind.RUN_EXPIRED)
    rest(world)
    wait(world, 10)
    assert len(fires(world)) == 4
    assert judged(world) == []


def test_an_attempt_that_is_tried_again_is_no_end(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    run_id = fires(world)[0]
    say(world, run_id, EventKind.ATTEMPT_FAILED, token=start(world, run_id), detail=Ended(0))
    say(world, run_id, EventKind.RETRYING, attempt=2)
    rest(world)
    wait(world, 30)
    assert len(fires(world)) == 1
    say(world, run_id, EventKind.ATTEMPT_SUCCEEDED, attempt=2, token=start(world, run_id, 2), detail=Ended(0))
    rest(world)
    end_at = world.clock.now()
    wait(world, 10)
    assert at(fires(world)[1]) == end_at + DELAY_US
    assert judged(world) == []


@pytest.mark.parametrize("off_us", [YEAR_US, 3 * US_PER_S, -3 * US_PER_S, -YEAR_US])
def test_a_workers_clock_that_is_wrong_holds_no_chain(world: World, off_us: int) -> None:
    ordered(world, CommandKind.CREATE, spec())
    wait(world, 2)
    end_at = ended(world, off_us=off_us)
    wait(world, 10.1)
    assert len(fires(world)) == 2
    assert at(fires(world)[0]) + DELAY_US <= at(fires(world)[1]) <= end_at + DELAY_US + 1_000
    assert judged(world) == []


def test_a_take_over_goes_on_exactly_whether_a_run_is_open_or_the_delay_runs(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    world.crash()
    wait(world, 8)  # the session of the dead member ends
    assert len(fires(world)) == 1
    end_at = ended(world)
    wait(world, 3)
    world.crash()
    wait(world, 6.5)
    assert len(fires(world)) == 1
    wait(world, 1)
    assert [at(each) for each in fires(world)[1:]] == [end_at + DELAY_US]
    assert judged(world) == []


def test_an_end_that_comes_while_nobody_owns_the_shard_counts_from_when_it_was(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    world.crash()
    run_id = fires(world)[0]
    say(world, run_id, EventKind.ATTEMPT_SUCCEEDED, token=start(world, run_id), detail=Ended(0))
    end_at = world.clock.now()
    wait(world, 7)
    wait(world, 4)
    assert [at(each) for each in fires(world)[1:]] == [end_at + DELAY_US]
    assert judged(world) == []


def test_it_never_misfires_one_run_is_made_however_late(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec(1))
    end_at = ended(world)
    world.clock.advance(3 * 3_600 * US_PER_S)
    rest(world)
    assert [at(each) for each in fires(world)[1:]] == [end_at + US_PER_S]
    assert skips(world) == {}


def test_fires_of_a_pause_are_skipped_each_a_delay_after_the_one_before(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    end_at = ended(world)
    wait(world, 1)
    ordered(world, CommandKind.PAUSE)
    wait(world, 34)
    assert len(fires(world)) == 1
    ordered(world, CommandKind.RESUME)
    assert skips(world) == {"paused": 3}
    wait(world, 5)
    assert at(fires(world)[1]) == end_at + 4 * DELAY_US
    assert judged(world) == []


def test_a_pause_over_an_open_run_skips_nothing_and_its_end_counts(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    ordered(world, CommandKind.PAUSE)
    wait(world, 30)
    ordered(world, CommandKind.RESUME)
    end_at = ended(world)
    wait(world, 10)
    assert [at(each) for each in fires(world)[1:]] == [end_at + DELAY_US]
    assert skips(world) == {}
    assert judged(world) == []


def test_a_fire_that_was_due_in_a_pause_which_skips_nothing_comes_after_it(world: World) -> None:
    """A resume counts from when it was appended, however late it is applied: here before the first fire."""
    first_at = START + 20 * US_PER_S
    ordered(world, CommandKind.CREATE, spec(timing=Timing(from_at=first_at)))
    ordered(world, CommandKind.PAUSE)
    wait(world, 19)
    world.command(CommandKind.RESUME, JOB)
    with mock.patch.object(StoreRest, "is_down", new=True):
        wait(world, 4)
    wait(world, 1)
    assert [at(each) for each in fires(world)] == [first_at]
    assert skips(world) == {}
    assert judged(world) == []


def test_a_pause_of_a_moment_keeps_a_chain_whose_owner_is_ahead_of_the_brokers(world: World) -> None:
    world.ahead_us = 3 * US_PER_S
    world.crash()
    ordered(world, CommandKind.CREATE, spec())
    end_at = ended(world)
    now_and_then = Every(3_600 * US_PER_S, end_at + DELAY_US - US_PER_S // 2)  # its fire is what the owner has passed
    world.command(CommandKind.CREATE, "acme:other", JobSpec("demo.noop", now_and_then))
    wait(world, 6.9)
    ordered(world, CommandKind.PAUSE)
    wait(world, 0.2)
    ordered(world, CommandKind.RESUME)
    wait(world, 5)
    assert [at(each) for each in fires(world)[1:]] == [end_at + DELAY_US]


def test_an_edit_counts_the_new_delay_from_the_last_end(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    end_at = ended(world)
    wait(world, 1)
    ordered(world, CommandKind.UPDATE, spec(4))
    wait(world, 3)
    assert [at(each) for each in fires(world)[1:]] == [end_at + 4 * US_PER_S]
    assert judged(world) == []


def test_an_edit_to_a_delay_that_is_over_fires_at_once_and_of_the_new_version(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec(100))
    ended(world)
    wait(world, 30)
    edited_at = world.clock.now()
    ordered(world, CommandKind.UPDATE, spec(4))
    assert len(fires(world)) == 2
    assert edited_at < at(fires(world)[1]) <= world.clock.now() + US_PER_S
    assert judged(world) == []


def test_an_edit_while_a_run_is_open_begins_no_second_chain(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    ordered(world, CommandKind.UPDATE, spec(4))
    ordered(world, CommandKind.UPDATE, spec(2, payload=b"2"))
    wait(world, 20)
    assert len(fires(world)) == 1
    end_at = ended(world)
    wait(world, 3)
    assert [at(each) for each in fires(world)[1:]] == [end_at + 2 * US_PER_S]
    assert judged(world) == []


def test_a_job_that_is_deleted_and_made_again_has_one_chain(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    old = fires(world)[0]
    ordered(world, CommandKind.DELETE)
    wait(world, 1)
    ordered(world, CommandKind.CREATE, spec())
    assert len(fires(world)) == 2
    ended(world, old)  # is nobody's end any more
    wait(world, 25)
    assert len(fires(world)) == 2
    end_at = ended(world)
    wait(world, 10)
    assert [at(each) for each in fires(world)[2:]] == [end_at + DELAY_US]
    assert judged(world) == []


def test_another_schedule_ends_the_chain_and_a_delay_begins_one(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    every = JobSpec("demo.noop", Every(7 * US_PER_S))
    ordered(world, CommandKind.UPDATE, every)
    ended(world)
    wait(world, 7.1)
    wait(world, 7)
    assert [at(later) - at(earlier) for earlier, later in zip(fires(world)[1:], fires(world)[2:], strict=False)] == [
        7 * US_PER_S
    ]
    ordered(world, CommandKind.UPDATE, spec())
    assert len(fires(world)) == 4
    wait(world, 30)
    assert len(fires(world)) == 4
    assert judged(world) == []


def test_triggers_and_redrives_are_no_part_of_the_chain(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    end_at = ended(world)
    wait(world, 4)
    ordered(world, CommandKind.TRIGGER)
    triggered = next(run_id for run_id in world.runs(JOB) if "~" in run_id)
    ended(world, triggered)
    wait(world, 6)
    assert [at(each) for each in fires(world)[1:]] == [end_at + DELAY_US]
    ordered(world, CommandKind.TRIGGER)
    ended(world, world.runs(JOB)[-1])
    wait(world, 20)
    assert len(fires(world)) == 2
    assert judged(world) == []


def test_max_runs_end_the_chain_and_an_edit_goes_on_with_it(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec(timing=Timing(max_runs=2)))
    ended(world)
    wait(world, 10)
    end_at = ended(world)
    wait(world, 30)
    assert (len(fires(world)), row_of(world).status) == (2, JobStatus.ENDED)
    ordered(world, CommandKind.UPDATE, spec(100, timing=Timing(max_runs=3)))
    wait(world, 70)
    assert [at(each) for each in fires(world)[2:]] == [end_at + 100 * US_PER_S]
    assert judged(world) == []


def row_of(world: World) -> JobRow:
    found = MemoryStore(world.clock, world.tables, "looking").job(JOB)
    assert found is not None
    return found


def test_it_fires_within_its_ends_alone(world: World) -> None:
    timing = Timing(from_at=START + 20 * US_PER_S, until_at=START + 35 * US_PER_S)
    ordered(world, CommandKind.CREATE, spec(timing=timing))
    wait(world, 19)
    assert fires(world) == []
    wait(world, 1.1)
    assert at(fires(world)[0]) == START + 20 * US_PER_S
    ended(world)
    wait(world, 10)
    ended(world)
    wait(world, 60)
    assert len(fires(world)) == 2
    assert judged(world) == []


def test_what_a_calendar_blocks_is_skipped_and_tried_again_a_delay_later(world: World) -> None:
    second = START // US_PER_S
    freeze = Calendar(exclude=side_of((), (), [(second + 5, second + 25)]))
    use = CalendarUse("freeze", 1, freeze.as_text())
    ordered(world, CommandKind.CREATE, spec(timing=Timing(calendars=(use,))))
    end_at = ended(world)
    wait(world, 10.5)
    wait(world, 10)
    assert skips(world) == {"calendar": 2}
    wait(world, 10)
    assert at(fires(world)[1]) == end_at + 3 * DELAY_US
    assert judged(world) == []


def test_a_fire_that_is_owed_when_the_job_is_deleted_is_skipped_with_that_reason(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    ended(world)
    world.clock.advance(15 * US_PER_S)  # nobody was there
    ordered(world, CommandKind.DELETE)
    assert (len(fires(world)), skips(world)) == (1, {"deleted": 1})
    assert judged(world) == []


def test_while_the_store_is_away_chains_go_on(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    end_at = ended(world)
    with mock.patch.object(StoreRest, "is_down", True):
        wait(world, 10)
    assert [at(each) for each in fires(world)[1:]] == [end_at + DELAY_US]


def test_while_the_store_is_away_for_long_chains_go_on_too(world: World) -> None:
    """The edge is to jump then, and cannot before the store is back."""
    ordered(world, CommandKind.CREATE, spec())
    world.tables.on_call = store_away
    for _ in range(30):
        ended(world, fires(world)[-1])
        wait(world, 10)
    assert len(fires(world)) >= 25


def test_a_shard_that_follows_as_many_runs_as_it_may_lets_chains_wait(world: World) -> None:
    """A run that nobody follows would be the last one of its chain."""
    with mock.patch.object(admitting, "RUNS_MAX", 0):
        ordered(world, CommandKind.CREATE, spec())
        wait(world, 5)
        assert fires(world) == []
    wait(world, 1)
    assert len(fires(world)) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        spec(concurrency=Concurrency(Overlap.SKIP)),
        spec(concurrency=Concurrency(max_concurrent=2)),
        spec(timing=Timing(jitter_us=US_PER_S)),
        JobSpec("demo.noop", Delay(US_PER_S // 2)),
    ],
)
def test_a_command_that_came_by_no_door_is_refused_where_it_asks_for_what_cannot_be(
    world: World, wrong: JobSpec
) -> None:
    ordered(world, CommandKind.CREATE, wrong, answer=True)
    (answer,) = (event.detail for event in world.events(EventKind.ANSWERED))
    assert answer.verdict == CommandVerdict.REFUSED  # type: ignore[union-attr]


def test_its_past_is_not_backfilled_and_the_answer_says_why(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    wait(world, 60)
    now = world.clock.now()
    ordered(world, CommandKind.BACKFILL, from_at=now - 50 * US_PER_S, to_at=now - US_PER_S, answer=True)
    answer = world.events(EventKind.ANSWERED)[-1].detail
    assert "fixed delay" in answer.message  # type: ignore[union-attr]
    assert "trigger" in answer.hint  # type: ignore[union-attr]


def test_nothing_of_a_chain_stands_in_due_and_nothing_is_kept_of_a_job_that_is_gone(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    ended(world)
    wait(world, 10)
    ended(world)
    store = MemoryStore(world.clock, world.tables, "looking")
    minutes = range(START // US_PER_MINUTE - 1, START // US_PER_MINUTE + 3)
    assert [row for minute in minutes for row in store.load_due(range(256), minute)] == []
    ordered(world, CommandKind.DELETE)
    wait(world, 1)
    kept: dict[bytes, bytes | None] = {}
    for record in world.records(NAMES.state("dispatcher")):
        kept[record.key] = record.value  # type: ignore[attr-defined]
    assert not [key for key, value in kept.items() if key.startswith(b"flow/") and value is not None]


def test_a_lost_cursor_is_not_found_from_runs_of_a_chain(world: World) -> None:
    """They are none of the timeline's: their PENDING names no place on it."""
    ordered(world, CommandKind.CREATE, spec())
    assert [event.detail.due_at for event in world.events(EventKind.PENDING)] == [None]  # type: ignore[union-attr]
    assert make_run_id(JOB, at(fires(world)[0])) == fires(world)[0]
    assert world.outside.high_watermark(TopicPartition(NAMES.run_events, 0)) > 0


def test_a_chain_outlasts_a_release_that_cannot_read_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a release that was taken back while a run was open, and is there again when that has ended."""
    ordered(world, CommandKind.CREATE, spec())
    (run_id,) = fires(world)
    with monkeypatch.context() as before:
        before.setattr(flow.codec, "decode_flow_job", _of_a_later_release)
        world.crash()
        wait(world, 10)
        ended(world, run_id)
        wait(world, 30)
        assert fires(world) == [run_id]
    world.crash()
    wait(world, 30)
    assert len(fires(world)) == 2


@pytest.mark.parametrize("ends_before", [True, False])
@pytest.mark.parametrize("kind", [CommandKind.DELETE, CommandKind.UPDATE])
def test_a_chain_ends_with_its_job_also_by_a_release_that_cannot_read_it(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: CommandKind, ends_before: bool
) -> None:
    """Given that the release which can read it is there again: its record is of a version that counts no more."""
    ordered(world, CommandKind.CREATE, spec())
    (run_id,) = fires(world)
    if ends_before:
        ended(world, run_id)
    with monkeypatch.context() as before:
        before.setattr(flow.codec, "decode_flow_job", _of_a_later_release)
        world.crash()
        wait(world, 2)
        ordered(world, kind, JobSpec("demo.noop", Every(YEAR_US)) if kind is CommandKind.UPDATE else None)
        if not ends_before:
            ended(world, run_id)
        wait(world, 30)
    world.crash()
    wait(world, 30)
    assert fires(world) == [run_id]


def _of_a_later_release(_value: bytes) -> JobFlow:
    raise UndecodableRecord("a later release wrote it")
