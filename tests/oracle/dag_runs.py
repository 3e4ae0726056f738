"""I10: every node of a DagRun began exactly once if and only if its rule held, none too early, and none is left behind.

Imports nothing of ours. Input: dumped ``events`` and ``work``, and what each DagRun is made of (``makings.meant``). A
DagRun that ended by itself is held against the fixpoint over the truth tables (``dags.py``); of one that was cancelled
or over its time only what did begin is judged, by what stood before it in the log.
"""

import base64
import collections
import functools
import json
import typing

from . import dags
from .records import decode
from .runs import tell_all

LATE_US = 10_000_000
"""So late an expiry may be where the engine is there."""
TURNS_US = 1_000_000
"""Who acts twice with so much in between has had a turn to look."""

WAYS = {"SUCCEEDED": "S", "FAILED": "F", "CANCELLED": "F"}
PAUSES = ("DAG_PAUSED", "DAG_RESUMED")
BY_THE_ENGINE = ("NODE_SKIPPED", "DAG_SUCCEEDED", "DAG_FAILED")
"""And PENDING of nodes."""
COUNTED = {"SUCCEEDED": "S", "FAILED": "F", "SKIPPED": "K", "UPSTREAM_FAILED": "U"}
ANY = {"one_success": "S", "one_failed": "FU", "one_done": "SF"}
"""Rules for which one parent that ended in such a way is enough."""


class Span(typing.NamedTuple):
    """When a DagRun's PENDING was written, on which partition, and when it ended; 0 while it has not. By the log.

    ``went_out_at``, ``expired_at``: what PENDING, and the RUN_EXPIRED that ended it for its time, say themselves.
    """

    begun_at: int
    partition: int
    went_out_at: int
    ended_at: int = 0
    expired_at: int | None = None


class Seen(typing.NamedTuple):
    """A node run. ``end``: how it ended and at which offset, None while it is open. ``skipped``: why it never ran."""

    offset: int
    skipped: str
    end: tuple | None = None
    result: bytes | None = None


def check(events, work, meant):
    """(complaints, counts) at rest."""
    counts, complaints = collections.Counter(), []
    stood, nodes, pendings = {}, collections.defaultdict(dict), collections.Counter()
    pauses = collections.defaultdict(list)
    spans, acts, expiries = {}, collections.defaultdict(list), set()
    for told, others in tell_all(events):
        _note(told, others, stood, nodes, pendings)
        _clock(told, others, spans)
        _act(told, acts, expiries)
        if told.after is not None and told.event["kind"] in PAUSES:
            pauses[told.event["run_id"]].append(told.record["offset"])
            counts[f"DagRuns {told.event['kind']}"] += 1
    complaints += [f"{run_id}: released {times} times" for run_id, times in sorted(pendings.items()) if times > 1]
    given, again = _given(work), _reruns(events)
    for run_id, run in sorted(stood.items()):
        if run["nodes"] is None or "/" in run_id or run_id not in meant:
            continue
        counts[f"DagRuns {run['status']}"] += 1
        counts["nodes begun"] += sum(not node.skipped for node in nodes[run_id].values())
        counts["nodes skipped"] += sum(bool(node.skipped) for node in nodes[run_id].values())
        dag = document(json.loads(meant[run_id].dag))
        counts["results not kept"] += sum(node.result == b"" for node in _asked_of(dag, nodes[run_id]))
        found = [*_wrongly_kept(dag, run_id, again.get(run_id), nodes, stood, counts)]
        found += [*_early(dag, nodes[run_id]), *_too_many(dag, nodes[run_id])]
        found += _while_paused(dag, nodes[run_id], pauses[run_id])
        counts["DagRuns expired"] += bool(run["expired"])
        if run_id in spans and run_id not in expiries and not run["cancel"]:
            timeout_us = json.loads(meant[run_id].dag).get("timeout_us", 0)
            found += _over_time(timeout_us, spans[run_id], acts[spans[run_id].partition])
        found += _within_time(json.loads(meant[run_id].dag).get("timeout_us", 0), spans[run_id])
        if run["status"] not in ("SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"):
            found.append(f"{run['status']} at rest")
        elif not (run["cancel"] or run["expired"]) and run["status"] != "SKIPPED":
            found += _whole(dag, run, nodes[run_id], meant[run_id].payload, given.get(run_id, {}))
        complaints += [f"{run_id}: {each}" for each in found]
    return complaints, counts


