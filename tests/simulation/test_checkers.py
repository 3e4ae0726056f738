"""Checkers have tests of their own: a good history passes, and a history with one thing wrong does not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.oracle import runs
from tests.oracle.records import decode
from tests.oracle.verdicts import WORK_GONE
from waterclock.model.events import EventKind, LeaseKind, RunEvent
from waterclock.model.failure_policy import Backoff, FailurePolicy
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Every, JobSpec
from waterclock.wire.codec import (
    decode_dead_letter,
    decode_event,
    decode_lease,
    decode_work,
    encode_dead_letter,
    encode_event,
    encode_lease,
    encode_work,
)

from .checkers import CHECKERS, judged, the_books_balance
from .damages import (
    decided_late,
    expired_at_once,
    first,
    kind_of,
    nobody_asked,
    other_policy,
    paused_and_fired,
    skipped_within_grace,
    stood_before,
    success_without_a_call,
    swallowed_once_and_handed_out_twice,
    with_another_owner,
    with_events,
    work_without_its_run,
)
from .door_checkers import same_key_same_answer
from .dumps import Dumps, RawRecord
from .history import Line
from .people import Order
from .plan import Plan, draw
from .play import leave_behind
from .senders import Garbage
from .story import Story
from .troubles import Trouble

SEED = 7
KINDS = {
    "PENDING",
    "SKIPPED",
    "STARTED",
    "ATTEMPT_SUCCEEDED",
    "ATTEMPT_FAILED",
    "ATTEMPT_TIMED_OUT",
    "ATTEMPT_LOST",
    "ATTEMPT_CANCELLED",
    "RETRYING",
    "RUN_FAILED",
    "RUN_EXPIRED",
    "CANCEL_REQUESTED",
    "REVISED",
    "ANSWERED",
}


def everything() -> Plan:
    """A plan in which a little of everything happens."""
    waits = FailurePolicy(queue_timeout_us=9 * US_PER_S)
    fixed = FailurePolicy(max_attempts=2, backoff=Backoff.FIXED, delays_us=(US_PER_S,), jitter=False)
    specs = {
        "t:emits": JobSpec("sim.emits", Every(10 * US_PER_S)),
        "t:fails": JobSpec("sim.fails", Every(15 * US_PER_S), policy=fixed),
        "t:slow": JobSpec("sim.slow", Every(6 * US_PER_S), policy=waits),
        "t:long": JobSpec("sim.slow", Every(30 * US_PER_S), policy=FailurePolicy(attempt_timeout_us=3 * US_PER_S)),
    }
    orders = [
        Order(number * 1_000, CommandKind.CREATE, job_id, spec, f"c{number}", wants_answer=True)
        for number, (job_id, spec) in enumerate(specs.items())
    ]
    orders += [
        Order(4 * US_PER_S, CommandKind.CREATE, "acme:sent", specs["t:emits"], "sent", door="json", has_id=True),
        Order(5 * US_PER_S, CommandKind.CREATE, "t:asked", specs["t:emits"], "asked", key="k", door="api"),
        Order(15 * US_PER_S, CommandKind.CREATE, "t:asked", specs["t:emits"], "again", key="k", door="api"),
        Order(25 * US_PER_S, CommandKind.CREATE, "t:asked", specs["t:emits"], "once more", key="k", door="api"),
        Order(40 * US_PER_S, CommandKind.PAUSE, "t:asked", None, "later", door="api"),
    ]
    orders += [Order(20 * US_PER_S, CommandKind.PAUSE, "t:emits", None, "pause")]
    orders += [Order(45 * US_PER_S, CommandKind.RESUME, "t:emits", None, "resume")]
    orders += [
        Order((12 + 5 * number) * US_PER_S, CommandKind.CANCEL, "", None, f"r{number}", pick=number)
        for number in range(14)
    ]
    crashes = [Trouble(at_s * US_PER_S, "crash", f"worker-{at_s % 2 + 1}", "", 1, 200_000) for at_s in (31, 50, 66)]
    return replace(
        draw(SEED),
        horizon=90 * US_PER_S,
        partitions=2,
        worker_slots=2,
        small=(),  # which constants are small changes with every one that joins them, and so would what happens here
        pool_of={},
        orders=tuple(sorted(orders, key=lambda order: order.at)),
        garbage=(Garbage(3 * US_PER_S, "strange json", "t", 1),),
        troubles=tuple(crashes),
    )


@pytest.fixture(scope="module")
def good() -> Dumps:
    return leave_behind(everything(), Story())


def complaints(dumps: Dumps) -> list[str]:
    return [complaint for checker in CHECKERS for complaint in checker(dumps, Counter())]


def is_seen(dumps: Dumps) -> bool:
    return any(checker(dumps, Counter()) for checker in CHECKERS)


def changed(dumps: Dumps, record: RawRecord, **parts: Any) -> Dumps:
    """The record with other parts of its own (``timestamp_us``, ``value``)."""
    return with_events(dumps, [{**each, **parts} if each is record else each for each in dumps.events])


def with_letter(dumps: Dumps, **parts: Any) -> Dumps:
    """The first dead letter says something else."""
    first_letter, *others = dumps.letters
    letter = decode_dead_letter(bytes(first_letter["value"]))._replace(**parts)  # type: ignore[call-overload]
    return replace(dumps, letters=[{**first_letter, "value": encode_dead_letter(letter)}, *others])


def with_work_of_another(dumps: Dumps) -> Dumps:
    """The first letter holds what the last one should."""
    return with_letter(dumps, work=decode_dead_letter(dumps.letters[-1]["value"]).work)  # type: ignore[arg-type]


def with_another_key(dumps: Dumps) -> Dumps:
    """The first letter's work record is not the one of its topic."""
    work = decode_dead_letter(dumps.letters[0]["value"]).work  # type: ignore[arg-type]
    return with_letter(dumps, work=work and work._replace(key=b"another"))


