"""Histories with one thing wrong, made of a good one: what the checkers have to see (``test_checkers.py``)."""

from __future__ import annotations

from dataclasses import replace

from tests.oracle.records import decode
from waterclock.model.events import Pending, Skipped
from waterclock.model.failure_policy import FailurePolicy
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.wire.codec import decode_command, decode_event, encode_command, encode_event

from .checkers import MASK
from .dumps import Dumps, RawRecord


def kind_of(record: RawRecord) -> str:
    """Of a run event."""
    return str(decode(record["value"])[1]["kind"])


def bytes_of(record: RawRecord) -> bytes:
    """The value of a record."""
    value = record["value"]
    assert isinstance(value, bytes)
    return value


def with_events(dumps: Dumps, events: list[RawRecord]) -> Dumps:
    """Other run events, for the oracle and for the product."""
    return replace(dumps, events=events, with_forged=events)


def first(dumps: Dumps, kind: str, **head: object) -> RawRecord:
    """The first event of a kind whose head says so."""
    for record in dumps.events:
        _, event = decode(record["value"])
        if event["kind"] == kind and all(event[name] == part for name, part in head.items()):
            return record
    raise AssertionError(f"no {kind} {head} in the good history")


def other_policy(dumps: Dumps) -> Dumps:
    """All jobs were to allow one attempt."""
    commands = []
    for record in dumps.commands:
        command = decode_command(bytes_of(record))
        spec = None if command.spec is None else replace(command.spec, policy=FailurePolicy(max_attempts=1))
        commands.append({**record, "value": encode_command(command._replace(spec=spec))})
    return replace(dumps, commands=commands)


def swallowed_once_and_handed_out_twice(dumps: Dumps) -> Dumps:
    """Work that was passed over may go out once more, and not twice."""
    work = dumps.work[0]
    place = (str(work["topic"]), int(str(work["partition"])), int(str(work["offset"])))
    again: list[RawRecord] = [{**work, "offset": (1 << 40) + number} for number in range(2)]
    return replace(dumps, work=[*dumps.work, *again], swallowed=[(*place, place[2] + 1)])


def work_without_its_run(dumps: Dumps) -> Dumps:
    """Its work went out, and nothing of the run stands in the log: the commonest torn round."""
    run_id = decode(first(dumps, "PENDING")["value"])[1]["run_id"]
    return with_events(dumps, [each for each in dumps.events if decode(each["value"])[1]["run_id"] != run_id])


def success_without_a_call(dumps: Dumps) -> Dumps:
    """A run succeeded, and its user code was never called."""
    run_id = decode(first(dumps, "ATTEMPT_SUCCEEDED")["value"])[1]["run_id"]
    return replace(dumps, calls=[each for each in dumps.calls if each["run_id"] != run_id])


def _is_claim(record: RawRecord, run_id: str, token: int) -> bool:
    return record["offset"] == token and decode_event(bytes_of(record)).run_id == run_id


def with_another_owner(dumps: Dumps) -> Dumps:
    """The product reads of another worker than the oracle, and both come to the same status."""
    runs, claims = dumps.chronicle.runs, dumps.chronicle.claims
    run_id, token = next((of, claim.token) for (of, at), claim in claims.items() if runs[of]["attempt"] == at)
    claim = next(each for each in dumps.events if kind_of(each) == "STARTED" and _is_claim(each, run_id, token))
    events = []
    for each in dumps.events:
        event = decode_event(bytes_of(each))
        if each is claim or (event.run_id == run_id and event.token & MASK == token):
            each = {**each, "value": encode_event(event._replace(worker="worker-9"))}  # noqa: PLW2901
        events.append(each)
    return replace(dumps, with_forged=events)


def _first_pause(dumps: Dumps) -> RawRecord:
    for record in dumps.events:
        if kind_of(record) == "SKIPPED" and decode(record["value"])[1]["reason"] == "paused":
            return record
    raise AssertionError("nothing was skipped as paused in the good history")


def paused_and_fired(dumps: Dumps) -> Dumps:
    """The fires of a job that was paused are made as runs."""
    pause = _first_pause(dumps)
    skip = decode_event(bytes_of(pause))
    pattern = decode_event(bytes_of(first(dumps, "PENDING", job_id=skip.job_id)))
    assert isinstance(skip.detail, Skipped)
    assert isinstance(pattern.detail, Pending)
    made: list[RawRecord] = []
    span_us = skip.detail.to_at - skip.detail.from_at
    for number in range(skip.detail.fire_count):
        at = skip.detail.from_at + number * span_us // max(1, skip.detail.fire_count - 1)
        detail = pattern.detail._replace(revision=skip.detail.revision, fire_at=at, due_at=None)
        event = pattern._replace(run_id=make_run_id(skip.job_id, at), at=at, detail=detail)
        made.append({**pause, "offset": (1 << 40) + number, "value": encode_event(event)})
    return with_events(dumps, [*(each for each in dumps.events if each is not pause), *made])


def skipped_within_grace(dumps: Dumps) -> Dumps:
    """What was skipped as paused is said to have come too late."""
    pause = _first_pause(dumps)
    event = decode_event(bytes_of(pause))
    assert isinstance(event.detail, Skipped)
    late = event._replace(reason="coalesced", detail=event.detail._replace(due_at=event.at))
    changed = {**pause, "value": encode_event(late)}
    return with_events(dumps, [changed if each is pause else each for each in dumps.events])


def decided_late(dumps: Dumps) -> Dumps:
    """The newest run of the schedule was made ten minutes after its fire."""
    made = [e for e in dumps.events if kind_of(e) == "PENDING" and decode(e["value"])[1]["pending"]["due_at"]]
    newest = max(made, key=lambda each: decode(each["value"])[1]["pending"]["due_at"])
    late = {**newest, "timestamp_us": int(str(newest["timestamp_us"])) + 600 * US_PER_S}
    return with_events(dumps, [late if each is newest else each for each in dumps.events])


def expired_at_once(dumps: Dumps) -> Dumps:
    """All that expired is said to have done so before it was made."""
    events = []
    for each in dumps.events:
        if kind_of(each) == "RUN_EXPIRED":
            each = {**each, "value": encode_event(decode_event(bytes_of(each))._replace(at=1))}  # noqa: PLW2901
        events.append(each)
    return with_events(dumps, events)


def stood_before(dumps: Dumps, operation: str) -> Dumps:
    """The keeper that fenced last stood still until that very instant, before this call."""
    at = int(str(dumps.leases[-1]["timestamp_us"]))
    return replace(dumps, stood=[("nobody", at - US_PER_S, at, operation)])


def nobody_asked(dumps: Dumps) -> Dumps:
    """What was asked to stop, or ended, goes on as if nothing were."""
    unasked = {"asked_at_s": -1, "asked_turns": -1, "gone_turns": -1}
    events = [each for each in dumps.events if kind_of(each) != "ATTEMPT_CANCELLED"]
    return replace(with_events(dumps, events), in_hand=[{**row, **unasked} for row in dumps.in_hand])
