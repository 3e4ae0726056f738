"""The judges of late EndTxn: a history of whole rounds passes, each kind of tear is told, and an empty one fails."""

from __future__ import annotations

from typing import Any

from tests.oracle import torn
from tests.unit.test_failure_judges import RUN, Log, lost_and_retried
from waterclock.model.events import EventKind, WorkRecord
from waterclock.model.job import Command, CommandKind, Tier
from waterclock.wire.codec import encode_command, encode_work

EVENTS, WORK = "waterclock.job-events", "waterclock.runs.high"
FIRST = WorkRecord(RUN, 0, 0, 1, "acme:invoice", 1, Tier.HIGH, "default", "calls.async", b"")
WHOLE = (FIRST, FIRST._replace(attempt=2))


def record(value: bytes, offset: int = 0, topic: str = WORK) -> dict[str, Any]:
    return {"topic": topic, "partition": 0, "offset": offset, "timestamp_us": 0, "key": b"", "value": value}


def command(offset: int, name: str = "") -> dict[str, Any]:
    made = Command(CommandKind.DELETE, "acme:invoice", name or f"job-events/0/{offset}", "somebody", 0)
    return record(encode_command(made), offset)


def torn_of(log: Log | None = None, work: tuple[WorkRecord, ...] = WHOLE, **more: Any) -> list[str]:
    dumped = [record(encode_work(each), offset) for offset, each in enumerate(work)]
    given = {"commands": [], "behind": {(WORK, 0): len(work)}} | more
    found: list[str] = torn.check((log or lost_and_retried()).records, dumped, topic=EVENTS, **given)[0]
    return found


def test_whole_rounds_pass() -> None:
    assert torn_of() == []


def test_an_event_without_its_position_is_said_again() -> None:
    log = lost_and_retried()
    log.started(2)
    assert torn_of(log) == [f"{RUN}: STARTED of attempt 2 was said 2 times: records without their position"]


def test_a_position_without_its_claim_leaves_a_run_that_nobody_started() -> None:
    log = Log()
    log.pending()
    assert torn_of(log, (FIRST,)) == [f"{RUN}: attempt 1 was passed by the workers and never claimed"]
    assert torn_of(log, (FIRST,), behind={(WORK, 0): 0}) == []


def test_a_run_that_was_cancelled_before_its_claim_is_none() -> None:
    log = Log()
    log.pending()
    log.say(EventKind.CANCEL_REQUESTED)
    assert torn_of(log, (FIRST,)) == []


def test_work_that_was_handed_out_twice_or_not_at_all_is_half_a_round() -> None:
    assert torn_of(work=(*WHOLE, FIRST)) == [f"{RUN}: work of attempt 1 was handed out 2 times"]
    assert torn_of(work=()) == [f"{RUN}: PENDING without work"]
    log = lost_and_retried()
    del log.records[0]
    assert torn_of(log) == [f"{RUN}: work without PENDING"]


def test_an_event_that_became_two_commands_is_told() -> None:
    assert torn_of(commands=[command(3), command(3), command(4)]) == ["job-events/0/3: passed on 2 times"]


def test_others_are_not_looked_at() -> None:
    assert torn_of(work=(), of=lambda job_id: job_id == "acme:other") == []
