"""What is ready in one DagRun, said from scratch: slow and plain, to be read beside ``dag_release.py``.

Everything is computed from what is recorded of the node runs, again and again until nothing is added. For tests, and
for whoever wants to know what a Dag would do; the engine keeps a ``DagRunState``, which answers the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from .dag import DagSpec, Node, node_key
from .dag_events import NOT_KEPT, NodeEnd
from .dag_items import TOO_LARGE, Never, is_never, items_of_result, static_items
from .dag_payload import GIVEN_MAX, closed_given, fits, followed_in, gathered, gathered_size, open_given
from .dag_rules import Ends, Verdict, judge
from .dag_steps import FAILED_NAMED_MAX, DagEnd, NodeState, Release, Skip, SkipReason, Steps

_BAD = (NodeEnd.FAILED, NodeEnd.UPSTREAM_FAILED)


def decide(dag: DagSpec, states: Mapping[str, NodeState], payload: bytes = b"") -> Steps:
    """What follows from what is recorded, by what stands behind the slash of the run ids: releases, skips, the end."""
    known = dict(states)
    skips: list[Skip] = []
    while True:
        found = [skip for node in dag.nodes for skip in [_Look(dag, known, payload).skip_of(node)] if skip is not None]
        if not found:
            break
        skips += found
        known |= {skip.key: NodeState(skip.counts_as) for skip in found}
    look = _Look(dag, known, payload)
    place = {node.name: number for number, node in enumerate(dag.nodes)}
    skips.sort(key=lambda skip: place[skip.node])
    return Steps(tuple(look.releases()), tuple(skips), look.end())


class _Look:
    """One look at what is known."""

    def __init__(self, dag: DagSpec, known: Mapping[str, NodeState], payload: bytes) -> None:
        self._dag = dag
        self._known = known
        self._payload = payload
        self._by_name = {node.name: node for node in dag.nodes}
        self._ends: dict[str, NodeEnd | None] = {}

    def skip_of(self, node: Node) -> Skip | None:
        """The node, if it can be said now that it never runs."""
        never = None if self._has_begun(node) else self._never(node)
        return None if never is None else Skip(node.name, *never)

    def _never(self, node: Node) -> Never | None:
        ways = self._ways_to(node)
        if ways is None:
            return None
        if any(node.name not in way for way in ways):
            return SkipReason.NOT_FOLLOWED, NodeEnd.SKIPPED
        verdict = self._verdict(node)
        if verdict is Verdict.SKIP:
            return SkipReason.RULE, NodeEnd.SKIPPED
        if verdict is Verdict.UPSTREAM_FAILED:
            return SkipReason.UPSTREAM_FAILED, NodeEnd.UPSTREAM_FAILED
        if verdict is Verdict.WAIT or not self._has_its_inputs(node):
            return None
        return self._too_large(node) if node.map_over is None else self._no_items(node)

    def releases(self) -> Iterator[Release]:
        """The first ready ones, within the limits."""
        active = sum(state.end is None for state in self._known.values())
        room = self._dag.max_active_nodes - active if self._dag.max_active_nodes else 1 << 60
        for release in self._ready():
            if room <= 0:
                return
            room -= 1
            yield release

    def end(self) -> DagEnd | None:
        """The end of the DagRun, once all nodes have ended."""
        if any(self._end_of(node) is None for node in self._dag.nodes):
            return None
        parents = {name for node in self._dag.nodes for name in node.after}
        failed = [node.name for node in self._dag.nodes if node.name not in parents and self._end_of(node) in _BAD]
        return DagEnd(not failed, tuple(failed[:FAILED_NAMED_MAX]))

    def _ready(self) -> Iterator[Release]:
        for node in self._dag.nodes:
            if self._end_of(node) is not None:
                continue
            if not self._has_begun(node) and not self._may_begin(node):
                continue
            if node.map_over is not None:
                yield from self._ready_items(node)
            elif node.name not in self._known:
                given = closed_given(self._opened(node)) if node.inputs else self._own_payload(node)
                yield Release(node.name, -1, given)

    def _ready_items(self, node: Node) -> Iterator[Release]:
        assert node.map_over is not None  # asked for mapped nodes alone
        items = self._items(node)
        active = sum(
            key in self._known and self._known[key].end is None
            for key in (node_key(node.name, index) for index in range(len(items)))
        )
        room = node.map_over.concurrency - active if node.map_over.concurrency else 1 << 60
        for index, item in enumerate(items):
            if node_key(node.name, index) in self._known:
                continue
            if room <= 0:
                return
            room -= 1
            yield Release(node.name, index, closed_given(self._opened(node), item, index))

    def _may_begin(self, node: Node) -> bool:
        return self._ways_to(node) is not None and self._verdict(node) is Verdict.RUN and self._has_its_inputs(node)

    def _has_begun(self, node: Node) -> bool:
        return node.name in self._known or node_key(node.name, 0) in self._known or self._some_item_is_known(node)

    def _some_item_is_known(self, node: Node) -> bool:
        return node.map_over is not None and any(key.startswith(f"{node.name}.") for key in self._known)

    def _verdict(self, node: Node) -> Verdict:
        ends = [self._end_of(self._by_name[name]) for name in node.after]
        return judge(node.trigger_rule, Ends(len(ends), *(ends.count(end) for end in NodeEnd)))

    def _has_its_inputs(self, node: Node) -> bool:
        names = [*node.inputs, *([node.map_over.of] if node.map_over and node.map_over.of else [])]
        return all(self._end_of(self._by_name[name]) is not None for name in names)

    def _end_of(self, node: Node) -> NodeEnd | None:
        if node.name not in self._ends:
            self._ends[node.name] = self._seen_end(node)
        return self._ends[node.name]

    def _seen_end(self, node: Node) -> NodeEnd | None:
        state = self._known.get(node.name)
        if state is not None:
            is_lost = node.branch and state.end is NodeEnd.SUCCEEDED and self._named(node, state.result) is None
            return NodeEnd.FAILED if is_lost else state.end
        if not self._some_item_is_known(node):
            return None
        items = self._items(node)
        ends = [self._known.get(node_key(node.name, index), NodeState()).end for index in range(len(items))]
        if None in ends:
            return None
        return next((end for end in (*_BAD, NodeEnd.SUCCEEDED) if end in ends), NodeEnd.SKIPPED)

    def _result(self, name: str) -> bytes | None:
        """Of a node that succeeded."""
        node = self._by_name[name]
        if self._end_of(node) is not NodeEnd.SUCCEEDED:
            return None
        if name in self._known:
            return self._known[name].result
        items = self._items(node)
        results = [self._known[node_key(name, index)].result for index in range(len(items))]
        if sum(map(gathered_size, results)) + 1 > GIVEN_MAX:
            return NOT_KEPT
        return gathered({index: result for index, result in enumerate(results) if result is not None}, len(results))

    def _named(self, branch: Node, result: bytes | None) -> tuple[str, ...] | None:
        """The children that a branch's result names; None where it names what is no child."""
        names = followed_in(result)
        children = {node.name for node in self._dag.nodes if branch.name in node.after}
        return None if names is None or not set(names) <= children else names

    def _ways_to(self, node: Node) -> list[set[str]] | None:
        """By branch above it the nodes that it does not rule out; None while one has not ended."""
        branches = [self._by_name[name] for name in node.after if self._by_name[name].branch]
        if any(self._end_of(branch) is None for branch in branches):
            return None
        return [self._ways_of(branch) for branch in branches]

    def _ways_of(self, branch: Node) -> set[str]:
        if self._end_of(branch) is not NodeEnd.SUCCEEDED:
            return set(self._by_name)
        reached = set(self._named(branch, self._known[branch.name].result) or ())
        while True:
            further = {node.name for node in self._dag.nodes if not reached.isdisjoint(node.after)} - reached
            if not further:
                return reached
            reached |= further

    def _found(self, node: Node) -> tuple[bytes, ...] | Never:
        over = node.map_over
        assert over is not None  # asked for mapped nodes alone
        if not over.of:
            return static_items(over)
        return items_of_result(over, self._end_of(self._by_name[over.of]), self._result(over.of))

    def _items(self, node: Node) -> tuple[bytes, ...]:
        """Of a node that has them."""
        return cast("tuple[bytes, ...]", self._found(node))

    def _no_items(self, node: Node) -> Never | None:
        found = self._found(node)
        return cast("Never", found) if is_never(found) else self._too_large(node, max(map(len, self._items(node))))

    def _too_large(self, node: Node, longest: int = 0) -> Never | None:
        if node.map_over is None and not node.inputs:
            return None
        kept = all(self._result(name) != NOT_KEPT for name in node.inputs)
        return None if kept and fits(self._opened(node), longest) else TOO_LARGE

    def _opened(self, node: Node) -> bytes:
        return open_given(self._own_payload(node), ((name, self._result(name)) for name in node.inputs))

    def _own_payload(self, node: Node) -> bytes:
        return self._payload if node.payload is None else node.payload
