"""The judge of acknowledged orders has tests of its own: a good history passes, each with one thing wrong does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle import acknowledged
from waterclock.model.events import Reject, SourceRecord
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Command, CommandKind, Every, JobSpec
from waterclock.wire.messages import command_message, reject_message
from waterclock.wire.names import Names

NAMES = Names()
JOB = "default:ping"
SPEC = JobSpec("demo.ping", Every(US_PER_S))
Record = dict[str, Any]


def _record(offset: int, value: bytes | None) -> Record:
    return {"partition": 0, "offset": offset, "timestamp_us": offset * US_PER_S, "key": b"", "value": value}


def _command(offset: int, kind: CommandKind, key: str, command_id: str = "") -> Record:
    spec = SPEC if kind is CommandKind.CREATE else None
    command = Command(
        kind, JOB, command_id or f"id-{offset}", "check", offset * US_PER_S, spec=spec, idempotency_key=key
    )
    return _record(offset, command_message(NAMES, command).value)


def _order(key: str, op: str, began: float, **more: Any) -> Record:
    told: Record = {"key": key, "op": op, "job": JOB, "run_id": "", "door": "api", "t0": began, "t1": began + 0.5}
    return told | {"result": "ok", "status": 200, "tries": 1, "answer": {}} | more


def _good() -> tuple[list[Record], list[Record]]:
    commands = [
        _command(1, CommandKind.CREATE, "k1"),
        _command(2, CommandKind.CREATE, "k1"),
        _command(3, CommandKind.PAUSE, "k2"),
    ]
    return [_order("k1", "create", 1.0, tries=2), _order("k2", "pause", 2.0)], commands


def test_a_good_history_passes_and_is_counted() -> None:
    history, commands = _good()
    complaints, counts = acknowledged.check(history, commands, [])
    assert complaints == []
    assert (counts["orders"], counts["asked again"], counts["given more than once"]) == (2, 1, 1)


def test_an_empty_history_says_nothing() -> None:
    assert acknowledged.check([], [], [])[0] != []


@pytest.mark.parametrize("lost", [0, 2])
def test_an_acknowledged_order_that_does_not_stand_in_the_log_is_lost(lost: int) -> None:
    history, commands = _good()
    key = ("k1", "", "k2")[lost]
    kept = [record for at, record in enumerate(commands) if at != lost and not (lost == 0 and at == 1)]
    complaints, _ = acknowledged.check(history, kept, [])
    assert any(key in complaint and "no command stands" in complaint for complaint in complaints)


def test_what_the_client_was_refused_must_not_have_been_done() -> None:
    history, commands = _good()
    history[1] |= {"result": "fail", "status": 404}
    assert any("it was done" in complaint for complaint in acknowledged.check(history, commands, [])[0])


def test_what_the_client_was_granted_must_not_have_been_refused() -> None:
    history, commands = _good()
    complaints, _ = acknowledged.check(history[1:], commands[2:], [])
    assert any("the log says" in complaint for complaint in complaints)


def test_an_order_that_began_after_the_answer_of_another_stands_behind_it() -> None:
    history, commands = _good()
    history[0] |= {"t0": 5.0, "t1": 5.5}
    assert any("answered first" in complaint for complaint in acknowledged.check(history, commands, [])[0])


def test_an_order_by_record_must_stand_on_job_events() -> None:
    _history, commands = _good()
    sent = [_order("k1", "create", 1.0, door="job-events", status=0, answer={"partition": 0, "offset": 7})]
    assert acknowledged.check(sent, commands, [_record(7, b"")])[0] == []
    assert any("stands on job-events" in each for each in acknowledged.check(sent, commands, [_record(8, b"")])[0])


def _reject(topic: str, offset: int) -> Record:
    source = SourceRecord(topic, 0, offset, None, b"", ())
    return _record(offset, reject_message(NAMES, Reject("x", "", "", "", 0, source)).value)


def test_each_job_event_goes_on_once() -> None:
    topic = NAMES.job_events
    commands = [_command(1, CommandKind.CREATE, "k1", "job-events/0/4")]
    rejects = [_reject(topic, 5)]
    sent = [_record(4, b""), _record(5, b"")]
    assert acknowledged.sources(sent, commands, rejects, topic, NAMES.prefix) == []
    assert len(acknowledged.sources(sent, commands, [], topic, NAMES.prefix)) == 1
    assert len(acknowledged.sources(sent, commands * 2, rejects, topic, NAMES.prefix)) == 1
    assert len(acknowledged.sources(sent[:1], commands, rejects, topic, NAMES.prefix)) == 1


def test_exactly_what_had_to_be_refused_is_rejected() -> None:
    topic = NAMES.commands
    commands = [_command(1, CommandKind.PAUSE, "k1"), _command(2, CommandKind.CREATE, "k2")]
    assert acknowledged.refusals(commands, [_reject(topic, 1)], topic) == []
    assert len(acknowledged.refusals(commands, [], topic)) == 1
    assert len(acknowledged.refusals(commands, [_reject(topic, 1)] * 2, topic)) == 1
    assert len(acknowledged.refusals(commands, [_reject(topic, 1), _reject(topic, 2)], topic)) == 1
