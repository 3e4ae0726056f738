"""Nodes that somebody should look at, and silence about all others."""

from __future__ import annotations

import pytest

from waterclock.model.dag import DagSpec, MapOver, Node
from waterclock.model.dag_events import NodeEnd
from waterclock.model.dag_graph import Graph
from waterclock.model.dag_release import DagRunState, rebuild
from waterclock.model.dag_steps import NodeState
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import US_PER_S
from waterclock.model.stuck_nodes import FINDINGS_MAX, PATIENCE_US, NodeUnderWay, Stuck, StuckReason, find_stuck

NOW = 1_000_000 * US_PER_S
LONG_AGO, JUST_NOW = NOW - PATIENCE_US - 1, NOW - PATIENCE_US + 1
NODES = (Node("a", "h"), Node("b", "h", after=("a",)), Node("c", "h", after=("b",)), Node("d", "h"))
DONE, GOING = NodeState(NodeEnd.SUCCEEDED), NodeState()


def state(known: dict[str, NodeState], *nodes: Node, **limits: int) -> DagRunState:
    return rebuild(Graph(DagSpec(nodes or NODES, **limits)), known)


def find(
    found: DagRunState,
    *under_way: NodeUnderWay,
    pools: tuple[str, ...] | None = ("default",),
    paused: bool = False,
    moved_at: int = LONG_AGO,
) -> list[Stuck]:
    return find_stuck(found, under_way, pools, is_paused=paused, moved_at=moved_at, now=NOW)


def told(found: list[Stuck]) -> list[tuple[str, str]]:
    return [(each.node, each.reason.value) for each in found]


def running(key: str, outcome: Outcome = Outcome.NONE, since: int = LONG_AGO) -> NodeUnderWay:
    return NodeUnderWay(key, RunStatus.RUNNING, outcome, since, "default")


def pending(key: str, since: int = LONG_AGO, pool: str = "side") -> NodeUnderWay:
    return NodeUnderWay(key, RunStatus.PENDING, Outcome.NONE, since, pool)


BOTH_GOING = {"a": GOING, "d": GOING}


@pytest.mark.parametrize(
    "under_way",
    [
        (running("a"), running("d")),
        (running("a", Outcome.FAILED, JUST_NOW), running("d")),
        (pending("a", JUST_NOW), running("d")),
        (pending("a", pool="default"), running("d")),
        (NodeUnderWay("a", RunStatus.RETRYING, Outcome.FAILED, LONG_AGO, "side", NOW + 5), running("d")),
    ],
    ids=["it runs", "its verdict is due", "just released", "workers are busy", "it waits for its retry"],
)
def test_nothing_is_said_of_what_goes_on(under_way: tuple[NodeUnderWay, ...]) -> None:
    assert find(state(BOTH_GOING), *under_way) == []


def test_an_attempt_that_ended_and_got_no_verdict_is_named_with_those_behind_it() -> None:
    found = find(state(BOTH_GOING), running("a", Outcome.FAILED), running("d"))
    assert told(found) == [("a", "awaits-verdict")]
    assert (found[0].behind, found[0].since) == (2, LONG_AGO)


def test_work_of_a_pool_that_nobody_serves_is_named() -> None:
    found = find(state(BOTH_GOING), pending("a"), running("d"))
    assert told(found) == [("a", "no-worker")]
    assert "side" in found[0].why
    late = NodeUnderWay("a", RunStatus.RETRYING, Outcome.FAILED, LONG_AGO, "side", LONG_AGO)
    assert told(find(state(BOTH_GOING), late, running("d"))) == [("a", "no-worker")]


def test_where_nobody_knows_who_serves_no_pool_is_accused() -> None:
    assert find(state(BOTH_GOING), pending("a"), running("d"), pools=None) == []


def test_what_its_parents_allow_and_nobody_released_is_named_after_a_while() -> None:
    known = {"a": DONE, "d": DONE}
    assert find(state(known), moved_at=JUST_NOW) == []
    assert told(find(state(known))) == [("b", "not-released")]


def test_what_nobody_skipped_is_named_too() -> None:
    known = {"a": NodeState(NodeEnd.FAILED), "d": DONE}
    assert ("b", "not-released") in told(find(state(known)))


def test_a_dag_run_whose_nodes_have_all_ended_and_that_has_not_is_named() -> None:
    assert told(find(state(dict.fromkeys("abcd", DONE)))) == [("", "not-ended")]


def test_what_could_begin_but_for_a_pause_is_named_at_once() -> None:
    assert told(find(state({"a": DONE, "d": DONE}), paused=True, moved_at=NOW)) == [("b", "paused")]
    assert find(state({"a": GOING, "d": DONE}), running("a"), paused=True) == [], "its pause keeps nothing back yet"


def test_a_paused_dag_run_that_only_its_pause_keeps_open_is_named() -> None:
    """Else a Dag that runs one at a time would lose its fires for good, and nobody would say why."""
    (found,) = find(state(dict.fromkeys("abcd", DONE)), paused=True, moved_at=NOW)
    assert (found.node, found.reason.value) == ("", "paused")
    assert "resume it, and it ends" in found.why


def test_a_limit_is_named_only_where_all_that_fill_it_are_stuck() -> None:
    limited = {"max_active_nodes": 1}
    assert find(state({"a": GOING}, *NODES, **limited), running("a")) == []
    found = find(state({"a": GOING}, *NODES, **limited), pending("a"))
    assert told(found) == [("a", "no-worker"), ("d", "limit-reached")]


def test_items_of_a_mapped_node_are_named_one_by_one_and_not_without_end() -> None:
    wide = Node("w", "h", map_over=MapOver(count=500))
    found = find(state({f"w.{i}": GOING for i in range(500)}, wide), *(pending(f"w.{i}") for i in range(500)))
    assert len(found) == FINDINGS_MAX
    assert found[1].node == "w.1"
    assert {each.reason for each in found} == {StuckReason.NO_WORKER}
