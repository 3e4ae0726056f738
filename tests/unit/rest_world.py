"""A small stack at rest, made up: three runs of one job, one of each end, and all that stands of them anywhere.

The first succeeds; the second fails twice and is given up; the third is cancelled before it is claimed, and a claim
crosses the cancel. ``judged`` says what ``judge_all`` falls short of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.acceptance.at_rest import AtRest
from tests.acceptance.evidence import Evidence
from tests.acceptance.excuses import NONE, Excuses
from tests.acceptance.judge_all import judge_taken
from tests.acceptance.taken import Taken
from tests.oracle import owed
from tests.oracle.chronicle import Chronicle
from waterclock.model.events import (
    Control,
    ControlKind,
    DeadLetter,
    Ended,
    EventKind,
    Lease,
    LeaseKind,
    Origin,
    Pending,
    Retrying,
    Revised,
    RunEvent,
    SourceRecord,
    Started,
    WorkRecord,
)
from waterclock.model.failure_policy import Backoff, FailurePolicy, policy_to_json
from waterclock.model.job import Command, CommandKind, Every, JobSpec, Tier
from waterclock.wire.codec import (
    decode_event,
    encode_command,
    encode_control,
    encode_dead_letter,
    encode_event,
    encode_lease,
    encode_work,
)
from waterclock.wire.names import Names

S, MS = 1_000_000, 1_000
T = 1_800_000_000 * S
JOB, WORK = "acme:invoice", "waterclock.runs.high"
GENERATION = 1 << 48
GOOD, GIVEN_UP, CANCELLED = (owed.run_id(JOB, T + minute * 60 * S) for minute in range(3))
FIRE = {GOOD: T, GIVEN_UP: T + 60 * S, CANCELLED: T + 120 * S}
UNTIL = T + 121 * S
HELLO = 3
"""Its offset: the incarnation of every worker here."""

POLICY = FailurePolicy(max_attempts=2, backoff=Backoff.FIXED, delays_us=(S,))
SPEC = JobSpec("calls.async", Every(60 * S, T), Tier.HIGH, payload=b"{}", policy=POLICY)


def record(offset: int, at: int, value: bytes, **more: Any) -> dict[str, Any]:
    return {"partition": 0, "offset": offset, "timestamp_us": at, "key": JOB.encode(), "value": value, **more}


class Told:
    """One partition of run-events, written event by event, each with the broker's time of it."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def say(self, kind: EventKind, run_id: str, at: int, attempt: int = 0, **more: Any) -> int:
        offset = len(self.records)
        self.records.append(record(offset, at, encode_event(RunEvent(kind, JOB, run_id, at, attempt, **more))))
        return offset

    def pending(self, run_id: str, at: int) -> None:
        fire = FIRE[run_id]
        detail = Pending(GENERATION, fire, fire, Tier.HIGH, Origin.SCHEDULE, handler=SPEC.handler)
        self.say(EventKind.PENDING, run_id, at, detail=detail)

    def started(self, run_id: str, at: int, attempt: int = 1, worker: str = "worker-1") -> int:
        detail = Started(WORK, 0, 0)
        return self.say(EventKind.STARTED, run_id, at, attempt, worker=worker, incarnation=HELLO, detail=detail)

    def ended(
        self, kind: EventKind, run_id: str, at: int, token: int, attempt: int = 1, worker: str = "worker-1"
    ) -> None:
        error = "" if kind is EventKind.ATTEMPT_SUCCEEDED else "Broken"
        of = {"worker": worker, "incarnation": HELLO, "token": token + GENERATION}
        self.say(kind, run_id, at, attempt, detail=Ended(at, error_class=error), **of)

    def move(self, offset: int, at: int) -> None:
        """Let this one be said and stored at another time."""
        event = decode_event(self.records[offset]["value"])._replace(at=at)
        self.records[offset] = record(offset, at, encode_event(event))


def told() -> Told:
    """The whole story."""
    log = Told()
    log.say(EventKind.REVISED, "", T - 10 * S, detail=Revised(GENERATION, T - 10 * S, T - 10 * S, "created"))
    log.pending(GOOD, T)
    log.ended(EventKind.ATTEMPT_SUCCEEDED, GOOD, T + 200 * MS, log.started(GOOD, T + 10 * MS))
    at = FIRE[GIVEN_UP]
    log.pending(GIVEN_UP, at)
    log.ended(EventKind.ATTEMPT_FAILED, GIVEN_UP, at + 200 * MS, log.started(GIVEN_UP, at + 10 * MS))
    log.say(EventKind.RETRYING, GIVEN_UP, at + 300 * MS, 2, detail=Retrying(at + 1_300 * MS, S))
    again = log.started(GIVEN_UP, at + 1_400 * MS, 2)
    log.ended(EventKind.ATTEMPT_FAILED, GIVEN_UP, at + 1_500 * MS, again, 2)
    log.say(EventKind.RUN_FAILED, GIVEN_UP, at + 1_600 * MS, 2, reason="attempts-used-up")
    at = FIRE[CANCELLED]
    log.pending(CANCELLED, at)
    log.say(EventKind.CANCEL_REQUESTED, CANCELLED, at + 50 * MS)
    log.ended(EventKind.ATTEMPT_SUCCEEDED, CANCELLED, at + 90 * MS, log.started(CANCELLED, at + 60 * MS))
    return log


