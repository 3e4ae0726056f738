"""Pauses that end by themselves and rollbacks of jobs with jitter, ends and misfire policies: the books balance."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.oracle import books, makings, misfires, owed, pauses
from tests.unit.dispatcher_world import NAMES, START, World, every, raw
from waterclock.model.events import EventKind, Pending, Skipped
from waterclock.model.ids import US_PER_S, Instant, ordinal
from waterclock.model.job import CommandKind, JobSpec, Tier
from waterclock.model.job_state import JobState
from waterclock.model.timetable import offset_of
from waterclock.model.timing import CatchUpOrder, Misfire, Timing
from waterclock.wire import codec

S = US_PER_S
WIDE_US = 60 * S
JOB = next(f"t:j{number}" for number in range(99) if 40 * S < offset_of(f"t:j{number}", WIDE_US) < 50 * S)
OFFSET_US = offset_of(JOB, WIDE_US)
SLOW = every(120, timing=Timing(jitter_us=WIDE_US), start_at=START)


def judged(world: World) -> Counter[str]:
    """The judges' counts, of books that balance."""
    until = world.clock.now() - 1
    rules = owed.Rules(skew=S)
    commands = [raw(record) for record in world.records(NAMES.commands)]
    events = [raw(record) for record in world.records(NAMES.run_events)]
    work = [raw(record) for tier in Tier for record in world.records(NAMES.runs(tier))]
    complaints, counts = books.balance(commands, events, until, rules)
    late, more = misfires.check(commands, events, until, rules)
    ends, others = pauses.check(commands, events, until, START, 200 * S, rules)
    assert complaints + late + ends + makings.check(commands, events, work, rules)[0] == []
    return counts + more + others


def fires(world: World) -> list[float]:
    found = [event.detail for event in world.events(EventKind.PENDING)]
    return [(detail.fire_at - START) / S for detail in found if isinstance(detail, Pending)]


def skipped(world: World) -> list[tuple[str, float, float]]:
    return [
        (event.reason, (event.detail.from_at - START) / S, (event.detail.to_at - START) / S)
        for event in world.events(EventKind.SKIPPED)
        if isinstance(event.detail, Skipped)
    ]


def kept(world: World) -> JobState:
    """What the state topic holds of the job."""
    states = [record for record in world.records(NAMES.state("dispatcher")) if record.key == JOB.encode()]  # type: ignore[attr-defined]
    return codec.decode_job_state(states[-1].value)  # type: ignore[attr-defined]


@pytest.mark.parametrize("crash_at_s", [None, 235, 245, 270])
def test_what_fires_before_the_end_of_a_pause_counts_as_paused_though_it_is_due_after_it(
    crash_at_s: float | None,
) -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, SLOW)
    world.run(70, step_s=0.25)
    world.command(CommandKind.PAUSE, JOB, resume_at=START + 250 * S)  # the fire at 240 is due at 280 or later
    if crash_at_s is not None:
        world.run(crash_at_s - 70, step_s=0.25)
        world.crash()
    world.run(440 - (crash_at_s or 70), step_s=0.25)
    assert fires(world) == [0, 360][-len(fires(world)) :]
    assert 360 in fires(world)
    assert ("paused", 120, 240) in skipped(world)
    judged(world)


def test_the_fire_at_the_end_of_a_pause_is_owed_when_it_is_due() -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, SLOW)
    world.run(100, step_s=0.25)
    world.command(CommandKind.PAUSE, JOB, resume_at=START + 240 * S)
    world.run(135, step_s=0.25)
    world.crash()
    world.run(100, step_s=0.25)
    assert fires(world)[-1] == 240
    assert ("paused", 120, 120) in skipped(world)
    event = world.events(EventKind.PENDING)[-1]
    assert isinstance(event.detail, Pending)
    assert event.detail.due_at == START + 240 * S + OFFSET_US
    judged(world)


