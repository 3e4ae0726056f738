"""A result that was not kept (over 8 KiB, or no JSON) is never taken for none by whoever waits for it."""

from __future__ import annotations

from typing import Any

import pytest
from waterclock.workers.executors import ending
from waterclock.workers.executors.port import Attempt

from tests.oracle import dags
from tests.unit.dag_world import JOB, OK, World
from waterclock.model.dag import MapOver, Node
from waterclock.model.dag_events import NOT_KEPT
from waterclock.model.events import Ended, EventKind, WorkRecord
from waterclock.model.job import Tier

TOO_MUCH: list[Any] = [["a"] * 3_000, {"a"}]
"""More than is kept, and what is no JSON."""


def returns(world: World, run_id: str, value: Any) -> None:
    """An attempt from its claim to its outcome, as a worker tells it of code that returned this."""
    work = WorkRecord(run_id, 0, 0, 1, JOB, 1, Tier.HIGH, "default", "h", b"")
    told = ending.succeeded(Attempt(work, 0), value)
    token, detail = world.claim(run_id), Ended(world.clock.now(), result=told.result)
    world.event(OK, run_id, 1, worker="w-1", incarnation=3, token=token, reason=told.reason, detail=detail)


def skipped(world: World) -> dict[str, str]:
    """By node that never ran why."""
    return {each.run_id.partition("/")[2]: each.reason for each in world.events(EventKind.NODE_SKIPPED)}


def last_end(world: World) -> tuple[EventKind, str]:
    (end,) = world.events(EventKind.DAG_SUCCEEDED, EventKind.DAG_FAILED)
    return end.kind, end.reason


def gone_through(world: World, *returned: tuple[str, Any]) -> None:
    """One DagRun whose nodes return this, one after the other."""
    world.turn(engine := world.engine())
    run_id = world.fire()
    world.turn(engine)
    for key, value in returned:
        returns(world, f"{run_id}/{key}", value)
        world.turn(engine)


@pytest.mark.parametrize("value", TOO_MUCH)
def test_a_branch_whose_result_was_not_kept_has_failed_and_leads_nowhere_in_silence(value: Any) -> None:
    world = World(
        Node("choose", "h", branch=True), Node("a", "h", after=("choose",)), Node("b", "h", after=("choose",))
    )
    gone_through(world, ("choose", value))
    assert skipped(world) == {"a": "upstream-failed", "b": "upstream-failed"}
    assert last_end(world) == (EventKind.DAG_FAILED, "nodes-failed: a, b")


def test_a_branch_may_follow_as_many_as_fit_into_a_result() -> None:
    names = [f"one-of-the-ways-with-long-names-{number:04d}" for number in range(150)]
    world = World(Node("choose", "h", branch=True), *(Node(name, "h", after=("choose",)) for name in names))
    gone_through(world, ("choose", names))
    assert world.released() == ["choose", *names]


@pytest.mark.parametrize("value", TOO_MUCH)
def test_whoever_takes_a_result_that_was_not_kept_is_never_given_null(value: Any) -> None:
    world = World(Node("a", "h"), Node("b", "h", after=("a",), inputs=("a",)))
    gone_through(world, ("a", value))
    assert skipped(world) == {"b": "inputs-too-large"}
    assert last_end(world)[0] is EventKind.DAG_FAILED


@pytest.mark.parametrize("value", TOO_MUCH)
def test_a_list_that_was_not_kept_is_too_long_and_not_no_list(value: Any) -> None:
    world = World(Node("a", "h"), Node("b", "h", after=("a",), map_over=MapOver(of="a")))
    gone_through(world, ("a", value))
    assert skipped(world) == {"b": "map-too-long"}


@pytest.mark.parametrize("value", TOO_MUCH)
def test_one_items_result_that_was_not_kept_leaves_no_list_with_a_gap(value: Any) -> None:
    world = World(
        Node("each", "h", map_over=MapOver(count=2)),
        Node("all", "h", after=("each",), inputs=("each",)),
        Node("x", "h"),
    )
    gone_through(world, ("each.0", 1), ("each.1", value), ("x", 1))
    assert skipped(world) == {"all": "inputs-too-large"}


def test_a_result_that_nobody_asks_for_may_be_anything() -> None:
    world = World(Node("a", "h"), Node("b", "h", after=("a",)))
    gone_through(world, ("a", {"a"}), ("b", ["b"] * 3_000))
    assert last_end(world)[0] is EventKind.DAG_SUCCEEDED


def test_a_rerun_keeps_that_a_result_was_not_kept() -> None:
    takes = Node("last", "h", after=("made", "again"), inputs=("made",))
    world = World(Node("made", "h"), Node("again", "h"), takes)
    gone_through(world, ("made", TOO_MUCH[0]), ("again", 1))
    (earlier,) = {each.run_id.partition("/")[0] for each in world.events(EventKind.PENDING)}
    again = world.rerun(earlier, "again")
    world.cluster.kill("dag-engine-1")
    world.turn(engine := world.engine("dag-engine-2"), 80)
    (kept,) = [each for each in world.events(EventKind.NODE_SKIPPED) if each.reason == "kept"]
    assert (kept.run_id, kept.detail.result) == (f"{again}/made", NOT_KEPT)
    returns(world, f"{again}/again", 1)
    world.turn(engine)
    assert [each.reason for each in world.events(EventKind.NODE_SKIPPED) if each.run_id == f"{again}/last"] == [
        "inputs-too-large"
    ]


def test_the_judge_knows_what_follows_from_a_result_that_was_not_kept() -> None:
    taking = {"name": "b", "after": ["a"], "inputs": ["a"]}
    over = {"name": "b", "after": ["a"], "map": {"over": "a"}}
    for second in (taking, over):
        ends, started, _ = dags.settle({"nodes": [{"name": "a"}, second]}, {"a": (True, b"")})
        assert (ends, set(started)) == ({"a": "S", "b": "F"}, {"a"})
    branch = {"nodes": [{"name": "a", "branch": True}, {"name": "b", "after": ["a"]}]}
    assert dags.settle(branch, {"a": (True, b"")})[0] == {"a": "F", "b": "U"}
    assert dags.settle(branch, {"a": (True, None)})[0] == {"a": "S", "b": "K"}
    items = {"nodes": [{"name": "a", "map": {"count": 2}}, taking]}
    assert dags.settle(items, {"a.0": (True, None), "a.1": (True, b"")})[0] == {"a": "S", "b": "F"}