def document(stored):
    """The published form of a Dag's stored one, as far as the rules ask for it."""
    found = []
    for node in stored["nodes"]:
        made = {key: node[key] for key in ("name", "after", "trigger_rule", "inputs", "branch") if key in node}
        if "payload" in node:
            made["payload"] = json.loads(base64.b64decode(node["payload"]))
        over = node.get("map_over")
        if over is not None:
            items = json.loads(over["items"]) if "items" in over else over.get("of")
            made["map"] = {"count": over["count"]} if "count" in over else {"over": items}
            made["map"] |= {"max": over.get("max_items", 1_000), "concurrency": over.get("concurrency", 0)}
        found.append(made)
    return {"nodes": found, "max_active_nodes": stored.get("max_active_nodes", 0)}


def _note(told, others, stood, nodes, pendings):
    event, after = told.event, told.after
    run_id, offset = event["run_id"], told.record["offset"]
    dag_run, _, key = run_id.partition("/")
    pendings[run_id] += bool(key) and event["kind"] == "PENDING"
    if after is None:
        return
    stood |= {run_id: after, **others}
    if key and event["kind"] == "NODE_SKIPPED":
        end = COUNTED[event["node_skipped"]["counts_as"]], offset
        nodes[dag_run][key] = Seen(offset, event["reason"], end, event["node_skipped"]["result"])
    elif key and event["kind"] == "PENDING":
        nodes[dag_run][key] = Seen(offset, "")
    for each, run in {run_id: after, **others}.items():
        its_dag_run, _, its_key = each.partition("/")
        known = nodes[its_dag_run].get(its_key) if its_key else None
        if known is not None and known.end is None and run["status"] in WAYS:
            result = event["ended"]["result"] if run["status"] == "SUCCEEDED" else None
            nodes[its_dag_run][its_key] = known._replace(end=(WAYS[run["status"]], offset), result=result)


def _clock(told, others, spans):
    run_id, stamp = told.event["run_id"], told.record["timestamp_us"]
    if told.after is None:
        return
    if told.event["kind"] == "PENDING" and "/" not in run_id:
        spans[run_id] = Span(stamp, told.record["partition"], told.event["at"])
    if told.event["kind"] == "RUN_EXPIRED" and told.event["reason"] == "expired" and run_id in spans:
        spans[run_id] = spans[run_id]._replace(expired_at=told.event["at"])
    for each, run in {run_id: told.after, **others}.items():
        if each in spans and run["status"] in WAYS and not spans[each].ended_at:
            spans[each] = spans[each]._replace(ended_at=stamp)


def _act(told, acts, expiries):
    """When something was written that only the engine of that partition writes, and what it gave up for its time.

    An expiry that came too late for its DagRun counts: the engine watched the time.
    """
    kind, run_id = told.event["kind"], told.event["run_id"]
    if kind in BY_THE_ENGINE or (kind == "PENDING" and "/" in run_id):
        acts[told.record["partition"]].append(told.record["timestamp_us"])
    if kind == "RUN_EXPIRED":
        expiries.add(run_id)


def _over_time(timeout_us, span, acts):
    """A DagRun that went on after its time although its engine was there, and was not ended for that.

    Who acts once may have slept until then, and looks at the time in its next turn: it has to act again.
    """
    if not timeout_us or not span.ended_at:
        return
    late_at = span.begun_at + timeout_us + LATE_US
    there = [at for at in acts if late_at <= at <= span.ended_at - LATE_US]
    if there and there[-1] - there[0] >= TURNS_US:
        lived_s = (span.ended_at - span.begun_at) / 1e6
        yield f"lived {lived_s:g} s, {timeout_us / 1e6:g} s are its timeout, and it was not expired"


def _within_time(timeout_us, span):
    """A DagRun that was ended for its time before that was over.

    Its engine counts from what the PENDING says, by the clock by which it says when it decided: no clock is forgiven.
    """
    if span.expired_at is not None and not timeout_us:
        yield f"expired at {span.expired_at}, and it has no timeout"
    elif span.expired_at is not None and span.expired_at < span.went_out_at + timeout_us:
        lived_s = (span.expired_at - span.went_out_at) / 1e6
        yield f"expired at {span.expired_at}, {lived_s:g} s after it went out, {timeout_us / 1e6:g} s are its timeout"


