"""A job's pause covers every fire until the command that ends it is applied, also where that waits for Cassandra.

Such a command counts from its own time, but what fired by the time it is applied is decided: by the pause.
"""

from __future__ import annotations

from collections import Counter

import pytest
from waterclock.dispatcher import applying, jump

from tests.oracle import books
from tests.unit.dispatcher_world import NAMES, START, World, beside_a_beat, every, raw, store_away
from tests.unit.ledger_of import ledger_of
from waterclock.model.events import EventKind, Skipped
from waterclock.model.ids import US_PER_S, Instant, parse_run_id
from waterclock.model.job import CommandKind, JobSpec, Once
from waterclock.model.timing import Timing

JOB = "t:job"
TEN_S = 10 * US_PER_S
FIRST = START + TEN_S


def tens(jitter_s: int = 0, **more: object) -> JobSpec:
    """Every ten seconds."""
    return every(10, start_at=FIRST, timing=Timing(jitter_us=jitter_s * US_PER_S, **more))  # type: ignore[arg-type]


def world_with(spec: JobSpec) -> World:
    """At 20.5 s: the job has fired twice."""
    return beside_a_beat(JOB, spec, 0.5)


def paused_world(spec: JobSpec | None = None, resume_at: Instant = 0) -> World:
    """At 35.5 s; paused 15 s ago."""
    world = world_with(tens() if spec is None else spec)
    world.command(CommandKind.PAUSE, JOB, note="the bank is shut", resume_at=resume_at)
    world.run(15)
    return world


def late(world: World, *given: tuple[CommandKind, dict[str, object]], away_s: float = 45) -> None:
    """The commands are given while Cassandra is away, and applied together when it is back."""
    world.tables.on_call = store_away
    for kind, more in given:
        world.command(kind, JOB, **more)  # type: ignore[arg-type]
    world.run(away_s)
    world.tables.on_call = None
    world.run(30)


def decided(world: World) -> Counter[Instant]:
    """How often each fire of the job was run or recorded."""
    found = Counter(parse_run_id(run_id).fire_at for run_id in world.runs(f"{JOB}@"))
    for event in world.events(EventKind.SKIPPED):
        if event.job_id == JOB and isinstance(event.detail, Skipped):
            found.update(range(event.detail.from_at, event.detail.to_at + 1, TEN_S))
    return found


def check(world: World, until: Instant = 0) -> None:
    """Each fire is a run or a record, once; judge and ledger say so, too."""
    until = until or world.clock.now() - TEN_S
    assert {at: count for at, count in decided(world).items() if at <= until} == dict.fromkeys(
        range(FIRST, until + 1, TEN_S), 1
    )
    commands, events = ([raw(each) for each in world.records(name)] for name in (NAMES.commands, NAMES.run_events))
    assert books.balance(commands, events, world.clock.now() - TEN_S)[0] == []
    assert [fault for hour in ledger_of(world, JOB).hours.values() for fault in hour.named] == []


def paused_counts(world: World) -> list[int]:
    skipped = [event for event in world.events(EventKind.SKIPPED) if event.reason == "paused" and event.job_id == JOB]
    return [event.detail.fire_count for event in skipped if isinstance(event.detail, Skipped)]


RESUME = (CommandKind.RESUME, dict[str, object]())


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("jitter_s", [0, 4])
def test_every_fire_of_a_job_that_is_resumed_while_the_store_is_away_is_run_or_recorded(
    jitter_s: int, *, crashes: bool
) -> None:
    world = paused_world(tens(jitter_s))
    late(world, RESUME)
    if crashes:
        world.crash()
        world.run(30)
    check(world)
    assert sum(paused_counts(world)) == 6  # until the resume was applied at 80.5 s


def test_a_resume_that_is_applied_a_moment_behind_a_fire_loses_none() -> None:
    """No outage is needed: the fire at 40 s is decided before the command is read that was given before it."""
    world = paused_world()
    world.run(4.4)
    late(world, RESUME, away_s=0.4)
    check(world)
    assert paused_counts(world) == [2]


def test_a_pause_whose_end_comes_while_the_store_is_away_lasts_until_it_is_back() -> None:
    resume_at = START + 50 * US_PER_S
    world = paused_world(resume_at=resume_at)
    late(world, away_s=35)
    check(world)
    (count,) = paused_counts(world)
    assert count >= 3


@pytest.mark.parametrize(
    "change",
    [
        (CommandKind.UPDATE, {"spec": tens(expect_within_us=3_600 * US_PER_S)}),
        (CommandKind.UPDATE, {"spec": tens(4)}),
        (CommandKind.PAUSE, {"note": "it is still shut"}),
    ],
)
@pytest.mark.parametrize("resumes", [False, True])
def test_a_pause_goes_on_across_a_late_change(change: tuple[CommandKind, dict[str, object]], *, resumes: bool) -> None:
    world = paused_world()
    late(world, change, *[RESUME] * resumes)
    world.command(CommandKind.RESUME, JOB)
    world.run(30)
    check(world)


