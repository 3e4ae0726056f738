"""The judges of the failure path have tests of their own: a good history passes, one with one thing wrong does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle import attempts, calls, losses, rest, starvation, waits
from tests.oracle.chronicle import Chronicle
from waterclock.model.events import (
    DeadLetter,
    Ended,
    EventKind,
    Lease,
    LeaseKind,
    Origin,
    Pending,
    Retrying,
    RunEvent,
    Started,
)
from waterclock.model.job import Tier
from waterclock.wire.codec import encode_dead_letter, encode_event, encode_lease

S = 1_000_000
JOB = "acme:invoice"
RUN = "acme:invoice@20261121T090000Z"
OTHER = "acme:invoice@20261121T090100Z"
HELLO = 3
"""Offset of the only HELLO of worker-1: its incarnation."""


class Log:
    """One partition of run-events, written event by event; a second for each offset."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def say(self, kind: EventKind, run_id: str = RUN, attempt: int = 0, **more: Any) -> int:
        offset = len(self.records)
        event = RunEvent(kind, JOB, run_id, offset * S, attempt, **more)
        self.records.append(_record(offset, encode_event(event)))
        return offset

    def pending(self, run_id: str = RUN, tier: Tier = Tier.HIGH) -> None:
        detail = Pending(1, 0, len(self.records) * S, tier, Origin.SCHEDULE)
        self.say(EventKind.PENDING, run_id, detail=detail)

    def started(self, attempt: int = 1, run_id: str = RUN) -> int:
        detail = Started("waterclock.runs.high", 0, 0)
        return self.say(
            EventKind.STARTED, run_id, attempt, worker="worker-1", incarnation=HELLO + (1 << 48), detail=detail
        )

    def ended(
        self, kind: EventKind, token: int, attempt: int = 1, run_id: str = RUN, error: str = "", emitted: int = 0
    ) -> None:
        detail = Ended(0, error_class=error, emitted=emitted)
        self.say(kind, run_id, attempt, worker="worker-1", token=token + (1 << 48), detail=detail)

    def retrying(self, attempt: int, due_at: int, delay_us: int = S) -> None:
        self.say(EventKind.RETRYING, RUN, attempt, detail=Retrying(due_at, delay_us))

    def chronicle(self) -> Chronicle:
        return Chronicle(self.records)


def _record(offset: int, value: bytes) -> dict[str, Any]:
    return {"partition": 0, "offset": offset, "timestamp_us": offset * S, "key": JOB.encode(), "value": value}


def lost_and_retried() -> Log:
    """A run whose worker died in its first attempt, and which succeeded in the second."""
    log = Log()
    log.pending()
    first = log.started()
    log.ended(EventKind.ATTEMPT_LOST, first, error="lost")
    log.retrying(2, due_at=4 * S)
    second = log.started(2)
    log.ended(EventKind.ATTEMPT_SUCCEEDED, second, 2)
    return log


def call(attempt: int, token: int, *, booked: bool = True, run_id: str = RUN, status: int = 200) -> dict[str, Any]:
    return {"run_id": run_id, "attempt": attempt, "token": token + (1 << 48), "status": status, "booked": booked}


FIRST, SECOND = 1, 4
"""The offsets of both STARTED in ``lost_and_retried``."""


# Attempts -------------------------------------------------------------------------------------------------------------


def test_attempts_of_a_good_history_pass() -> None:
    complaints, counts = attempts.check(lost_and_retried().chronicle())
    assert complaints == []
    assert counts["runs of 2 attempts"] == 1


def test_an_empty_history_is_no_success() -> None:
    assert attempts.check(Chronicle())[0]
    assert rest.conservation(Chronicle())[0]


def test_more_attempts_than_allowed_are_told() -> None:
    complaints, _ = attempts.check(lost_and_retried().chronicle(), lambda _job: 1)
    assert complaints == [f"{RUN}: 2 attempts, 1 are allowed"]


def test_an_attempt_that_was_handed_back_costs_none() -> None:
    log = Log()
    log.pending()
    log.ended(EventKind.ATTEMPT_FAILED, log.started(), error="drained")
    log.retrying(2, due_at=0)
    log.ended(EventKind.ATTEMPT_SUCCEEDED, log.started(2), 2)
    assert attempts.check(log.chronicle(), lambda _job: 1)[0] == []


def test_a_run_that_is_stuck_is_told() -> None:
    log = Log()
    log.pending()
    log.started()
    assert any("at rest" in complaint for complaint in attempts.check(log.chronicle())[0])


# Calls ----------------------------------------------------------------------------------------------------------------


