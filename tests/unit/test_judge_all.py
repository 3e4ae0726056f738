"""The judge of everything: a good history passes, and each that has one thing wrong is told, and for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests import two_reducers
from tests.acceptance.excuses import Excuses, LateEnd, crossed
from tests.acceptance.taken import Taken
from tests.oracle import runs
from tests.unit.rest_world import (
    CANCELLED,
    FIRE,
    GENERATION,
    GIVEN_UP,
    GOOD,
    HELLO,
    JOB,
    MS,
    S,
    T,
    Told,
    call,
    judged,
    record,
    rows,
    told,
    whole,
    work,
    works,
)
from waterclock.model.events import EventKind, Lease, LeaseKind, Pending, RunEvent, Skipped
from waterclock.model.job import Tier
from waterclock.wire.codec import decode_event, decode_work, encode_event, encode_lease, encode_work

END = EventKind.ATTEMPT_SUCCEEDED
NOBODYS = "acme:invoice@20991231T000000Z"
SECOND_CLAIM = 8
"""Its offset: the second attempt of the run that is given up."""


def test_a_good_history_passes() -> None:
    assert judged(whole()) == []


def test_an_empty_history_does_not() -> None:
    assert len(judged(Taken(rows=rows(runs=[], attempts=[], failures=[], jobs=[])))) >= 5


def later(change: Callable[[Told], Any]) -> Told:
    log = told()
    change(log)
    return log


def claimed_twice(log: Told) -> None:
    token = log.started(GOOD, T + S, worker="worker-2")
    log.ended(END, GOOD, T + 2 * S, token, worker="worker-2")


def of_nobodys_run(log: Told) -> None:
    log.started(NOBODYS, T + 300 * S)


def said_again(log: Told) -> None:
    log.ended(END, GOOD, T + S, 2)


def early(log: Told) -> None:
    log.records[1]["timestamp_us"] = T - 100 * MS


def impatient(log: Told) -> None:
    log.move(SECOND_CLAIM, FIRE[GIVEN_UP] + 1_000 * MS)


def of_another_revision(log: Told) -> None:
    event = decode_event(log.records[1]["value"])
    assert isinstance(event.detail, Pending)
    changed = event._replace(detail=event.detail._replace(revision=event.detail.revision + 1))
    log.records[1]["value"] = encode_event(changed)


def skipped_for_nothing(log: Told) -> None:
    """The first run's place is taken by a skip in favour of the second, just before the grace was over."""
    detail = Skipped(GENERATION, T, T, 1, Tier.HIGH, due_at=T, run_instead=GIVEN_UP)
    skip = RunEvent(EventKind.SKIPPED, JOB, GOOD, T + 60 * S, reason="coalesced", detail=detail)
    log.records[1] = record(1, T + 60 * S, encode_event(skip))


