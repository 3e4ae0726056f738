"""A world for worker tests: one cluster in memory, workers with executors that end when the test says so."""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.workers.executors.port import Attempt, EndedAttempt
from waterclock.workers.loop import Worker

from waterclock.clock import ManualClock
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.port import Isolation, Outgoing, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.events import (
    Control,
    ControlKind,
    EventKind,
    Heartbeat,
    Lease,
    Origin,
    Outcome,
    Pending,
    Reject,
    RunEvent,
    WorkRecord,
)
from waterclock.model.ids import US_PER_S, job_of_run, make_run_id
from waterclock.model.job import Tier
from waterclock.wire.codec import decode_event, decode_heartbeat, decode_lease, decode_reject
from waterclock.wire.messages import control_message, event_message, lease_message, work_message
from waterclock.wire.names import Names, topic_specs

START = 1_795_000_000 * US_PER_S
PARTITIONS = 2


class HandExecutors:
    """Executors that run nothing: the test ends attempts by hand. ``submitted`` keeps everything ever handed over."""

    def __init__(self) -> None:
        self.submitted: list[Attempt] = []
        self.running: list[Attempt] = []
        self.ended: list[EndedAttempt] = []
        self.allowed_until_s = 0.0
        self.forgotten_count = 0
        self.asked: list[Attempt] = []
        self.forced: list[Attempt] = []
        self.unbegun: list[Attempt] = []
        """Those of ``running`` that the test calls queued."""

    def submit(self, attempts: Sequence[Attempt]) -> None:
        self.submitted.extend(attempts)
        self.running.extend(attempts)

    def end(self, attempt: Attempt, outcome: Outcome = Outcome.SUCCEEDED) -> None:
        self.running.remove(attempt)
        self.ended.append(EndedAttempt(attempt, outcome))

    def end_all(self) -> None:
        for attempt in list(self.running):
            self.end(attempt)

    def take_ended(self) -> list[EndedAttempt]:
        ended, self.ended = self.ended, []
        return ended

    def wait(self, enough: int, timeout_s: float) -> None:
        """The test moves the clock."""

    def allow_until(self, monotonic_s: float) -> None:
        self.allowed_until_s = monotonic_s

    def ask(self, attempts: Sequence[Attempt]) -> None:
        self.asked.extend(attempts)

    def force(self, attempts: Sequence[Attempt]) -> None:
        self.forced.extend(attempts)

    def withdraw(self) -> list[Attempt]:
        taken, self.unbegun = self.unbegun, []
        self.running = [attempt for attempt in self.running if attempt not in taken]
        return taken

    def forget(self) -> None:
        self.forgotten_count += 1
        self.running, self.ended = [], []

    def stop(self, grace_s: float) -> None:
        self.forget()


class World:
    """A cluster, a clock, and the dispatcher's side of the story."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.cluster = MemoryCluster(self.clock)
        self.names = Names("t")
        for spec in topic_specs(self.names, PARTITIONS):
            self.cluster.create_topic(spec.name, spec.partitions)
        self.outside = MemoryLog(self.cluster, "outside")
        self._fire_count = 0

    def worker(
        self, name: str = "worker-1", *, slots: int = 8, process: str = "", client: str = ""
    ) -> tuple[Worker, HandExecutors]:
        """A worker in a process of its own."""
        executors = HandExecutors()
        log = MemoryLog(self.cluster, client or f"{name}/{process}")
        return Worker(self.clock, log, self.names, executors, worker=name, slots=slots, process=process), executors

    def fire(self, count: int = 1, tier: Tier = Tier.MEDIUM, job: str = "acme:job") -> list[str]:
        """What a dispatcher writes: PENDING and work records. Returns the run ids."""
        appender = self.outside.appender()
        run_ids = []
        for _ in range(count):
            self._fire_count += 1
            fire_at = START + self._fire_count
            job_id = f"{job}-{self._fire_count % 7}"
            run_id = make_run_id(job_id, fire_at)
            pending = Pending(1, fire_at, fire_at, tier, Origin.SCHEDULE)
            event = RunEvent(EventKind.PENDING, job_id, run_id, self.clock.now(), detail=pending)
            appender.append(event_message(self.names, event))
            work = WorkRecord(run_id, fire_at, fire_at, 1, job_id, 1, tier, "default", "noop", b"")
            appender.append(work_message(self.names, work))
            run_ids.append(run_id)
        return run_ids

    def put(self, message: Outgoing) -> int:
        """Append any record plainly; returns its offset."""
        offset = self.outside.appender().append(message).offset
        assert offset is not None
        return offset

    def put_lease(self, lease: Lease) -> int:
        return self.put(lease_message(self.names, lease))

    def cancel(self, run_id: str, kind: EventKind = EventKind.CANCEL_REQUESTED) -> None:
        """What a dispatcher writes (a router, of RUN_EXPIRED): control first, then run-events."""
        job_id = job_of_run(run_id)
        self.put(control_message(self.names, Control(ControlKind[kind.value], job_id, run_id, self.clock.now())))
        self.put(event_message(self.names, RunEvent(kind, job_id, run_id, self.clock.now())))

    def dump(self, topic: str, isolation: Isolation = Isolation.COMMITTED) -> list[Record]:
        """Everything that committed readers see."""
        found: list[Record] = []
        for number in range(self.outside.partitions(topic)):
            place = TopicPartition(topic, number)
            end = self.outside.high_watermark(place)
            found += read_range(self.outside, isolation, place, self.outside.low_watermark(place), end, headers=True)
        return found

    def events(self, *kinds: EventKind) -> list[RunEvent]:
        found = [decode_event(record.value) for record in self.dump(self.names.run_events) if record.value]
        return [event for event in found if not kinds or event.kind in kinds]

    def started(self) -> list[str]:
        """Run ids of committed claims."""
        return sorted(event.run_id for event in self.events(EventKind.STARTED))

    def succeeded(self) -> list[str]:
        return sorted(event.run_id for event in self.events(EventKind.ATTEMPT_SUCCEEDED))

    def leases(self) -> list[Lease]:
        return [decode_lease(record.value) for record in self.dump(self.names.leases) if record.value]

    def beats(self) -> list[Heartbeat]:
        return [decode_heartbeat(record.value) for record in self.dump(self.names.heartbeats) if record.value]

    def rejects(self) -> list[Reject]:
        return [decode_reject(record.value) for record in self.dump(self.names.rejects) if record.value]

    def turn(self, *workers: Worker, count: int = 1, us: int = 20_000) -> None:
        for _ in range(count):
            for worker in workers:
                worker.step()
            self.clock.advance(us)

    def settle(self, worker: Worker, count: int = 6) -> None:
        """Turns enough to join, start and claim."""
        self.turn(worker, count=count)

    def lag(self, tier: Tier) -> int:
        """Log end minus committed position, over all partitions, as a lag tool computes it."""
        group = self.cluster.group(self.names.worker_group(tier))
        total = 0
        for number in range(PARTITIONS):
            place = TopicPartition(self.names.runs(tier), number)
            committed = group.committed(place)
            total += self.outside.high_watermark(place) - (committed.offset if committed else 0)
        return total