def rewritten(dumps: Dumps, kind: str, change: Callable[[RunEvent], RunEvent]) -> Dumps:
    """The first event of a kind says something else."""
    record = first(dumps, kind)
    value = record["value"]
    assert isinstance(value, bytes)
    return changed(dumps, record, value=encode_event(change(decode_event(value))))


def repeated(dumps: Dumps, record: RawRecord) -> Dumps:
    """The record stands once more at the end of its partition."""
    offset = 1 + max(int(str(each["offset"])) for each in dumps.events if each["partition"] == record["partition"])
    return with_events(dumps, [*dumps.events, {**record, "offset": offset}])


def test_a_good_history_passes(good: Dumps) -> None:
    assert complaints(good) == []
    assert {kind_of(record) for record in good.events} >= KINDS


def test_an_empty_history_fails(good: Dumps) -> None:
    empty = replace(
        with_events(good, []),
        commands=[],
        work=[],
        waiting=[],
        letters=[],
        control=[],
        runs=[],
        attempts=[],
        failures=[],
        jobs=[],
        calls=[],
    )
    assert [each for each in complaints(empty) if "empty history" in each]


def test_a_keeper_that_stood_behind_its_last_look_is_not_blamed(good: Dumps) -> None:
    assert complaints(stood_before(fenced_though_it_beat(good), "init")) == []


def test_a_replay_of_an_answer_that_is_still_on_its_way_is_not_blamed(good: Dumps) -> None:
    def asked(called_at: int, returned_at: int, answer: bytes) -> Line:
        return Line("c2", "api", "t", "t:j", "CREATE", "k", called_at, returned_at, "ok", 201, answer)

    at_once = [asked(2, 4, b'{"as": 1}'), asked(2, 9, b'{"as": 2}')]
    for answer, count in ((b'{"as": 2}', 0), (b'{"as": 3}', 1)):
        replayed = replace(asked(5, 8, answer), is_replay=True)
        told = same_key_same_answer(replace(good, history=[*at_once, replayed]), Counter())
        assert len(told) == count


def test_a_judge_that_breaks_is_a_complaint(good: Dumps) -> None:
    found = judged(the_books_balance, replace(good, events=[{"partition": 0}]), Counter())
    assert re.search("the_books_balance broke", found[0])


def test_dropping_any_event_that_counts_is_seen(good: Dumps) -> None:
    unseen = [
        kind_of(told.record)
        for told in runs.tell(good.events)
        if told.after is not None
        and not is_seen(with_events(good, [each for each in good.events if each is not told.record]))
    ]
    assert unseen == []


def test_repeating_any_event_is_seen(good: Dumps) -> None:
    assert {kind_of(record) for record in good.events if not is_seen(repeated(good, record))} == set()


Damage = Callable[[Dumps], Dumps]


def repaired(dumps: Dumps) -> Dumps:
    value = dumps.work[0]["value"]
    assert isinstance(value, bytes)
    marked = {**dumps.work[0], "value": encode_work(decode_work(value)._replace(verify_from=5, verify_state="[0]"))}
    return replace(dumps, work=[marked, *dumps.work[1:]])


def of_somebody_dead(dumps: Dumps) -> Dumps:
    """A claim of an incarnation that was called lost stands far behind its death."""
    lost = decode(first(dumps, "ATTEMPT_LOST")["value"])[1]
    claim = first(dumps, "STARTED", run_id=lost["run_id"], attempt=lost["attempt"])
    return changed(dumps, claim, timestamp_us=1 << 60)


