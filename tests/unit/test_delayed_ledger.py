"""The ledger and the judge of fixed delays: a good history balances, and each minimal bad one is named."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest
from waterclock.dispatcher import loop

from tests.oracle import delays
from tests.unit.dispatcher_world import NAMES, START, World, raw
from tests.unit.ledger_of import ledger_of
from tests.unit.test_fixed_delay import JOB, ended, fires, ordered, spec, wait
from tests.unit.test_fixed_delay import world as world  # noqa: PLC0414 - a fixture
from tests.unit.test_overlap import rest
from waterclock.ledger.balance import judge_job
from waterclock.ledger.delayed import LATE_US
from waterclock.ledger.facts import Facts, JobFacts
from waterclock.ledger.sums import FaultKind, Span, Sums
from waterclock.model.events import EventKind, RunEvent
from waterclock.model.ids import US_PER_S, Instant, make_run_id, ordinal
from waterclock.model.job import CommandKind, JobStatus
from waterclock.model.timing import Timing
from waterclock.store.memory import MemoryStore
from waterclock.wire import codec

Dumped = dict[str, object]


def story(world: World) -> None:
    """Three runs, a pause over two fires, an edit; then the delay runs."""
    ordered(world, CommandKind.CREATE, spec())
    ended(world)
    wait(world, 10)
    ended(world)
    wait(world, 1)
    ordered(world, CommandKind.PAUSE)
    wait(world, 24)
    ordered(world, CommandKind.RESUME)
    ordered(world, CommandKind.UPDATE, spec(20))
    wait(world, 20)
    ended(world)


def events_of(world: World) -> list[Dumped]:
    return [raw(record) for record in world.records(NAMES.run_events)]


def event_of(record: Dumped) -> RunEvent:
    value = record["value"]
    assert isinstance(value, bytes)
    return codec.decode_event(value)


def made(record: Dumped) -> bool:
    return event_of(record).kind is EventKind.PENDING


def judged(world: World, events: list[Dumped]) -> list[str]:
    given = [raw(record) for record in world.records(NAMES.commands)]
    return delays.check(given, events, world.clock.now() - 1, START, delays.Bounds(0, 5 * US_PER_S))[0]


def ledger(world: World, events: list[Dumped], until: int) -> Sums:
    span, facts = Span(0, until, until, until), Facts(0, until)
    for number, record in enumerate(events):
        facts.take(event_of(record), int(str(record["timestamp_us"])), ordinal(1, int(str(record["offset"])) or number))
    versions = MemoryStore(world.clock, world.tables, "ledger").versions([JOB])[JOB]
    sums = Sums(10)
    judge_job(JOB, versions[::-1], facts.jobs.get(JOB, JobFacts()), span, sums)
    return sums


def owed_behind(world: World, end_at: Instant) -> str:
    """Nobody serves the job until its next fire is late. The run that it was to make."""
    world.clock.advance(LATE_US + 20 * US_PER_S)
    return make_run_id(JOB, end_at + 10 * US_PER_S)


def is_closed(world: World) -> bool:
    """The owner is back: whether it has given the END."""
    rest(world)
    wait(world, 1)
    newest = MemoryStore(world.clock, world.tables, "ledger").versions([JOB])[JOB][0]
    return newest.status is JobStatus.ENDED


def faults(sums: Sums) -> list[tuple[FaultKind, str]]:
    return [(fault.kind, fault.run_id) for hour in sums.hours.values() for fault in hour.named]


def test_a_good_history_balances_and_is_summed_by_the_hour(world: World) -> None:
    story(world)
    sums = ledger_of(world, JOB)
    (hour,) = sums.hours.values()
    assert (hour.owed, hour.runs, dict(hour.skipped)) == (5, 3, {"paused": 2})
    assert faults(sums) == []
    assert judged(world, events_of(world)) == []


def test_a_first_run_that_was_never_made_is_missing(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    first = fires(world)[0]
    left = [record for record in events_of(world) if not made(record)]
    world.clock.advance(LATE_US + US_PER_S)
    assert faults(ledger(world, left, world.clock.now())) == [(FaultKind.MISSING, first)]
    assert any("its chain has stopped" in each for each in judged(world, left))


def test_a_chain_that_stopped_is_missing_at_the_fire_that_it_owed(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    end_at = ended(world)
    owed = owed_behind(world, end_at)
    assert faults(ledger(world, events_of(world), world.clock.now())) == [(FaultKind.MISSING, owed)]
    assert judged(world, events_of(world)) == [f"{owed}: neither a run nor a skip, its chain has stopped"]


def test_nothing_is_missing_while_a_run_is_open_or_the_delay_runs(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    world.clock.advance(10 * LATE_US)
    assert faults(ledger(world, events_of(world), world.clock.now())) == []
    assert judged(world, events_of(world)) == []


def bounded_by_what_it_has_made(world: World) -> None:
    """Two runs of five, the second one behind the edit that allows two; nobody has given the END yet."""
    ordered(world, CommandKind.CREATE, spec(timing=Timing(max_runs=5)))
    ended(world)
    wait(world, 10)
    ended(world)
    world.command(CommandKind.UPDATE, JOB, spec(timing=Timing(max_runs=2)))
    with mock.patch.object(loop, "ask_to_close", return_value=False):
        rest(world)
        wait(world, LATE_US / US_PER_S + 30)


def test_nothing_is_missing_of_a_chain_that_an_edit_bounds_by_what_it_has_made(world: World) -> None:
    bounded_by_what_it_has_made(world)
    assert len(fires(world)) == 2
    assert faults(ledger(world, events_of(world), world.clock.now())) == []
    assert judged(world, events_of(world)) == []
    assert is_closed(world)
    assert faults(ledger(world, events_of(world), world.clock.now())) == []


def test_the_end_tells_that_all_runs_were_made_where_the_log_has_forgotten_them(world: World) -> None:
    bounded_by_what_it_has_made(world)
    assert is_closed(world)
    first = fires(world)[0]
    left = [record for record in events_of(world) if event_of(record).run_id != first]
    assert faults(ledger(world, left, world.clock.now())) == []


def test_one_more_run_than_were_made_is_owed(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec(timing=Timing(max_runs=2)))
    end_at = ended(world)
    owed = owed_behind(world, end_at)
    assert faults(ledger(world, events_of(world), world.clock.now())) == [(FaultKind.MISSING, owed)]


def test_runs_from_before_the_count_began_bound_nothing(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    ended(world)
    wait(world, 10)
    end_at = ended(world)
    ordered(world, CommandKind.UPDATE, spec(timing=Timing(max_runs=2)))
    owed = owed_behind(world, end_at)
    assert faults(ledger(world, events_of(world), world.clock.now())) == [(FaultKind.MISSING, owed)]


def test_a_pause_that_stands_is_summed_as_paused(world: World) -> None:
    ordered(world, CommandKind.CREATE, spec())
    ended(world)
    ordered(world, CommandKind.PAUSE)
    wait(world, 35)
    (hour,) = ledger_of(world, JOB).hours.values()
    assert (hour.owed, hour.runs, dict(hour.skipped)) == (4, 1, {"paused": 3})


def test_a_second_chain_is_doubled(world: World) -> None:
    story(world)
    events = events_of(world)
    last = next(record for record in reversed(events) if made(record))
    event = event_of(last)
    second = event._replace(run_id=make_run_id(JOB, event.detail.fire_at + US_PER_S))  # type: ignore[union-attr]
    doubled = [*events, _like(last, second, len(events) + 1_000)]
    kinds = [kind for kind, _ in faults(ledger(world, doubled, world.clock.now()))]
    assert kinds == [FaultKind.DOUBLED]


def _like(record: Dumped, event: RunEvent, offset: int) -> Dumped:
    return record | {"value": codec.encode_event(event), "offset": offset}


def _damaged(events: list[Dumped]) -> Iterator[tuple[str, list[Dumped]]]:
    """Each record that decides a fire or ends a run, dropped, doubled or moved to another fire."""
    for place, record in enumerate(events):
        event = event_of(record)
        if event.kind in (EventKind.PENDING, EventKind.SKIPPED):
            rest = events[:place], events[place + 1 :]
            yield f"{event.kind} {place} dropped", [*rest[0], *rest[1]]
            again = record | {"offset": int(str(record["offset"])) + 10_000}
            yield f"{event.kind} {place} doubled", [*events, again]
            run_id = make_run_id(JOB, event.detail.fire_at + 1) if event.kind is EventKind.PENDING else event.run_id  # type: ignore[union-attr]
            detail = event.detail
            if event.kind is EventKind.SKIPPED:
                detail = detail._replace(from_at=detail.from_at + 1, to_at=detail.to_at + 1)  # type: ignore[union-attr]
            yield f"{event.kind} {place} moved", [*rest[0], record | {"value": codec.encode_event(
                event._replace(run_id=run_id, detail=detail))}, *rest[1]]  # fmt: skip


def test_the_judge_flags_every_decision_that_is_dropped_doubled_or_moved(world: World) -> None:
    story(world)
    wait(world, 30)
    events = events_of(world)
    assert judged(world, events) == []
    damaged = list(_damaged(events))
    assert len(damaged) >= 12
    assert [what for what, left in damaged if not judged(world, left)] == []


@pytest.mark.parametrize("off_us", [1, -1, US_PER_S, -US_PER_S])
def test_the_judge_flags_an_end_that_counts_from_another_instant(world: World, off_us: int) -> None:
    story(world)
    wait(world, 30)
    events = events_of(world)
    place = max(each for each, record in enumerate(events) if made(record))
    event = event_of(events[place])
    moved = event._replace(run_id=make_run_id(JOB, event.detail.fire_at + off_us))  # type: ignore[union-attr]
    events[place] = events[place] | {"value": codec.encode_event(moved)}
    assert any("owed was" in each for each in judged(world, events))
