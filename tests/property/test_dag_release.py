"""The release of nodes, told from one end to the next, is what the plain form says: after every step, in every order.

And whoever takes over from what is recorded goes on alike.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.random_dags import RULES, random_dag, random_end
from waterclock.model.dag import WHOLE, DagSpec
from waterclock.model.dag_decide import decide
from waterclock.model.dag_events import NodeEnd
from waterclock.model.dag_graph import Graph
from waterclock.model.dag_release import DagRunState, rebuild
from waterclock.model.dag_rules import Ends, Verdict, judge
from waterclock.model.dag_steps import DagEnd, NodeState, Release, Steps

PAYLOAD = b'{"of":"the run"}'


class Play:
    """One DagRun: both forms side by side, and what is recorded of its nodes."""

    def __init__(self, dag: DagSpec, dice: Random) -> None:
        self.dag = dag
        self.dice = dice
        self.graph = Graph(dag)
        self.by_name = {node.name: node for node in dag.nodes}
        self.known: dict[str, NodeState] = {}
        self.under_way: list[Release] = []
        self.end: DagEnd | None = None
        self.run = DagRunState(self.graph, PAYLOAD)
        self.agree(self.run.decide())

    def agree(self, steps: Steps) -> None:
        """Both say the same; then it is recorded."""
        assert steps == decide(self.dag, self.known, PAYLOAD)
        for skip in steps.skips:
            assert skip.key not in self.known
            self.known[skip.key] = NodeState(skip.counts_as)
        for release in steps.releases:
            assert release.key not in self.known
            self.known[release.key] = NodeState()
        self.under_way += steps.releases
        self.end = steps.end or self.end

    def one_ends(self) -> None:
        release = self.under_way.pop(self.dice.randrange(len(self.under_way)))
        end, result = random_end(self.dice, self.dag, self.by_name[release.node])
        kept = result if self.graph.needs_result(release.node) else None
        before = dict(self.known)
        self.known[release.key] = NodeState(end, kept)
        if self.dice.random() < 0.2:  # somebody else takes over, before or after that end was told
            recorded = self.known if self.dice.random() < 0.5 else before
            self.run = rebuild(self.graph, dict(self.dice.sample(sorted(recorded.items()), len(recorded))), PAYLOAD)
            if recorded is self.known:
                self.agree(self.run.decide())
                return
            assert self.run.decide() == Steps()
        self.agree(self.run.ended(release.key, end, result))
        if self.dice.random() < 0.2:
            assert self.run.ended(release.key, NodeEnd.FAILED) == Steps()  # a repeat

    def whole(self) -> None:
        while self.under_way:
            self.one_ends()


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_both_forms_agree_after_every_end_and_every_take_over(seed: int) -> None:
    dice = Random(seed)
    play = Play(random_dag(dice, 14), dice)
    play.whole()
    assert play.end is not None, "nothing is under way, and the DagRun is open"
    assert play.run.is_over


@given(st.integers(0, 2**32))
@settings(max_examples=80, deadline=None)
def test_the_order_in_which_nodes_end_does_not_change_how_any_of_them_ends(seed: int) -> None:
    dag = random_dag(Random(seed), 10)
    ends: dict[str, tuple[NodeEnd, bytes | None]] = {}
    came_to = []
    for order in range(4):
        dice = Random(order)
        run = DagRunState(Graph(dag), PAYLOAD)
        steps, under_way, known, told = run.decide(), [], {}, None
        while True:
            under_way += steps.releases
            known |= {release.key: release.payload for release in steps.releases}
            known |= {skip.key: skip.counts_as for skip in steps.skips}
            told = steps.end or told
            if not under_way:
                break
            release = under_way.pop(dice.randrange(len(under_way)))
            node = next(node for node in dag.nodes if node.name == release.node)
            ends.setdefault(release.key, random_end(Random(f"{seed}/{release.key}"), dag, node))
            steps = run.ended(release.key, *ends[release.key])
        assert told is not None
        came_to.append((known, told))
    assert all(each == came_to[0] for each in came_to)


@pytest.mark.parametrize("rule", RULES)
@given(ends=st.lists(st.sampled_from([*NodeEnd]), min_size=1, max_size=5))
@settings(deadline=None)
def test_what_a_rule_has_said_is_never_taken_back_and_is_said_once_all_parents_have_ended(rule, ends) -> None:
    said = Verdict.WAIT
    for count in range(len(ends) + 1):
        seen = ends[:count]
        verdict = judge(rule, Ends(len(ends), *(seen.count(end) for end in NodeEnd)))
        assert said in (Verdict.WAIT, verdict)
        said = verdict
    assert said is not Verdict.WAIT


def test_an_item_that_cannot_be_one_is_refused() -> None:
    run = DagRunState(Graph(random_dag(Random(1), 1)))
    with pytest.raises(ValueError, match="no item 7"):
        run.know("n0.7", NodeState())
    with pytest.raises(KeyError):
        run.know("nobody", NodeState())
    assert WHOLE == -1
