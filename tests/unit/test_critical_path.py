"""The chain of nodes that made a DagRun last as long as it did."""

from __future__ import annotations

from waterclock.model.critical_path import Span, critical_path
from waterclock.model.dag import MapOver, Node, TriggerRule


def node(name: str, *after: str, **parts: object) -> Node:
    return Node(name, "h", after=after, **parts)  # type: ignore[arg-type]


def spans(**times: tuple[int, int]) -> dict[str, Span]:
    return {name: Span(*each) for name, each in times.items()}


DIAMOND = [node("a"), node("quick", "a"), node("slow", "a"), node("join", "quick", "slow")]


def test_of_two_branches_the_slower_one_is_on_it() -> None:
    found = spans(a=(1, 10), quick=(10, 20), slow=(10, 50), join=(50, 60))
    assert critical_path(DIAMOND, found) == ("a", "slow", "join")


def test_it_ends_with_what_has_not_ended_yet() -> None:
    found = spans(a=(1, 10), quick=(10, 70), slow=(11, 0))
    assert critical_path(DIAMOND, found) == ("a", "slow")
    both = spans(a=(1, 10), quick=(10, 0), slow=(11, 0))
    assert critical_path(DIAMOND, both) == ("a", "quick"), "of several the one that has run longest"


def test_nothing_known_is_no_path() -> None:
    assert critical_path(DIAMOND, {}) == ()


def test_a_node_waits_for_results_too() -> None:
    nodes = [
        node("list"),
        node("a"),
        node("load", "a", map_over=MapOver(of="list")),
        node("sum", "a", inputs=("load",)),
    ]
    found = spans(list=(1, 40), a=(1, 5), load=(40, 50), sum=(50, 60))
    assert critical_path(nodes, found) == ("list", "load", "sum")


def test_who_need_not_wait_for_all_did_not_wait_for_what_ended_later() -> None:
    nodes = [node("a"), node("b"), node("first", "a", "b", trigger_rule=TriggerRule.ONE_SUCCESS)]
    assert critical_path(nodes, spans(a=(1, 10), b=(1, 90), first=(11, 95))) == ("a", "first")
    always = [node("a"), node("x", "a", trigger_rule=TriggerRule.ALWAYS)]
    assert critical_path(always, spans(a=(1, 10), x=(1, 20))) == ("x",)


def test_clocks_that_differ_do_not_cut_the_path() -> None:
    assert critical_path([node("a"), node("b", "a")], spans(a=(1, 30), b=(25, 60))) == ("a", "b")


def test_others_may_have_waited_for_a_node_that_never_ran() -> None:
    nodes = [node("a"), node("skipped", "a"), node("end", "skipped", trigger_rule=TriggerRule.ALL_DONE)]
    assert critical_path(nodes, spans(a=(1, 30), skipped=(31, 31), end=(32, 60))) == ("a", "skipped", "end")
