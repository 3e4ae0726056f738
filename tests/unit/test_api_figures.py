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


def figures(world: ApiWorld) -> dict[str, str]:
    lines = world.client.get("/metrics").text.splitlines()
    return dict(line.split(" ") for line in lines if line.startswith("waterclock_catch_up"))


def test_what_is_still_to_be_caught_up_is_shown_with_an_eta_once_it_becomes_less() -> None:
    with ApiWorld() as world:
        with world.lock:
            world.obeys = False
        for rows, eta in ((90, "NaN"), (60, ""), (0, "0.0")):
            gap = f"|100|0|||400|||||{rows}" if rows else ""
            text = f"{2 if gap else 1}|500|0||{gap}"
            with world.lock:
                group = world.cluster.group(NAMES.group("dispatcher"))
                group.commit({TopicPartition(NAMES.commands, number): Committed(0, text) for number in range(2)})
            told = figures(world)
            assert told["waterclock_catch_up_owed"] == f"{2 * rows}.0"
            assert not eta or told["waterclock_catch_up_eta_seconds"] == eta
            assert eta or float(told["waterclock_catch_up_eta_seconds"]) > 0
