"""A dispatcher and a recorder on in-memory ports, and somebody who ends runs: what backfills need around them."""

from __future__ import annotations

from tests.unit.dispatcher_world import NAMES, START, World
from waterclock.log.memory import MemoryLog
from waterclock.model.backfill import Backfilled, make_backfill_id
from waterclock.model.errors import BackendDown
from waterclock.model.events import Answered, Ended, EventKind, Origin, Pending, RunEvent, Started
from waterclock.model.ids import US_PER_S, Instant, job_of_run, ordinal, parse_run_id
from waterclock.model.job import CommandKind, Cron, JobSpec
from waterclock.recorder.loop import Recorder
from waterclock.store.memory import MemoryStore
from waterclock.wire.messages import event_message

JOB = "t:job"
MINUTE_US = 60 * US_PER_S


class BackfillWorld(World):
    """``START`` is a whole minute; the job of most tests fires at each."""

    def __init__(self) -> None:
        super().__init__(partitions=1)
        self.store = MemoryStore(self.clock, self.tables, "reader")
        self.recorder = Recorder(
            MemoryLog(self.cluster, "recorder", session_timeout_s=6.0),
            MemoryStore(self.clock, self.tables, "recorder"),
            self.clock,
            NAMES,
            "r1",
            batch_s=0.0,
            batch_s_behind=0.0,
            commit_every_s=0.0,
        )

    def define(self, spec: JobSpec | None = None, job_id: str = JOB) -> None:
        self.command(CommandKind.CREATE, job_id, spec or JobSpec("demo.noop", Cron("* * * * *")))
        self.rest()

    def rest(self, *, records: bool = True) -> None:
        """Until nobody has anything to do at this instant."""
        quiet = 0
        for _ in range(600):
            busy = self.dispatcher.step()
            if records:
                busy |= self.recorder.step()
            quiet = 0 if busy else quiet + 1
            if quiet > 6:
                return
        raise AssertionError("no rest")

    def wait(self, seconds: float, *, records: bool = True) -> None:
        """Time goes by in steps in which a healthy system keeps up."""
        for _ in range(max(1, round(seconds / 5))):
            self.clock.advance(round(min(5.0, seconds) * US_PER_S))
            try:
                self.rest(records=records)
            except BackendDown:
                continue

    def ask(self, from_minute: int, to_minute: int, job_id: str = JOB, **more: object) -> str:
        """Ask for a range, in minutes from ``START``; returns the id that the backfill has, if it is made."""
        from_at, to_at = START + from_minute * MINUTE_US, START + to_minute * MINUTE_US
        offset = self.command(CommandKind.BACKFILL, job_id, from_at=from_at, to_at=to_at, answer=True, **more)
        return make_backfill_id(job_id, ordinal(1, offset))

    def turn(self, kind: CommandKind, backfill_id: str, **more: object) -> None:
        self.command(kind, backfill_id.rpartition("~")[0], backfill_id=backfill_id, answer=True, **more)
        self.rest()

    def say(self, run_id: str, kind: EventKind, *, attempt: int = 1, token: int = 0, **more: object) -> int:
        owner = {"worker": "w", "incarnation": 1, "token": token} if kind.value.startswith(("STARTED", "ATT")) else {}
        event = RunEvent(kind, job_of_run(run_id), run_id, self.clock.now(), attempt=attempt, **owner, **more)  # type: ignore[arg-type]
        appender = self.outside.appender()
        ticket = appender.append(event_message(NAMES, event))
        appender.flush(1.0)
        assert ticket.offset is not None
        return ordinal(1, ticket.offset)

    def end(self, run_id: str) -> None:
        token = self.say(run_id, EventKind.STARTED, detail=Started("x", 0, 0))
        self.say(run_id, EventKind.ATTEMPT_SUCCEEDED, token=token, detail=Ended(0))

    def end_all(self) -> None:
        """Every run of a backfill that is open comes to its end."""
        started = {event.run_id for event in self.events(EventKind.STARTED)}
        for run_id in self.made():
            if run_id not in started:
                self.end(run_id)
        self.rest()

    def made(self, job_id: str = JOB) -> list[str]:
        """The runs of backfills, in the order of the log."""
        return [event.run_id for event in self.pendings(job_id) if _origin(event) is Origin.BACKFILL]

    def minutes(self, job_id: str = JOB) -> list[int]:
        """Their fires, in minutes from ``START``."""
        return [minute(run_id) for run_id in self.made(job_id)]

    def pendings(self, job_id: str = JOB) -> list[RunEvent]:
        return [event for event in self.events(EventKind.PENDING) if event.job_id == job_id]

    def told(self, backfill_id: str) -> list[Backfilled]:
        """What run-events say of a backfill, in order."""
        details = [event.detail for event in self.events(EventKind.BACKFILL)]
        number = int(backfill_id.rpartition("~")[2])
        return [detail for detail in details if isinstance(detail, Backfilled) and detail.number == number]

    def statuses(self, backfill_id: str) -> list[str]:
        """Its statuses, each once."""
        return list(dict.fromkeys(str(told.status) for told in self.told(backfill_id)))

    def answers(self) -> list[Answered]:
        found = [event.detail for event in self.events(EventKind.ANSWERED)]
        return [detail for detail in found if isinstance(detail, Answered)]


def minute(run_id: str) -> int:
    """The fire of a run, in minutes from ``START``."""
    return (fire_of(run_id) - START) // MINUTE_US


def fire_of(run_id: str) -> Instant:
    return parse_run_id(run_id).fire_at


def _origin(event: RunEvent) -> Origin | None:
    return event.detail.origin if isinstance(event.detail, Pending) else None
