"""What versions of a job have due in one instant is decided together, whatever comes just then."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest
from waterclock.dispatcher import owed
from waterclock.dispatcher.expected import expected, may_be_decided
from waterclock.dispatcher.pace import Pace
from waterclock.dispatcher.position import Position
from waterclock.dispatcher.shard import Shard

from tests.unit.dispatcher_world import NAMES, START, World, every, store_away
from tests.unit.test_dispatcher_calendars import freeze
from tests.unit.test_dispatcher_gaps import PLACE, away, judged, progress
from tests.unit.test_dispatcher_timing import dues, fires, skips
from waterclock.log.port import Committed
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, JobSpec, JobStatus, JobVersion, Tier
from waterclock.model.timing import Misfire, Timing

S = US_PER_S
JOB = "t:n"
DUE = START + 40 * S
ONE_BY_ONE = Pace(round_records=1)
ALL = Timing(misfire=Misfire.ALL)
TIERS = [(Tier.MEDIUM, Tier.MEDIUM), (Tier.HIGH, Tier.LOW), (Tier.LOW, Tier.HIGH)]


def late(placed_s: int, **more: object) -> JobSpec:
    """It fires ten seconds after the start, and is due so much later."""
    timing = Timing(misfire=Misfire.ALL, jitter_us=600 * S, balanced=True, placed_us=placed_s * S)
    return every(3_600, start_at=START + 10 * S, timing=timing, **more)


def two_versions(tiers: tuple[Tier, Tier]) -> World:
    """Two versions of a job have a fire in one instant, before and behind others; the first of them is just made."""
    world = World(partitions=1, pace=ONE_BY_ONE)
    for job_id in ("t:a", "t:z"):
        world.command(CommandKind.CREATE, job_id, every(3_600, start_at=DUE, timing=ALL))
    world.command(CommandKind.CREATE, JOB, late(30, tier=tiers[0]))
    world.run(20)
    world.command(CommandKind.UPDATE, JOB, every(3_600, start_at=DUE, timing=ALL, tier=tiers[1]))
    world.run(19.5)
    until_made(world, 1, JOB)
    return world


def until_made(world: World, count: int, job_id: str = "") -> None:
    """Goes on until so many runs stand in the log, and no further."""
    for _ in range(500):
        if len(world.runs(job_id)) >= count:
            return
        world.steps(1)
        world.clock.advance(20_000)
    raise AssertionError("they are not made")


def of_job(world: World) -> list[int]:
    return sorted(round(at) for at in fires(world, JOB))


@pytest.mark.parametrize("tiers", TIERS)
@pytest.mark.parametrize("away_s", [0, 30, 200])
def test_a_crash_between_two_versions_of_one_instant_loses_neither(tiers: tuple[Tier, Tier], away_s: int) -> None:
    world = two_versions(tiers)
    away(world, away_s)
    world.run(40)
    assert of_job(world) == [10, 40]
    assert len(dues(world)) == 4
    judged(world)


@pytest.mark.parametrize("tiers", TIERS)
@pytest.mark.parametrize("kind", [CommandKind.PAUSE, CommandKind.DELETE, CommandKind.UPDATE])
@pytest.mark.parametrize("away_s", [5, 200])
def test_a_command_that_finds_its_shard_inside_such_an_instant_finds_both_decided(
    kind: CommandKind, tiers: tuple[Tier, Tier], away_s: int
) -> None:
    world = two_versions(tiers)
    changed = every(3_600, start_at=START, tier=Tier.MEDIUM) if kind is CommandKind.UPDATE else None
    world.command(kind, JOB, changed)
    away(world, away_s)
    world.run(40)
    assert of_job(world) == [10, 40]
    assert skips(world) == {}
    judged(world)


@pytest.mark.parametrize("tiers", TIERS)
def test_a_lost_cursor_is_built_anew_before_what_others_have_due_in_such_an_instant(tiers: tuple[Tier, Tier]) -> None:
    world = two_versions(tiers)
    group = world.cluster.group(NAMES.group("dispatcher"))
    world.cluster.kill(f"d1-{world.lives}")
    committed = group.committed(PLACE)
    assert committed is not None
    group.commit({PLACE: Committed(committed.offset, "")})
    world.dispatcher = world.start()
    world.run(20)
    assert of_job(world) == [10, 40]
    assert {run_id.partition("@")[0] for run_id in world.runs()} == {"t:a", JOB, "t:z"}
    judged(world)


@pytest.mark.parametrize("tiers", [(Tier.HIGH, Tier.LOW), (Tier.HIGH, Tier.MEDIUM), (Tier.LOW, Tier.HIGH)])
@pytest.mark.parametrize("changed_again_s", [9, 12])
@pytest.mark.parametrize("away_s", [1, 200])
@pytest.mark.parametrize("crashes", [False, True])
def test_a_fire_that_one_tier_puts_before_the_cursor_and_the_next_behind_it_is_made_once(
    tiers: tuple[Tier, Tier], changed_again_s: int, away_s: int, *, crashes: bool
) -> None:
    """Two changes wait for Cassandra while others of the instant go out; then their owner dies inside it."""
    world = World(partitions=1, pace=ONE_BY_ONE)
    for job_id in ("t:a", "t:z"):
        world.command(CommandKind.CREATE, job_id, every(3_600, start_at=DUE, timing=ALL))
    world.command(CommandKind.CREATE, JOB, late(30, tier=Tier.LOW))
    world.run(8)
    world.tables.on_call = store_away
    world.run(0.5)
    world.command(CommandKind.UPDATE, JOB, late(30, tier=tiers[0]))
    world.run(changed_again_s - 8.5)
    world.command(CommandKind.UPDATE, JOB, late(30, tier=tiers[1]))
    world.run(39.5 - changed_again_s)
    until_made(world, 2)
    world.tables.on_call = None
    away(world, away_s)
    until_made(world, 3)
    if crashes:
        world.crash()
    world.run(40)
    assert of_job(world) == [10]
    judged(world)


def test_the_other_version_may_be_blocked_then() -> None:
    world = World(partitions=1, pace=ONE_BY_ONE)
    world.command(CommandKind.CREATE, JOB, late(30, tier=Tier.HIGH))
    world.run(20)
    timing = Timing(calendars=(freeze(1, (40, 120)),))
    world.command(CommandKind.UPDATE, JOB, every(1, start_at=START + 40 * S, timing=timing, tier=Tier.LOW))
    world.run(45)
    world.crash()
    world.run(90)
    assert fires(world)[0] == 10
    assert skips(world) == {"calendar": 80}
    assert progress(world).gaps == ()
    judged(world)


def test_what_a_job_of_many_versions_still_owes_is_found_in_one_walk_through_them() -> None:
    """A job may have a thousand of which fires are undecided, and a look for rows holds up all others."""
    count, spec = 200, every(600, start_at=START, timing=Timing(jitter_us=200 * S))
    versions = [
        JobVersion(JOB, number, replace(spec, payload=b"%d" % number), JobStatus.ACTIVE, "", START + number * S)
        for number in range(count, 0, -1)
    ]
    shard = Shard(0, 1, 1, Position(START + count * S, Tier.HIGH, "t:a"), count + 1)
    with mock.patch.object(owed, "fire_edge", wraps=owed.fire_edge) as asked:
        found = [each for each in expected(shard, versions) if not may_be_decided(each, versions)]
    assert [each.version.revision for each in found] == [count]
    assert asked.call_count <= 3 * count
