"""The judges of what people read: what the log says passes, and one thing told otherwise has its name."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest

from tests.oracle import answers, envelopes, jobs, kept_rows, rejects, runs
from waterclock.log.port import Outgoing
from waterclock.model.backfill import Backfilled, BackfillStatus
from waterclock.model.events import (
    Answered,
    CommandVerdict,
    Control,
    ControlKind,
    EventKind,
    Origin,
    Pending,
    Reject,
    Revised,
    RunEvent,
    SourceRecord,
    WorkRecord,
)
from waterclock.model.ids import make_run_id, partition_of
from waterclock.model.job import Command, CommandKind, Every, JobSpec, Tier
from waterclock.wire import messages
from waterclock.wire.names import Names
from waterclock.wire.records import _spec_to_record

S, START, NUMBER = 1_000_000, 1_795_000_000_000_000, 1 << 48
JOB, NAMES = "acme:invoice", Names()
SPEC, EDITED = JobSpec("demo.noop", Every(3_600 * S, START)), JobSpec("demo.noop", Every(3_600 * S, START), Tier.LOW)
RUN = make_run_id(JOB, START + 3 * S, NUMBER + 3)
OTHER = make_run_id(JOB, START + 4 * S, NUMBER + 4)
PARTITIONS = 4
Record = dict[str, Any]


def stands(message: Outgoing, offset: int, at: int) -> Record:
    key = message.key or b""
    place = {
        "topic": message.topic,
        "partition": partition_of(key.decode(), PARTITIONS),
        "offset": offset,
        "timestamp_us": at,
    }
    return {**place, "key": key, "value": message.value, "headers": message.headers}


class Log:
    """A job that is made, edited, paused with words, and triggered twice: the second run waits for the first."""

    def __init__(self) -> None:
        self.commands: list[Record] = []
        self.events: list[Record] = []
        self.command(CommandKind.CREATE, spec=SPEC)
        self.command(CommandKind.UPDATE, spec=EDITED, note="cheaper")
        self.command(CommandKind.PAUSE, note="the bank is shut")
        for number in range(3):
            at = START + number * S
            self.say(RunEvent(EventKind.REVISED, JOB, "", at, detail=Revised(NUMBER + number, at, at, "x")))
        for number, (kind, run_id) in enumerate(((EventKind.PENDING, RUN), (EventKind.HELD, OTHER)), 3):
            at = self.command(CommandKind.TRIGGER, answer=True)
            detail = Pending(NUMBER + 2, at, None, Tier.LOW, Origin.TRIGGER, handler="demo.noop")
            word = "overlap" if kind is EventKind.HELD else ""
            self.say(RunEvent(kind, JOB, run_id, at, reason=word, detail=detail))
            answer = Answered(f"c{number}", number, CommandVerdict.APPLIED, NUMBER + 2, run_id, held=word)
            self.say(RunEvent(EventKind.ANSWERED, JOB, "", at, detail=answer))

    def command(self, kind: CommandKind, **more: Any) -> int:
        offset = len(self.commands)
        at = START + offset * S
        command = Command(kind, JOB, f"c{offset}", "ann", at, **more)
        self.commands.append(stands(messages.command_message(NAMES, command), offset, at))
        return at

    def say(self, event: RunEvent) -> None:
        self.events.append(stands(messages.event_message(NAMES, event), len(self.events), event.at))

    def answered(self, **parts: Any) -> list[str]:
        """What the judge says where the last answer is another."""
        found = copy.deepcopy(jobs.read(self.commands, self.events))
        found[JOB].answered[4][0].event["answered"].update(parts)
        return answers.check(found, Counter())


@pytest.fixture
def log() -> Log:
    return Log()


def version(offset: int, **parts: Any) -> Record:
    row = {"job_id": JOB, "revision": NUMBER + offset, "status": "ACTIVE", "created_at": START, "pause": None}
    row |= {"spec": _spec_to_record(SPEC if offset == 0 else EDITED), "anchor_at": START, "actor": "ann", "note": ""}
    row |= {"stamp_at": START + offset * S, "from_revision": 0}
    return row | parts


PAUSE = {"status": "PAUSED", "pause": ("ann", "the bank is shut", START + 2 * S, 0)}
VERSIONS = [
    version(0, action="create"),
    version(1, action="update", note="cheaper"),
    version(2, action="pause", note="the bank is shut", **PAUSE),
]


def test_versions_are_what_was_defined_by_whom_and_with_which_words(log: Log) -> None:
    found = jobs.read(log.commands, log.events)
    assert kept_rows.versions(found, VERSIONS, 100) == []
    assert kept_rows.versions(found, VERSIONS[1:], 2) == []
    assert kept_rows.versions(found, VERSIONS[1:], 3) == [f"{JOB}: no row of its version 0"]
    for part, value in (("note", ""), ("actor", "bob"), ("spec", _spec_to_record(SPEC)), ("created_at", 7)):
        (wrong,) = kept_rows.versions(found, [VERSIONS[0], VERSIONS[1] | {part: value}, VERSIONS[2]], 100)
        assert wrong.startswith(f"{JOB}: its version 1 says ")


def test_a_job_stands_as_its_last_version_and_is_listed_once(log: Log) -> None:
    found = jobs.read(log.commands, log.events)
    row = VERSIONS[2] | {"updated_at": START + 2 * S}
    line = {"job_id": JOB, "kind": "every", "status": "PAUSED", "created_at": START}
    assert kept_rows.standing(found, [row], [line]) == []
    for wrong in (row | {"pause": None}, row | {"spec": _spec_to_record(SPEC)}, row | {"updated_at": 1}):
        assert len(kept_rows.standing(found, [wrong], [line])) == 1
    for lines in ([], [line, line], [line | {"status": "ACTIVE"}]):
        assert "listed as" in kept_rows.standing(found, [row], lines)[0]


def test_each_command_has_its_row_in_the_audit(log: Log) -> None:
    kinds, notes = ("create", "update", "pause", "trigger", "trigger"), ("", "cheaper", "the bank is shut", "", "")
    rows = []
    for offset, (kind, note) in enumerate(zip(kinds, notes, strict=True)):
        detail = {"command_id": f"c{offset}"} | ({"note": note} if note else {})
        place = {"src": log.commands[0]["partition"], "off": offset, "at": START + offset * S}
        rows.append({**place, "actor": "ann", "action": kind, "job_id": JOB, "detail": detail})
    assert kept_rows.audit(log.commands, rows) == []
    assert len(kept_rows.audit(log.commands, rows[1:])) == 1
    assert len(kept_rows.audit(log.commands, [*rows[1:], rows[0] | {"actor": "bob"}])) == 1
    assert len(kept_rows.audit(log.commands[1:], rows)) == 1


def test_a_backfill_stands_in_its_row_as_it_was_told_of_last(log: Log) -> None:
    for seq, status in enumerate((BackfillStatus.WAITING, BackfillStatus.DONE), 1):
        told = Backfilled(NUMBER, seq, status, 0, 9, 0, NUMBER, Tier.LOW, 1, 2, *6 * (0,), *3 * (START,), *3 * ("",))
        log.say(RunEvent(EventKind.BACKFILL, JOB, "", START + seq, detail=told))
    first, last = (runs.decode(record["value"])[1] for record in log.events[-2:])
    rows = [{"job_id": JOB, "told": each["backfilled"], "at": each["at"]} for each in (first, last)]
    assert kept_rows.backfills(log.events, rows[1:]) == []
    assert len(kept_rows.backfills(log.events, rows[:1])) == len(kept_rows.backfills(log.events, [])) == 1


def test_what_was_done_last_about_a_letter_stands_in_its_row(log: Log) -> None:
    log.command(CommandKind.DISCARD, run_id=RUN)
    found = jobs.read(log.commands, log.events)
    row = {"job_id": JOB, "fire_at": START + 3 * S, "series": NUMBER + 3, "node": "", "at": START + 5 * S}
    row |= {"action": "discarded", "linked_run": "", "actor": "ann"}
    assert [*kept_rows.letters(found, log.events, [row])] == []
    for rows in ([], [row | {"actor": "bob"}], [row | {"action": "redriven"}], [row, row | {"series": 9}]):
        assert len([*kept_rows.letters(found, log.events, rows)]) == 1


def test_whoever_asks_is_told_which_run_was_made_and_why_it_waits(log: Log) -> None:
    assert log.answered() == []
    assert log.answered(run_id=RUN) == [f"{JOB}: command 4 (applied) is answered with the run {RUN}, it made {OTHER}"]
    assert "is told (held, dropped) ('', '')" in log.answered(held="")[0]
    assert "is told (held, dropped) ('overlap', 'overlap')" in log.answered(skipped="overlap")[0]
    assert "is told what is wrong" in log.answered(message="no such job")[0]


def enveloped(log: Log, work: Record, control: Record) -> list[str]:
    told = runs.tell_all(log.events)
    return envelopes.check(told, log.events, [work], [], log.commands, [control], PARTITIONS)[0]


def test_records_lie_under_their_keys_with_headers_that_say_whose_they_are(log: Log) -> None:
    node = WorkRecord(f"{RUN}/load", 0, 0, 1, JOB, 1, Tier.LOW, "default", "h", b"")
    work = stands(messages.work_message(NAMES, node), 0, 0)
    control = stands(messages.control_message(NAMES, Control(ControlKind.CANCEL_REQUESTED, JOB, RUN, START)), 0, 0)
    assert enveloped(log, work, control) == []
    assert "under the key" in enveloped(log, work | {"key": JOB.encode()}, control)[0]
    assert "belongs to partition" in enveloped(log, work | {"partition": work["partition"] ^ 1}, control)[0]
    assert (
        "with the headers"
        in enveloped(log, work | {"headers": (*work["headers"], ("waterclock-due", b"x"))}, control)[0]
    )
    for name in ("ce_id", "ce_subject", "idempotency-key", "waterclock-tenant", "content-type"):
        headers = tuple(each for each in work["headers"] if each[0] != name)
        assert f"of its headers wrong: {name}" in enveloped(log, work | {"headers": headers}, control)[0]


def test_no_two_events_that_count_bear_one_id(log: Log) -> None:
    pending, held = (each for each in log.events if runs.decode(each["value"])[1]["pending"])
    others = [each for each in held["headers"] if each[0] != "ce_id"]
    held["headers"] = (*others, ("ce_id", dict(pending["headers"])["ce_id"]))
    assert "bears the id of PENDING" in envelopes._repeated_ids(runs.tell_all(log.events))[0]


def test_keys_lie_where_javas_own_producer_puts_them() -> None:
    for key, number in ((b"21", -973932308), (b"foobar", -790332482), (b"abc", 479470107)):
        assert envelopes._murmur2(key) == number & 0xFFFFFFFF


def test_a_reject_is_the_record_and_says_why(log: Log) -> None:
    refused = log.commands[0]
    place = (refused["topic"], refused["partition"], refused["offset"], refused["key"], refused["value"])
    made = Reject("dispatcher", "no such pool", "/pool", "", START, SourceRecord(*place, ()))

    def judged(reject: Reject, *, is_there: bool = True) -> list[str]:
        record = stands(messages.reject_message(NAMES, reject), 0, 0)
        return rejects.check([record], log.commands if is_there else log.commands[1:])[0]

    assert judged(made) == []
    assert "is not the record" in judged(made._replace(source=made.source._replace(value=b"x")))[0]
    assert "gives no reason" in judged(made._replace(reason=""))[0]
    assert "is of no record" in judged(made, is_there=False)[0]
