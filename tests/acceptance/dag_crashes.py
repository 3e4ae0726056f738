"""kill -9 over DAG engines, workers, routers and dispatchers: no node orphaned, begun too early, or released twice.

1,000 DagRuns of 10 nodes, of ten Dags whose shapes and rules are drawn; some of their nodes fail at first, and some for
good. 50 kills meanwhile; before each a wide Dag is triggered, whose release is a long round, and most kills come the
moment an uncommitted tail of run-events sees its first node, of the engine that owns the partition. At rest, by the
second reducer and the fixpoint over the truth tables (``tests/oracle/dag_runs.py``) over the read_committed dump: every
node of every DagRun began once if and only if its rule held, none before what it waits for had ended, none of a DagRun
that is not there; and the rows of history say so.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from tests.acceptance import dumps, tables
from tests.acceptance.kills import Kill, Killer, Trap, count_inside
from tests.acceptance.scene import Scene, scene
from tests.acceptance.taken import take_rows, take_work
from tests.oracle import dag_runs, makings
from tests.oracle.chronicle import Chronicle
from tests.oracle.records import decode
from tests.oracle.runs import FINAL
from waterclock.model.dag import DagSpec, MapOver, Node, TriggerRule
from waterclock.model.dag_checks import check_graph
from waterclock.model.errors import RequestError
from waterclock.model.failure_policy import FailurePolicy
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, JobSpec, Once, Tier

INSIDE_PART_MIN = 0.2
ENGINES = ("dag-engine-1", "dag-engine-2")
_NODES = 10
_DAGS = 10
_REST_WITHIN_S = 300.0
_LEASE_S = "5"
_RULES = (*[TriggerRule.ALL_SUCCESS] * 4, TriggerRule.ALL_DONE, TriggerRule.ONE_SUCCESS, TriggerRule.NONE_FAILED)
_WIDE = "acme:wide"
_FAR_US = 86_400 * 365 * US_PER_S


class Size(NamedTuple):
    """How much of it. ``rest_s``: at most this long between a restart and the next kill; ``items``: of the wide Dag.

    ``trapped_part`` of the kills wait for its release to begin. ``more``: at most so many follow while none of them
    fell inside an open transaction: of a few, by chance, none may.
    """

    dag_runs: int
    kills: int
    workers: int
    rest_s: float
    items: int
    trapped_part: float
    more: int


WHOLE = Size(1_000, 50, 3, 1.5, 300, 0.6, more=0)
SHORT = Size(20, 4, 1, 1.0, 200, 0.9, more=16)


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    with scene("dag-crashes", seed) as played:
        workers = [f"worker-{number}" for number in range(1, size.workers + 1)]
        for engine in ENGINES:
            played.stack.role("dag_engine", engine)
        played.start({worker: {"WATERCLOCK_WORKER__LEASE_TTL_S": _LEASE_S} for worker in workers})
        played.define(_jobs(size, played.dice))
        load = _Load(played, size)
        kills = _kill(played, size, ["dispatcher-1", "retry-router-1", *workers, *ENGINES], load)
        load.finish()
        for role in played.stack.roles.values():
            role.wait_ready()
        chronicle = played.come_to_rest(_REST_WITHIN_S)
        _judge(played, size, chronicle, kills, judge_figures=not short)


class _Load:
    """Triggers, one Dag after the other, spread over the kills."""

    def __init__(self, played: Scene, size: Size) -> None:
        self._played = played
        self._left = size.dag_runs
        self._job_ids = sorted(played.specs.keys() - {_WIDE})
        self._every_s = size.kills * size.rest_s / size.dag_runs
        self._next_s = time.monotonic()

    def go_on(self) -> None:
        """What is due by now."""
        while self._left and time.monotonic() >= self._next_s:
            self._next_s += self._every_s
            self._left -= 1
            self._played.orders.send(CommandKind.TRIGGER, self._job_ids[self._left % len(self._job_ids)])

    def finish(self) -> None:
        """The rest, at once."""
        self._next_s = 0.0
        self.go_on()
        self._played.apply()


def _jobs(size: Size, dice: Random) -> dict[str, JobSpec]:
    fire_at = time.time_ns() // 1_000 + _FAR_US
    policy = FailurePolicy(max_attempts=3, delays_us=(US_PER_S,))
    found = {}
    for number in range(_DAGS):
        fails = (0, 0, 1, 9)[number % 4]  # not at all, at first, for good
        payload = b'{"longest_s": 0.3, "fails": %d}' % fails
        spec = JobSpec("", Once(fire_at), Tier(number % 3), payload=payload, policy=policy, dag=_dag(dice))
        found[f"acme:crash-dag-{number}"] = spec
    wide = DagSpec((Node("w", "calls.async", map_over=MapOver(count=size.items)),))
    return found | {_WIDE: JobSpec("", Once(fire_at), Tier.LOW, payload=b'{"longest_s": 0.1}', policy=policy, dag=wide)}


def _dag(dice: Random) -> DagSpec:
    """Ten nodes, each after up to two that were written before it; one that the door lets pass."""
    while True:  # ends: most that are drawn pass
        nodes = [Node("n0", "calls.async")]
        for number in range(1, _NODES):
            parents = dice.sample(range(number), dice.randint(0, min(2, number)))
            rule = dice.choice(_RULES) if parents else TriggerRule.ALL_SUCCESS
            after = tuple(f"n{each}" for each in sorted(parents))
            nodes.append(Node(f"n{number}", "calls.async", after=after, trigger_rule=rule))
        dag = DagSpec(tuple(nodes), max_active_nodes=dice.choice([0, 0, 3]))
        try:
            check_graph(dag)
        except RequestError:
            continue
        return dag


def _kill(played: Scene, size: Size, instances: Sequence[str], load: _Load) -> list[Kill]:
    stack = played.stack
    owners = _Engines(played)
    trap = Trap(stack.bootstrap, stack.names.run_events, owners.of_release)
    killer = Killer(stack, instances, trap, played.dice)
    try:
        for number in range(size.kills + size.more):
            if number >= size.kills and _inside(played, killer.kills):
                break
            killer.rest(size.rest_s, load.go_on)
            owners.look()
            load.go_on()
            played.orders.send(CommandKind.TRIGGER, _WIDE)
            killer.kill_one(trapped_part=size.trapped_part, patience_s=5.0)
    finally:
        trap.close()
    return killer.kills


def _inside(played: Scene, kills: list[Kill]) -> int:
    """How many of the kills so far left records uncommitted."""
    played.following.read_on()
    gone = dumps.aborted(played.stack.bootstrap, played.stack.names.run_events, played.following.events)
    return count_inside(kills, gone)


class _Engines:
    """Which engine owns which partition, as the broker tells it."""

    def __init__(self, played: Scene) -> None:
        self._admin = AdminClient(dumps.client(played.stack.bootstrap))
        self._group = played.stack.names.group("dag-engine")
        self._of: dict[int, str] = {}

    def look(self) -> None:
        described = self._admin.describe_consumer_groups([self._group])[self._group].result(10)
        for member in described.members:
            for place in member.assignment.topic_partitions if member.assignment else ():
                self._of[place.partition] = member.group_instance_id

    def of_release(self, message: Message) -> str | None:
        """The engine that has just said that a node of the wide Dag begins."""
        _, event = decode(message.value() or b"")
        is_release = event["kind"] == "PENDING" and "/w." in event["run_id"]
        return self._of.get(message.partition()) if is_release else None


def _judge(played: Scene, size: Size, chronicle: Chronicle, kills: list[Kill], *, judge_figures: bool) -> None:
    evidence, names, bootstrap = played.evidence, played.stack.names, played.stack.bootstrap
    events, commands = played.following.events, dumps.dump(bootstrap, names.commands)
    work, _ = take_work(bootstrap, names)
    gone = dumps.aborted(bootstrap, names.run_events, events)
    inside = count_inside(kills, gone)
    hit = Counter(kill.instance.rpartition("-")[0] for kill in kills)
    evidence.figure("kills", len(kills), trapped=sum(kill.trapped for kill in kills), **hit)
    evidence.figure("kills inside an open transaction", inside, records_aborted=len(gone))
    evidence.demand(inside > 0, "no kill fell inside an open transaction")
    meant = makings.meant(commands, events)
    complaints, counts = dag_runs.check(events, work, meant)
    evidence.figure("nodes begun", counts["nodes begun"], **counts)
    evidence.none_of(complaints, "DagRuns that did not go as their rules say: early, doubled, or left behind")
    evidence.none_of(_orphans(chronicle), "nodes without a DagRun")
    evidence.none_of(chronicle.complaints, "final statuses that changed")
    evidence.none_of(sorted(chronicle.open), "runs that have not ended")
    complaints, held = makings.check(commands, events, work)
    evidence.figure("runs held against their commands", sum(held.values()))
    evidence.none_of(complaints, "runs that are not made of what their command says")
    rows = take_rows(played.stack.cassandra.port, ["dag_nodes"])["dag_nodes"]
    evidence.figure("rows of nodes", len(rows))
    evidence.none_of(tables.nodes_differ(chronicle, rows), "rows of nodes that are not what the log says")
    ended = sum(counts[f"DagRuns {status}"] for status in FINAL)
    wanted = size.dag_runs + len(kills)
    evidence.demand(ended == wanted, f"{ended} DagRuns ended, {wanted} were asked for")
    outcomes = chronicle.outcomes()
    evidence.figure("attempts", sum(outcomes.values()), **outcomes)
    if judge_figures:
        part = f"{inside} of {len(kills)} kills fell inside an open transaction, fewer than {INSIDE_PART_MIN:.0%}"
        evidence.demand(inside >= INSIDE_PART_MIN * len(kills), part)
        missed = {"dag-engine", "worker", "retry-router", "dispatcher"} - hit.keys()
        evidence.demand(not missed, f"nobody of {sorted(missed)} was killed")
        evidence.demand(outcomes["LOST"] > 0, "no attempt was lost")


def _orphans(chronicle: Chronicle) -> list[str]:
    runs: dict[str, dict[str, Any]] = chronicle.runs
    dag_runs_of = {run_id: runs.get(run_id.partition("/")[0]) for run_id in runs if "/" in run_id}
    return [run_id for run_id, dag_run in dag_runs_of.items() if dag_run is None or dag_run["nodes"] is None]
