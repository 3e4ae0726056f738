"""What a shard owner makes of jobs that others start: what it says on ``triggers``, and the runs of such commands."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.dispatcher_world import NAMES, World, every
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.events import EventKind, Origin, Pending, RunEvent
from waterclock.model.job import NEVER, CommandKind, JobSpec, JobStatus, Tier
from waterclock.model.triggers import HOPS_MAX, Ended, JobTriggers, RunEnds, Triggers
from waterclock.store.memory import MemoryStore
from waterclock.wire import codec

JOB = "acme:report"
SOURCE = "acme:load@20261121T090000Z"
ON_LOAD = JobSpec("demo.noop", NEVER, on=Triggers((RunEnds("load"),)))


def told(world: World) -> list[JobTriggers | None]:
    """What the topic says, oldest first; None: a tombstone."""
    records = world.records(NAMES.triggers)
    return [codec.decode_job_triggers(record.value) if record.value else None for record in records]  # type: ignore[attr-defined]


def stands(world: World) -> JobTriggers:
    found = told(world)[-1]
    assert found is not None
    return found


def trigger(world: World, source: str = SOURCE, hops: int = 1, **more: object) -> None:
    world.command(CommandKind.TRIGGER, JOB, triggered_by=source, hops=hops, command_id=f"{source}/succeeded", **more)
    world.run(0.5)


def pending(world: World) -> list[RunEvent]:
    return world.events(EventKind.PENDING)


def detail(event: RunEvent) -> Pending:
    assert isinstance(event.detail, Pending)
    return event.detail


def test_what_starts_a_job_is_told_when_it_is_saved_and_when_that_changes_only() -> None:
    world = World()
    world.command(CommandKind.CREATE, JOB, ON_LOAD)
    world.run(1)
    first = stands(world)
    assert (first.job_id, first.on) == (JOB, ON_LOAD.on)
    assert first.on.since == (first.stamp_at,)
    world.command(CommandKind.UPDATE, JOB, replace(ON_LOAD, payload=b"2"))
    world.command(CommandKind.PAUSE, JOB)
    world.run(1)
    assert told(world) == [first]
    both = Triggers((RunEnds("other"), RunEnds("load")))
    world.command(CommandKind.UPDATE, JOB, replace(ON_LOAD, on=both))
    world.run(1)
    assert stands(world).on.since == (stands(world).stamp_at, first.stamp_at)


def test_what_is_lost_of_the_topic_is_told_again_by_an_edit_of_what_starts_the_job_and_by_no_other() -> None:
    world = World()
    world.command(CommandKind.CREATE, JOB, ON_LOAD)
    world.run(1)
    first = stands(world)
    world.cluster.delete_topic(NAMES.triggers)
    world.cluster.create_topic(NAMES.triggers, 1, compact=True)
    world.command(CommandKind.UPDATE, JOB, replace(ON_LOAD, payload=b"2"))
    world.run(1)
    assert told(world) == []
    world.command(CommandKind.UPDATE, JOB, replace(ON_LOAD, on=Triggers((RunEnds("load"), RunEnds("none")))))
    world.command(CommandKind.UPDATE, JOB, ON_LOAD)
    world.run(1)
    assert (stands(world).on, stands(world).on.since) == (first.on, first.on.since)


def test_what_starts_a_job_is_forgotten_with_the_job_or_its_conditions() -> None:
    world = World()
    world.command(CommandKind.CREATE, JOB, ON_LOAD)
    world.command(CommandKind.UPDATE, JOB, every(3_600))
    world.run(1)
    assert told(world)[1:] == [None]
    first = told(world)[0]
    world.command(CommandKind.ROLLBACK, JOB, to_revision=first.revision if first else 0)
    world.run(1)
    assert stands(world).on.since == (stands(world).stamp_at,)
    world.command(CommandKind.DELETE, JOB)
    world.run(1)
    assert told(world)[-1] is None
    world.command(CommandKind.CREATE, JOB, ON_LOAD)
    world.run(1)
    assert stands(world).on == ON_LOAD.on


def test_jobs_that_nothing_starts_say_nothing() -> None:
    world = World()
    world.command(CommandKind.CREATE, JOB, every(3_600))
    world.command(CommandKind.DELETE, JOB)
    world.run(1)
    assert told(world) == []


def test_a_job_without_fires_stands_and_makes_none() -> None:
    world = World()
    world.command(CommandKind.CREATE, JOB, ON_LOAD)
    world.run(130)
    assert (pending(world), world.events(EventKind.SKIPPED)) == ([], [])
    row = MemoryStore(world.clock, world.tables, "looker").job(JOB)
    assert row is not None
    assert row.status is JobStatus.ACTIVE


def test_an_end_makes_one_run_that_says_what_started_it_and_a_repeat_makes_none() -> None:
    world = World()
    world.command(CommandKind.CREATE, JOB, ON_LOAD)
    trigger(world)
    trigger(world)
    world.crash()
    trigger(world)
    (made,) = pending(world)
    (work,) = world.records(NAMES.runs(Tier.MEDIUM))
    assert codec.decode_work(work.value).triggered_by == SOURCE  # type: ignore[attr-defined]
    assert (detail(made).origin, detail(made).triggered_by, detail(made).hops) == (Origin.TRIGGER, SOURCE, 1)
    trigger(world, "acme:load@20261121T100000Z")
    assert len(pending(world)) == 2


def test_a_run_that_was_held_still_says_what_started_it() -> None:
    world = World()
    alone = replace(ON_LOAD, concurrency=Concurrency(Overlap.BUFFER_ALL))
    world.command(CommandKind.CREATE, JOB, alone)
    trigger(world)
    trigger(world, "acme:load@20261121T100000Z", 3)
    (held,) = world.events(EventKind.HELD)
    assert (detail(held).triggered_by, detail(held).hops) == ("acme:load@20261121T100000Z", 3)
    world.crash()
    (first,) = pending(world)
    world.command(CommandKind.CANCEL, JOB, run_id=first.run_id)
    world.run(2)
    released = pending(world)[1]
    assert released.run_id == held.run_id
    assert (detail(released).triggered_by, detail(released).hops) == ("acme:load@20261121T100000Z", 3)


def test_a_ring_of_jobs_comes_to_an_end_that_says_why() -> None:
    world = World()
    world.command(CommandKind.CREATE, JOB, ON_LOAD)
    trigger(world, hops=HOPS_MAX)
    trigger(world, "acme:load@20261121T100000Z", HOPS_MAX + 1)
    assert len(pending(world)) == 1
    (refused,) = world.records(NAMES.rejects)
    reject = codec.decode_reject(refused.value)  # type: ignore[attr-defined]
    assert reject.pointer == "/hops"
    assert "acme:load@20261121T100000Z" in reject.reason


def test_a_command_that_no_door_has_checked_is_refused() -> None:
    world = World()
    for bad in (Triggers(()), Triggers((RunEnds("report", Ended.ANY),)), Triggers((RunEnds("a"), RunEnds("a")))):
        world.command(CommandKind.CREATE, JOB, replace(ON_LOAD, on=bad))
    world.command(CommandKind.CREATE, JOB, JobSpec("demo.noop", NEVER))
    world.run(1)
    assert len(world.records(NAMES.rejects)) == 4
    assert told(world) == []