def fenced_though_it_beat(dumps: Dumps) -> Dumps:
    """A worker is fenced a millisecond after its newest beat."""
    beat = dumps.beats[-1]
    _, body = decode(beat["value"])
    hello = next(each for each in dumps.leases if decode(each["value"])[1]["worker"] == body["worker"])
    value = hello["value"]
    assert isinstance(value, bytes)
    fenced = encode_lease(decode_lease(value)._replace(kind=LeaseKind.FENCED, by="lease-keeper of nobody"))
    at = int(str(beat["timestamp_us"])) + 1_000
    return replace(dumps, leases=[*dumps.leases, {**hello, "offset": 1 << 40, "timestamp_us": at, "value": fenced}])


def with_lines(dumps: Dumps, op: str, **parts: Any) -> Dumps:
    """The client tells something else of this operation."""
    lines = [replace(line, **parts) if line.op == op else line for line in dumps.history]
    return replace(dumps, history=lines)


def in_another_order(dumps: Dumps) -> Dumps:
    """The client says that it asked for the pause before it asked for the job."""
    lines = [replace(line, called_at=0, returned_at=1) if line.op == "later" else line for line in dumps.history]
    return replace(dumps, history=lines)


def without_commands_of(dumps: Dumps, begin: str) -> Dumps:
    """No command whose id begins so."""
    kept = [each for each in dumps.commands if not decode(each["value"])[1]["command_id"].startswith(begin)]
    return replace(dumps, commands=kept)


def with_another_byte(record: RawRecord) -> RawRecord:
    value = record["value"]
    assert isinstance(value, bytes)
    return {**record, "value": value + b" "}