BAD: dict[str, tuple[Callable[[], Taken], str]] = {
    "work of another handler": (
        lambda: whole(work=works(encode_work(decode_work(work(GOOD))._replace(handler="calls.sync")))),
        "runs that are not made of what their command says",
    ),
    "made of another revision": (lambda: whole(later(of_another_revision)), "made of revision 1, owed by 0"),
    "skipped within the grace": (lambda: whole(later(skipped_for_nothing)), "within the grace"),
    "claimed twice": (lambda: whole(later(claimed_twice)), "STARTED of attempt 1 was said 2 times"),
    "an outcome said twice": (lambda: whole(later(said_again)), "2 times ATTEMPT_SUCCEEDED"),
    "called under a claim that was refused": (
        lambda: whole(later(claimed_twice), ledger=[call(GOOD, 15), call(CANCELLED, 13)]),
        "called under 15, claimed 2",
    ),
    "called under nobody's run": (
        lambda: whole(later(of_nobodys_run), ledger=[*whole().ledger, call(NOBODYS, 15)]),
        "no STARTED of it was accepted",
    ),
    "called under another token than the claim that crossed": (
        lambda: whole(ledger=[call(GOOD, 2), call(CANCELLED, 12)]),
        "no STARTED of it was accepted",
    ),
    "made early": (lambda: whole(later(early)), "made or begun 100000 us before it was due"),
    "tried again early": (lambda: whole(later(impatient)), "began 300000 us early"),
    "work handed out twice": (
        lambda: whole(work=[*whole().work, *works(work(GOOD))]),
        "work of attempt 1 was handed out 2 times",
    ),
    "repaired": (lambda: whole(told={0: (9, "fold-from=0 repairs=1")}), "1 repairs"),
    "told to control too late": (
        lambda: whole(control=[{**whole().control[0], "timestamp_us": FIRE[CANCELLED] + 70 * MS}]),
        "told to control at",
    ),
    "called lost alive": (
        lambda: whole(later(lambda log: log.ended(EventKind.ATTEMPT_LOST, GOOD, T + S, 2))),
        "was not dead",
    ),
    "spoken after its death": (
        lambda: whole(
            leases=[
                *whole().leases,
                record(HELLO + 1, T, encode_lease(Lease(LeaseKind.FENCED, "worker-1", T))),
            ]
        ),
        "dead since",
    ),
    "a row of another attempt": (
        lambda: whole(rows=rows(runs=[{**each, "attempt": 1} for each in rows()["runs"]])),
        "rows of runs",
    ),
    "a row of no run": (lambda: whole(rows=rows(runs=[*rows()["runs"], {**rows()["runs"][0], "series": 7}])), "~7"),
    "an attempt without a row": (lambda: whole(rows=rows(attempts=[])), "rows of attempts"),
    "an attempt of another worker": (
        lambda: whole(rows=rows(attempts=[{**rows()["attempts"][0], "worker": "worker-9"}])),
        "rows of attempts",
    ),
    "a failure twice": (lambda: whole(rows=rows(failures=rows()["failures"] * 2)), "2 rows"),
    "a failure by another error": (
        lambda: whole(rows=rows(failures=[{**rows()["failures"][0], "error_class": "Other"}])),
        "rows of failures",
    ),
    "a job of another version": (
        lambda: whole(rows=rows(jobs=[{**rows()["jobs"][0], "status": 1}])),
        "jobs whose row is not their newest version",
    ),
    "no dead letter": (lambda: whole(dlq=[]), "no dead letter"),
    "a dead letter of other work than was handed out": (
        lambda: whole(work=[{**each, "key": b"acme:other"} for each in whole().work]),
        "holds another record than stands at",
    ),
    "a job event that went nowhere": (
        lambda: whole(job_events=[*whole().job_events, record(1, T, b"{}")]),
        "went nowhere",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_one_thing_wrong_is_told(name: str) -> None:
    make, word = BAD[name]
    complaints = judged(make())
    assert any(word in complaint for complaint in complaints), complaints


# Excuses --------------------------------------------------------------------------------------------------------------


def test_only_a_claim_that_crossed_the_end_of_a_waiting_run_is_one() -> None:
    assert dict(crossed(told().records)) == {(CANCELLED, 1): {13}}
    assert dict(crossed(later(claimed_twice).records)) == {(CANCELLED, 1): {13}}
    assert dict(crossed(later(of_nobodys_run).records)) == {(CANCELLED, 1): {13}}


def test_a_second_claim_of_a_run_that_was_cancelled_while_it_ran_crossed_nothing() -> None:
    log = Told()
    log.pending(GOOD, T)
    token = log.started(GOOD, T)
    log.say(EventKind.CANCEL_REQUESTED, GOOD, T)
    log.ended(EventKind.ATTEMPT_CANCELLED, GOOD, T, token)
    log.started(GOOD, T, worker="worker-2")
    assert not crossed(log.records)


def torn_pair(log: Told) -> None:
    log.started(GOOD, T + S)


@pytest.mark.parametrize(
    ("end", "is_excused"),
    [
        (LateEnd(T + S, "waterclock.worker.worker-1"), True),
        (LateEnd(T + S, "waterclock.worker.worker-2"), False),
        (LateEnd(T + S, "waterclock.retry-router.retry-router-1"), False),
        (LateEnd(T - 2 * S, "waterclock.worker.worker-1"), False),
        (LateEnd(T + 20 * S, "waterclock.worker.worker-1"), False),
    ],
)
def test_what_is_said_twice_is_excused_only_by_an_end_of_its_writer_that_landed_then(
    end: LateEnd, is_excused: bool
) -> None:
    complaints = judged(whole(later(torn_pair)), Excuses(late_ends=[end]))
    assert (complaints == []) == is_excused, complaints


def test_a_repair_is_excused_only_where_something_was_torn() -> None:
    repaired = whole(later(torn_pair), told={0: (9, "fold-from=0 repairs=1")})
    end = LateEnd(T + S, "waterclock.worker.worker-1")
    assert judged(repaired, Excuses(late_ends=[end])) == []
    assert judged(repaired) != []


def test_a_run_may_be_as_early_as_the_clock_was_ahead_when_it_was_made() -> None:
    def ahead(at: int) -> int:
        return S if at < T else 0

    assert judged(whole(later(early)), Excuses(early_us_at=ahead)) == []
    assert judged(whole(later(early)), Excuses(early_us_at=lambda at: S - ahead(at))) != []


def test_the_reducers_are_held_against_each_other() -> None:
    events = told().records
    right: dict[str, dict[str, Any]] = runs.follow(events)[0]
    assert two_reducers.differ(right, events, 1) == []
    wrong = right | {GIVEN_UP: {**right[GIVEN_UP], "attempt": 3}}
    assert [GIVEN_UP in complaint for complaint in two_reducers.differ(wrong, events, 1)] == [True]
