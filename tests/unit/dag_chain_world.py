"""Dispatcher, DAG engine, retry router and topic listener on one cluster in memory; a hand plays the workers.

Nothing between them is played: what one of them says the others read from the log.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from waterclock.dag_engine.loop import DagEngine
from waterclock.retry_router.loop import RetryRouter

from tests.oracle import triggers as judge
from tests.unit.dispatcher_world import NAMES, START, World, raw
from waterclock.intake.topic_listener import TopicListener
from waterclock.log.memory import MemoryLog
from waterclock.log.port import Headers, Outgoing, Record
from waterclock.model.dag import DagSpec, Node
from waterclock.model.events import Ended, EventKind, Pending, RunEvent, Started
from waterclock.model.failure_policy import FailurePolicy
from waterclock.model.ids import US_PER_S, job_of_run, ordinal
from waterclock.model.job import NEVER, Command, CommandKind, JobSpec, Once, Tier
from waterclock.model.triggers import Condition, RunEnds, Triggers
from waterclock.store.memory import MemoryStore
from waterclock.wire import codec
from waterclock.wire.messages import event_message

LOAD, NIGHTLY, REPORT = "acme:load", "acme:nightly", "acme:report"
ORDERS = "shop.orders"
OK, FAILED = EventKind.ATTEMPT_SUCCEEDED, EventKind.ATTEMPT_FAILED
ONCE_TRIED = FailurePolicy(max_attempts=1)
LATER = JobSpec("demo.noop", Once(START + 900 * 86_400 * US_PER_S), policy=ONCE_TRIED)
"""A job that does not fire by itself."""
NODES = (Node("a", "h"), Node("b", "h"), Node("c", "h", after=("a", "b")))
"""Two that begin at once, and one behind them."""


def dag(
    *conditions: Condition,
    nodes: tuple[Node, ...] = NODES,
    timeout_us: int = 0,
    within_us: int = 0,
    wants_all: bool = False,
    **more: object,
) -> JobSpec:
    """A Dag, started by these, or by hand alone."""
    on = Triggers(conditions, within_us=within_us, wants_all=wants_all) if conditions else None
    schedule = LATER.schedule if on is None else NEVER
    graph = DagSpec(nodes, timeout_us=timeout_us)
    return JobSpec("", schedule, payload=b'"own"', policy=ONCE_TRIED, dag=graph, on=on, **more)  # type: ignore[arg-type]


class Made(NamedTuple):
    """A PENDING or HELD of a run that is no node."""

    run_id: str
    detail: Pending


class Chain(World):
    """``kept_behind``: for so many offsets a run is open before the router keeps it in its state topic."""

    def __init__(self, *, kept_behind: int | None = None) -> None:
        super().__init__(partitions=1)
        self.cluster.create_topic(ORDERS, 1)
        self.kept = {} if kept_behind is None else {"kept_behind": kept_behind}
        self.router_lives = 0
        self.router = self.new_router()
        log, store = MemoryLog(self.cluster, "e1"), MemoryStore(self.clock, self.tables, "e1")
        self.engine = DagEngine(log, store, self.clock, NAMES, "e1")
        sources = {ORDERS: frozenset({"acme"})}
        self.listener = TopicListener(MemoryLog(self.cluster, "i1"), self.clock, NAMES, "i1", sources)
        self.run(1)  # the first router answers no ends that stand before it

    def new_router(self) -> RetryRouter:
        self.router_lives += 1
        log = MemoryLog(self.cluster, f"r1-{self.router_lives}")
        return RetryRouter(log, self.clock, NAMES, "r1", **self.kept)

    def crash_router(self) -> None:
        """The process is gone: nothing of it is closed."""
        self.cluster.kill(f"r1-{self.router_lives}")
        self.router = self.new_router()

    def steps(self, count: int) -> None:
        for _ in range(count):
            super().steps(1)
            for role in (self.router, self.engine, self.listener):
                role.step()

    # The hand --------------------------------------------------------------------------------------------------------

    def create(self, job_id: str, spec: JobSpec) -> None:
        self.command(CommandKind.CREATE, job_id, spec)
        self.run(0.5)

    def waits(self, job_id: str, *conditions: RunEnds, **more: object) -> None:
        """A plain job that such ends start."""
        self.create(job_id, JobSpec("demo.noop", NEVER, on=Triggers(conditions, **more)))  # type: ignore[arg-type]

    def triggered(self, job_id: str) -> str:
        """A run that somebody asked for."""
        self.command(CommandKind.TRIGGER, job_id)
        self.run(0.5)
        return self.made(job_id)[-1].run_id

    def cancel(self, run_id: str) -> None:
        self.command(CommandKind.CANCEL, job_of_run(run_id), run_id=run_id)
        self.run(0.5)

    def append(self, message: Outgoing) -> int:
        appender = self.outside.appender()
        offset = appender.append(message).offset
        appender.close()
        assert offset is not None
        return offset

    def record(self, value: bytes, headers: Headers = ()) -> str:
        """A record on the topic of the orders; returns its place."""
        place = f"{ORDERS}/0/{self.append(Outgoing(ORDERS, b'k', value, headers))}"
        self.run(1)
        return place

    def tell(self, kind: EventKind, run_id: str, attempt: int = 0, **parts: Any) -> int:
        event = RunEvent(kind, job_of_run(run_id), run_id, self.clock.now(), attempt)._replace(**parts)
        return self.append(event_message(NAMES, event))

    def claim(self, run_id: str) -> int:
        """A worker begins with a run; returns its token."""
        (work,) = (each for each in self.work_records() if codec.decode_work(each.value or b"").run_id == run_id)
        claim = Started(work.topic, work.partition, work.offset)
        return ordinal(1, self.tell(EventKind.STARTED, run_id, 1, worker="w", incarnation=3, detail=claim))

    def end(self, run_id: str, token: int, kind: EventKind = OK) -> None:
        detail = Ended(self.clock.now(), "" if kind is OK else "ValueError")
        self.tell(kind, run_id, 1, worker="w", incarnation=3, token=token, detail=detail)
        self.run(1)

    def works(self, *run_ids: str, kind: EventKind = OK) -> None:
        """These runs, from their claims to their ends."""
        for run_id in run_ids:
            self.end(run_id, self.claim(run_id), kind)

    def works_off(self, dag_run_id: str, last: EventKind = OK) -> None:
        """All nodes of a DagRun, which ends with ``last``."""
        self.works(f"{dag_run_id}/a", f"{dag_run_id}/b")
        self.works(f"{dag_run_id}/c", kind=last)

    # What the log says -----------------------------------------------------------------------------------------------

    def made(self, job_id: str, kind: EventKind = EventKind.PENDING) -> list[Made]:
        """The runs of a job, without nodes."""
        found = (each for each in self.events(kind) if each.job_id == job_id and "/" not in each.run_id)
        return [Made(each.run_id, each.detail) for each in found if isinstance(each.detail, Pending)]

    def causes(self, job_id: str, kind: EventKind = EventKind.PENDING) -> list[tuple[str, int]]:
        """What started its runs, and behind how many others each stands."""
        return [(each.detail.triggered_by, each.detail.hops) for each in self.made(job_id, kind)]

    def starts(self) -> list[tuple[str, str, str]]:
        """What was told of ends: (who is started, by which run, how it ended), as often as it was told."""
        commands = [codec.decode_command(each.value) for each in self.records(NAMES.commands)]  # type: ignore[attr-defined]
        return sorted((each.job_id, each.triggered_by, each.ended) for each in commands if is_of_end(each))

    def given(self) -> dict[str, bytes]:
        """By run with work the payload that it is given."""
        works = [codec.decode_work(record.value or b"") for record in self.work_records()]
        return {work.run_id: work.payload for work in works}

    def work_records(self) -> list[Record]:
        return [record for tier in Tier for record in self.records(NAMES.runs(tier)) if isinstance(record, Record)]

    def judged(self) -> list[str]:
        """What the oracle complains of."""
        commands, events = ([raw(each) for each in self.records(topic)] for topic in (NAMES.commands, NAMES.run_events))
        works = [raw(each) for each in self.work_records()]
        complaints, _ = judge.check(commands, events, works, until=self.clock.now())
        return list(complaints)


def is_of_end(command: Command) -> bool:
    return command.kind is CommandKind.TRIGGER and "@" in command.triggered_by
