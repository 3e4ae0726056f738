"""The figures that the API shows to Prometheus."""

from __future__ import annotations

from waterclock.log.port import Committed, TopicPartition
from waterclock.model.fold import fold_from_text

from .api_world import NAMES, ApiWorld


def repairs(world: ApiWorld) -> list[str]:
    text = world.client.get("/metrics").text
    return [line for line in text.splitlines() if line.startswith("waterclock_reconciler_repairs_total ")]


def test_repairs_of_the_reconciler_are_counted_over_all_partitions() -> None:
    with ApiWorld() as world:
        assert repairs(world) == ["waterclock_reconciler_repairs_total 0.0"]
        counts = {0: 2, 1: 1}
        with world.lock:
            world.cluster.group(NAMES.group("retry-router")).commit(
                {
                    TopicPartition(NAMES.run_events, number): Committed(5, fold_from_text(3, count))
                    for number, count in counts.items()
                }
            )
        assert repairs(world) == ["waterclock_reconciler_repairs_total 3.0"]
