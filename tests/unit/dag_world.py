"""A DAG engine on the Log in memory; a hand that writes what dispatcher, workers and router would."""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.dag_engine.loop import ROLE, DagEngine

from waterclock.clock import ManualClock
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.port import Isolation, Outgoing, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.dag import DagSpec, Node
from waterclock.model.dag_events import DagStart
from waterclock.model.errors import BackendDown
from waterclock.model.events import Ended, EventKind, Origin, Pending, RunEvent, Started, WorkRecord
from waterclock.model.ids import make_run_id, ordinal, parse_run_id
from waterclock.model.job import JobSpec, JobStatus, JobVersion, Once, Tier
from waterclock.wire.codec import decode_event, decode_work
from waterclock.wire.messages import event_message
from waterclock.wire.names import Names, topic_specs

JOB = "acme:nightly"
REVISION = 7
NAMES = Names()
GENERATION = 1
OK, FAILED = EventKind.ATTEMPT_SUCCEEDED, EventKind.ATTEMPT_FAILED


class Versions:
    """``job_versions``, which may be away."""

    def __init__(self, spec: JobSpec) -> None:
        self.kept = {(JOB, REVISION): JobVersion(JOB, REVISION, spec, JobStatus.ACTIVE, "people", 1)}
        self.is_away = False
        self.asked = 0

    def versions_below(self, wanted: Sequence[tuple[str, int]]) -> list[JobVersion | None]:
        if self.is_away:
            raise BackendDown("cassandra", "away")
        self.asked += len(wanted)
        return [self.kept.get((job_id, revision - 1)) for job_id, revision in wanted]


class World:
    """One partition of everything, one Dag, and a hand."""

    def __init__(self, *nodes: Node, payload: bytes = b'"job"', **limits: int) -> None:
        self.clock = ManualClock()
        self.cluster = MemoryCluster(self.clock)
        for spec in topic_specs(NAMES, 1):
            compact = spec.config.get("cleanup.policy") == "compact"
            self.cluster.create_topic(spec.name, spec.partitions, compact=compact)
        self.log = MemoryLog(self.cluster, "hand")
        self.appender = self.log.appender()
        self.store = Versions(JobSpec("", Once(1), payload=payload, dag=DagSpec(nodes, **limits)))
        self.made = self.reruns = 0

    def engine(self, instance: str = "dag-engine-1", **parts: int) -> DagEngine:
        """Unless said otherwise it keeps what has changed in its next round."""
        log, parts = MemoryLog(self.cluster, instance), {"kept_behind": 0, **parts}
        return DagEngine(log, self.store, self.clock, NAMES, instance, generation=GENERATION, **parts)

    def turn(self, engine: DagEngine, steps: int = 30) -> None:
        for _ in range(steps):
            engine.step()
            self.clock.advance(200_000)

    def append(self, message: Outgoing) -> int:
        offset = self.appender.append(message).offset
        assert offset is not None
        return offset

    def event(self, kind: EventKind, run_id: str, attempt: int = 0, **parts: object) -> int:
        event = RunEvent(kind, run_id.partition("@")[0], run_id, self.clock.now(), attempt)._replace(**parts)
        return self.append(event_message(NAMES, event))

    def fire(self, kind: EventKind = EventKind.PENDING, *, revision: int = REVISION, **start: object) -> str:
        """A DagRun goes out, or is HELD; returns its id."""
        self.made += 1
        run_id = make_run_id(JOB, 1_000_000 * self.made)
        detail = Pending(revision, 1_000_000 * self.made, None, Tier.HIGH, Origin.SCHEDULE, dag=DagStart(**start))
        self.event(kind, run_id, detail=detail)
        return run_id

    def rerun(self, earlier: str, *begin: str) -> str:
        """A DagRun that runs an older one again; returns its id."""
        fire_at = parse_run_id(earlier).fire_at
        self.reruns += 1
        run_id = make_run_id(JOB, fire_at, series=98 + self.reruns)
        start = DagStart(None, begin)
        detail = Pending(REVISION, fire_at, None, Tier.HIGH, Origin.REDRIVE, linked_run=earlier, dag=start)
        self.event(EventKind.PENDING, run_id, detail=detail)
        return run_id

    def claim(self, run_id: str, attempt: int = 1) -> int:
        """An attempt begins; returns its fencing token."""
        claim = Started("t", 0, 0)
        offset = self.event(EventKind.STARTED, run_id, attempt, worker="w-1", incarnation=3, detail=claim)
        return ordinal(GENERATION, offset)

    def end(self, run_id: str, kind: EventKind = OK, *, attempt: int = 1, result: bytes | None = None) -> None:
        """An attempt, from its claim to its outcome."""
        token = self.claim(run_id, attempt)
        detail = Ended(self.clock.now(), result=result)
        self.event(kind, run_id, attempt, worker="w-1", incarnation=3, token=token, detail=detail)

    def records(self, topic: str) -> list[Record]:
        place = TopicPartition(topic, 0)
        end = self.log.high_watermark(place)
        return list(read_range(self.log, Isolation.COMMITTED, place, self.log.low_watermark(place), end))

    def events(self, *kinds: EventKind) -> list[RunEvent]:
        found = [decode_event(record.value or b"") for record in self.records(NAMES.run_events)]
        return [each for each in found if each.kind in kinds]

    def works(self) -> list[WorkRecord]:
        """Work of nodes, in the order of its release on each tier."""
        topics = [NAMES.runs(tier) for tier in Tier]
        return [decode_work(record.value or b"") for topic in topics for record in self.records(topic)]

    def released(self) -> list[str]:
        """The keys of the nodes that were released, in order, as often as they were."""
        pending = [each.run_id for each in self.events(EventKind.PENDING)]
        return [run_id.partition("/")[2] for run_id in pending if "/" in run_id]

    def kept(self) -> dict[str, bytes]:
        """What the state topic holds."""
        found: dict[str, bytes] = {}
        for record in self.records(NAMES.state(ROLE)):
            key = (record.key or b"").decode()
            found.pop(key, None)
            if record.value is not None:
                found[key] = record.value
        return found

    def lag(self) -> int:
        place = TopicPartition(NAMES.run_events, 0)
        committed = self.cluster.group(NAMES.group(ROLE)).committed(place)
        assert committed is not None
        return self.log.high_watermark(place) - committed.offset
