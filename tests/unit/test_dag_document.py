"""A Dag at the door: what is refused, where, with which words; what passes comes back as it was."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.random_dags import random_dag
from waterclock.model.dag import (
    DagSpec,
    MapOver,
    Node,
    TriggerRule,
    dag_from_json,
    dag_to_json,
    outline,
    split_node_key,
)
from waterclock.model.document import check_dag, dag_document, spec_from_document
from waterclock.model.errors import RequestError
from waterclock.model.failure_policy import DEFAULT
from waterclock.model.job import Command, CommandKind, Tier
from waterclock.model.job_event import event_of
from waterclock.model.stored_spec import spec_from_json, spec_to_json


def node(name: str, *after: str, **words: Any) -> dict[str, Any]:
    return {"name": name, "handler": "etl.x", **({"after": list(after)} if after else {}), **words}


def refused(*nodes: dict[str, Any], **words: Any) -> RequestError:
    with pytest.raises(RequestError) as error:
        spec_from_document({"dag": {"nodes": list(nodes), **words}, "every": "1h"})
    assert error.value.hint
    return error.value


@pytest.mark.parametrize(
    ("nodes", "pointer", "words"),
    [
        ([], "/dag/nodes", "at least one node"),
        ([node("a"), node("a")], "/dag/nodes/1/name", "a is the name of node 0 of the list already"),
        ([node("a.b")], "/dag/nodes/0/name", "'a.b' is no name"),
        ([node("a" * 56)], "/dag/nodes/0/name", "is no name"),
        ([{"handler": "x"}], "/dag/nodes/0/name", "A node needs a name"),
        ([{"name": "a"}], "/dag/nodes/0/handler", 'needs "handler"'),
        ([node("a", http={"url": "https://a.example/"})], "/dag/nodes/0/http", "one way to reach its work"),
        ([node("a", tier="top")], "/dag/nodes/0/tier", "'top' is not a tier"),
        ([node("a", retry={"delay": "x"})], "/dag/nodes/0/retry/delay", "'x' is not a duration"),
        ([node("a"), node("b", "aa")], "/dag/nodes/1/after/0", "b comes after aa, which is no node"),
        ([node("a"), node("b", "a", "a")], "/dag/nodes/1/after/1", "b comes after a twice"),
        ([node("a", "a")], "/dag/nodes/0/after", "a -> a"),
        ([node("a", "c"), node("b", "a"), node("c", "b")], "/dag/nodes/1/after", "a -> b -> c -> a"),
        ([node("a"), node("b", "a", trigger_rule="one_sucess")], "/dag/nodes/1/trigger_rule", "is not a trigger rule"),
        ([node("a", trigger_rule="one_failed")], "/dag/nodes/0/trigger_rule", "a has no parents"),
        (
            [node("a"), node("b", "a", trigger_rule="one_done"), node("c", "b", trigger_rule="all_skipped")],
            "/dag/nodes/2/trigger_rule",
            "c can never start: b is never skipped",
        ),
        (
            [node("a"), node("b", "a", trigger_rule="all_skipped")],
            "/dag/nodes/1/trigger_rule",
            "b can never start: a is never skipped",
        ),
        ([node("a"), node("b", inputs=["a"])], "/dag/nodes/1/inputs/0", "which does not come before it"),
        ([node("a"), node("b", map={"over": "a"})], "/dag/nodes/1/map/over", "which does not come before it"),
        ([node("a"), node("b", "a", map={"over": "z"})], "/dag/nodes/1/map/over", "which is no node"),
        ([node("a", map={"over": "a"})], "/dag/nodes/0/map/over", "which does not come before it"),
        ([node("a"), node("b", "a", inputs=["a", "a"])], "/dag/nodes/1/inputs", "names an input twice"),
        ([node("a", branch=True)], "/dag/nodes/0/branch", "a is a branch, and no node comes after it"),
        ([node("a", branch=True, map={"count": 2}), node("b", "a")], "/dag/nodes/0/branch", "mapped, and a branch"),
        ([node("a", map={})], "/dag/nodes/0/map", "over a list, or over a count"),
        ([node("a", map={"count": 2, "over": [1]})], "/dag/nodes/0/map", "over a list, or over a count"),
        ([node("a", map={"over": []})], "/dag/nodes/0/map/over", "no list with items"),
        ([node("a", map={"count": 10_001})], "/dag/nodes/0/map/count", "10001 is no count"),
        ([node("a", map={"count": 5, "max": 7})], "/dag/nodes/0/map/max", "max goes with the result of a node"),
        ([node("a", map={"over": ["x" * 65_536]})], "/dag/nodes/0/map/over", "would be given more than 65536 bytes"),
        (
            [node("a", map={"count": 6_000}), node("b", map={"count": 6_000})],
            "/dag/nodes/1/map",
            "may have 12000 items together",
        ),
        ([node(f"n{number}") for number in range(1_001)], "/dag/nodes", "has 1001 nodes"),
        ([node("a", payload="x" * 60_000), node("b", payload="x" * 60_000)], "/dag", "The Dag takes"),
        ([node("a", color="red")], "/dag/nodes/0/color", "'color' is not known"),
    ],
)
def test_what_cannot_be_a_dag_is_refused_at_its_place(nodes: list[Any], pointer: str, words: str) -> None:
    error = refused(*nodes)
    assert error.pointer == pointer
    assert words in error.message


def test_a_refusal_says_what_was_meant() -> None:
    assert refused(node("load"), node("b", "laod")).hint == "Did you mean load?"
    assert refused(node("a"), node("b", "a", trigger_rule="one_sucess")).hint == "Did you mean one_success?"
    assert refused(node("a", afetr=["b"])).hint == "Did you mean after?"


def test_too_many_arrows_are_refused() -> None:
    names = [f"n{number}" for number in range(150)]
    nodes = [node(name, *names[:place]) for place, name in enumerate(names)]
    assert "more than 10000 parents together" in refused(*nodes).message


def test_a_long_cycle_is_shown_in_short() -> None:
    nodes = [node(f"n{number}", f"n{(number + 1) % 40}") for number in range(40)]
    assert "..." in refused(*nodes).message
    assert len(refused(*nodes).message) < 150


@pytest.mark.parametrize("key", ["handler", "http", "at_most_once"])
def test_what_belongs_to_nodes_is_refused_beside_a_dag(key: str) -> None:
    with pytest.raises(RequestError) as error:
        spec_from_document({"dag": {"nodes": [node("a")]}, "every": "1h", key: True})
    assert error.value.pointer == f"/{key}"
    assert error.value.hint == "Give it to its nodes"


def test_a_rule_that_may_hold_after_skips_passes() -> None:
    dag = [
        node("list"),
        node("each", "list", map={"over": "list"}),
        node("none", "each", trigger_rule="all_skipped"),
        node("choose", branch=True),
        node("way", "choose"),
        node("not-gone", "way", trigger_rule="all_skipped"),
    ]
    assert spec_from_document({"dag": {"nodes": dag}, "every": "1h"}).dag is not None


def test_everything_that_a_node_may_say_is_read() -> None:
    spec = spec_from_document(
        {
            "dag": {
                "nodes": [
                    node("a", tier="high", pool="gpu", payload={"x": 1}, at_most_once=True, timeouts={"run": "1h"}),
                    node("b", "a", retry={}, map={"over": "a", "max": 7, "concurrency": 2}, inputs=["a"]),
                ],
                "timeout": "2h",
                "max_active_nodes": 4,
            },
            "every": "1h",
            "priority": "LOW",
        }
    )
    assert spec.dag is not None
    assert (spec.handler, spec.executor, spec.label, spec.tier) == ("", None, "dag", Tier.LOW)
    assert (spec.dag.timeout_us, spec.dag.max_active_nodes) == (7_200_000_000, 4)
    first, second = spec.dag.nodes
    assert (first.tier, first.pool, first.payload, first.at_most_once) == (Tier.HIGH, "gpu", b'{"x":1}', True)
    assert first.policy is not None
    assert first.policy.run_timeout_us == 3_600_000_000
    assert second.policy == DEFAULT  # said, and so not the job's
    assert second.map_over == MapOver(of="a", max_items=7, concurrency=2)
    assert outline(spec.dag).nodes == ()


@given(st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_a_dag_comes_back_from_its_document_and_from_its_stored_form(seed: int) -> None:
    dag = random_dag(Random(seed), 12)
    assert dag_from_json(dag_to_json(dag)) == dag
    document = orjson.loads(orjson.dumps({"dag": dag_document(dag), "every": "1h"}))
    spec = spec_from_document(document)
    assert spec.dag == dag
    assert spec_from_json(spec_to_json(spec)) == spec
    check_dag(dag)
    event = event_of(Command(CommandKind.CREATE, "acme:x", "c", "ada", 1, spec=spec))
    assert orjson.loads(event.dag) == document["dag"]


@pytest.mark.parametrize(
    "dag",
    [
        DagSpec(()),
        DagSpec((Node("A", "h"),)),
        DagSpec((Node("a"),)),
        DagSpec((Node("a", "h"),), max_active_nodes=-1),
        DagSpec((Node("a", "h"),), timeout_us=5),
        DagSpec((Node("a", "h", map_over=MapOver(items="{}")),)),
        DagSpec((Node("a", "h", map_over=MapOver(items="[1]", count=2)),)),
        DagSpec((Node("a", "h", after=("b",)), Node("b", "h", after=("a",)))),
    ],
)
def test_a_dag_that_no_document_makes_is_refused_in_a_command(dag: DagSpec) -> None:
    with pytest.raises(RequestError):
        check_dag(dag)


def test_the_stored_form_is_a_format() -> None:
    dag = DagSpec(
        (
            Node("a", "etl.a", tier=Tier.LOW, payload=b"x"),
            Node("b", "etl.b", after=("a",), trigger_rule=TriggerRule.ONE_DONE, map_over=MapOver(of="a")),
        ),
        timeout_us=1_000_000,
    )
    assert dag_to_json(dag) == (
        '{"nodes":[{"name":"a","handler":"etl.a","tier":2,"payload":"eA=="},'
        '{"name":"b","handler":"etl.b","after":["a"],"trigger_rule":"one_done","map_over":{"of":"a"}}],'
        '"timeout_us":1000000}'
    )
    later = dag_to_json(dag).replace('"name":"a"', '"name":"a","later":1')
    assert dag_from_json(later) == dag
    assert dag_to_json(None) == ""
    assert dag_from_json("") is None


def test_a_key_names_a_node_and_an_item() -> None:
    assert split_node_key("load") == ("load", -1)
    assert split_node_key("load.12") == ("load", 12)
    with pytest.raises(ValueError, match="names no node"):
        split_node_key("load.x")
