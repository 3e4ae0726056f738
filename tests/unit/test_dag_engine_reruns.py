"""Reruns of DagRuns: what they keep, what they are given, and what becomes of them where the older one is gone."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from waterclock.dag_engine import earlier as earlier_module
from waterclock.dag_engine import loop, room
from waterclock.dag_engine.loop import DagEngine

from tests.unit.dag_world import FAILED, NAMES, World
from waterclock.model.dag import Node
from waterclock.model.dag_events import NodeEnd
from waterclock.model.events import EventKind
from waterclock.transact import Round
from waterclock.wire.codec import decode_event

ENDS = (EventKind.DAG_SUCCEEDED, EventKind.DAG_FAILED)


def diamond() -> tuple[World, str]:
    """A DagRun that has ended: ``left`` made something, ``right`` failed, ``last`` never ran."""
    last = Node("last", "h", after=("left", "right"), inputs=("left", "right"))
    world = World(Node("first", "h"), Node("left", "h", after=("first",)), Node("right", "h", after=("first",)), last)
    run_id = world.fire(payload=b'"triggered"')
    world.turn(engine := world.engine())
    world.end(f"{run_id}/first")
    world.turn(engine)
    world.end(f"{run_id}/left", result=b'"made"')
    world.end(f"{run_id}/right", FAILED)
    world.event(EventKind.RUN_FAILED, f"{run_id}/right", 1)
    world.turn(engine)
    assert [each.kind for each in world.events(*ENDS)] == [EventKind.DAG_FAILED]
    world.cluster.kill("dag-engine-1")
    return world, run_id


def test_a_rerun_keeps_what_does_not_come_after_the_nodes_that_it_begins_with() -> None:
    world, earlier = diamond()
    again = world.rerun(earlier, "right")
    world.turn(engine := world.engine("dag-engine-2"), 80)
    kept = [each for each in world.events(EventKind.NODE_SKIPPED) if each.run_id.startswith(again)]
    assert [(each.run_id.partition("/")[2], each.reason, *each.detail) for each in kept] == [
        ("first", "kept", NodeEnd.SUCCEEDED, None),
        ("left", "kept", NodeEnd.SUCCEEDED, b'"made"'),
    ]
    world.cluster.kill("dag-engine-2")
    world.turn(engine := world.engine("dag-engine-3", window=1), 80)
    world.end(f"{again}/right", result=b"2")
    world.turn(engine)
    work = next(work for work in world.works() if work.run_id == f"{again}/last")
    assert json.loads(work.payload) == {"payload": "triggered", "upstream": {"left": "made", "right": 2}}
    world.end(f"{again}/last")
    world.turn(engine)
    assert world.events(*ENDS)[-1].kind is EventKind.DAG_SUCCEEDED
    assert world.kept() == {}


@pytest.mark.parametrize("steps", range(48, 58))
def test_a_rerun_that_is_taken_over_keeps_and_releases_each_once(steps: int) -> None:
    world, earlier = diamond()
    again = world.rerun(earlier, "left", "right")
    world.turn(world.engine("dag-engine-2", window=1), steps)
    world.cluster.kill("dag-engine-2")
    world.turn(world.engine("dag-engine-3", window=1), 80)
    told = [
        each for each in world.events(EventKind.NODE_SKIPPED, EventKind.PENDING) if each.run_id.startswith(f"{again}/")
    ]
    assert sorted(each.run_id.partition("/")[2] for each in told) == ["first", "left", "right"]


def test_a_whole_rerun_begins_anew_with_the_payload_of_the_older_one() -> None:
    world, earlier = diamond()
    again = world.rerun(earlier)
    world.turn(world.engine("dag-engine-2"), 80)
    (work,) = [work for work in world.works() if work.run_id.startswith(again)]
    assert (work.run_id, work.payload) == (f"{again}/first", b'"triggered"')


def test_the_payload_of_the_older_one_is_kept_at_once() -> None:
    """It stands in no event of the rerun: a successor that read the log alone would go on with the job's own."""
    world, earlier = diamond()
    again = world.rerun(earlier)
    world.turn(engine := world.engine("dag-engine-2", kept_behind=1_000), 80)
    world.end(f"{again}/first")
    world.cluster.kill("dag-engine-2")
    world.turn(engine := world.engine("dag-engine-3", kept_behind=1_000), 80)
    world.end(f"{again}/left")
    world.end(f"{again}/right")
    world.turn(engine)
    work = next(work for work in world.works() if work.run_id == f"{again}/last")
    assert json.loads(work.payload)["payload"] == "triggered"


