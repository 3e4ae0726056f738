"""Random Dags and how their nodes end, from a seed: for the property tests and for ``make show NAME=random-dags``.

Every rule, branches that follow some, all or none of their children, nodes mapped over lists, counts and results (of
every kind: empty, too long, no list), results that are handed down, limits on what is under way.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import orjson

from waterclock.model.dag import DagSpec, MapOver, Node, TriggerRule
from waterclock.model.dag_checks import check_graph
from waterclock.model.dag_events import NOT_KEPT, NodeEnd
from waterclock.model.errors import RequestError

RULES = [*TriggerRule]
RAN = (NodeEnd.SUCCEEDED, NodeEnd.FAILED)


def random_dag(dice: Random, nodes_max: int) -> DagSpec:
    """One that the door lets pass."""
    while True:
        dag = _drawn(dice, dice.randint(1, nodes_max))
        try:
            check_graph(dag)
        except RequestError:
            continue
        return dag


def random_end(dice: Random, dag: DagSpec, node: Node, well: float = 0.75) -> tuple[NodeEnd, bytes | None]:
    """How a run of this node ends, and with which result. ``well``: how often it succeeds."""
    end = NodeEnd.SUCCEEDED if dice.random() < well else NodeEnd.FAILED
    if end is NodeEnd.FAILED:
        return end, None
    if node.branch:
        return end, random_way(dice, dag, node)
    return end, random_result(dice)


def random_way(dice: Random, dag: DagSpec, branch: Node) -> bytes | None:
    """What a branch answers: mostly children of it."""
    children = [each.name for each in dag.nodes if branch.name in each.after]
    kind = dice.random()
    if kind < 0.1:
        return dice.choice([None, NOT_KEPT, b"null", b"[]", b"7", b'"nobody"', b"no json", b'["nobody"]'])
    if kind < 0.4:
        return orjson.dumps(dice.choice(children))
    return orjson.dumps(dice.sample(children, dice.randint(0, len(children))))


def random_result(dice: Random) -> bytes | None:
    """Mostly short lists, for whoever is mapped over them."""
    kind = dice.random()
    if kind < 0.1:
        return dice.choice([None, NOT_KEPT, b"3", b'{"a":1}', b"[]", b'"text"'])
    if kind < 0.2:
        return orjson.dumps("x" * 8_000)
    return orjson.dumps([dice.choice(["eu", 7, None, {"k": [1]}]) for _ in range(dice.randint(0, 6))])


def _drawn(dice: Random, count: int) -> DagSpec:
    names = [f"n{number}" for number in range(count)]
    dense = dice.choice([0.05, 0.15, 0.4])
    plain = dice.random() < 0.3  # the default rule alone
    nodes = []
    above: dict[str, set[str]] = {}
    for number, name in enumerate(names):
        after = [other for other in names[max(0, number - 12) : number] if dice.random() < dense]
        if number and not after and dice.random() < 0.7:
            after = [dice.choice(names[:number])]
        above[name] = set(after).union(*(above[parent] for parent in after))
        upstream = sorted(above[name])
        rule = TriggerRule.ALL_SUCCESS if plain or not after else dice.choice(RULES)
        parts: dict[str, Any] = {"payload": b'{"own":1}'} if dice.random() < 0.2 else {}
        if upstream and dice.random() < 0.2:
            parts["inputs"] = tuple(dice.sample(upstream, dice.randint(1, min(3, len(upstream)))))
        nodes.append(Node(name, "demo.node", after=tuple(after), trigger_rule=rule, **parts))
    _branch_and_map(dice, nodes, above)
    takers = [place for place, node in enumerate(nodes) if node.inputs]
    if takers and dice.random() < 0.3:  # with results of 8 KB it is over the limit
        place = dice.choice(takers)
        nodes[place] = replace(nodes[place], payload=orjson.dumps("x" * 60_000))
    dice.shuffle(nodes)
    return DagSpec(tuple(nodes), max_active_nodes=dice.choice([0, 0, 1, 3]))


def _branch_and_map(dice: Random, nodes: list[Node], above: dict[str, set[str]]) -> None:
    parents = {parent for node in nodes for parent in node.after}
    for place, node in enumerate(nodes):
        kind = dice.random()
        if kind < 0.12 and node.name in parents:
            nodes[place] = replace(node, branch=True)
        elif kind < 0.3:
            over: dict[str, Any] = {"concurrency": dice.choice([0, 0, 1, 2])}
            what = dice.random()
            if what < 0.6 and above[node.name]:
                over |= {"of": dice.choice(sorted(above[node.name])), "max_items": dice.choice([5, 50])}
            elif what < 0.8:
                over["items"] = '["a",{"b":2},null]'
            else:
                over["count"] = dice.randint(1, 4)
            nodes[place] = replace(node, map_over=MapOver(**over))
