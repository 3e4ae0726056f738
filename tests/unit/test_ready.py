"""A fire that was encoded before its instant is the fire that its job's newest version makes, or none."""

from __future__ import annotations

import pytest
from waterclock.dispatcher.emit import Emitter, Templates

from tests.unit.dispatcher_world import NAMES, START, World, every
from waterclock.model.events import EventKind
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import CommandKind, JobSpec, JobStatus, JobVersion, Once, Tier
from waterclock.wire.codec import decode_work

_DUE_AT = START + 30 * US_PER_S


def version() -> JobVersion:
    spec = JobSpec("demo.noop", Once(_DUE_AT), payload=b"{}")
    return JobVersion("t:once", 7, spec, JobStatus.ACTIVE, "", START, START)


def herd(world: World, count: int) -> None:
    world.run(1)
    for number in range(count):
        world.command(CommandKind.CREATE, f"t:once-{number}", JobSpec("demo.noop", Once(_DUE_AT)))


def made_ready(world: World) -> int:
    shards = world.dispatcher._shards.values()
    return sum(chain.ready is not None for shard in shards for chain in shard.timeline.soon(1 << 62, 1 << 30))


def test_what_was_made_ready_equals_what_is_made_at_the_instant() -> None:
    templates = Templates(NAMES)
    out = Emitter(templates)
    out.run(version(), fire_at=_DUE_AT, due_at=_DUE_AT, now=_DUE_AT)
    made = templates.ready(version(), _DUE_AT, _DUE_AT)
    assert [made.pending, made.work] == out.messages


def test_a_herd_is_ready_before_its_instant_and_runs_once() -> None:
    world = World()
    herd(world, 500)
    world.run(28.8)
    assert world.runs() == []
    assert made_ready(world) == 500, "slice by slice, all of it"
    world.run(2)
    assert sorted(world.runs()) == sorted(make_run_id(f"t:once-{number}", _DUE_AT) for number in range(500))
    assert len(world.work()) == 500


def test_what_is_far_away_is_not_made_ready() -> None:
    world = World()
    herd(world, 3)
    world.run(25)
    assert made_ready(world) == 0


@pytest.mark.parametrize("kind", [CommandKind.PAUSE, CommandKind.DELETE])
def test_a_fire_that_was_made_ready_does_not_outlive_its_job(kind: CommandKind) -> None:
    world = World()
    herd(world, 3)
    world.run(28.8)
    assert made_ready(world) == 3
    world.command(kind, "t:once-1")
    world.run(3)
    assert sorted(world.runs()) == [make_run_id(f"t:once-{number}", _DUE_AT) for number in (0, 2)]


def test_an_edit_wins_over_what_was_made_ready_for_the_version_before() -> None:
    world = World()
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(10, start_at=START))
    world.run(28.2)
    assert made_ready(world) >= 1
    world.command(CommandKind.UPDATE, "t:beat", every(10, start_at=START, payload=b'"new"'))
    world.run(3)
    fires = [event.detail.fire_at for event in world.events(EventKind.PENDING)]
    assert fires == [START + 10 * US_PER_S, START + 20 * US_PER_S, START + 30 * US_PER_S]
    payloads = {
        each.run_id: each.payload
        for each in (decode_work(record.value) for record in world.records(NAMES.runs(Tier.MEDIUM)))  # type: ignore[attr-defined]
    }
    assert payloads[make_run_id("t:beat", START + 30 * US_PER_S)] == b'"new"'


def test_the_heap_is_looked_at_to_a_bound() -> None:
    world = World(partitions=1)
    herd(world, 50)
    world.run(5)
    timeline = world.dispatcher._shards[0].timeline
    assert len(list(timeline.soon(1 << 62, 10))) <= 10
    assert len(list(timeline.soon(_DUE_AT, 1_000))) == 50
    assert list(timeline.soon(_DUE_AT - 1, 1_000)) == []
