"""From a parent's success, committed, to its child's work record, committed: p99; and how evenly a fan-out spreads.

Chains of ten nodes, 50 DagRuns a second: 500 ends of nodes a second, on one DAG engine with all other roles beside it.
Both instants are those at which one outside reader of committed records saw them. Whole, p99 must be below 60 ms. Then
one node is mapped over 5,000 items: no worker may begin more than 1.5 times its equal share of them.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import NamedTuple

from confluent_kafka import TopicPartition

from tests.acceptance import dumps
from tests.acceptance.at_rest import quantiles_s
from tests.acceptance.scene import Scene, scene
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
_LEAD_S = 3.0
_FAR_US = 86_400 * 365 * US_PER_S
_REST_WITHIN_S = 180.0
_PAYLOAD = b'{"calls": false}'


class Size(NamedTuple):
    """How much of it. ``seconds``: how long chains are triggered; the first of them are not measured."""

    dag_runs_per_s: float
    seconds: float
    items: int
    workers: int


WHOLE = Size(52.0, 60.0, 5_000, 4)
SHORT = Size(4.0, 8.0, 60, 2)


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    with scene("release-latency", seed) as played:
        played.stack.role("dag_engine", "dag-engine-1")
        played.start({f"worker-{number}": {} for number in range(1, size.workers + 1)}, WATERCLOCK_WORKER__SLOTS="400")
        played.define(_jobs(size))
        watch = _Watch(played)
        try:
            since_s, until_s = _run_chains(played, size, watch)
        finally:
            watch.close()
        played.orders.send(CommandKind.TRIGGER, _WIDE)
        played.apply()
        chronicle = played.come_to_rest(_REST_WITHIN_S)
        _judge_latency(played, watch, since_s, until_s, judge_figures=not short)
        _judge_spread(played, size, chronicle, judge_figures=not short)


def _jobs(size: Size) -> dict[str, JobSpec]:
    once = Once(time.time_ns() // 1_000 + _FAR_US)
    after = [()] + [(f"n{number}",) for number in range(_CHAIN - 1)]
    chain = DagSpec(tuple(Node(f"n{number}", "calls.async", after=after[number]) for number in range(_CHAIN)))
    wide = DagSpec((Node("item", "calls.async", map_over=MapOver(count=size.items)),))
    jobs = {job_id: JobSpec("", once, Tier.HIGH, payload=_PAYLOAD, dag=chain) for job_id in _CHAINS}
    return jobs | {_WIDE: JobSpec("", once, Tier.MEDIUM, payload=_PAYLOAD, dag=wide)}


class _Watch:
    """One reader of committed records: when it saw each end of a node, and each work record of a node."""

    def __init__(self, played: Scene) -> None:
        names, bootstrap = played.stack.names, played.stack.bootstrap
        self._run_events = names.run_events
        self._consumer = dumps.reader(
            bootstrap, committed=True, fetch_wait_max_ms=5, fetch_queue_backoff_ms=1, auto_offset_reset="latest"
        )
        topics = [names.run_events, names.runs(Tier.HIGH)]
        ends = {topic: dumps.high_watermarks(bootstrap, topic) for topic in topics}
        self._consumer.assign([TopicPartition(topic, *place) for topic in topics for place in ends[topic].items()])
        self.ended: dict[tuple[str, int], float] = {}
        self.work: dict[tuple[str, int], float] = {}

    def look(self, wait_s: float = 0.002) -> int:
        """What has come."""
        batch = self._consumer.consume(500, wait_s)
        at_s = time.monotonic()
        for message in batch:
            if message.error() is not None:
                raise RuntimeError(f"{message.topic()}: {message.error()}")
            value = message.value() or b""
            if message.topic() != self._run_events:
                work = decode_work(value)
                if work.attempt == 1:
                    self.work.setdefault(_place(work.run_id), at_s)
            else:
                event = decode_event(value)
                if event.kind is EventKind.ATTEMPT_SUCCEEDED:
                    self.ended.setdefault(_place(event.run_id), at_s)
        return len(batch)

    def close(self) -> None:
        self._consumer.close()


def _place(run_id: str) -> tuple[str, int]:
    """(DagRun, number in its chain)."""
    dag_run, _, node = run_id.partition("/")
    return dag_run, int(node.removeprefix("n"))


def _run_chains(played: Scene, size: Size, watch: _Watch) -> tuple[float, float]:
    """Trigger at an even rate, and watch until all has ended; from when to when the rate was kept."""
    began_s = time.monotonic()
    count = round(size.dag_runs_per_s * size.seconds)
    for number in range(count):
        due_s = began_s + number / size.dag_runs_per_s
        while time.monotonic() < due_s:
            watch.look()
        played.orders.send(CommandKind.TRIGGER, _CHAINS[number % len(_CHAINS)])
    until_s = time.monotonic()
    give_up_s = until_s + _REST_WITHIN_S
    while len(watch.ended) < count * _CHAIN and time.monotonic() < give_up_s:
        watch.look()
    return began_s + min(_LEAD_S, size.seconds / 2), until_s


def _judge_latency(played: Scene, watch: _Watch, since_s: float, until_s: float, *, judge_figures: bool) -> None:
    evidence = played.evidence
    inside = [place for place, at_s in watch.ended.items() if since_s <= at_s < until_s]
    rate = len(inside) / (until_s - since_s)
    children = [(place[0], place[1] + 1) for place in inside if place[1] + 1 < _CHAIN]
    took = {child: watch.work[child] - watch.ended[child[0], child[1] - 1] for child in children if child in watch.work}
    evidence.figure("ends of nodes a second", round(rate, 1), seconds=round(until_s - since_s, 1))
    evidence.none_of((child for child in children if child not in took), "children that never began")
    evidence.demand(bool(took), "no child began")
    found = quantiles_s([max(0, round(seconds * US_PER_S)) for seconds in took.values()])
    evidence.figure("seconds from a parent's success to its child's work", found["p99"], **found, n=len(took))
    if judge_figures:
        evidence.demand(rate >= RATE_MIN, f"{rate:.0f} ends of nodes a second, fewer than {RATE_MIN:.0f}")
        evidence.demand(found["p99"] < P99_MAX_S, f"p99 {found['p99']} s, wanted < {P99_MAX_S}")


def _judge_spread(played: Scene, size: Size, chronicle: Chronicle, *, judge_figures: bool) -> None:
    evidence = played.evidence
    begun = Counter(claim.worker for (run_id, _), claim in chronicle.claims.items() if run_id.startswith(f"{_WIDE}@"))
    share = size.items / size.workers
    most = max(begun.values(), default=0) / share
    evidence.figure("items begun by the worker with most, in equal shares", round(most, 2), **begun)
    evidence.demand(begun.total() >= size.items, f"{begun.total()} items began, {size.items} are wanted")
    if judge_figures:
        evidence.demand(most <= SHARE_MAX, f"a worker began {most:.2f} times its share, wanted <= {SHARE_MAX}")