def test_one_call_for_each_attempt_passes() -> None:
    ledger = [call(1, FIRST), call(2, SECOND, booked=False)]
    complaints, counts = calls.check(lost_and_retried().chronicle(), ledger)
    assert complaints == []
    assert counts["effects"] == 1


@pytest.mark.parametrize(
    ("ledger", "told"),
    [
        ([call(2, SECOND), call(2, SECOND, booked=False)], "called 2 times"),
        ([call(1, FIRST), call(2, SECOND)], "2 effects"),
        ([call(2, SECOND), call(3, 9, booked=False)], "no STARTED of it was accepted"),
        ([call(2, SECOND + 1)], "called under"),
        ([call(2, SECOND, booked=False), call(1, FIRST)], "after a newer attempt"),
        ([call(1, FIRST)], "never called"),
    ],
)
def test_a_wrong_call_is_told(ledger: list[dict[str, Any]], told: str) -> None:
    complaints, _ = calls.check(lost_and_retried().chronicle(), ledger)
    assert any(told in complaint for complaint in complaints), complaints


def test_a_claim_that_crossed_a_cancel_may_have_called() -> None:
    ledger = [call(2, SECOND), call(3, 9, booked=False)]
    assert calls.check(lost_and_retried().chronicle(), ledger, torn=[(RUN, 3)])[0] == []


def test_a_zombie_that_calls_after_a_newer_attempt_must_be_refused() -> None:
    newer = call(2, SECOND, booked=False, status=422) | {"at": 5 * S}
    late = call(1, FIRST, booked=False, status=409) | {"at": 7 * S}
    woken = {(RUN, 1): 6 * S}
    complaints, counts = calls.zombies([newer, late], woken)
    assert (complaints, counts) == ([], {"after waking": 1, "after a newer attempt's": 1})
    for heard in ({"status": 200}, {"booked": True}):
        assert len(calls.zombies([newer, late | heard], woken)[0]) == 1
    done, repeat = call(2, SECOND) | {"at": 5 * S}, late | {"status": 200}
    assert calls.zombies([done, repeat], woken)[0] == [], "its key is known as done: nothing to refuse"
    assert len(calls.zombies([done, repeat | {"booked": True}], woken)[0]) == 1


def test_a_call_before_it_was_stopped_is_not_a_zombies() -> None:
    before = call(1, FIRST) | {"at": 2 * S}
    assert calls.zombies([before, call(2, SECOND) | {"at": 5 * S}], {(RUN, 1): 6 * S})[1] == {}


# Losses ---------------------------------------------------------------------------------------------------------------


def hello(offset: int, at_s: int) -> dict[str, Any]:
    return lease(LeaseKind.HELLO, offset, at_s)


def lease(kind: LeaseKind, offset: int, at_s: int) -> dict[str, Any]:
    return _record(offset, encode_lease(Lease(kind, "worker-1", at_s * S))) | {"timestamp_us": at_s * S}


def test_a_loss_counts_from_the_death_while_the_worker_stays_away() -> None:
    leases = [hello(HELLO, 0), lease(LeaseKind.FENCED, HELLO + 1, 2)]
    found, complaints, counts = losses.check(lost_and_retried().chronicle(), leases, [("worker-1", S)], lambda _: 5 * S)
    assert (complaints, counts["deaths that held an attempt"]) == ([], 1)
    assert [(loss.way, loss.took_us) for loss in found] == [("lease", S)]


def test_a_loss_counts_from_the_hello_of_a_worker_that_came_back() -> None:
    leases = [hello(HELLO, 0), hello(HELLO + 1, 2)]
    found, _, _ = losses.check(lost_and_retried().chronicle(), leases, [("worker-1", S)], lambda _: 5 * S)
    assert [(loss.way, loss.took_us) for loss in found] == [("hello", 0)]


def test_a_loss_by_no_death_is_told() -> None:
    found, complaints, counts = losses.check(lost_and_retried().chronicle(), [hello(HELLO, 0)], [], lambda _: 5 * S)
    assert (found, counts["lost by innocents"]) == ([], 0)
    assert complaints == [f"{RUN} attempt 1: lost by no death of worker-1"]


@pytest.mark.parametrize("kind", [LeaseKind.FENCED, LeaseKind.HELLO])
def test_who_was_fenced_or_gave_up_alive_is_counted_as_innocent(kind: LeaseKind) -> None:
    ended = lease(kind, HELLO + 1, 1)
    for deaths in ([], [("worker-1", 2 * S)]):
        found, complaints, counts = losses.check(
            lost_and_retried().chronicle(), [hello(HELLO, 0), ended], deaths, lambda _: 5 * S
        )
        assert (found, complaints, counts["lost by innocents"]) == ([], [], 1)
    late = ended | {"timestamp_us": 9 * S}
    assert losses.check(lost_and_retried().chronicle(), [hello(HELLO, 0), late], [], lambda _: 5 * S)[1]


