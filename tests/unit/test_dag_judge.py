"""The judge of Dags fails where a rule is broken: on hand-made Dags, and with every rule of the product twisted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.acceptance.random_dags import play_and_judge
from tests.dag_play import DagPlay
from tests.oracle import dags
from waterclock.model import dag_rules
from waterclock.model.dag import TriggerRule
from waterclock.model.dag_rules import Ends, Verdict

SEEDS = range(25)
NODES_MAX = 14


def ends_of(*nodes: dict[str, Any], **ran: bool) -> dict[str, str]:
    made: dict[str, str] = dags.settle({"nodes": list(nodes)}, {key: (well, None) for key, well in ran.items()})[0]
    return made


def node(name: str, *after: str, **words: Any) -> dict[str, Any]:
    return {"name": name, "after": list(after), **words}


def test_the_judge_knows_the_truth_tables() -> None:
    """By rule what becomes of a node behind a succeeded, a failed and a skipped parent."""
    first = [node("good"), node("bad"), node("b", branch=True), node("gone", "b")]
    ran = {"good": True, "bad": False, "b": True}
    became = {}
    for rule in dags.RULES:
        last = node("last", "good", "bad", "gone", trigger_rule=rule)
        try:
            became[rule] = ends_of(*first, last, **ran)["last"]
        except dags.Unsettled:
            became[rule] = "runs"
    assert became == {
        "all_success": "U",
        "all_failed": "K",
        "all_done": "runs",
        "all_done_min_one_success": "K",
        "all_skipped": "K",
        "one_success": "runs",
        "one_failed": "runs",
        "one_done": "runs",
        "none_failed": "U",
        "none_failed_min_one_success": "U",
        "none_skipped": "K",
        "always": "runs",
    }


def test_a_run_that_must_have_begun_and_did_not_is_named() -> None:
    with pytest.raises(dags.Unsettled, match="b has not started or not ended"):
        ends_of(node("a"), node("b", "a"), a=True)


@pytest.mark.parametrize("rule", TriggerRule)
def test_every_rule_that_is_broken_is_found(rule: TriggerRule, monkeypatch: pytest.MonkeyPatch) -> None:
    right = dag_rules._RULES[rule]

    def twisted(ends: Ends) -> Verdict:
        said = right(ends)
        if said is Verdict.RUN:
            return Verdict.SKIP
        return Verdict.RUN if said is Verdict.SKIP else said

    monkeypatch.setitem(dag_rules._RULES, rule, twisted)
    assert any(play_and_judge(seed, NODES_MAX, Counter()) for seed in SEEDS)


def test_nothing_is_found_where_nothing_is_broken() -> None:
    seen: Counter[str] = Counter()
    assert [each for seed in SEEDS for each in play_and_judge(seed, NODES_MAX, seen)] == []
    assert seen["node runs"] > len(SEEDS)


@pytest.mark.parametrize("what", ["released twice", "never skipped", "never ended", "given otherwise"])
def test_an_engine_that_does_wrong_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = DagPlay._tell

    def wrong(self: DagPlay, steps: Any, nodes: Any, out: Any, work: Any) -> None:
        if what == "never skipped":
            steps = steps._replace(skips=())
        elif what == "never ended":
            steps = steps._replace(end=None)
        told(self, steps, nodes, out, work)
        if what == "released twice" and work:
            work.append(work[0])
        elif what == "given otherwise" and work:
            work[0] = work[0]._replace(payload=b'"something else"')

    monkeypatch.setattr(DagPlay, "_tell", wrong)
    assert any(play_and_judge(seed, NODES_MAX, Counter()) for seed in SEEDS)
