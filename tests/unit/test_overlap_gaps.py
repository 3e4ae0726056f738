"""A fire that was missed is made up for beside those that are on time: the newest one still wins."""

from __future__ import annotations

import pytest
from waterclock.dispatcher.pace import Pace

from tests.oracle import beside
from tests.unit.dispatcher_world import NAMES, START, World, every, raw
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.events import EventKind
from waterclock.model.ids import US_PER_S, parse_run_id
from waterclock.model.job import CommandKind

JOB = "t:job"
KINDS = (EventKind.PENDING, EventKind.HELD, EventKind.SKIPPED, EventKind.CANCEL_REQUESTED)


@pytest.mark.parametrize("overlap", [Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER])
def test_a_missed_fire_does_not_stop_a_later_one(overlap: Overlap) -> None:
    world = World(partitions=1, pace=Pace(catch_up_per_s=2.0))
    for number in range(10):  # what the gap has to make first, slowly
        world.command(CommandKind.CREATE, f"t:a{number}", every(60, start_at=START + 10 * US_PER_S))
    limited = every(60, start_at=START + 50 * US_PER_S, concurrency=Concurrency(overlap))
    world.command(CommandKind.CREATE, JOB, limited)
    world.run(2)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(START + 294 * US_PER_S - world.clock.now())  # four seconds after its newest fire
    world.dispatcher = world.start()
    world.run(15)
    mine = [event for event in world.events() if event.job_id == JOB and event.kind in KINDS]
    assert [(event.kind, _second(event.run_id), event.reason) for event in mine] == [
        (EventKind.PENDING, 290, ""),
        (EventKind.SKIPPED, 230, "overlap"),
        (EventKind.SKIPPED, 50, "coalesced"),
    ]
    records = [[raw(record) for record in world.records(topic)] for topic in (NAMES.commands, NAMES.run_events)]
    complaints, counts = beside.check(*records)
    assert complaints == []
    assert counts["dropped: a later fire was there"] == 1


def _second(run_id: str) -> float:
    return (parse_run_id(run_id).fire_at - START) / US_PER_S
