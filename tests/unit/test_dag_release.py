"""The release of nodes, case by case: rules in whole Dags, branches, mapped nodes, what is handed down, limits."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from waterclock.model.dag import DagSpec, MapOver, Node, TriggerRule
from waterclock.model.dag_events import NodeEnd
from waterclock.model.dag_graph import Graph
from waterclock.model.dag_release import DagRunState, rebuild
from waterclock.model.dag_steps import DagEnd, NodeState, Skip, SkipReason, Steps
from waterclock.model.dag_work import kept_nodes

OK, FAILED = NodeEnd.SUCCEEDED, NodeEnd.FAILED
SKIPPED, UPSTREAM_FAILED = NodeEnd.SKIPPED, NodeEnd.UPSTREAM_FAILED


def node(name: str, *after: str, rule: str = "all_success", **words: Any) -> Node:
    return Node(name, "demo.node", after=after, trigger_rule=TriggerRule(rule), **words)


def begun(*nodes: Node, payload: bytes = b"", **limits: int) -> tuple[DagRunState, Steps]:
    run = DagRunState(Graph(DagSpec(nodes, **limits)), payload)
    return run, run.decide()


def keys(steps: Steps) -> list[str]:
    return [release.key for release in steps.releases]


def skips(steps: Steps) -> dict[str, str]:
    return {skip.node: skip.reason.value for skip in steps.skips}


def test_a_node_begins_when_its_parents_have_succeeded() -> None:
    run, steps = begun(node("a"), node("b"), node("c", "a", "b"))
    assert keys(steps) == ["a", "b"]
    assert run.ended("a", OK) == Steps()
    assert keys(run.ended("b", OK)) == ["c"]
    assert run.ended("c", OK).end == DagEnd(succeeded=True)
    assert run.is_over


def test_a_failed_branch_skips_what_can_no_longer_run_and_the_rest_goes_on() -> None:
    run, _ = begun(
        node("a"), node("b", "a"), node("c", "b"), node("other"), node("last", "c", "other", rule="all_done")
    )
    steps = run.ended("a", FAILED)
    assert steps.skips == (
        Skip("b", SkipReason.UPSTREAM_FAILED, UPSTREAM_FAILED),
        Skip("c", SkipReason.UPSTREAM_FAILED, UPSTREAM_FAILED),
    )
    assert steps.releases == ()
    assert keys(run.ended("other", OK)) == ["last"]
    assert run.ended("last", OK).end == DagEnd(succeeded=True)  # its leaf has succeeded


def test_a_dag_run_fails_by_its_leaves() -> None:
    run, _ = begun(node("a"), node("b", "a"), node("c"))
    run.ended("c", OK)
    assert run.ended("a", FAILED).end == DagEnd(succeeded=False, failed=("b",))


def test_a_failed_parent_outweighs_a_skipped_one_whichever_comes_first() -> None:
    for order in (("choose", "work"), ("work", "choose")):
        run, _ = begun(node("choose", branch=True), node("way", "choose"), node("work"), node("join", "way", "work"))
        seen: dict[str, str] = {}
        for name in order:
            end = FAILED if name == "work" else OK
            seen |= skips(run.ended(name, end, b"[]"))
        assert seen == {"way": "not-followed", "join": "upstream-failed"}


def test_a_branch_is_followed_where_its_result_says() -> None:
    run, _ = begun(
        node("choose", branch=True),
        node("left", "choose"),
        node("right", "choose"),
        node("join", "left", "right", rule="none_failed_min_one_success"),
    )
    steps = run.ended("choose", OK, b'"left"')
    assert (keys(steps), skips(steps)) == (["left"], {"right": "not-followed"})
    assert keys(run.ended("left", OK)) == ["join"]


def test_a_child_of_a_branch_that_a_followed_one_leads_to_is_not_skipped() -> None:
    run, _ = begun(
        node("choose", branch=True), node("left", "choose"), node("join", "left", "choose", rule="none_failed")
    )
    steps = run.ended("choose", OK, b'["left"]')
    assert (keys(steps), skips(steps)) == (["left"], {})
    assert keys(run.ended("left", OK)) == ["join"]


def test_a_child_of_a_branch_waits_for_it_whatever_its_rule_says() -> None:
    run, steps = begun(node("a"), node("choose", branch=True), node("any", "a", "choose", rule="one_success"))
    assert keys(steps) == ["a", "choose"]
    assert run.ended("a", OK) == Steps()
    assert skips(run.ended("choose", OK, b"null")) == {"any": "not-followed"}


@pytest.mark.parametrize("result", [b'"nobody"', b"7", b'["left",3]', b'{"a":1}', b"no json", b'["choose"]'])
def test_a_branch_that_names_no_child_counts_as_failed(result: bytes) -> None:
    run, _ = begun(node("choose", branch=True), node("left", "choose"), node("alarm", "choose", rule="one_failed"))
    steps = run.ended("choose", OK, result)
    assert (keys(steps), skips(steps)) == (["alarm"], {"left": "upstream-failed"})


def test_a_mapped_node_runs_once_for_each_item_and_ends_as_they_did() -> None:
    run, steps = begun(node("each", map_over=MapOver(items='["a",2]')), node("after", "each"))
    assert [(release.key, orjson.loads(release.payload)) for release in steps.releases] == [
        ("each.0", {"payload": None, "upstream": {}, "item": "a", "index": 0}),
        ("each.1", {"payload": None, "upstream": {}, "item": 2, "index": 1}),
    ]
    assert run.ended("each.1", FAILED) == Steps()
    assert skips(run.ended("each.0", OK)) == {"after": "upstream-failed"}


@pytest.mark.parametrize(
    ("result", "reason", "counts_as"),
    [
        (b"[]", SkipReason.MAP_EMPTY, SKIPPED),
        (b"{}", SkipReason.MAP_INVALID, FAILED),
        (None, SkipReason.MAP_INVALID, FAILED),
        (b"[1,2,3]", SkipReason.MAP_TOO_LONG, FAILED),
        (b"", SkipReason.MAP_TOO_LONG, FAILED),
    ],
)
def test_a_list_that_cannot_be_mapped_over_is_told(result: bytes, reason: SkipReason, counts_as: NodeEnd) -> None:
    run, _ = begun(node("list"), node("each", "list", map_over=MapOver(of="list", max_items=2)))
    assert run.ended("list", OK, result).skips == (Skip("each", reason, counts_as),)


def test_what_a_mapped_node_maps_over_may_be_a_mapped_nodes_results() -> None:
    run, _ = begun(
        node("first", map_over=MapOver(count=3)),
        node("second", "first", map_over=MapOver(of="first"), inputs=("first",)),
    )
    for index in (2, 0):
        run.ended(f"first.{index}", OK, orjson.dumps(index * 10))
    steps = run.ended("first.1", OK, None)
    assert [orjson.loads(release.payload)["item"] for release in steps.releases] == [0, None, 20]
    assert orjson.loads(steps.releases[0].payload)["upstream"] == {"first": [0, None, 20]}


def test_results_are_handed_down_and_awaited() -> None:
    run, _ = begun(
        node("slow"), node("quick", "slow"), node("any", "slow", "quick", rule="one_success", inputs=("slow", "quick"),
                                                  payload=b'{"own":1}')
    )  # fmt: skip
    steps = run.ended("slow", OK, b'{"rows":3}')
    assert keys(steps) == ["quick"]  # "any" could begin by its rule, and waits for the result that it takes
    steps = run.ended("quick", FAILED, b"7")
    assert [release.payload for release in steps.releases] == [
        b'{"payload":{"own":1},"upstream":{"slow":{"rows":3},"quick":null}}'
    ]


def test_a_payload_goes_as_it_is_where_nothing_is_added() -> None:
    _, steps = begun(node("a"), node("b", payload=b"\xff"), payload=b"of the run")
    assert [release.payload for release in steps.releases] == [b"of the run", b"\xff"]


def test_bytes_that_are_no_json_are_handed_down_as_base64() -> None:
    _, steps = begun(node("a", map_over=MapOver(count=1)), payload=b"\xff\x00")
    assert orjson.loads(steps.releases[0].payload) == {"payload_base64": "/wA=", "upstream": {}, "item": 0, "index": 0}


def test_what_is_given_has_a_limit() -> None:
    run, _ = begun(node("a"), node("b", "a", inputs=("a",), payload=orjson.dumps("x" * 60_000)), node("c", "b"))
    steps = run.ended("a", OK, orjson.dumps("y" * 6_000))
    assert skips(steps) == {"b": "inputs-too-large", "c": "upstream-failed"}
    assert steps.end == DagEnd(succeeded=False, failed=("c",))


def test_results_of_a_mapped_node_that_are_too_large_together_are_not_handed_down() -> None:
    run, _ = begun(node("each", map_over=MapOver(count=10)), node("sum", "each", inputs=("each",)))
    for index in range(9):
        run.ended(f"each.{index}", OK, orjson.dumps("y" * 8_000))
    assert skips(run.ended("each.9", OK, b"1")) == {"sum": "inputs-too-large"}


def test_no_more_nodes_are_under_way_than_may_be() -> None:
    run, steps = begun(*(node(f"n{number}") for number in range(5)), max_active_nodes=2)
    assert keys(steps) == ["n0", "n1"]
    assert run.why("n4") == "2 nodes are under way, and 2 may be"
    assert keys(run.ended("n1", OK)) == ["n2"]
    assert run.active == 2


def test_no_more_items_are_under_way_than_may_be() -> None:
    run, steps = begun(node("each", map_over=MapOver(count=5, concurrency=2)), node("other"))
    assert keys(steps) == ["each.0", "each.1", "other"]
    assert keys(run.ended("each.0", OK)) == ["each.2"]
    assert run.why("each") == "2 of its 5 items are under way, 1 have ended"


def test_a_node_says_what_it_waits_for() -> None:
    run, _ = begun(node("a"), node("b"), node("c", "a", "b"), node("d", "c", inputs=("b",)))
    assert run.why("a") == "it is under way"
    assert run.why("c") == "all_success waits for a, b"
    run.ended("b", OK)
    assert run.why("c") == "all_success waits for a"
    assert run.why("b") == ""


def test_a_successor_tells_what_its_predecessor_could_not() -> None:
    graph = Graph(DagSpec((node("a"), node("b", "a"), node("c", "b"))))
    steps = rebuild(graph, {"a": NodeState(FAILED)}).decide()
    assert skips(steps) == {"b": "upstream-failed", "c": "upstream-failed"}
    assert steps.end == DagEnd(succeeded=False, failed=("c",))
    known = {"a": NodeState(FAILED), "b": NodeState(UPSTREAM_FAILED), "c": NodeState(UPSTREAM_FAILED)}
    assert rebuild(graph, known).decide() == Steps(end=DagEnd(succeeded=False, failed=("c",)))


def test_a_rerun_keeps_what_does_not_come_after_its_beginning() -> None:
    nodes = (
        node("choose", branch=True),
        node("each", "choose", map_over=MapOver(count=2)),
        node("gone", "choose"),
        node("sum", "each", inputs=("each",)),
        node("end", "sum"),
    )
    run, _ = begun(*nodes)
    run.ended("choose", OK, b'"each"')
    run.ended("each.0", OK, b"5")
    run.ended("each.1", OK, b"6")
    run.ended("sum", FAILED)
    kept = kept_nodes(run.graph, run.whole_nodes(), ("sum",))
    assert kept == {"choose": NodeState(OK, b'"each"'), "each": NodeState(OK, b"[5,6]"), "gone": NodeState(SKIPPED)}
    again = rebuild(run.graph, kept)
    steps = again.decide()
    assert [(release.key, orjson.loads(release.payload)["upstream"]) for release in steps.releases] == [
        ("sum", {"each": [5, 6]})
    ]
    assert keys(again.ended("sum", OK)) == ["end"]
    assert kept_nodes(run.graph, run.whole_nodes(), ()) == {}