def _reruns(events):
    """{DagRun: (the one that it runs again, the nodes that it begins with)}."""
    found = {}
    for record in events:
        _, event = decode(record["value"])
        detail = event["pending"]
        if event["kind"] == "PENDING" and detail["dag"] is not None and detail["linked_run"]:
            found[event["run_id"]] = detail["linked_run"], detail["dag"]["rerun_from"]
    return found


def _wrongly_kept(dag, run_id, again, nodes, stood, counts):
    """What of a rerun was kept and must not be, or the other way; and whether it is what was."""
    kept = {key: node for key, node in nodes[run_id].items() if node.skipped == "kept"}
    before, begin = again or ("", [])
    counts["reruns"] += again is not None
    counts["nodes kept"] += len(kept)
    if again is None or stood.get(before, {}).get("status") not in WAYS or stood[run_id]["cancel"] or not nodes[run_id]:
        yield from (f"{key} was kept, and there is nothing to keep" for key in kept if again is None)
        return
    begun, size = set(begin), -1
    while size != len(begun):
        size = len(begun)
        begun |= {node["name"] for node in dag["nodes"] if begun & set(node.get("after", []))}
    ended = _ends(dag, nodes[before])
    meant = {name for name, end in ended.items() if begin and end is not None and name not in begun}
    yield from (f"{name} was to be kept, and was not" for name in sorted(meant - kept.keys()))
    yield from (f"{name} was kept, and must not be" for name in sorted(kept.keys() - meant))
    for name in sorted(kept.keys() & meant):
        old = nodes[before].get(name)
        if old is not None and kept[name].result is not None and old.result != kept[name].result:
            yield f"{name} was kept with another result"


def _given(work):
    """{DagRun: {key: payload}} of the first attempts' work."""
    found = collections.defaultdict(dict)
    for record in work:
        body = decode(record["value"])[1]
        dag_run, _, key = body["run_id"].partition("/")
        if key and body["attempt"] == 1:
            found[dag_run][key] = body["payload"]
    return found


def _whole(dag, run, nodes, payload, given):
    """What is wrong with one that ended by itself."""
    ran = {key: (node.end[0] == "S", node.result) for key, node in nodes.items() if not node.skipped and node.end}
    kept = {key: (node.end[0], node.result) for key, node in nodes.items() if node.skipped == "kept"}
    try:
        ends, started, succeeded = dags.settle(dag, ran, payload, kept)
    except dags.Unsettled as error:
        yield str(error)
        return
    begun = {key for key, node in nodes.items() if not node.skipped}
    yield from (f"{key} began, and must not" for key in sorted(begun - started.keys()))
    yield from (f"{key} must begin, and did not" for key in sorted(started.keys() - begun))
    for key, node in nodes.items():
        if node.skipped and ends[key] != node.end[0]:
            yield f"{key} was skipped as {node.end[0]}, and counts as {ends[key]}"
    never = (name for name, end in ends.items() if end in "KU" and name not in nodes)
    yield from (f"{name} never ran, and was not skipped" for name in never)
    if succeeded != (run["status"] == "SUCCEEDED"):
        yield f"{run['status']}, and its leaves say otherwise"
    for key in sorted(begun & started.keys()):
        if key not in given or json.loads(given[key] or b"null") != started[key]:
            yield f"{key} was given {given.get(key, b'nothing')[:80]!r}, and not {str(started[key])[:80]}"


def _asked_of(dag, nodes):
    """The node runs whose results some node waits for: branches, and those that are handed down or mapped over."""
    asked = {node["name"] for node in dag["nodes"] if node.get("branch")}
    for node in dag["nodes"]:
        over = node.get("map", {}).get("over")
        asked |= {*node.get("inputs", []), *([over] if isinstance(over, str) else [])}
    return [seen for key, seen in nodes.items() if key.partition(".")[0] in asked]