def failed_again(world: World, run_id: str, slot: str) -> str:
    """A whole rerun of it, which fails at once."""
    again = world.rerun(run_id)
    world.turn(engine := world.engine(slot), 80)
    world.end(f"{again}/first", FAILED)
    world.event(EventKind.RUN_FAILED, f"{again}/first", 1)
    world.turn(engine)
    world.cluster.kill(slot)
    return again


def test_a_rerun_of_a_rerun_has_the_payload_of_the_first() -> None:
    world, earlier = diamond()
    again = world.rerun(failed_again(world, earlier, "dag-engine-2"))
    world.turn(world.engine("dag-engine-3"), 80)
    (work,) = [work for work in world.works() if work.run_id.startswith(again)]
    assert work.payload == b'"triggered"'


def test_a_rerun_whose_payload_nobody_knows_any_more_ends_and_does_not_take_the_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, first = diamond()
    second = failed_again(world, first, "dag-engine-2")
    again = world.rerun(second)
    monkeypatch.setattr(earlier_module, "FAMILY_MAX", 0)
    world.turn(world.engine("dag-engine-3"), 80)
    assert not [work for work in world.works() if work.run_id.startswith(again)]
    end = world.events(*ENDS)[-1]
    assert (end.run_id, end.kind, end.reason) == (again, EventKind.DAG_FAILED, "rerun-gone")


def test_a_rerun_of_what_is_not_on_the_log_ends_and_says_so() -> None:
    world, earlier = diamond()
    world.rerun(earlier.replace("1970", "1971"), "right")
    world.turn(world.engine("dag-engine-2"), 80)
    end = world.events(*ENDS)[-1]
    assert (end.kind, end.reason) == (EventKind.DAG_FAILED, "rerun-gone")


@pytest.mark.parametrize("trouble", ["pause", "pool"])
def test_a_rerun_that_waits_for_something_else_keeps_no_other_from_reading(
    trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many are read at a time: one that is paused while it is read holds no place until its resume."""
    monkeypatch.setattr(loop, "EARLIER_MAX", 1)
    monkeypatch.setattr(loop, "SLICE", 1)
    world, earlier = diamond()
    engine = world.engine("dag-engine-2")
    wait_until(world, engine, lambda: bool(engine._shards))
    (shard,) = engine._shards.values()
    first = world.rerun(earlier, "right")
    wait_until(world, engine, lambda: first in shard.earlier)
    if trouble == "pause":
        world.event(EventKind.DAG_PAUSED, first)
    else:
        has_pools = DagEngine._has_pools
        monkeypatch.setattr(DagEngine, "_has_pools", lambda *words: words[1].run_id != first and has_pools(*words))
    second = world.rerun(earlier, "right")
    wait_until(world, engine, lambda: f"{second}/right" in pending(world))
    assert f"{first}/right" not in pending(world)
    if trouble == "pause":
        world.event(EventKind.DAG_RESUMED, first)
    else:
        monkeypatch.setattr(DagEngine, "_has_pools", has_pools)
    wait_until(world, engine, lambda: f"{first}/right" in pending(world))
    assert pending(world).count(f"{first}/right") == 1


def test_what_several_reruns_keep_goes_out_in_as_many_rounds_as_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Results are kept whole, so those of a few wide DagRuns would make a round that holds everybody else up."""
    monkeypatch.setattr(room, "ROUND_BYTES", 600)
    kept = list[int]()
    commit = DagEngine._commit

    def committed(engine: DagEngine, draft: Round) -> bool:
        told = [decode_event(each.value or b"") for each in draft.messages if each.topic == NAMES.run_events]
        kept.append(sum(event.reason == "kept" for event in told))
        return commit(engine, draft)

    monkeypatch.setattr(DagEngine, "_commit", committed)
    world, earlier = diamond()
    again = [world.rerun(earlier, "right") for _ in range(3)]
    world.turn(world.engine("dag-engine-2"), 80)
    assert (sum(kept), max(kept)) == (6, 2)
    assert {f"{run_id}/right" for run_id in again} <= set(pending(world))


def pending(world: World) -> list[str]:
    return [each.run_id for each in world.events(EventKind.PENDING)]


def wait_until(world: World, engine: DagEngine, holds: Callable[[], bool]) -> None:
    for _ in range(400):
        if holds():
            return
        world.turn(engine, 1)
    raise AssertionError("it never came to that")
