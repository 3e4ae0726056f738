"""A retry router, and lease keepers, on the Log in memory; a hand that writes what dispatcher and worker would."""

from __future__ import annotations

from collections import Counter

from waterclock.retry_router.fencing import Hands, OwnHands
from waterclock.retry_router.keeper import Keeper
from waterclock.retry_router.loop import RetryRouter

from waterclock.clock import ManualClock
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.port import Isolation, Outgoing, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.events import (
    DeadLetter,
    Ended,
    EventKind,
    Heartbeat,
    Lease,
    LeaseKind,
    Origin,
    Pending,
    RunEvent,
    Started,
    WorkRecord,
)
from waterclock.model.failure_policy import FailurePolicy, policy_to_json
from waterclock.model.ids import US_PER_S, make_run_id, ordinal
from waterclock.model.job import Tier
from waterclock.transact import Rounds
from waterclock.wire.codec import decode_any
from waterclock.wire.messages import event_message, heartbeat_message, lease_message, work_message
from waterclock.wire.names import Names, topic_specs

JOB = "acme:nightly"
OTHER = "acme:hourly"
NAMES = Names()
GENERATION = 1
HOSTILE = b"\xc3\x01 no event"


class World:
    """A cluster, and a hand that writes to it what dispatcher and worker would."""

    def __init__(self, partitions: int = 1) -> None:
        self.clock = ManualClock()
        self.cluster = MemoryCluster(self.clock)
        for spec in topic_specs(NAMES, partitions):
            compact = spec.config.get("cleanup.policy") == "compact"
            self.cluster.create_topic(spec.name, spec.partitions, compact=compact)
        self.log = MemoryLog(self.cluster, "hand")
        self.appender = self.log.appender()
        self.made = 0
        self.policy = policy_to_json(FailurePolicy(max_attempts=1))
        self.at_most_once = False

    def append(self, message: Outgoing) -> int:
        offset = self.appender.append(message).offset
        assert offset is not None
        return offset

    def event(self, kind: EventKind, run_id: str, attempt: int = 0, **parts: object) -> int:
        event = RunEvent(kind, run_id.partition("@")[0], run_id, self.clock.now(), attempt)._replace(**parts)
        return self.append(event_message(NAMES, event))

    def pending(self, job_id: str = JOB, **limits: int) -> tuple[str, Started]:
        """A run that was made; returns its id and the place of its work."""
        self.made += 1
        fire_at = self.clock.now() + self.made * 1_000
        run_id = make_run_id(job_id, fire_at)
        detail = Pending(1, fire_at, fire_at, Tier.HIGH, Origin.SCHEDULE)._replace(**limits)
        self.event(EventKind.PENDING, run_id, detail=detail)
        head = (run_id, fire_at, fire_at, 1, job_id, 1, Tier.HIGH, "default", "invoice", b"payload")
        work = WorkRecord(*head, at_most_once=self.at_most_once, policy=self.policy)
        message = work_message(NAMES, work)
        place = self.cluster.place_of(message)
        return run_id, Started(place.topic, place.partition, self.append(message))

    def claimed(
        self, job_id: str = JOB, attempt: int = 1, *, worker: str = "w-1", incarnation: int = 3, **limits: int
    ) -> tuple[str, int]:
        """A run that was made and claimed; returns its id and fencing token."""
        run_id, claim = self.pending(job_id, **limits)
        return run_id, self.started(run_id, claim, attempt, worker=worker, incarnation=incarnation)

    def started(
        self, run_id: str, claim: Started, attempt: int = 1, *, worker: str = "w-1", incarnation: int = 3
    ) -> int:
        """A claim; returns its fencing token."""
        offset = self.event(EventKind.STARTED, run_id, attempt, worker=worker, incarnation=incarnation, detail=claim)
        return ordinal(GENERATION, offset)

    def ended(self, kind: EventKind, run_id: str, token: int, error_class: str = "ValueError") -> int:
        detail = Ended(self.clock.now(), error_class, "no invoice 4711")
        return self.event(kind, run_id, 1, worker="w-1", incarnation=3, token=token, detail=detail)

    def failed(self, job_id: str = JOB) -> str:
        run_id, token = self.claimed(job_id)
        self.ended(EventKind.ATTEMPT_FAILED, run_id, token)
        return run_id

    def router(self, instance: str = "retry-router-1", **parts: int) -> RetryRouter:
        return RetryRouter(
            MemoryLog(self.cluster, instance), self.clock, NAMES, instance, generation=GENERATION, **parts
        )

    def turn(self, *routers: RetryRouter, steps: int = 30) -> None:
        for _ in range(steps):
            for router in routers:
                router.step()
            self.clock.advance(200_000)

    def dump(self, topic: str) -> list[object]:
        found: list[object] = []
        for partition in range(self.log.partitions(topic)):
            place = TopicPartition(topic, partition)
            end = self.log.high_watermark(place)
            records = read_range(self.log, Isolation.COMMITTED, place, self.log.low_watermark(place), end)
            found.extend(decode_any(record.value) for record in records if record.value and record.value != HOSTILE)
        return found

    def verdicts(self) -> Counter[str]:
        events = [each for each in self.dump(NAMES.run_events) if isinstance(each, RunEvent)]
        return Counter(each.run_id for each in events if each.kind is EventKind.RUN_FAILED)

    def letters(self) -> list[DeadLetter]:
        return [each for each in self.dump(NAMES.dlq) if isinstance(each, DeadLetter)]

    def lag(self) -> int:
        place = TopicPartition(NAMES.run_events, 0)
        committed = self.cluster.group(NAMES.group("retry-router")).committed(place)
        assert committed is not None
        return self.log.high_watermark(place) - committed.offset

    def events(self, *kinds: EventKind) -> list[RunEvent]:
        found = [each for each in self.dump(NAMES.run_events) if isinstance(each, RunEvent)]
        return [each for each in found if each.kind in kinds]

    # Workers ------------------------------------------------------------------------------------------------------

    def hello(self, worker: str = "w-1") -> int:
        """A worker begins a life, in a transaction of its own id; returns the incarnation."""
        rounds = Rounds(self.log, NAMES.transactional_id("worker", worker))
        draft = rounds.draft()
        said = draft.append_tracked(lease_message(NAMES, Lease(LeaseKind.HELLO, worker, self.clock.now(), "process")))
        rounds.commit(draft)
        rounds.close()
        assert said.offset is not None
        return said.offset

    def beat(self, worker: str, incarnation: int, lease_s: float = 5.0, **parts: int) -> None:
        """A sign of life."""
        beat = Heartbeat(
            worker,
            incarnation,
            self.clock.now(),
            NAMES.transactional_id("worker", worker),
            held_count=0,
            held_xor=0,
            slots=8,
            lease_ttl_us=round(lease_s * US_PER_S),
        )
        self.append(heartbeat_message(NAMES, beat._replace(**parts)))

    def fenced(self) -> list[str]:
        """The workers on ``leases`` that were called dead, as often as they were."""
        found = [each for each in self.dump(NAMES.leases) if isinstance(each, Lease)]
        return [each.worker for each in found if each.kind is LeaseKind.FENCED]

    def keeper(self, instance: str = "retry-router-1", hands: Hands | None = None, **parts: float) -> Keeper:
        log = MemoryLog(self.cluster, f"{instance}-keeper")
        return Keeper(log, self.clock, NAMES, instance, hands=hands or OwnHands(), **parts)