def test_an_attempt_that_stays_open_is_told() -> None:
    log = Log()
    log.pending()
    log.started()
    _, complaints, _ = losses.check(log.chronicle(), [hello(HELLO, 0)], [("worker-1", S)], lambda _: 5 * S)
    assert len(complaints) == 1


# Waits ----------------------------------------------------------------------------------------------------------------


def test_a_retry_at_its_time_passes() -> None:
    found, complaints = waits.retries(lost_and_retried().chronicle())
    assert (complaints, [wait.late_us for wait in found]) == ([], [0])


def test_an_early_retry_is_told() -> None:
    log = Log()
    log.pending()
    log.ended(EventKind.ATTEMPT_FAILED, log.started())
    log.retrying(2, due_at=9 * S)
    log.started(2)
    _, complaints = waits.retries(log.chronicle())
    assert "early" in complaints[0]


def test_a_retry_that_never_came_is_told() -> None:
    log = Log()
    log.pending()
    log.ended(EventKind.ATTEMPT_FAILED, log.started())
    log.retrying(2, due_at=9 * S)
    assert "never began" in waits.retries(log.chronicle())[1][0]


def test_a_retry_before_the_wait_of_its_policy_is_told_whatever_the_router_promised() -> None:
    chronicle = lost_and_retried().chronicle()  # ended at 2 s, and began again at 4 s
    late, complaints = waits.after(chronicle, waits.earliest(chronicle, lambda job: 2 * S if job == JOB else 0))
    assert (late, complaints) == ({(RUN, 2): 0}, [])
    _, complaints = waits.after(chronicle, waits.earliest(chronicle, lambda _job: 2 * S + 1))
    assert complaints == [f"{RUN}: attempt 2 began 1 us too soon"]


# At rest --------------------------------------------------------------------------------------------------------------


def letter(run_id: str) -> dict[str, Any]:
    return _record(0, encode_dead_letter(DeadLetter(run_id, JOB, "lost", "lost", "", "", 1, 0, 0, 0, None)))


def given_up() -> Log:
    log = lost_and_retried()
    log.pending(OTHER)
    log.ended(EventKind.ATTEMPT_FAILED, log.started(run_id=OTHER), run_id=OTHER)
    log.say(EventKind.RUN_FAILED, OTHER, 1, reason="failed")
    return log


def test_each_run_that_was_given_up_has_one_letter() -> None:
    chronicle = given_up().chronicle()
    assert rest.letters(chronicle, [letter(OTHER)])[0] == []
    assert rest.letters(chronicle, [])[0] == [f"{OTHER}: given up, and no dead letter"]
    assert rest.letters(chronicle, [letter(OTHER), letter(OTHER)])[0] == [f"{OTHER}: 2 dead letters"]
    assert rest.letters(chronicle, [letter(OTHER), letter(RUN)])[0] == [f"{RUN}: a dead letter, and not given up"]


def test_created_runs_are_all_accounted_for() -> None:
    log = given_up()
    complaints, counts = rest.conservation(log.chronicle())
    assert (complaints, counts["created"], counts["FAILED"]) == ([], 2, 1)
    log.pending("acme:invoice@20261121T090200Z")
    assert rest.conservation(log.chronicle())[0] == ["3 runs were created, 2 have ended"]


def test_history_must_say_what_the_log_says() -> None:
    chronicle = given_up().chronicle()
    assert rest.history(chronicle, {RUN: "SUCCEEDED", OTHER: "FAILED"})[0] == []
    assert len(rest.history(chronicle, {RUN: "RUNNING", OTHER: "FAILED"})[0]) == 1
    assert len(rest.history(chronicle, {RUN: "SUCCEEDED"})[0]) == 1


def test_the_log_says_who_won_a_cancel() -> None:
    log = Log()
    log.pending()
    log.say(EventKind.CANCEL_REQUESTED)
    log.say(EventKind.CANCEL_REQUESTED)
    log.pending(OTHER)
    log.ended(EventKind.ATTEMPT_SUCCEEDED, log.started(run_id=OTHER), run_id=OTHER)
    log.say(EventKind.CANCEL_REQUESTED, OTHER)
    never = "acme:invoice@20261121T110000Z"
    log.say(EventKind.CANCEL_REQUESTED, never)
    complaints, counts = rest.cancels(log.chronicle(), [RUN, OTHER, never])
    assert complaints == []
    assert counts == {"before the claim": 1, "after the end": 1, "of a run that never was": 1}


