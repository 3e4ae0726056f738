"""The judge of the intake: each job event went on once, to commands or to rejects, and an empty history fails."""

from __future__ import annotations

from typing import Any

from tests.oracle import passing
from waterclock.model.events import Reject, SourceRecord
from waterclock.model.job import Command, CommandKind
from waterclock.wire.codec import encode_command, encode_reject

EVENTS = "waterclock.job-events"


def record(value: bytes, offset: int = 0) -> dict[str, Any]:
    return {"partition": 0, "offset": offset, "timestamp_us": 0, "key": b"", "value": value}


def command(offset: int, name: str = "") -> dict[str, Any]:
    made = Command(CommandKind.DELETE, "acme:invoice", name or f"job-events/0/{offset}", "somebody", 0)
    return record(encode_command(made), offset)


def reject(offset: int) -> dict[str, Any]:
    source = SourceRecord(EVENTS, 0, offset, b"", b"", ())
    return record(encode_reject(Reject("intake", "bad", "", "", 0, source)), offset)


def test_each_job_event_goes_on_once() -> None:
    sent = [record(b"", 0), record(b"", 1)]
    assert passing.check(EVENTS, sent, [command(0), command(9, "a-check")], [reject(1)])[0] == []
    assert passing.check(EVENTS, sent, [command(0)], [])[0] == ["job event (0, 1): went nowhere"]
    assert passing.check(EVENTS, sent, [command(0)], [reject(0), reject(1)])[0] == ["job event (0, 0): went on 2 times"]
    assert passing.check(EVENTS, sent[:1], [command(0), command(1)], [])[0] == [
        "job event (0, 1): went on, and was never sent"
    ]
    assert passing.check(EVENTS, [], [], [])[0]