@pytest.mark.parametrize("widths", [(2, 4), (4, 2), (0, 4)])
def test_no_fire_is_skipped_and_then_run_under_another_jitter(widths: tuple[int, int]) -> None:
    before, after = widths
    for away_s in (41, 43, 44, 46, 47, 48):
        world = paused_world(tens(before, jitter_per_fire=True))
        change: dict[str, object] = {"spec": tens(after, jitter_per_fire=True)}
        late(world, (CommandKind.UPDATE, change), RESUME, away_s=away_s)
        assert max(decided(world).values()) == 1
        commands, events = ([raw(each) for each in world.records(name)] for name in (NAMES.commands, NAMES.run_events))
        assert books.balance(commands, events, world.clock.now() - TEN_S)[0] == []


def test_what_ran_until_a_late_pause_was_applied_stays_run() -> None:
    world = world_with(tens())
    late(world, (CommandKind.PAUSE, {}), RESUME)
    check(world)
    assert paused_counts(world) == []


def test_a_job_that_is_resumed_and_paused_again_while_the_store_is_away_stays_paused() -> None:
    world = paused_world()
    late(world, RESUME, (CommandKind.PAUSE, {}))
    runs = len(world.runs(JOB))
    world.command(CommandKind.RESUME, JOB)
    world.run(30)
    check(world)
    assert paused_counts(world) == [6, 3]
    assert runs == 2


def test_what_a_late_delete_of_a_paused_job_finds_undecided_is_skipped_with_its_pause() -> None:
    world = paused_world()
    late(world, (CommandKind.DELETE, {}))
    assert paused_counts(world) == [6]
    check(world, until=START + 80 * US_PER_S)


def test_a_one_off_that_is_resumed_late_runs_and_is_not_skipped() -> None:
    world = paused_world(JobSpec("demo.noop", Once(START + 60 * US_PER_S)))
    late(world, RESUME)
    assert len(world.runs(JOB)) == 1
    assert paused_counts(world) == []


@pytest.mark.parametrize("is_paused", [True, False])
@pytest.mark.parametrize("crashes", [False, True])
def test_a_pause_of_hours_remembers_what_was_decided_before_a_late_edit_of_the_jitter(
    *, is_paused: bool, crashes: bool
) -> None:
    """Under the new jitter the fire at 80 s would come behind the edge; it has run, or was skipped."""
    for away_s in (41, 46) if is_paused else (41,):
        world = world_with(tens())
        if is_paused:
            world.command(CommandKind.PAUSE, JOB)
            world.run(15)
        changed: dict[str, object] = {"spec": tens(4, jitter_per_fire=True)}
        late(world, (CommandKind.UPDATE, changed), (CommandKind.PAUSE, {"note": "for hours"}), away_s=away_s)
        if crashes:
            world.crash()
        world.run(2_400, 0.5)
        world.command(CommandKind.RESUME, JOB)
        world.run(20)
        assert max(decided(world).values()) == 1
        commands, events = ([raw(each) for each in world.records(name)] for name in (NAMES.commands, NAMES.run_events))
        assert books.balance(commands, events, world.clock.now() - TEN_S)[0] == []


def test_a_pause_ends_in_time_although_its_shard_is_still_taking_in_a_long_absence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given that the rows of the absence take a minute to read, and the pause ends meanwhile."""
    resume_at = FIRST + 600 * US_PER_S
    world = paused_world(resume_at=resume_at)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(resume_at - 20 * US_PER_S - world.clock.now())
    sweep = jump.sweep

    def slow(*given: object) -> None:
        if world.clock.now() > resume_at + 40 * US_PER_S:
            sweep(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(jump, "sweep", slow)
    world.dispatcher = world.start()
    world.run(90)
    (skipped,) = [event.detail for event in world.events(EventKind.SKIPPED) if event.job_id == JOB]
    assert isinstance(skipped, Skipped)
    assert skipped.to_at == resume_at - TEN_S
    fires = sorted(parse_run_id(run_id).fire_at for run_id in world.runs(f"{JOB}@"))
    assert fires[2:] == list(range(resume_at, world.clock.now() + 1, TEN_S))


def test_the_end_of_a_pause_is_asked_for_although_commands_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It passed while nobody was there; whoever takes over applies a command each turn, and as many come."""
    monkeypatch.setattr(applying, "BATCH", 1)
    world = World(partitions=1)
    for job_id, seconds in ((JOB, 10), ("t:other", 3_600)):
        world.command(CommandKind.CREATE, job_id, every(seconds))
    world.run(5)
    world.command(CommandKind.PAUSE, JOB, resume_at=world.clock.now() + 30 * US_PER_S)
    world.run(5)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(40 * US_PER_S)
    world.dispatcher = world.start()
    before = len(world.runs(JOB))
    for _ in range(20):  # they stand in the log when it takes over
        world.command(CommandKind.TRIGGER, "t:other")
    for _ in range(300):
        world.command(CommandKind.TRIGGER, "t:other")
        world.steps(1)
        world.clock.advance(100_000)
    assert world.dispatcher._shards[0].inbox
    assert len(world.runs(JOB)) > before
