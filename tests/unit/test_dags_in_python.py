"""``waterclock.Dag``: what is written in Python is the document that any door takes."""

from __future__ import annotations

import pytest

import waterclock
from waterclock.dags import Dag, chain
from waterclock.model.document import dag_document
from waterclock.model.errors import RequestError


def test_arrows_read_from_left_to_right() -> None:
    with Dag("nightly", cron="0 5 * * *", max_active_nodes=4) as dag:
        a = dag.node("a", "etl.a")
        b, c = dag.node("b", "etl.b"), dag.node("c", http={"url": "https://a.example/"})
        e = dag.node("e", "etl.e", inputs=[b, "c"], trigger_rule="all_done")
        a >> [b, c] >> e
    assert dag.definition == {
        "name": "nightly",
        "cron": "0 5 * * *",
        "dag": {
            "nodes": [
                {"name": "a", "handler": "etl.a"},
                {"name": "b", "handler": "etl.b", "after": ["a"]},
                {"name": "c", "http": {"url": "https://a.example/"}, "after": ["a"]},
                {
                    "name": "e",
                    "handler": "etl.e",
                    "inputs": ["b", "c"],
                    "trigger_rule": "all_done",
                    "after": ["b", "c"],
                },
            ],
            "max_active_nodes": 4,
        },
    }
    spec = dag.check()
    assert spec.dag is not None
    assert [node["name"] for node in dag_document(spec.dag)["nodes"]] == [node.name for node in dag] == list("abce")


def test_lists_are_chained_and_arrows_may_point_back() -> None:
    with Dag("x", every="1h") as dag:
        nodes = {name: dag.node(name, "h") for name in "abcde"}
        chain(nodes["a"], [nodes["b"], nodes["c"]], [nodes["d"], nodes["e"]])
        nodes["e"] << nodes["b"]  # known already
    after = {node["name"]: node.get("after", []) for node in dag.definition["dag"]["nodes"]}
    assert after == {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "e": ["b", "c"]}


def test_a_map_names_a_node_by_its_object() -> None:
    with Dag("x", every="1h") as dag:
        files = dag.node("files", "h")
        dag.node("load", "h", after=[files], map={"over": files, "concurrency": 3})
    assert dag.definition["dag"]["nodes"][1]["map"] == {"over": "files", "concurrency": 3}


def test_a_mistake_is_told_at_the_end_of_the_with_and_an_error_inside_is_not_hidden() -> None:
    dag = Dag("x", every="1h")
    with pytest.raises(RequestError, match="a -> b -> a"), dag:
        _ = dag.node("a", "h") >> dag.node("b", "h", after=[]) >> next(iter(dag))
    with pytest.raises(ZeroDivisionError), Dag("x", every="1h"):
        1 / 0  # noqa: B018  (user code that fails)
    with pytest.raises(RequestError, match="is no node"):
        dag.node("c", "h") >> ["b"]  # type: ignore[list-item]


def test_one_without_a_schedule_is_checked_as_a_dag_and_refused_where_it_would_be_saved() -> None:
    with Dag("nightly") as dag:
        _ = dag.node("a", "h") >> [dag.node("b", "h"), dag.node("c", "h")] >> dag.node("e", "h")
    with pytest.raises(RequestError, match="A job has one of cron, every") as refused:
        dag.check()
    assert '"on"' in (refused.value.hint or "")
    with pytest.raises(RequestError, match="a -> a"), Dag("nightly") as dag:
        dag.node("a", "h", after=["a"])


def test_it_stands_at_the_front_door() -> None:
    assert waterclock.Dag is Dag