def test_a_cancel_that_nobody_passed_on_is_told() -> None:
    log = Log()
    log.pending()
    log.ended(EventKind.ATTEMPT_SUCCEEDED, log.started())
    complaints, counts = rest.cancels(log.chronicle(), [RUN])
    assert complaints == [f"{RUN}: a cancel was sent, and none stands in the log"]
    assert not counts


def test_a_cancel_counts_by_how_its_run_stood_there() -> None:
    log = Log()
    log.say(EventKind.CANCEL_REQUESTED)
    log.pending()
    log.ended(EventKind.ATTEMPT_SUCCEEDED, log.started())
    log.pending(OTHER)
    token = log.started(run_id=OTHER)
    log.say(EventKind.CANCEL_REQUESTED, OTHER)
    log.ended(EventKind.ATTEMPT_SUCCEEDED, token, run_id=OTHER)
    between = lost_and_cancelled(log)
    complaints, counts = rest.cancels(log.chronicle(), [RUN, OTHER, between])
    assert complaints == []
    assert counts == {
        "before the run was decided": 1,
        "of a claimed run, which ended SUCCEEDED": 1,
        "between two attempts": 1,
    }


def lost_and_cancelled(log: Log) -> str:
    """A run that was cancelled while its second attempt was still to come."""
    run_id = "acme:invoice@20261121T120000Z"
    log.pending(run_id)
    log.ended(EventKind.ATTEMPT_LOST, log.started(run_id=run_id), run_id=run_id, error="lost")
    log.say(EventKind.CANCEL_REQUESTED, run_id)
    return run_id


def test_a_cancelled_run_that_nobody_cancelled_is_told() -> None:
    log = Log()
    log.pending()
    log.ended(EventKind.ATTEMPT_CANCELLED, log.started())
    log.say(EventKind.CANCEL_REQUESTED)
    chronicle = log.chronicle()
    assert chronicle.runs[RUN]["status"] == "CANCELLED"
    assert rest.cancels(chronicle, [RUN])[0] == []
    chronicle.cancels.clear()
    assert rest.cancels(chronicle, [])[0] == [f"{RUN}: CANCELLED, and nobody asked"]


def _low_waits(*, is_served: bool) -> list[dict[str, Any]]:
    """Thirty of LOW wait for more than a minute, while two of HIGH are made and claimed in every second."""
    log = Log()
    for number in range(30):
        log.pending(f"{JOB}@low{number}", tier=Tier.LOW)
    for number in range(100):
        log.pending(f"{JOB}@high{number}")
        log.started(run_id=f"{JOB}@high{number}")
    if is_served:
        log.started(run_id=f"{JOB}@low0")
    for number in range(100, 200):
        log.pending(f"{JOB}@high{number}")
        log.started(run_id=f"{JOB}@high{number}")
    return [record | {"timestamp_us": record["timestamp_us"] // 2} for record in log.records]


def test_a_tier_that_starves_beside_a_busy_one_is_found() -> None:
    bounds = starvation.Bounds(served=20)
    complaints, counts = starvation.check(_low_waits(is_served=False), bounds)
    assert complaints
    assert counts["stretches in which LOW waited and others were served"] == len(complaints)


def test_a_tier_that_waits_while_nobody_is_served_does_not_starve() -> None:
    assert starvation.check(_low_waits(is_served=False)[:30])[0] == []


def test_a_tier_is_not_starved_by_a_broker_that_was_away_for_most_of_a_minute() -> None:
    """The others' claims stand in the last seconds of the minute: before them nobody was served."""
    log = Log()
    for number in range(30):
        log.pending(f"{JOB}@low{number}", tier=Tier.LOW)
    for number in range(200):
        log.pending(f"{JOB}@high{number}")
        log.started(run_id=f"{JOB}@high{number}")
    begun = [record for record in log.records if record["timestamp_us"] <= log.records[29]["timestamp_us"]]
    late = [record | {"timestamp_us": record["timestamp_us"] // 20 + 110_000_000} for record in log.records[30:]]
    complaints, counts = starvation.check(begun + late, starvation.Bounds(served=20))
    assert complaints == []
    assert counts["stretches in which LOW waited and others were served"] == 0


def test_only_the_stretches_without_a_claim_of_low_are_complained_of() -> None:
    bounds = starvation.Bounds(served=20)
    starved = starvation.check(_low_waits(is_served=False), bounds)[0]
    served = starvation.check(_low_waits(is_served=True), bounds)[0]
    assert len(served) < len(starved)
