"""From a parent's success, committed, to its child's work record, committed: p99; and how evenly a fan-out spreads.

Chains of ten nodes, 50 DagRuns a second: 500 ends of nodes a second, on one process of every role, doors included, as
the benches have them. Both instants are those of the markers with which the broker committed them, read from its log
afterwards: nobody reads beside it. Whole, p99 must be below 60 ms, once the servers, which were started just now, have
compiled what they serve: that takes a minute at least, and until their compilers rest; what it was until then is told
apart. Then three workers more come up: with them the same is told, for the two cores are fuller then, and not judged.
How fast the machine is stands beside it: where the cores are nearly full the delay grows faster than everything slows
down. In the end one node is mapped over 5,000 items: none of the four may begin more than 1.5 times its equal share of
them.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import NamedTuple

from confluent_kafka import Message, TopicPartition

from tests.acceptance import dumps, machine_pace
from tests.acceptance.at_rest import quantiles_s
from tests.acceptance.commit_times import CommitTimes
from tests.acceptance.compilers import Compilers
from tests.acceptance.scene import Scene, scene
from tests.free_ports import free_port
from tests.oracle.chronicle import Chronicle
from waterclock.model.dag import DagSpec, MapOver, Node
from waterclock.model.events import EventKind
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, JobSpec, Once, Tier
from waterclock.wire.codec import decode_event, decode_work

P99_MAX_S = 0.060
RATE_MIN = 500.0
SHARE_MAX = 1.5
_CHAIN = 10
_CHAINS = [f"acme:chain-{number}" for number in range(20)]
_WIDE = "acme:wide"
_FAR_US = 86_400 * 365 * US_PER_S
_REST_WITHIN_S = 180.0
_PAYLOAD = b'{"calls": false}'
_SLOTS = {"WATERCLOCK_WORKER__SLOTS": "400"}
_COLD, _JUDGED, _CROWDED = "cold", "judged", "all workers"


class Size(NamedTuple):
    """How much of it: for so many seconds chains are triggered to warm up, to be judged, and with all workers.

    The warm-up takes ``warm_up_s`` at least, and ``warm_up_max_s`` where the servers' compilers do not rest.
    """

    dag_runs_per_s: float
    warm_up_s: float
    warm_up_max_s: float
    judged_s: float
    all_workers_s: float
    items: int
    workers: int


WHOLE = Size(52.0, 60.0, 180.0, 60.0, 30.0, 5_000, 4)
SHORT = Size(4.0, 2.0, 2.0, 6.0, 2.0, 60, 2)
COMPILING_MAX = 0.05
"""Cores that the compilers of both servers may take where they rest; a look at them lasts ``_LOOK_S``."""
_LOOK_S = 10.0
_BATCH, _WAITS_S = 2_000, 0.1


class Span(NamedTuple):
    """From when to when the rate was kept, seconds since the epoch."""

    since_s: float
    until_s: float


class _Record(NamedTuple):
    """Topic and partition, and the offset there."""

    place: tuple[str, int]
    offset: int


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    before_s = 0.0 if short else machine_pace.loop_s()
    with scene("release-latency", seed) as played:
        played.stack.role("dag_engine", "dag-engine-1")
        played.stack.role("intake", "intake-1")
        played.stack.role("api", "api-1", WATERCLOCK_API__PORT=str(free_port()))
        played.start({"worker-1": {}}, **_SLOTS)
        played.define(_jobs(size))
        watch = _Watch(played)
        spans = _run_chains(played, size, watch)
        played.orders.send(CommandKind.TRIGGER, _WIDE)
        played.apply()
        chronicle = played.come_to_rest(_REST_WITHIN_S)
        ended, work = watch.committed_at_s()
        for label, span in spans.items():
            _judge_latency(played, ended, work, label, span, is_judged=not short and label == _JUDGED)
        _judge_ends(played, watch, chronicle)
        _judge_spread(played, size, chronicle, judge_figures=not short)
        if not short:
            played.evidence.figure("seconds of a plain loop before the servers started", before_s)


def _jobs(size: Size) -> dict[str, JobSpec]:
    once = Once(time.time_ns() // 1_000 + _FAR_US)
    after = [()] + [(f"n{number}",) for number in range(_CHAIN - 1)]
    chain = DagSpec(tuple(Node(f"n{number}", "calls.async", after=after[number]) for number in range(_CHAIN)))
    wide = DagSpec((Node("item", "calls.async", map_over=MapOver(count=size.items)),))
    jobs = {job_id: JobSpec("", once, Tier.HIGH, payload=_PAYLOAD, dag=chain) for job_id in _CHAINS}
    return jobs | {_WIDE: JobSpec("", once, Tier.MEDIUM, payload=_PAYLOAD, dag=wide)}


class _Watch:
    """Where each end of a node stands, and each work record; read between the stretches, never beside them."""

    def __init__(self, played: Scene) -> None:
        names = played.stack.names
        self._bootstrap, self._logs = played.stack.bootstrap, played.stack.kafka_data
        self._run_events = names.run_events
        topics = [names.run_events, names.runs(Tier.HIGH)]
        ends = {topic: dumps.high_watermarks(self._bootstrap, topic) for topic in topics}
        self._from = {(topic, partition): end for topic in topics for partition, end in ends[topic].items()}
        self.ended: dict[tuple[str, int], _Record] = {}
        self.work: dict[tuple[str, int], _Record] = {}
        self.owed = 0
        """Nodes of the DagRuns that were triggered."""

    def await_ends(self) -> None:
        """Read until all that was triggered has ended; what never does is told in the end."""
        give_up_s = time.monotonic() + _REST_WITHIN_S
        consumer = dumps.reader(self._bootstrap, committed=True)
        try:
            consumer.assign([TopicPartition(*place, offset) for place, offset in self._from.items()])
            while time.monotonic() < give_up_s and (len(self.ended) < self.owed or len(self.work) < self.owed):
                for message in consumer.consume(_BATCH, _WAITS_S):
                    self._take(message)
        finally:
            consumer.close()

    def committed_at_s(self) -> tuple[dict[tuple[str, int], float], dict[tuple[str, int], float]]:
        """When each end was committed, and each work record. Nobody writes any more."""
        times = {place: CommitTimes(self._logs / f"{place[0]}-{place[1]}") for place in self._from}
        return (
            {node: times[place].at_s(offset) for node, (place, offset) in self.ended.items()},
            {node: times[place].at_s(offset) for node, (place, offset) in self.work.items()},
        )

    def _take(self, message: Message) -> None:
        if message.error() is not None:
            raise RuntimeError(f"{message.topic()}: {message.error()}")
        place, offset, value = (message.topic(), message.partition()), message.offset(), message.value() or b""
        self._from[place] = offset + 1
        if message.topic() != self._run_events:
            work = decode_work(value)
            if work.attempt == 1:
                self.work.setdefault(_node(work.run_id), _Record(place, offset))
        else:
            event = decode_event(value)
            if event.kind is EventKind.ATTEMPT_SUCCEEDED:
                self.ended.setdefault(_node(event.run_id), _Record(place, offset))


def _node(run_id: str) -> tuple[str, int]:
    """(DagRun, number in its chain)."""
    dag_run, _, node = run_id.partition("/")
    return dag_run, int(node.removeprefix("n"))


def _run_chains(played: Scene, size: Size, watch: _Watch) -> dict[str, Span]:
    """The three stretches, one after the other; by its name each one's span."""
    spans = {_COLD: _warm_up(played, size, watch)}
    spans[_JUDGED] = _trigger_evenly(played, size, watch, size.judged_s)
    watch.await_ends()
    for number in range(2, size.workers + 1):
        played.add_worker(f"worker-{number}", **_SLOTS)
    for process in played.stack.roles.values():
        process.wait_ready()
    spans[_CROWDED] = _trigger_evenly(played, size, watch, size.all_workers_s)
    watch.await_ends()
    return spans


