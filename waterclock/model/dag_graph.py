"""A Dag as its release needs it: every node by number, with children, branches above it, and whose results count.

Made once for a version of a job, and shared by all its DagRuns. Only for a Dag that was checked (``dag_checks.py``):
for any other it raises KeyError or graphlib.CycleError.
"""

from __future__ import annotations

from graphlib import TopologicalSorter

from .dag import DagSpec, Node
from .dag_items import static_items


class Graph:
    """``nodes`` in the order in which they were written; all other tables go by a node's place in it."""

    __slots__ = (
        "branches",
        "children",
        "followed_by",
        "items",
        "max_active_nodes",
        "needed",
        "nodes",
        "order",
        "place",
        "waits",
    )

    def __init__(self, dag: DagSpec) -> None:
        self.nodes: tuple[Node, ...] = dag.nodes
        self.max_active_nodes = dag.max_active_nodes
        self.place: dict[str, int] = {node.name: number for number, node in enumerate(dag.nodes)}
        """By name."""
        parents = [tuple(self.place[name] for name in node.after) for node in dag.nodes]
        self.children = _turned_round(parents)
        self.order: tuple[int, ...] = tuple(TopologicalSorter(dict(enumerate(parents))).static_order())
        """Parents before their children."""
        self.branches = [tuple(each for each in above if dag.nodes[each].branch) for above in parents]
        """Its parents that are branches: until they have ended, a node waits whatever its rule says."""
        self.waits = [self._waits_of(node) for node in dag.nodes]
        """The nodes whose results it takes: it waits for them too."""
        self.needed = _turned_round(self.waits)
        """Who takes its result."""
        self.items: dict[int, tuple[bytes, ...]] = {
            place: static_items(node.map_over)
            for place, node in enumerate(dag.nodes)
            if node.map_over and not node.map_over.of
        }
        """Of nodes that are mapped over what the Dag itself says: each item as JSON."""
        self.followed_by = self._below_branches()
        """By branch, then by one of its children: the branch's children that following that one leads to."""

    def needs_result(self, name: str) -> bool:
        """Whether anybody asks for this node's result: whoever keeps a node's end keeps its result only then."""
        place = self.place[name]
        return self.nodes[place].branch or bool(self.needed[place])

    def _waits_of(self, node: Node) -> tuple[int, ...]:
        names = {*node.inputs, *((node.map_over.of,) if node.map_over and node.map_over.of else ())}
        return tuple(sorted(self.place[name] for name in names))

    def _below_branches(self) -> dict[int, dict[int, tuple[int, ...]]]:
        """By sets of places as the bits of one number: 10,000 edges are 10,000 additions of sets."""
        branches = [place for place, node in enumerate(self.nodes) if node.branch]
        if not branches:
            return {}
        reach = [0] * len(self.nodes)
        for place in reversed(self.order):
            for child in self.children[place]:
                reach[place] |= reach[child] | 1 << child
        return {
            branch: {
                child: tuple(other for other in self.children[branch] if other == child or reach[child] >> other & 1)
                for child in self.children[branch]
            }
            for branch in branches
        }


def _turned_round(above: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    below: list[list[int]] = [[] for _ in above]
    for place, places in enumerate(above):
        for each in places:
            below[each].append(place)
    return [tuple(each) for each in below]
