"""Work that has outlived the events that say whether it was done."""

from __future__ import annotations

import pytest

from tests.unit.test_worker_lost_positions import forget_positions
from tests.unit.worker_world import PARTITIONS, World
from waterclock.log.port import TopicPartition
from waterclock.model.ids import US_PER_S

DAY_US = 86_400 * US_PER_S


def _remove_events(world: World) -> None:
    for partition in range(PARTITIONS):
        place = TopicPartition(world.names.run_events, partition)
        world.cluster.delete_records(place, world.outside.high_watermark(place))


@pytest.mark.parametrize("newer", [0, 4])
def test_work_is_not_done_again_where_its_claims_are_gone_with_the_positions(newer: int) -> None:
    """Given run-events that is kept for less than work, and a pool without a worker for so long that its group was
    forgotten, then what was done before stays done, and what came since runs."""
    world = World()
    world.fire(3)
    worker, executors = world.worker()
    world.settle(worker)
    executors.end_all()
    world.settle(worker)
    worker.close()
    world.clock.advance(5 * DAY_US)
    _remove_events(world)
    run_ids = world.fire(newer)
    world.clock.advance(3 * DAY_US)
    forget_positions(world)
    second, executors = world.worker("worker-2")
    world.settle(second, 20)
    assert sorted(attempt.work.run_id for attempt in executors.submitted) == sorted(run_ids)
