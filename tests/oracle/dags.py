"""Which nodes of a DagRun must have started, by the rules' truth tables alone. Imports nothing of ours.

A Dag is judged from its published form (the value of ``dag`` in a job document) and from what came of the node runs
that did start: everything else follows. Nothing here walks in the order of anything: all nodes are looked at again and
again until nothing is added, and then it must be whole.

How a node ended: S it succeeded, F it failed (or was cancelled), K it was skipped, U it never could run because of a
failure before it. Truth tables: the page "Trigger Rules" of Airflow 3; ``all_success`` beside a failed parent is U
whatever else is skipped.
"""

import json

GIVEN_MAX = 65_536
RULES = {
    # By rule: if any parent ended in one of these ways, it is that, the first that holds; and else it is the last.
    "all_success": [("FU", "U"), ("K", "K"), "run"],
    "all_failed": [("SK", "K"), "run"],
    "all_done": ["run"],
    "all_done_min_one_success": [("K", "K"), ("S", "run"), "U"],
    "all_skipped": [("SFU", "K"), "run"],
    "one_success": [("S", "run"), ("FU", "U"), "K"],
    "one_failed": [("FU", "run"), "K"],
    "one_done": [("SF", "run"), "K"],
    "none_failed": [("FU", "U"), "run"],
    "none_failed_min_one_success": [("FU", "U"), ("S", "run"), "K"],
    "none_skipped": [("K", "K"), "run"],
    "always": ["run"],
}


class Unsettled(Exception):
    """A run that must have started has not ended, or never did start: the message names it."""


def settle(dag, ran, payload=b"", kept=None):
    """(ends by node, what must have started: by key what it was given, whether the DagRun succeeded).

    ``ran``: by key of the node runs that started ``(ended well, its result)``. ``kept``: by name how a node ended that
    a rerun keeps, and its result. A result is None where there is none, empty where it was not kept. Raises Unsettled.
    """
    nodes = {node["name"]: node for node in dag["nodes"]}
    ends = {name: end for name, (end, _) in (kept or {}).items()}
    results = {name: _text(result) for name, (_, result) in (kept or {}).items()}
    started = {}
    while True:
        found = {}
        for name, node in nodes.items():
            if name not in ends:
                _look(node, nodes, ends, results, started, ran, payload, found)
        if not found:
            break
        ends |= found
    missing = sorted(set(nodes) - set(ends))
    if missing:
        raise Unsettled(f"nothing is said of {', '.join(missing)}")
    parents = {parent for node in nodes.values() for parent in node.get("after", [])}
    leaves = [ends[name] for name in nodes if name not in parents]
    return ends, started, not ("F" in leaves or "U" in leaves)


def _look(node, nodes, ends, results, started, ran, payload, found):
    name, parents = node["name"], node.get("after", [])
    if any(parent not in ends for parent in parents):
        return
    fate = "run"
    if parents:
        *rows, fate = RULES[node.get("trigger_rule", "all_success")]
        seen = {ends[parent] for parent in parents}
        fate = next((what for ways, what in rows if seen & set(ways)), fate)
    for parent in parents:
        if nodes[parent].get("branch") and ends[parent] == "S":
            fate = fate if name in _reached(nodes, _named(nodes, parent, results[parent])) else "K"
    needed = [*node.get("inputs", []), *([node["map"]["over"]] if _maps_over_a_node(node) else [])]
    if fate == "run" and any(each not in ends for each in needed):
        return
    if fate != "run":
        found[name] = fate
    elif "map" in node:
        _look_at_items(node, ends, results, started, ran, payload, found)
    else:
        given = _given(node, ends, results, payload)
        if given is None and "inputs" in node:
            found[name] = "F"
            return
        started[name] = given
        if name not in ran:
            raise Unsettled(f"{name} has not started or not ended")
        well, result = ran[name]
        results[name] = _text(result)
        is_lost = node.get("branch") and well and _named(nodes, name, results[name]) is None
        found[name] = "S" if well and not is_lost else "F"


def _maps_over_a_node(node):
    return isinstance(node.get("map", {}).get("over"), str)


def _look_at_items(node, ends, results, started, ran, payload, found):
    name, over = node["name"], node["map"].get("over")
    items = list(range(node["map"]["count"])) if over is None else over
    if isinstance(over, str):
        if ends[over] != "S":
            found[name] = "K" if ends[over] == "K" else "U"
            return
        items = _json(results[over]) if results[over] is not None else None
        if not isinstance(items, list) or len(items) > node["map"].get("max", 1000):
            found[name] = "F"
            return
    given = [_given(node, ends, results, payload, (item, index)) for index, item in enumerate(items)]
    if any(each is None for each in given):
        found[name] = "F"
        return
    keys = [f"{name}.{index}" for index in range(len(items))]
    started |= dict(zip(keys, given, strict=True))
    unknown = [key for key in keys if key not in ran]
    if unknown:
        raise Unsettled(f"{unknown[0]} has not started or not ended")
    found[name] = "K" if not items else "S" if all(ran[key][0] for key in keys) else "F"
    made = [_text(ran[key][1]) for key in keys]
    whole = None if None in made else "[" + ",".join(made) + "]"
    results[name] = whole if whole is not None and len(whole.encode()) <= GIVEN_MAX else None


def _named(nodes, branch, result):
    """The children that a branch's result names; None where it names something else, or nobody knows what."""
    named = 0 if result is None else _json(result)
    named = [] if named is None else [named] if isinstance(named, str) else named
    children = [name for name, node in nodes.items() if branch in node.get("after", [])]
    return set(named) if isinstance(named, list) and all(each in children for each in named) else None


def _reached(nodes, named):
    """Those nodes, and all that come after them."""
    reached = set(named)
    while True:
        further = {name for name, node in nodes.items() if reached & set(node.get("after", []))} - reached
        if not further:
            return reached
        reached |= further


def _given(node, ends, results, payload, item=None):
    """What a run is given, as a value; None where that is too large."""
    own = node["payload"] if "payload" in node else _json(payload.decode())
    if "inputs" not in node and item is None:
        return own
    upstream = {name: results[name] if ends[name] == "S" else "null" for name in node.get("inputs", [])}
    if None in upstream.values():
        return None
    whole = {"payload": own, "upstream": {name: _json(text) for name, text in upstream.items()}}
    if item is not None:
        whole |= {"item": item[0], "index": item[1]}
    size = len(json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode())
    return whole if size <= GIVEN_MAX else None


def _text(result):
    """None where there is one and it was not kept: nobody may be given anything in its place."""
    if result == b"":
        return None
    return "null" if result is None else result.decode()


def _json(text):
    """The value in a result; one that is no JSON is nothing that a list or a name could be."""
    try:
        return json.loads(text or "null")
    except ValueError:
        return 0
