"""5,000 random Dags: each node starts once, if and only if its rule holds, and no DagRun stays open.

Up to 60 nodes, every trigger rule, branches, mapped nodes, results handed down, retries, cancels; rounds that are lost,
take-overs, repeated events (``tests/dag_play.py``). Judged from the log alone by ``tests/oracle/dags.py``, a fixpoint
over the truth tables. Whole, also: an end of a node costs as much in a large Dag as in a small one. Short: 150 Dags.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from random import Random
from typing import Any

from tests.acceptance.evidence import Evidence
from tests.dag_play import PAYLOAD, DagPlay
from tests.oracle import dags, runs
from tests.random_dags import RULES, random_dag
from waterclock.model.dag import DagSpec, MapOver, Node
from waterclock.model.dag_events import NodeEnd
from waterclock.model.dag_graph import Graph
from waterclock.model.dag_release import DagRunState
from waterclock.model.dag_steps import SkipReason
from waterclock.model.document import dag_document

DAGS, DAGS_SHORT = 5_000, 150
NODES_MAX = 60
WAYS = {"SUCCEEDED": "S", "FAILED": "F", "CANCELLED": "F", "SKIPPED": "K"}


def main(short: bool = False) -> None:
    evidence = Evidence("random-dags", None)
    count = DAGS_SHORT if short else DAGS
    seen: Counter[str] = Counter()
    complaints: list[str] = []
    for seed in range(count):
        complaints += play_and_judge(seed, NODES_MAX, seen)
    evidence.figure("dags", count, **{key: seen[key] for key in ("nodes", "node runs", "events", "attempts")})
    evidence.figure("ends of DagRuns", seen["DagRun SUCCEEDED"], failed=seen["DagRun FAILED"])
    evidence.figure("troubles", sum(seen[f"trouble {what}"] for what in TROUBLES),
                    **{what: seen[f"trouble {what}"] for what in TROUBLES})  # fmt: skip
    evidence.figure("skips", seen["skips"], **{key[5:]: seen[key] for key in sorted(seen) if key.startswith("skip ")})
    evidence.none_of(complaints, "complaints")
    for what in (
        *(f"trouble {each}" for each in TROUBLES),
        *(f"rule {rule}" for rule in RULES),
        "mapped",
        "branches",
        *(f"skip {reason.value}" for reason in SkipReason if reason is not SkipReason.KEPT),
    ):
        evidence.demand(seen[what] > 0, f"{what} did not come up")
    if not short:
        _demand_flat_cost(evidence)
    evidence.close()


def _demand_flat_cost(evidence: Evidence) -> None:
    for what, small, large in (("nodes", 50, 1_000), ("items", 500, 10_000)):
        cost = {size: min(_cost_of_an_end(what, size) for _ in range(5)) for size in (small, large)}
        exponent = math.log(cost[large] / cost[small]) / math.log(large / small)
        evidence.figure(f"exponent of an end's cost by {what}", round(exponent, 3),
                        **{f"us_{size}": round(each * 1e6, 2) for size, each in cost.items()})  # fmt: skip
        evidence.demand(exponent <= EXPONENT_MAX, f"an end costs more in a Dag with more {what}")


def _cost_of_an_end(what: str, size: int) -> float:
    """Processor seconds of one end of a node, in the mean over a whole DagRun with eight under way."""
    if what == "items":
        nodes = [Node("each", "h", map_over=MapOver(count=size, concurrency=8)), Node("last", "h", after=("each",))]
    else:  # a ladder: every node has up to three parents near it
        nodes = [Node(f"n{place}", "h", after=tuple(f"n{at}" for at in range(max(0, place - 3), place)))
                 for place in range(size)]  # fmt: skip
    run = DagRunState(Graph(DagSpec(tuple(nodes), max_active_nodes=8)))
    under_way = [release.key for release in run.decide().releases]
    ends, began_s = 0, time.process_time()
    while under_way:
        under_way += [release.key for release in run.ended(under_way.pop(0), NodeEnd.SUCCEEDED).releases]
        ends += 1
    return (time.process_time() - began_s) / ends


EXPONENT_MAX = 0.2
TROUBLES = ("round lost", "take-over", "said twice", "event repeated", "end claimed too early", "node cancelled")


def play_and_judge(seed: int, nodes_max: int, seen: Counter[str]) -> list[str]:
    """Complaints about the DagRun of this seed."""
    dice = Random(seed)
    dag = random_dag(dice, nodes_max)
    play = DagPlay(dag, dice)
    try:
        play.play()
    except AssertionError as error:
        return [f"seed {seed}: {error}"]
    _count(seen, dag, play)
    return [f"seed {seed}: {complaint}" for complaint in judged(play, seen)]


def _count(seen: Counter[str], dag: DagSpec, play: DagPlay) -> None:
    seen["nodes"] += len(dag.nodes)
    seen["events"] += len(play.log)
    for what, times in play.troubles.items():
        seen[f"trouble {what}"] += times
    for node in dag.nodes:
        seen[f"rule {node.trigger_rule.value}"] += bool(node.after)
        seen["mapped"] += node.map_over is not None
        seen["branches"] += node.branch


def judged(play: DagPlay, seen: Counter[str]) -> list[str]:
    """What the oracle has to say about the log of a DagRun that has come to rest."""
    told = runs.tell_all(play.dump())
    stood: dict[str, Any] = {}
    for each, others in told:
        stood |= {each.event["run_id"]: each.after, **others} if each.after else {}
    dag_run = stood.pop(play.run.run_id)
    complaints = [f"{run_id} is {run['status']} at rest" for run_id, run in stood.items() if run["status"] not in WAYS]
    if dag_run["status"] not in ("SUCCEEDED", "FAILED"):
        complaints.append(f"the DagRun is {dag_run['status']} at rest")
    begun, ran, skipped = _story(told, play.run.run_id)
    if complaints:
        return complaints
    try:
        ends, started, succeeded = dags.settle(dag_document(play.dag), ran, PAYLOAD)
    except dags.Unsettled as error:
        return [str(error)]
    seen["node runs"] += len(started)
    seen["attempts"] += sum(run["attempt"] for run in stood.values())
    seen["skips"] += len(skipped)
    seen[f"DagRun {dag_run['status']}"] += 1
    for reason, _ in skipped.values():
        seen[f"skip {reason}"] += 1
    complaints += [f"{key} began, and must not" for key in sorted(begun.keys() - started.keys())]
    complaints += [f"{key} must begin, and did not" for key in sorted(started.keys() - begun.keys())]
    complaints += [f"{key} began {times} times" for key, times in sorted(begun.items()) if times > 1]
    counted = {"SKIPPED": "K", "UPSTREAM_FAILED": "U", "FAILED": "F"}
    for name, (reason, counts_as) in skipped.items():
        if ends[name] != counted[counts_as]:
            complaints.append(f"{name} was skipped ({reason}) as {counts_as}, and counts as {ends[name]}")
    complaints += [f"{name} never ran, and was not skipped" for name, end in ends.items()
                   if end in "KU" and name not in skipped]  # fmt: skip
    if succeeded != (dag_run["status"] == "SUCCEEDED"):
        complaints.append(f"the DagRun is {dag_run['status']}, and its leaves say otherwise")
    return complaints + _wrongly_given(play, started)


def _story(told: list[Any], dag_run_id: str) -> tuple[Counter[str], dict[str, Any], dict[str, Any]]:
    """By key of the node runs: how often each began; how it ended, with its result; why it was skipped."""
    begun: Counter[str] = Counter()
    ran: dict[str, Any] = {}
    skipped: dict[str, Any] = {}
    for each, _ in told:
        key = each.event["run_id"].removeprefix(dag_run_id).removeprefix("/")
        if each.after is None or not key:
            continue
        if each.event["kind"] == "PENDING":
            begun[key] += 1
        elif each.event["kind"] == "NODE_SKIPPED":
            skipped[key] = (each.event["reason"], each.event["node_skipped"]["counts_as"])
        elif each.after["status"] in WAYS:
            well = each.after["status"] == "SUCCEEDED"
            ran[key] = (well, each.event["ended"]["result"] if well else None)
    return begun, ran, skipped


def _wrongly_given(play: DagPlay, started: dict[str, Any]) -> list[str]:
    """Work records, one for each node run, that carry something else than the nodes before have made."""
    given = Counter(work.run_id for work in play.work)
    complaints = [f"{run_id} has {times} work records" for run_id, times in given.items() if times > 1]
    for work in play.work:
        key = work.run_id.partition("/")[2]
        if key not in started or json.loads(work.payload) != started[key]:
            complaints.append(f"{key} was given {work.payload[:80]!r}, and not {str(started.get(key))[:80]}")
    return complaints
