"""Gaps and backfills of several shards and jobs share what one dispatcher may catch up: nobody starves another."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from waterclock.dispatcher import backfill_lanes, catch_up, window
from waterclock.dispatcher.backfill_lanes import BackfillLanes
from waterclock.dispatcher.backfills import Backfill, Backfills
from waterclock.dispatcher.gap_lanes import GapLanes
from waterclock.dispatcher.pace import Pace

from tests.unit.backfill_world import BackfillWorld
from tests.unit.dispatcher_world import NAMES, START, World, every
from tests.unit.test_dispatcher_gaps import away
from waterclock.clock import ManualClock
from waterclock.model.backfill import Backfilled, BackfillStatus
from waterclock.model.events import EventKind, Origin, Pending
from waterclock.model.ids import US_PER_S, partition_of
from waterclock.model.job import CommandKind, Cron, JobSpec, Tier

DAY_US = 86_400 * US_PER_S
FIRST = next(f"t:{number}" for number in range(100) if partition_of(f"t:{number}", 2) == 0)
SECOND = [f"t:{number}" for number in range(100) if partition_of(f"t:{number}", 2) == 1][:20]
ALL_FIRST = [f"t:{number}" for number in range(100) if partition_of(f"t:{number}", 2) == 0][:20]


@pytest.fixture(autouse=True)
def whole_minutes() -> Any:
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        yield


def made(world: World) -> list[Pending]:
    return [event.detail for event in world.events(EventKind.PENDING) if isinstance(event.detail, Pending)]


def caught_up(world: World, job_ids: list[str]) -> int:
    events = world.events(EventKind.PENDING)
    return sum(isinstance(each.detail, Pending) and each.detail.gap_to_at > 0 and each.job_id in job_ids
               for each in events)  # fmt: skip


def test_a_backfill_of_one_shard_leaves_the_rate_to_the_gap_of_another() -> None:
    world = World(partitions=2, pace=Pace(catch_up_per_s=2.0))
    world.command(CommandKind.CREATE, FIRST, JobSpec("demo.noop", Cron("0 0 1 1 *")))
    for job_id in SECOND:
        world.command(CommandKind.CREATE, job_id, every(10))
    world.run(2)
    away(world, 240)
    world.command(CommandKind.UPDATE, FIRST, JobSpec("demo.noop", Cron("* * * * *")))
    world.run(0.2)
    world.command(CommandKind.BACKFILL, FIRST, from_at=START - DAY_US // 2, to_at=START, concurrency=1_000)
    world.run(40)
    assert caught_up(world, SECOND) == len(SECOND)
    assert sum(each.origin is Origin.BACKFILL for each in made(world)) > 20


def test_the_gaps_of_two_shards_are_caught_up_side_by_side() -> None:
    world = World(partitions=2, pace=Pace(catch_up_per_s=1.0))
    for job_id in (*ALL_FIRST, *SECOND):
        world.command(CommandKind.CREATE, job_id, every(10))
    world.run(2)
    away(world, 240)
    world.run(15)
    counts = caught_up(world, ALL_FIRST), caught_up(world, SECOND)
    assert sum(counts) >= 10
    assert abs(counts[0] - counts[1]) <= 2, counts


@pytest.mark.parametrize("count", [1, 2, 3])
def test_backfills_of_several_jobs_share_the_rate(count: int) -> None:
    world = BackfillWorld()
    world.pace = Pace(catch_up_per_s=1.0)
    world.crash()
    jobs = [f"t:{number}" for number in range(count)]
    for job_id in jobs:
        world.define(job_id=job_id)
        world.ask(-60, 0, job_id, concurrency=100)
    world.rest()
    world.wait(10)
    for _ in range(40):
        world.clock.advance(US_PER_S)
        world.rest()
    shares = [len(world.made(job_id)) for job_id in jobs]
    assert sum(shares) >= 40
    assert max(shares) - min(shares) <= 1, shares


def test_runs_with_large_payloads_of_a_backfill_go_out_over_many_rounds() -> None:
    world = BackfillWorld()
    world.pace = Pace(round_records=60)
    world.crash()
    world.define(JobSpec("demo.noop", Cron("* * * * *"), payload=b'"' + b"x" * 60_000 + b'"'))
    world.ask(-60, 0, concurrency=100)
    counts = []
    world.clock.advance(5 * US_PER_S)
    for _ in range(200):
        before = len(world.made())
        world.dispatcher.step()
        world.recorder.step()
        counts.append(len(world.made()) - before)

    assert sum(counts) == 60
    assert max(counts) == 2


def test_whoever_cannot_go_on_leaves_its_turn_to_all_others_alike() -> None:
    backfills = Backfills()
    for job_id in ("t:waits", "t:a", "t:b"):
        range_of = (START - DAY_US, START, START - DAY_US)
        told = Backfilled(1, 1, BackfillStatus.RUNNING, *range_of, 1, Tier.LOW, *[0] * 11, "", "", "")
        backfills.add(Backfill(job_id, told))
    shard: Any = SimpleNamespace(backfills=backfills, gaps=(), jump=None, served=0, partition=0)
    share: Any = SimpleNamespace(allowed=lambda *_, **__: 1, spend=lambda *_, **__: None, spent_count=1)
    lanes = BackfillLanes(ManualClock(START), None, None, NAMES, share)  # type: ignore[arg-type]
    served: Counter[str] = Counter()

    def work(_shard: Any, _out: Any, backfill: Backfill, _now: int, limit: int) -> tuple[int, bool]:
        served[backfill.job_id] += limit
        return limit, True

    may = mock.patch.object(backfill_lanes, "_may_decide", lambda _, backfill: backfill.job_id != "t:waits")
    with may, mock.patch.object(backfill_lanes, "_work", work):
        for _ in range(30):
            lanes.work_off(shard, None, START, (1, 0), on_time_waits=False)  # type: ignore[arg-type]
    assert served == {"t:a": 15, "t:b": 15}


@pytest.mark.parametrize("owned", [1, 2, 3, 4])
def test_every_shard_has_its_turns_while_a_window_is_never_satisfied(owned: int) -> None:
    read: Counter[int] = Counter()
    lanes = GapLanes(ManualClock(START), None, None, NAMES, Pace())  # type: ignore[arg-type]
    shards: list[Any] = [
        SimpleNamespace(partition=number, gaps=(1,), caught_up=True, lane=None, gap_turns=0) for number in range(owned)
    ]
    with mock.patch.object(catch_up, "read_on", lambda shard, *_: read.update([shard.partition])):
        for _ in range(400):
            for shard in shards:
                lanes.read(shard, hungry=True)
    assert read == dict.fromkeys(range(owned), 100)


@pytest.mark.parametrize("owned", [1, 2, 4])
def test_every_shard_reads_for_its_backfills_while_a_window_is_never_satisfied(owned: int) -> None:
    read: Counter[int] = Counter()
    lanes = BackfillLanes(ManualClock(START), None, None, NAMES, None)  # type: ignore[arg-type]
    shards: list[Any] = []
    for number in range(owned):
        backfills = mock.MagicMock(turns=0)
        backfills.active.side_effect = lambda number=number: read.update([number]) or []
        shards.append(SimpleNamespace(partition=number, backfills=backfills, may_decide=True, gaps=(), jump=None))
    for _ in range(400):
        for shard in shards:
            lanes.read(shard, hungry=True)
    assert read == dict.fromkeys(range(owned), 100)