@pytest.mark.parametrize(
    ("promise", "damage"),
    [
        ("I3 .* no command of it", lambda d: without_commands_of(d, "api-")),
        ("I3 .* stands before it", in_another_order),
        ("I3 .* in job-events: True", lambda d: with_lines(d, "sent", result="fail")),
        ("I3 .* other answers than before", lambda d: with_lines(d, "once more", answer=b"another")),
        ("I3 .* 0 commands", lambda d: without_commands_of(d, "sent")),
        ("I3 .* nobody sent", lambda d: replace(d, job_events=[*d.job_events, {**d.job_events[0], "offset": 99}])),
        ("I11 .* 0 rejects", lambda d: replace(d, rejects=[])),
        ("I11 .* 2 rejects", lambda d: replace(d, rejects=[*d.rejects, *d.rejects])),
        ("I11 .* is not the record", lambda d: replace(d, job_events=[with_another_byte(e) for e in d.job_events])),
        ("I15 .* of acme: a command about t", lambda d: with_lines(d, "asked", tenant="acme")),
        ("I15 .* in the list of acme", lambda d: replace(d, listed={"acme": ["t:asked"]})),
        ("I15 .* under the key", lambda d: replace(d, work=[{**each, "key": b"acme:x"} for each in d.work])),
        ("I16 .* open from", lambda d: replace(d, unstable=[("waterclock.run-events", 0, 3, 5)])),
        ("I16 .* stands at", lambda d: replace(d, lagging=[("waterclock.recorder", "waterclock.run-events", 0, 3, 5)])),
        ("I16 .* still waits", lambda d: with_lines(d, "asked", returned_at=-1)),
        ("I1", lambda d: replace(d, commands=d.commands[1:])),
        ("I1", lambda d: replace(d, commands=[*d.commands, {**d.commands[0], "offset": 10_000}])),
        ("I2", lambda d: replace(d, work=d.work[1:])),
        ("I2", lambda d: replace(d, work=[{**each, "topic": "waterclock.runs.high.side"} for each in d.work])),
        ("I2 .* on another tier", lambda d: replace(d, work=[{**e, "topic": "waterclock.runs.low"} for e in d.work])),
        ("I11 .* its letter; attempt", lambda d: with_letter(d, work=None, reason="failed; work-record-gone")),
        ("I6 .* says RUN_FAILED", lambda d: rewritten(d, "RUN_FAILED", lambda e: e._replace(reason=WORK_GONE))),
        ("I2", lambda d: replace(d, work=[*d.work, d.work[0]], swallowed=[])),
        ("I2 .* 3 work records", swallowed_once_and_handed_out_twice),
        ("I2 .* 1 work records of attempt 1", work_without_its_run),
        ("I2 .* no user code was called", success_without_a_call),
        ("I2 .* the oracle says", with_another_owner),
        ("I2", lambda d: replace(d, calls=[*d.calls, d.calls[0]])),
        ("I2", lambda d: replace(d, calls=[{**d.calls[0], "token": 5}, *d.calls[1:]])),
        ("I2", lambda d: replace(d, calls=[{**call, "once": True, "run_id": "t:a@x"} for call in d.calls])),
        ("I2", lambda d: replace(d, runs=d.runs[1:])),
        ("I2", lambda d: replace(d, runs=[{**d.runs[0], "status": "HELD"}, *d.runs[1:]])),
        ("I2", lambda d: replace(d, runs=[*d.runs, {**d.runs[0], "fire_at": 0}])),
        ("I3", lambda d: replace(d, jobs=d.jobs[1:])),
        ("I3", lambda d: replace(d, jobs=[{**d.jobs[0], "status": "GONE"}, *d.jobs[1:]])),
        ("I4", lambda d: with_events(d, [{**each, "timestamp_us": 0} for each in d.events])),
        ("I4 .* attempt 2 began", lambda d: changed(d, first(d, "STARTED", attempt=2), timestamp_us=0)),
        ("I6 .* at rest", lambda d: with_events(d, [each for each in d.events if kind_of(each) != "RUN_FAILED"])),
        ("I6 .* was promised, but", other_policy),
        ("I1 .* says policy", other_policy),
        ("I1 .* owed was a skip .paused.", paused_and_fired),
        ("I5 .* us late", decided_late),
        ("I14 .* within the grace", skipped_within_grace),
        (
            "I6 .* it waits",
            lambda d: rewritten(
                d, "RETRYING", lambda event: event._replace(detail=event.detail._replace(delay_us=1 << 50))
            ),
        ),
        (
            "I6 .* given up after",
            lambda d: rewritten(d, "RETRYING", lambda event: event._replace(kind=EventKind.RUN_FAILED, attempt=1)),
        ),
        ("I6 .* its time is over at", expired_at_once),
        ("I6 .* that it may have, and not asked to stop", nobody_asked),
        ("I6 .* timed out at", nobody_asked),
        ("I13 .* and not asked to stop by", nobody_asked),
        ("I8 .* was not dead", lambda d: replace(d, leases=[])),
        ("I8 .* dead since", of_somebody_dead),
        ("I8 .* was fenced", fenced_though_it_beat),
        ("I13 .* stays lost", lambda d: replace(d, rows_lost=["t:rare"], rows_missing=["t:rare"])),
        ("I13 .* nothing was missing", lambda d: replace(d, rows_lost=["t:rare"], rows_repaired=["t:rare", "t:rarer"])),
        ("I8 .* was fenced", lambda d: stood_before(fenced_though_it_beat(d), "poll")),
        ("I8 .* called lost, but", lambda d: repeated(d, first(d, "ATTEMPT_LOST"))),
        ("I9", lambda d: replace(d, outputs=d.outputs[1:])),
        ("I9", lambda d: replace(d, outputs=[*d.outputs, d.outputs[0]])),
        ("I9", lambda d: replace(d, outputs=[*d.outputs, {"headers": (("ce_id", b"t:steady@x/out/0"),)}])),
        ("I9", lambda d: replace(d, calls=[{**each, "emits": 9} for each in d.calls])),
        ("I11", lambda d: replace(d, letters=d.letters[1:])),
        ("I11", lambda d: replace(d, letters=[*d.letters, d.letters[0]])),
        ("I11 .* its letter says", lambda d: with_letter(d, attempts=7)),
        ("I11 .* its letter says", lambda d: with_letter(d, reason="another")),
        ("I11 .* does not say why", lambda d: with_letter(d, work=None)),
        ("I11 .* the work of another run", with_work_of_another),
        ("I11 .* another record than stands", with_another_key),
        ("I2 attempt", lambda d: replace(d, attempts=d.attempts[1:])),
        ("I2 attempt", lambda d: replace(d, attempts=[{**d.attempts[0], "worker": "worker-9"}, *d.attempts[1:]])),
        ("I2 failure", lambda d: replace(d, failures=d.failures[1:])),
        ("I2 failure", lambda d: replace(d, failures=[{**d.failures[0], "attempts": 9}, *d.failures[1:]])),
        ("I12 .* created", lambda d: with_events(d, [each for each in d.events if kind_of(each) != "RUN_EXPIRED"])),
        ("I12 .* repaired", repaired),
        ("I13 .* told to control", lambda d: replace(d, control=d.control[1:])),
        (
            "I13 .* told to control",
            lambda d: replace(d, control=[{**each, "timestamp_us": 1 << 60} for each in d.control]),
        ),
        ("I13 .* on control alone", lambda d: with_events(d, [e for e in d.events if kind_of(e) != "RUN_EXPIRED"])),
        ("role", lambda d: replace(d, broken=["a role broke"])),
    ],
)
def test_one_thing_wrong_is_named_by_its_promise(good: Dumps, promise: str, damage: Damage) -> None:
    found = complaints(damage(good))
    assert [each for each in found if re.search(promise, each)], found[:5]