def _warm_up(played: Scene, size: Size, watch: _Watch) -> Span:
    """Trigger until the servers have compiled what they serve."""
    began_s = time.time()
    servers = (played.stack.kafka, played.stack.cassandra)
    compilers, share = Compilers([server.pid for server in servers if server is not None]), 0.0
    _trigger_evenly(played, size, watch, max(0.0, size.warm_up_s - _LOOK_S))
    while (past_s := time.time() - began_s) < size.warm_up_s or (share > COMPILING_MAX and past_s < size.warm_up_max_s):
        compilers.share()
        _trigger_evenly(played, size, watch, min(_LOOK_S, size.warm_up_s))
        share = compilers.share()
    span = Span(began_s, time.time())
    seconds = round(span.until_s - span.since_s, 1)
    played.evidence.figure(
        "cores that the servers' compilers took at the end of the warm-up", round(share, 3), seconds=seconds
    )
    return span


def _trigger_evenly(played: Scene, size: Size, watch: _Watch, seconds: float) -> Span:
    """Trigger at an even rate."""
    began_s = time.time()
    for number in range(round(size.dag_runs_per_s * seconds)):
        time.sleep(max(0.0, began_s + number / size.dag_runs_per_s - time.time()))
        played.orders.send(CommandKind.TRIGGER, _CHAINS[number % len(_CHAINS)])
        watch.owed += _CHAIN
    return Span(began_s, time.time())