def _early(dag, nodes):
    """Nodes that began before what they wait for had ended."""
    ends = _ends(dag, nodes)
    by_name = {node["name"]: node for node in dag["nodes"]}
    for key, seen in nodes.items():
        node = by_name[key.partition(".")[0]]
        if seen.skipped:
            continue
        parents, rule = node.get("after", []), node.get("trigger_rule", "all_success")
        over = node.get("map", {}).get("over")
        needed = {*node.get("inputs", []), *([over] if isinstance(over, str) else [])}
        needed |= {parent for parent in parents if by_name[parent].get("branch")}
        before = {name: end[0] for name, end in ends.items() if end is not None and end[1] < seen.offset}
        if rule not in ANY and rule != "always":
            needed |= set(parents)
        missing = sorted(needed - before.keys())
        if missing:
            yield f"{key} began before {', '.join(missing)} had ended"
        elif (
            rule in ANY
            and parents
            and not any(_ended_so(by_name[each], before.get(each), ANY[rule]) for each in parents)
        ):
            yield f"{key} began by {rule}, and no parent had ended so"


def _while_paused(dag, nodes, turns):
    """Nodes that began while their DagRun was paused, by an end that stands behind the pause. ``turns``: offsets."""
    ends = _ends(dag, nodes)
    told_at = _told_by(dag, nodes, ends)
    spans = [(turns[at], turns[at + 1] if at + 1 < len(turns) else 1 << 62) for at in range(0, len(turns), 2)]
    for node in dag["nodes"]:
        waits_for_all = node.get("trigger_rule", "all_success") not in (*ANY, "always")
        parents = node.get("after", [])
        if not (waits_for_all and parents and all(ends[name] for name in parents)):
            continue
        last = max(map(told_at, parents))
        for key, seen in nodes.items():
            is_its = key.partition(".")[0] == node["name"] and not seen.skipped
            if is_its and any(begin < last and begin < seen.offset < end for begin, end in spans):
                yield f"{key} began while its DagRun was paused"


def _told_by(dag, nodes, ends):
    """Asks by name for the first offset that may have told how a node ended: who skips it has read no further yet.

    What a rerun keeps is known from the DagRun before it: whoever says so has read no more of this one than that it is.
    """
    by_name = {node["name"]: node for node in dag["nodes"]}

    @functools.cache
    def told_at(name):
        if name in nodes and nodes[name].skipped == "kept":
            return 0
        parents = [parent for parent in by_name[name].get("after", []) if ends[parent]]
        is_skipped = name in nodes and nodes[name].skipped
        return min(map(told_at, parents)) if is_skipped and parents else ends[name][1]

    return told_at


def _too_many(dag, nodes):
    """Nodes that began while as many were under way as may be: of the DagRun, or items of one mapped node."""
    limits = {"": (dag["max_active_nodes"], list(nodes.items()))} if dag["max_active_nodes"] else {}
    for node in dag["nodes"]:
        most = node.get("map", {}).get("concurrency", 0)
        if most:
            items = [(key, seen) for key, seen in nodes.items() if key.startswith(f"{node['name']}.")]
            limits[node["name"]] = most, items
    for most, seen_ones in limits.values():
        ran = [(key, seen) for key, seen in seen_ones if not seen.skipped]
        for key, seen in ran:
            beside = sum(
                each.offset <= seen.offset and (each.end is None or each.end[1] > seen.offset) for _, each in ran
            )
            if beside > most:
                yield f"{key} began as number {beside} of those under way, {most} may be"


def _ended_so(parent, end, ways):
    """Whether a parent may have ended in one of these ways: a branch that succeeded may count as failed."""
    return end is not None and (end in ways or (bool(parent.get("branch")) and end == "S" and "F" in ways))


def _ends(dag, nodes):
    """By name how each node ended and at which offset, a mapped one as a whole; None while it has not."""
    by_name = {node["name"]: node for node in dag["nodes"]}
    return {name: _end_of(node, nodes, by_name) for name, node in by_name.items()}


def _end_of(node, nodes, by_name):
    name = node["name"]
    if name in nodes:
        return nodes[name].end
    items = [seen for key, seen in nodes.items() if key.partition(".")[0] == name]
    if not items or any(seen.end is None for seen in items) or len(items) < _item_count(node, nodes, by_name):
        return None
    return ("F" if any(seen.end[0] == "F" for seen in items) else "S"), max(seen.end[1] for seen in items)


def _item_count(node, nodes, by_name):
    """Of a mapped node of which some item began."""
    over = node["map"].get("over")
    if over is None:
        return node["map"]["count"]
    if isinstance(over, list):
        return len(over)
    if over not in nodes:  # mapped itself: an item for each of its own
        return _item_count(by_name[over], nodes, by_name)
    return len(json.loads(nodes[over].result))