def test_the_record_of_a_paused_job_keeps_its_end_and_what_is_decided_by_fire_time() -> None:
    world = World(partitions=1)
    world.command(CommandKind.CREATE, JOB, SLOW)
    world.run(125, step_s=0.25)
    resume_at = START + 400 * S
    offset = world.command(CommandKind.PAUSE, JOB, resume_at=resume_at)
    world.run(2)
    first = kept(world)
    assert (first.paused, first.resume_at, first.revision) == (True, resume_at, ordinal(1, offset))
    assert first.fires_to_at >= START + 125 * S

    plain = world.command(CommandKind.UPDATE, JOB, every(120, start_at=START))
    world.run(2)
    second = kept(world)
    assert (second.paused, second.resume_at, second.revision) == (True, resume_at, ordinal(1, plain))
    assert second.fires_to_at >= first.fires_to_at

    world.command(CommandKind.RESUME, JOB)
    world.run(2)
    third = kept(world)
    assert (third.paused, third.resume_at, third.revision) == (False, 0, 0)
    assert third.fires_to_at >= second.fires_to_at
    world.crash()
    world.run(120, step_s=0.25)
    assert 120 not in fires(world)
    judged(world)


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_rollback_brings_back_another_timing(*, is_paused: bool) -> None:
    world = World(partitions=1)
    old = world.command(CommandKind.CREATE, JOB, SLOW)
    world.run(30, step_s=0.25)
    world.command(CommandKind.UPDATE, JOB, every(120, start_at=START, timing=Timing(until_at=START + 9_000 * S)))
    world.run(95, step_s=0.25)
    if is_paused:
        world.command(CommandKind.PAUSE, JOB, resume_at=START + 300 * S)
    world.command(CommandKind.ROLLBACK, JOB, to_revision=ordinal(1, old))
    world.run(2)
    world.crash()
    world.run(320, step_s=0.25)
    assert fires(world)[-2:] == ([120, 360] if is_paused else [240, 360])
    last = world.events(EventKind.PENDING)[-1]
    assert isinstance(last.detail, Pending)
    assert last.detail.due_at == START + 360 * S + OFFSET_US
    judged(world)


@pytest.mark.parametrize("seed", range(24))
def test_the_books_balance_over_any_history_of_pauses_rollbacks_and_timings(seed: int) -> None:
    rng = random.Random(seed)
    world = World(partitions=1)
    made = [world.command(CommandKind.CREATE, JOB, _spec(rng, START))]
    for _ in range(12):
        world.run(rng.choice([0, 0.25, 1.5, 7, 20]), step_s=0.25)
        _anything(rng, world, made)
    world.run(150, step_s=0.25)
    judged(world)


def _anything(rng: random.Random, world: World, made: list[int]) -> None:
    now = world.clock.now()
    match rng.choice(["update", "rollback", "rollback", "pause", "pause", "pause", "resume", "crash", "away"]):
        case "update":
            made.append(world.command(CommandKind.UPDATE, JOB, _spec(rng, now)))
        case "rollback":
            made.append(world.command(CommandKind.ROLLBACK, JOB, to_revision=ordinal(1, rng.choice(made))))
        case "pause":
            after_s = rng.choice([None, 1, 5, 10, 12, 30, 60])
            resume_at = 0 if after_s is None else (now // S + after_s) * S + rng.choice([0, 0, 1])
            made.append(world.command(CommandKind.PAUSE, JOB, resume_at=resume_at))
        case "resume":
            made.append(world.command(CommandKind.RESUME, JOB))
        case "crash":
            world.crash()
        case _:
            world.cluster.kill(f"d1-{world.lives}")
            world.clock.advance(rng.choice([5, 70, 200]) * S)
            world.dispatcher = world.start()


def _spec(rng: random.Random, now: Instant) -> JobSpec:
    seconds = rng.choice([2, 4, 10, 60])
    timing = Timing(
        misfire=rng.choice(list(Misfire)),
        catch_up_max=rng.choice([1, 3, 100]),
        catch_up_window_us=rng.choice([10, 60, 86_400]) * S,
        catch_up_order=rng.choice(list(CatchUpOrder)),
        jitter_us=rng.choice([0, rng.randint(1, seconds // 2) * S]),
        jitter_per_fire=rng.random() < 0.5,
    )
    if rng.random() < 0.2:
        timing = replace(timing, until_at=now + rng.randint(5, 200) * S)
    return every(seconds, start_at=START, timing=timing)