def _judge_latency(
    played: Scene,
    ended: dict[tuple[str, int], float],
    work: dict[tuple[str, int], float],
    label: str,
    span: Span,
    *,
    is_judged: bool,
) -> None:
    evidence = played.evidence
    inside = [node for node, at_s in ended.items() if span.since_s <= at_s < span.until_s]
    rate = len(inside) / (span.until_s - span.since_s)
    children = [(node[0], node[1] + 1) for node in inside if node[1] + 1 < _CHAIN]
    took = {child: work[child] - ended[child[0], child[1] - 1] for child in children if child in work}
    before = sum(seconds < 0 for seconds in took.values())
    evidence.figure(f"ends of nodes a second, {label}", round(rate, 1), seconds=round(span.until_s - span.since_s, 1))
    evidence.none_of((child for child in children if child not in took), f"children that never began, {label}")
    found = quantiles_s([max(0, round(seconds * US_PER_S)) for seconds in took.values()])
    n = {"n": len(took), "before their parents": before}
    evidence.figure(f"seconds from a parent's success to its child's work, {label}", found["p99"], **found, **n)
    evidence.demand(bool(took), f"nothing was measured, {label}")
    if is_judged:
        evidence.demand(rate >= RATE_MIN, f"{rate:.0f} ends of nodes a second, fewer than {RATE_MIN:.0f}")
        evidence.demand(not before, f"{before} children were committed before their parents")
        evidence.demand(found["p99"] < P99_MAX_S, f"p99 {found['p99']} s, wanted < {P99_MAX_S}")


def _judge_ends(played: Scene, watch: _Watch, chronicle: Chronicle) -> None:
    evidence = played.evidence
    evidence.demand(len(watch.ended) == watch.owed, f"{len(watch.ended)} nodes ended, {watch.owed} were asked for")
    evidence.none_of(sorted(chronicle.open), "runs that have not ended")


def _judge_spread(played: Scene, size: Size, chronicle: Chronicle, *, judge_figures: bool) -> None:
    evidence = played.evidence
    begun = Counter(claim.worker for (run_id, _), claim in chronicle.claims.items() if run_id.startswith(f"{_WIDE}@"))
    share = size.items / size.workers
    most = max(begun.values(), default=0) / share
    evidence.figure("items begun by the worker with most, in equal shares", round(most, 2), **begun)
    evidence.demand(begun.total() >= size.items, f"{begun.total()} items began, {size.items} are wanted")
    if judge_figures:
        evidence.demand(most <= SHARE_MAX, f"a worker began {most:.2f} times its share, wanted <= {SHARE_MAX}")