def work(run_id: str, attempt: int = 1) -> bytes:
    fire, policy = FIRE[run_id], policy_to_json(POLICY)
    made = WorkRecord(run_id, fire, fire, attempt, JOB, GENERATION, Tier.HIGH, "default", "calls.async", b"{}")
    return encode_work(made._replace(policy=policy))


def call(run_id: str, token: int, attempt: int = 1, *, booked: bool = True) -> dict[str, Any]:
    return {"run_id": run_id, "attempt": attempt, "token": token + GENERATION, "status": 200, "booked": booked}


def works(*values: bytes) -> list[dict[str, Any]]:
    return [record(offset, T, value, topic=WORK) for offset, value in enumerate(values)]


def whole(log: Told | None = None, **other: Any) -> Taken:
    """All that stands, where ``log`` was told; ``other`` fields stand in the place of the right ones."""
    events = (log or told()).records
    create = Command(CommandKind.CREATE, JOB, "job-events/0/0", "somebody", T - 10 * S, spec=SPEC)
    cancel = Command(CommandKind.CANCEL, JOB, "cancel-1", "somebody", FIRE[CANCELLED], run_id=CANCELLED)
    kept = SourceRecord(WORK, 0, 2, JOB.encode(), work(GIVEN_UP, 2))
    letter = DeadLetter(GIVEN_UP, JOB, "attempts-used-up", "Broken", "", "", 2, T, T, T, kept)
    control = Control(ControlKind.CANCEL_REQUESTED, JOB, CANCELLED, FIRE[CANCELLED])
    given = [work(GOOD), work(GIVEN_UP), work(GIVEN_UP, 2), work(CANCELLED)]
    fields = {
        "events": events,
        "commands": [
            record(0, T - 10 * S, encode_command(create)),
            record(1, FIRE[CANCELLED] + 20 * MS, encode_command(cancel)),
        ],
        "job_events": [record(0, T - 11 * S, b"{}")],
        "control": [record(0, FIRE[CANCELLED] + 40 * MS, encode_control(control))],
        "leases": [record(HELLO, T - 20 * S, encode_lease(Lease(LeaseKind.HELLO, "worker-1", T - 20 * S)))],
        "dlq": [record(0, FIRE[GIVEN_UP] + 2 * S, encode_dead_letter(letter))],
        "work": works(*given),
        "ledger": [call(GOOD, 2), call(CANCELLED, 13)],
        "behind": {(WORK, 0): len(given)},
        "told": {0: (len(events), "fold-from=0")},
        "rows": rows(),
    }
    return Taken(**{**fields, **other})


def rows(**other: Any) -> dict[str, list[dict[str, Any]]]:
    def place(run_id: str) -> dict[str, Any]:
        return {"job_id": JOB, "fire_at": FIRE[run_id], "series": 0}

    runs = [
        {**place(run_id), "status": status, "outcome": outcome, "attempt": attempt, "skipped_count": 0}
        for run_id, status, outcome, attempt in ((GOOD, 3, 1, 1), (GIVEN_UP, 4, 2, 2), (CANCELLED, 5, 0, 0))
    ]
    attempt = {**place(GIVEN_UP), "attempt": 1, "outcome": 2, "worker": "worker-1", "fence": GENERATION + 5}
    failure = {**place(GIVEN_UP), "reason": "attempts-used-up", "error_class": "Broken", "attempts": 2}
    jobs = [{"job_id": JOB, "revision": GENERATION, "status": 0}]
    return {"runs": runs, "attempts": [attempt], "failures": [failure], "jobs": jobs, **other}


class Heard(Evidence):
    """Keeps what falls short instead of printing it."""

    def __init__(self) -> None:
        super().__init__("made up", None)
        self.told: list[str] = []
        self.figures: dict[str, tuple[object, Mapping[str, object]]] = {}

    def figure(self, name: str, value: object, **more: object) -> None:
        json.dumps([name, value, more])  # it can be told
        self.figures[name] = value, more

    def demand(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.told.append(otherwise)


def at_rest(taken: Taken) -> AtRest:
    return AtRest(Heard(), Names("waterclock"), {JOB: SPEC}, Chronicle(taken.events), taken)


def judged(taken: Taken, excuses: Excuses = NONE) -> list[str]:
    """What it falls short of."""
    found = at_rest(taken)
    judge_taken(found, UNTIL, excuses)
    assert isinstance(found.evidence, Heard)
    return found.evidence.told
