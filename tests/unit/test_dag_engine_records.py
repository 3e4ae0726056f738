"""What a DAG engine finds in its state topic: ends that were told late, records that it cannot read."""

from __future__ import annotations


import pytest

from tests.unit.dag_world import NAMES, World
from waterclock.dag_engine import kept
from waterclock.model.dag import MapOver, Node
from waterclock.model.events import EventKind


def others(world: World, count: int = 20) -> None:
    """Runs of which the engine knows nothing: the log goes on."""
    for number in range(count):
        world.event(EventKind.PENDING, f"acme:other@20261121T0900{number:02}Z")


def test_no_successor_finds_a_dag_run_open_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many nodes are still to be forgotten before it."""
    monkeypatch.setattr(kept, "FORGOTTEN_PER_ROUND", 1)
    world = World(Node("a", "h", map_over=MapOver(count=40)))
    first, second = world.fire(), world.fire()
    world.turn(engine := world.engine(window=1), 60)
    world.event(EventKind.CANCEL_REQUESTED, first)
    world.event(EventKind.CANCEL_REQUESTED, second)
    others(world)
    world.turn(engine, 5)
    world.cluster.kill("dag-engine-1")
    assert any("/" in key for key in world.kept())
    world.turn(successor := world.engine("dag-engine-2", window=1), 200)
    (shard,) = successor._shards.values()
    assert (shard.dags, world.kept()) == ({}, {})
