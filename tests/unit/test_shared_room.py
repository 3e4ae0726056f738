"""Bounds of a shard that all tenants share: one that fills them leaves room for the others."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waterclock.dispatcher import admitting, backfill_orders, gathering, window
from waterclock.dispatcher.gathering import Gatherings

from tests.unit.backfill_world import BackfillWorld
from tests.unit.dispatcher_world import START, World
from tests.unit.test_overlap import define_job, rest, say, start, told
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.events import Ended, EventKind, Skipped
from waterclock.model.gathering import Arrival, Gathering
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Delay, Every, JobSpec, JobStatus
from waterclock.model.shared_room import finds_room
from waterclock.model.timing import Timing
from waterclock.store.memory import MemoryStore

NEVER_SOON = Every(60 * US_PER_S, START + 3_600 * US_PER_S)
OTHER = "u:other"


@pytest.fixture
def world():
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        yield World(partitions=1)


def crowd(world: World, count: int) -> None:
    """One run of each of so many jobs of a tenant, all open."""
    names = [f"t:crowd{number}" for number in range(count)]
    for name in names:
        world.command(CommandKind.CREATE, name, JobSpec("demo.noop", NEVER_SOON, concurrency=Concurrency(Overlap.SKIP)))
    for name in names:
        world.command(CommandKind.TRIGGER, name)
    rest(world)


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 100), st.integers(1, 20))
def test_who_has_more_than_half_leaves_a_tenth_and_nobody_passes_the_bound(
    mine: int, others: int, most: int, more: int
) -> None:
    finds = finds_room(mine, mine + others, most, more=more)
    assert not finds or mine + others + more <= most
    if mine > most / 2:
        assert not finds or mine + others + more <= most * 0.9
    elif mine <= most // 2:
        assert finds == (mine + others + more <= most)


def test_payloads_of_one_tenant_that_wait_leave_room_for_those_of_others(world: World) -> None:
    for job_id in (OTHER, "t:job"):
        define_job(world, job_id, Concurrency(Overlap.BUFFER_ALL))
    with mock.patch.object(admitting, "HELD_BYTES_MAX", 100):
        for payload in (b"1", b"1" * 40, b"1" * 40, b"1" * 20, b"1" * 10):
            world.command(CommandKind.TRIGGER, "t:job", payload=payload)
        for payload in (b"1", b"1" * 10):
            world.command(CommandKind.TRIGGER, OTHER, payload=payload)
        rest(world)
        kinds = [[line.split()[0] for line in told(world, job_id)] for job_id in ("t:job", OTHER)]
        assert kinds == [["PENDING", "HELD", "HELD", "SKIPPED", "HELD"], ["PENDING", "HELD"]]
        world.crash()
        rest(world)
        world.command(CommandKind.TRIGGER, "t:job", payload=b"1")
        rest(world)
    assert told(world, "t:job")[-1].startswith("SKIPPED")
    flow = world.dispatcher._shards[0].flow
    assert (flow.held_bytes, dict(flow.held_bytes_of)) == (100, {"t": 90, "u": 10})


def test_fixed_delays_go_on_beside_a_tenant_that_has_filled_half_of_the_room(world: World) -> None:
    with mock.patch.object(admitting, "RUNS_MAX", 40):
        crowd(world, 36)
        world.command(CommandKind.CREATE, OTHER, JobSpec("demo.noop", Delay(10 * US_PER_S)))
        rest(world)
        world.clock.advance(US_PER_S)
        rest(world)
        assert len(world.runs(OTHER)) == 1


def test_failures_count_beside_a_tenant_that_has_filled_half_of_the_room(world: World) -> None:
    with mock.patch.object(admitting, "RUNS_MAX", 40):
        crowd(world, 36)
        counted = JobSpec("demo.noop", NEVER_SOON, timing=Timing(pause_after_failures=1))
        world.command(CommandKind.CREATE, OTHER, counted)
        world.command(CommandKind.TRIGGER, OTHER)
        rest(world)
        (run_id,) = world.runs(OTHER)
        say(world, run_id, EventKind.ATTEMPT_FAILED, token=start(world, run_id), detail=Ended(0))
        say(world, run_id, EventKind.RUN_FAILED, reason="attempts")
        rest(world)
    row = MemoryStore(world.clock, world.tables, "looking").job(OTHER)
    assert row is not None
    assert row.status is JobStatus.PAUSED


def test_windows_of_one_tenant_leave_room_for_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "WINDOWS_MAX", 10)
    windows = Gatherings()
    opened = 0
    for number in range(12):
        job_id = f"t:job{number}"
        if windows.has_room(job_id):
            windows.put(Gathering(job_id, 1, 1, 5_000, (Arrival("t:load", 1, 1, 1, (0,)),)))
            windows.put(Gathering(job_id, 1, 1, 5_000, ()))
            opened += 1
    assert (opened, windows.has_room(OTHER)) == (9, True)
    windows.drop("t:job0")
    windows.drop("t:job0")
    assert windows.has_room("t:job0")
    windows.put(Gathering("t:job0", 1, 1, 5_000, ()))
    assert not windows.has_room("t:job9")


def test_backfills_of_one_tenant_leave_room_for_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill_orders, "OF_SHARD_MAX", 10)
    world = BackfillWorld()
    for job_id in ("t:a", "t:b", OTHER):
        world.define(job_id=job_id)
    for number in range(12):
        world.ask(-20, 0, "t:a" if number % 2 else "t:b", concurrency=1)
    world.ask(-20, 0, OTHER)
    world.rest()
    verdicts = [str(answer.verdict) for answer in world.answers()]
    assert verdicts == [*["applied"] * 9, *["refused"] * 3, "applied"]


def test_runs_of_backfills_leave_the_last_room_of_a_shard_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitting, "RUNS_MAX", 10)
    world = BackfillWorld()
    world.define(job_id="t:job")
    limited = JobSpec("demo.noop", NEVER_SOON, concurrency=Concurrency(Overlap.SKIP))
    world.define(limited, OTHER)
    world.wait(60)
    world.ask(-20, 0, "t:job", concurrency=20)
    world.wait(10)
    assert len(world.made("t:job")) == 9
    world.command(CommandKind.TRIGGER, OTHER)
    world.rest()
    caps = [event.detail.cap for event in world.events(EventKind.SKIPPED) if isinstance(event.detail, Skipped)]
    assert (caps, len(world.pendings(OTHER))) == ([], 1)
