"""What is ready in one DagRun: the release of nodes, kept from one end of a node to the next. Pure, and incremental.

A :class:`DagRunState` is told how one node after another ended and answers what follows. ``dag_decide.py`` says the
same from scratch, plainly; a property test holds both together after every step, in every order of ends.

What must hold: each node is released once, or skipped once, or neither; what is answered depends on what is known of
the nodes, never on the way there (:func:`rebuild` therefore goes on where another stopped); an end costs what it
changes (its children, and whoever takes its result), however large the Dag is. What was answered counts as done:
whoever could not do it drops the object and builds a new one from what is recorded.

How it fails: KeyError for a node that the Dag does not have, ValueError for an item that cannot be one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from itertools import islice
from typing import cast

from .dag import WHOLE, split_node_key
from .dag_events import NOT_KEPT, NodeEnd
from .dag_graph import Graph
from .dag_items import TOO_LARGE, Never, is_never, items_of_result
from .dag_payload import GIVEN_MAX, closed_given, fits, followed_in, gathered, gathered_size, open_given
from .dag_rules import Ends, Verdict, judge
from .dag_steps import FAILED_NAMED_MAX, DagEnd, NodeState, Release, Skip, SkipReason, Steps

_WAITING, _READY, _ACTIVE, _ENDED = range(4)
_UNBOUNDED = 1 << 60
_WAITED_FOR_MAX = 5
_BAD = (NodeEnd.FAILED, NodeEnd.UPSTREAM_FAILED)
_NOT_FOLLOWED = (SkipReason.NOT_FOLLOWED, NodeEnd.SKIPPED)
_RULED_OUT: dict[Verdict, Never] = {
    Verdict.SKIP: (SkipReason.RULE, NodeEnd.SKIPPED),
    Verdict.UPSTREAM_FAILED: (SkipReason.UPSTREAM_FAILED, NodeEnd.UPSTREAM_FAILED),
}


class _Items:
    """A mapped node that was expanded: which of its items are under way, and how those ended that have."""

    __slots__ = ("active", "ends", "items", "next", "opened", "queued", "results", "size", "told")

    def __init__(self, items: tuple[bytes, ...], opened: bytes) -> None:
        self.items = items
        self.opened = opened
        self.told = bytearray(len(items))  # by index: whether it was released
        self.next = 0
        self.active = 0
        self.queued = False
        self.ends: dict[int, NodeEnd] = {}
        self.results: dict[int, bytes] = {}
        self.size = 1

    def first_left(self) -> int | None:
        """The first item that was not released."""
        while self.next < len(self.told) and self.told[self.next]:
            self.next += 1
        return self.next if self.next < len(self.told) else None

    def result(self) -> bytes:
        """Of the whole node; NOT_KEPT where it is over the limit, or that of an item was."""
        return gathered(self.results, len(self.items)) if self.size <= GIVEN_MAX else NOT_KEPT

    def end(self) -> NodeEnd:
        """Of the whole node, once all have ended: one that failed fails it."""
        ends = set(self.ends.values())
        for bad in _BAD:
            if bad in ends:
                return bad
        return NodeEnd.SUCCEEDED if NodeEnd.SUCCEEDED in ends else NodeEnd.SKIPPED


class DagRunState:
    """One DagRun. ``payload``: what nodes without a payload of their own are given."""

    def __init__(self, graph: Graph, payload: bytes = b"") -> None:
        count = len(graph.nodes)
        self.graph = graph
        self.ends: list[NodeEnd | None] = [None] * count
        """By the place of a node how it ended; None: it has not."""
        self.results: dict[int, bytes] = {}
        """By place the results that somebody asks for."""
        self.active = 0
        """Node runs under way."""
        self.is_over = False
        self._payload = payload
        self._stage = bytearray(count)
        self._tally = [[0, 0, 0, 0, 0] for _ in range(count)]  # by place, then by NodeEnd: how its parents ended
        self._open_branches = [len(above) for above in graph.branches]
        self._open_waits = [len(places) for places in graph.waits]
        self._left_out = bytearray(count)  # a branch above it follows others
        self._mapped: dict[int, _Items] = {}
        self._dirty = list(range(count))
        self._ready: list[int] = []
        self._left = count
        self._failed_leaves: list[int] = []
        self._limit = graph.max_active_nodes or _UNBOUNDED

    # What becomes known ----------------------------------------------------------------------------------------------

    def ended(self, key: str, end: NodeEnd, result: bytes | None = None) -> Steps:
        """A node run ended; answers what follows. A repeat changes nothing.

        ``key``: what stands behind the slash of its run id.
        """
        self.know(key, NodeState(end, result))
        return self.decide()

    def know(self, key: str, state: NodeState) -> None:
        """Take in what is recorded of a node run, without deciding anything: parents before children."""
        name, index = split_node_key(key)
        place = self.graph.place[name]
        if index != WHOLE:
            self._know_item(place, index, state)
        elif self._stage[place] == _ENDED:
            return
        elif state.end is None:
            self._activate(place)
        else:
            if self._stage[place] == _ACTIVE:
                self.active -= 1
            self._end(place, state.end, state.result)

    def whole_nodes(self) -> dict[str, NodeState]:
        """By name the nodes that have ended, mapped ones as a whole, with the results that somebody asks for."""
        return {
            node.name: NodeState(end, self.results.get(place))
            for place, (node, end) in enumerate(zip(self.graph.nodes, self.ends, strict=True))
            if end is not None
        }

    @property
    def has_more(self) -> bool:
        """Whether nodes are ready, and may begin, that the last :meth:`decide` has left over."""
        return bool(self._dirty) or (bool(self._ready) and self.active < self._limit)

    @property
    def held_back(self) -> list[str]:
        """The nodes that may begin, or some items of which may, and that a limit keeps from it after :meth:`decide`."""
        ready = [place for place, stage in enumerate(self._stage) if stage == _READY]
        left = [place for place in ready if place not in self._mapped or self._mapped[place].first_left() is not None]
        return [self.graph.nodes[place].name for place in left]

    def why(self, name: str) -> str:
        """What a node waits for, in words: for those who ask why it does not run. "" where it has ended."""
        place = self.graph.place[name]
        if self._stage[place] == _ENDED:
            return ""
        if self._stage[place] == _ACTIVE:
            return "it is under way"
        items = self._mapped.get(place)
        if items is not None and items.active:
            return f"{items.active} of its {len(items.items)} items are under way, {len(items.ends)} have ended"
        if self._stage[place] == _READY:
            return f"{self.active} nodes are under way, and {self._limit} may be"
        node = self.graph.nodes[place]
        asked = [*node.after, *(self.graph.nodes[each].name for each in self.graph.waits[place])]
        open_ones = [each for each in dict.fromkeys(asked) if self.ends[self.graph.place[each]] is None]
        shown = ", ".join(open_ones[:_WAITED_FOR_MAX]) + (", ..." if len(open_ones) > _WAITED_FOR_MAX else "")
        return f"{node.trigger_rule} waits for {shown}"

    def _activate(self, place: int) -> None:
        if self._stage[place] != _ACTIVE:
            self._stage[place] = _ACTIVE
            self.active += 1

    def _know_item(self, place: int, index: int, state: NodeState) -> None:
        if self._stage[place] == _ENDED:
            return
        if place not in self._mapped and not self._open_waits[place] and self.graph.nodes[place].map_over is not None:
            self._expand(place)  # whoever released an item has found the list
        items = self._mapped.get(place)
        if items is None or not 0 <= index < len(items.items):
            raise ValueError(f"{self.graph.nodes[place].name} has no item {index}")
        if index in items.ends:
            return
        if not items.told[index]:
            items.told[index] = 1
            items.active += 1
            self.active += 1
        if state.end is None:
            return
        items.active -= 1
        self.active -= 1
        items.ends[index] = state.end
        if self.graph.needed[place]:
            items.size += gathered_size(state.result)
            if state.result is not None and items.size <= GIVEN_MAX:
                items.results[index] = state.result
        if len(items.ends) == len(items.items):
            self._end(place, items.end(), items.result() if self.graph.needed[place] else None)
            del self._mapped[place]
        elif not items.queued:
            self._queue(place, items)

    def _end(self, place: int, end: NodeEnd, result: bytes | None) -> None:
        """The end of a whole node: told to its children, and to whoever takes its result."""
        graph = self.graph
        node = graph.nodes[place]
        followed = self._followed(place, result) if node.branch and end is NodeEnd.SUCCEEDED else None
        if node.branch and end is NodeEnd.SUCCEEDED and followed is None:
            end = NodeEnd.FAILED  # it ran, and named what is no child of it
        self._stage[place] = _ENDED
        self.ends[place] = end
        self._left -= 1
        if result is not None and end is NodeEnd.SUCCEEDED and (node.branch or graph.needed[place]):
            self.results[place] = result
        children = graph.children[place]
        if not children and end in _BAD:
            self._failed_leaves.append(place)
        for child in children:
            self._tally[child][end] += 1
            if node.branch:
                self._open_branches[child] -= 1
                if followed is not None and child not in followed:
                    self._left_out[child] = 1
        self._dirty += children
        for taker in graph.needed[place]:
            self._open_waits[taker] -= 1
            self._dirty.append(taker)

    def _followed(self, branch: int, result: bytes | None) -> set[int] | None:
        """The children that a branch's result leads to; None where it names what is no child."""
        names = followed_in(result)
        ways = self.graph.followed_by[branch]
        places = [self.graph.place.get(name, -1) for name in names or ()]
        if names is None or any(place not in ways for place in places):
            return None
        return {each for place in places for each in ways[place]}

    # What follows ----------------------------------------------------------------------------------------------------

    def decide(self, most: int = _UNBOUNDED) -> Steps:
        """All that follows from what is known and was not answered before; of releases at most so many at once.

        Those that are left over (:attr:`has_more`) the next call answers.
        """
        skips: list[Skip] = []
        while self._dirty:
            skip = self._judged(self._dirty.pop())
            if skip is not None:
                skips.append(skip)
        skips.sort(key=lambda skip: self.graph.place[skip.node])
        releases = tuple(islice(self._released(), most))
        end = None
        if not self._left and not self.is_over:
            self.is_over = True
            failed = sorted(self._failed_leaves)[:FAILED_NAMED_MAX]
            end = DagEnd(not failed, tuple(self.graph.nodes[place].name for place in failed))
        return Steps(releases, tuple(skips), end)

    def _judged(self, place: int) -> Skip | None:
        """Look at a node again: it becomes ready, is skipped, or goes on waiting."""
        if self._stage[place] != _WAITING or self._open_branches[place]:
            return None
        node = self.graph.nodes[place]
        verdict = judge(node.trigger_rule, Ends(len(node.after), *self._tally[place][1:]))
        never = _NOT_FOLLOWED if self._left_out[place] else _RULED_OUT.get(verdict)
        if never is None and verdict is Verdict.RUN and not self._open_waits[place]:
            never = self._make_ready(place)
        return None if never is None else self._skip(place, never)

    def _make_ready(self, place: int) -> Never | None:
        node = self.graph.nodes[place]
        if node.map_over is not None:
            return self._expand(place)
        if node.inputs and not self._inputs_fit(place):
            return TOO_LARGE
        self._stage[place] = _READY
        heappush(self._ready, place)
        return None

    def _skip(self, place: int, why: Never) -> Skip:
        self._end(place, why[1], None)
        return Skip(self.graph.nodes[place].name, *why)

    def _released(self) -> Iterable[Release]:
        """The first ready ones, as many as the limits allow."""
        while self._ready and self.active < self._limit:
            place = self._ready[0]
            node = self.graph.nodes[place]
            items = self._mapped.get(place)
            if items is None:
                heappop(self._ready)
                if self._stage[place] == _READY:
                    self._activate(place)
                    yield Release(node.name, WHOLE, self._given(place))
                continue
            assert node.map_over is not None  # only those have items
            index = items.first_left()
            if index is None or items.active >= (node.map_over.concurrency or _UNBOUNDED):
                heappop(self._ready)
                items.queued = False
                continue
            items.told[index] = 1
            items.active += 1
            self.active += 1
            yield Release(node.name, index, closed_given(items.opened, items.items[index], index))

    def _queue(self, place: int, items: _Items) -> None:
        items.queued = True
        heappush(self._ready, place)

    # Mapped nodes, and what nodes are given --------------------------------------------------------------------------

    def _expand(self, place: int) -> Never | None:
        """Find the items of a mapped node, which is ready then; or say why it has none."""
        node = self.graph.nodes[place]
        over = node.map_over
        assert over is not None  # asked for mapped nodes alone
        found: tuple[bytes, ...] | Never | None = self.graph.items.get(place)
        if found is None:
            source = self.graph.place[over.of]
            found = items_of_result(over, self.ends[source], self.results.get(source))
        if is_never(found):
            return cast("Never", found)
        items = cast("tuple[bytes, ...]", found)
        opened = self._opened(place)
        if not self._inputs_are_kept(place) or not fits(opened, max(map(len, items))):
            return TOO_LARGE
        self._stage[place] = _READY
        self._mapped[place] = _Items(items, opened)
        self._queue(place, self._mapped[place])
        return None

    def _own_payload(self, place: int) -> bytes:
        payload = self.graph.nodes[place].payload
        return self._payload if payload is None else payload

    def _opened(self, place: int) -> bytes:
        upstream = ((name, self.results.get(self.graph.place[name])) for name in self.graph.nodes[place].inputs)
        return open_given(self._own_payload(place), upstream)

    def _given(self, place: int) -> bytes:
        if not self.graph.nodes[place].inputs:
            return self._own_payload(place)
        return closed_given(self._opened(place))

    def _inputs_are_kept(self, place: int) -> bool:
        """Whether all of the results that it takes were kept."""
        inputs = self.graph.nodes[place].inputs
        return all(self.results.get(self.graph.place[name]) != NOT_KEPT for name in inputs)

    def _inputs_fit(self, place: int) -> bool:
        return self._inputs_are_kept(place) and fits(self._opened(place))


def rebuild(graph: Graph, nodes: Mapping[str, NodeState], payload: bytes = b"") -> DagRunState:
    """The state of a DagRun from what is recorded of its node runs, by key, in any order.

    What was decided but not recorded is answered by the next :meth:`DagRunState.decide`.
    """
    run = DagRunState(graph, payload)
    rank = {place: number for number, place in enumerate(graph.order)}
    keyed = [(split_node_key(key), key) for key in nodes]
    for _, key in sorted(keyed, key=lambda each: (rank[graph.place[each[0][0]]], each[0][1])):
        run.know(key, nodes[key])
    return run
