"""The records of runs that stay open for long move on with their partition, however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest
from waterclock.dispatcher import releasing, window
from waterclock.dispatcher.emit import Emitter, Templates
from waterclock.dispatcher.flow_runs import NEW, Open
from waterclock.dispatcher.position import Position
from waterclock.dispatcher.shard import Shard

from tests.unit.dispatcher_world import NAMES, START, World
from tests.unit.test_overlap import define, fire, rest, run, say, start
from waterclock.kept_runs import KEPT_AFTER_S
from waterclock.log.port import TopicPartition
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.events import Ended, EventKind, Origin, Retrying
from waterclock.model.flow_state import RunFlow
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Tier

OPEN_COUNT = 1_000


def test_of_a_thousand_runs_that_stay_open_none_pins_a_take_over() -> None:
    """Between two turns the partition moves on by as much as one record may lie behind."""
    shard = Shard(0, 1, 1, Position(START), next_offset=5)
    flow = shard.flow
    for job_id in ("t:first", "t:second"):
        job = flow.job(job_id, Concurrency(max_concurrent=1_000))
        for number in range(OPEN_COUNT // 2):
            fire_at = START + number * US_PER_S
            kept = RunFlow(make_run_id(job_id, fire_at), "", fire_at, 1, Tier.MEDIUM, Origin.SCHEDULE)
            flow.opened(job, Open(kept, NEW))
    turns = 20
    for _ in range(turns):
        flow.position += releasing.KEPT_BEHIND + 1
        releasing.keep_up(shard, Emitter(Templates(NAMES)), 0.0)
    oldest = min(run.kept.folded_to for job in flow.jobs.values() for run in job.open.values())
    assert oldest > (turns - 6) * releasing.KEPT_BEHIND


@pytest.fixture
def world() -> Iterator[World]:
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        yield World(partitions=1)


def test_a_run_that_waits_for_weeks_on_a_quiet_partition_makes_room_when_it_ends(world: World) -> None:
    """Given a job of one run at a time whose run is tried again after 28 days, twice, when retention has taken its
    first events and its shard changes hands, then its end is heard, and the next fire runs."""
    define(world, Overlap.SKIP)
    fire(world)
    first = run(world, 1)
    say(world, first, EventKind.ATTEMPT_FAILED, token=start(world, first), detail=Ended(0))
    say(world, first, EventKind.RETRYING, attempt=2, detail=Retrying(START, 0))
    events = TopicPartition(NAMES.run_events, 0)
    told_to = world.outside.high_watermark(events)
    world.run(1.5 * KEPT_AFTER_S, step_s=3.0)
    world.cluster.delete_records(events, told_to)
    world.crash()
    rest(world)
    say(world, first, EventKind.ATTEMPT_SUCCEEDED, attempt=2, token=start(world, first, 2), detail=Ended(0))
    rest(world)
    fire(world)
    assert len(world.records("waterclock.runs.medium")) == 2, "the run's own first work, and the next fire's"


def test_on_a_partition_where_nothing_more_is_said_a_run_is_written_down_once() -> None:
    shard = Shard(0, 1, 1, Position(START), next_offset=5)
    job = shard.flow.job("t:job", Concurrency(max_concurrent=2))
    opened = Open(RunFlow(make_run_id("t:job", START), "", START, 1, Tier.MEDIUM, Origin.SCHEDULE), NEW)
    shard.flow.opened(job, opened)
    shard.flow.position = 10
    records = []
    for turn in range(4):
        out = Emitter(Templates(NAMES))
        releasing.keep_up(shard, out, turn * KEPT_AFTER_S)
        records.append(len(out.messages))
    assert (records, opened.kept.folded_to) == ([0, 1, 0, 0], 10)
