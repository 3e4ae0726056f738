"""Positions of the tiers' groups, and how they and the work before them come to be gone."""

from __future__ import annotations

import pytest
from waterclock.workers import positions
from waterclock.workers.loop import Worker
from worker_world import PARTITIONS, World

from waterclock.log.port import TopicPartition
from waterclock.model.events import RunEvent
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Tier
from waterclock.wire.codec import decode_event

DAY_US = 86_400 * US_PER_S


def count_events_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each event that is read for a position from now on."""
    read: list[int] = []

    def decode(value: bytes) -> RunEvent:
        read.append(len(value))
        return decode_event(value)

    monkeypatch.setattr(positions, "decode_event", decode)
    return read


def places(world: World, tier: Tier = Tier.MEDIUM, pool: str = "default") -> list[TopicPartition]:
    return [TopicPartition(world.names.runs(tier, pool), number) for number in range(PARTITIONS)]


def positions_of(world: World, tier: Tier = Tier.MEDIUM, pool: str = "default") -> list[int | None]:
    group = world.cluster.group(world.names.worker_group(tier, pool))
    found = [group.committed(place) for place in places(world, tier, pool)]
    return [None if committed is None else committed.offset for committed in found]


def go_away(worker: Worker) -> None:
    while worker.drain():
        pass
    worker.close()


def remove_work(world: World, tier: Tier, keep: int) -> int:
    """Retention takes all work of a tier but the newest ``keep`` of each partition; answers how many it takes."""
    taken = 0
    for place in places(world, tier):
        end = world.outside.high_watermark(place)
        world.cluster.delete_records(place, end - keep)
        taken += world.outside.low_watermark(place)
    return taken
