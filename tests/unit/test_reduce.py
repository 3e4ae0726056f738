"""The reducer, row by row of the table in the design: what is valid, what it does, what is refused and why."""

from __future__ import annotations

import pytest

from waterclock.model.events import (
    Ended,
    EventKind,
    Origin,
    Outcome,
    Pending,
    RunEvent,
    RunStatus,
    Skipped,
    Started,
)
from waterclock.model.ids import parse_run_id
from waterclock.model.job import Tier
from waterclock.model.reduce import Ignored, RunState, Verdict, covers, reduce

JOB = "acme:nightly"
RUN = "acme:nightly@20261121T090000Z"
FIRE = parse_run_id(RUN).fire_at
MINE = {"worker": "w-1", "incarnation": 7}
OUTCOMES = [
    (EventKind.ATTEMPT_FAILED, Outcome.FAILED),
    (EventKind.ATTEMPT_TIMED_OUT, Outcome.TIMED_OUT),
    (EventKind.ATTEMPT_CANCELLED, Outcome.CANCELLED),
    (EventKind.ATTEMPT_LOST, Outcome.LOST),
]


def event(kind: EventKind, attempt: int = 0, **parts: object) -> RunEvent:
    return RunEvent(kind, JOB, RUN, FIRE, attempt)._replace(**parts)


def pending() -> RunEvent:
    return event(EventKind.PENDING, detail=Pending(1, FIRE, FIRE, Tier.HIGH, Origin.SCHEDULE))


def started(attempt: int = 1) -> RunEvent:
    return event(EventKind.STARTED, attempt, detail=Started("waterclock.runs.high", 0, 3), **MINE)


def ended(kind: EventKind, attempt: int = 1, token: int = 11) -> RunEvent:
    return event(kind, attempt, token=token, detail=Ended(FIRE), **MINE)


def fold(*events: RunEvent) -> RunState:
    """The state after ``events``, all of which must be accepted; the first stands at offset 10."""
    state = None
    for offset, each in enumerate(events, 10):
        verdict = reduce(state, each, offset)
        assert verdict.accepted, (each.kind, verdict.reason)
        assert verdict.reason is Ignored.NOT
        state = verdict.state
    assert state is not None
    return state


def assert_refused(state: RunState | None, each: RunEvent, reason: Ignored) -> None:
    verdict = reduce(state, each, 99)
    assert (verdict.accepted, verdict.reason, verdict.state) == (False, reason, state)


RUNNING = fold(pending(), started())
SUCCEEDED = fold(pending(), started(), ended(EventKind.ATTEMPT_SUCCEEDED))
UNDECIDED = fold(pending(), started(), ended(EventKind.ATTEMPT_FAILED))
FAILED = fold(pending(), started(), ended(EventKind.ATTEMPT_FAILED), event(EventKind.RUN_FAILED, 1))
CANCELLED = fold(pending(), event(EventKind.CANCEL_REQUESTED))
SKIPPED = fold(event(EventKind.SKIPPED, detail=Skipped(1, FIRE, FIRE, 1, Tier.HIGH, FIRE)))
RETRYING = fold(pending(), started(), ended(EventKind.ATTEMPT_FAILED), event(EventKind.RETRYING, 2))
HELD = fold(event(EventKind.HELD))


def test_a_run_that_goes_well_is_pending_running_succeeded() -> None:
    assert fold(pending()).status is RunStatus.PENDING
    assert RunState(RunStatus.RUNNING, 1, Outcome.NONE, "w-1", 7, 11) == RUNNING
    assert RUNNING.attempt_open
    assert RunState(RunStatus.SUCCEEDED, 1, Outcome.SUCCEEDED, "w-1", 7, 11) == SUCCEEDED
    assert SUCCEEDED.final


def test_the_fencing_token_is_the_ordinal_of_the_accepted_start() -> None:
    state = reduce(fold(pending()), started(), 5 << 48 | 77).state
    assert state is not None
    assert state.token == 5 << 48 | 77


def test_a_held_run_waits_for_its_pending() -> None:
    assert_refused(HELD, started(), Ignored.HELD)
    assert fold(event(EventKind.HELD), pending(), started()) == RUNNING._replace(token=12)


@pytest.mark.parametrize("state", [RUNNING, UNDECIDED, RETRYING, fold(pending())])
def test_a_known_run_is_never_made_again(state: RunState) -> None:
    assert_refused(state, pending(), Ignored.KNOWN_RUN)
    assert_refused(state, event(EventKind.HELD), Ignored.KNOWN_RUN)
    assert_refused(state, event(EventKind.SKIPPED), Ignored.KNOWN_RUN)


def test_a_skip_takes_a_held_run_but_no_pending_one() -> None:
    assert fold(event(EventKind.HELD), event(EventKind.SKIPPED)).status is RunStatus.SKIPPED


def test_a_second_claim_of_one_attempt_is_refused() -> None:
    assert_refused(RUNNING, started(), Ignored.NOT_WAITING)
    assert_refused(UNDECIDED, started(2), Ignored.NOT_WAITING)


def test_attempts_start_in_their_order() -> None:
    assert_refused(fold(pending()), started(2), Ignored.WRONG_ATTEMPT)
    assert_refused(RETRYING, started(1), Ignored.WRONG_ATTEMPT)
    assert_refused(RETRYING, started(3), Ignored.WRONG_ATTEMPT)
    assert reduce(RETRYING, started(2), 40).state == RunState(RunStatus.RUNNING, 2, Outcome.NONE, "w-1", 7, 40)


@pytest.mark.parametrize(("kind", "outcome"), [(EventKind.ATTEMPT_SUCCEEDED, Outcome.SUCCEEDED), *OUTCOMES])
def test_a_stale_worker_cannot_complete_a_run(kind: EventKind, outcome: Outcome) -> None:
    assert_refused(RUNNING, ended(kind, token=10), Ignored.WRONG_OWNER)
    assert_refused(RUNNING, ended(kind)._replace(worker="w-2"), Ignored.WRONG_OWNER)
    assert_refused(RUNNING, ended(kind, attempt=2), Ignored.WRONG_ATTEMPT)
    assert_refused(UNDECIDED, ended(kind), Ignored.NO_OPEN_ATTEMPT)
    assert_refused(RETRYING, ended(kind), Ignored.NO_OPEN_ATTEMPT)
    verdict = reduce(RUNNING, ended(kind), 99)
    assert verdict.state is not None
    assert verdict.state.outcome is outcome


@pytest.mark.parametrize(("kind", "outcome"), OUTCOMES)
def test_an_attempt_that_ended_badly_waits_for_its_verdict(kind: EventKind, outcome: Outcome) -> None:
    state = fold(pending(), started(), ended(kind))
    assert (state.status, state.outcome, state.undecided) == (RunStatus.RUNNING, outcome, True)
    assert fold(pending(), started(), ended(kind), event(EventKind.RUN_FAILED, 1)).status is RunStatus.FAILED


def test_a_verdict_is_never_revised() -> None:
    assert_refused(FAILED, event(EventKind.RUN_FAILED, 1), Ignored.FINAL)
    assert_refused(FAILED, event(EventKind.RETRYING, 2), Ignored.FINAL)
    assert_refused(RETRYING, event(EventKind.RUN_FAILED, 1), Ignored.NO_VERDICT_DUE)
    assert_refused(RETRYING, event(EventKind.RETRYING, 2), Ignored.NO_VERDICT_DUE)


def test_a_verdict_speaks_of_the_last_attempt_that_ended() -> None:
    assert_refused(RUNNING, event(EventKind.RUN_FAILED, 1), Ignored.NO_VERDICT_DUE)
    assert_refused(UNDECIDED, event(EventKind.RUN_FAILED, 2), Ignored.WRONG_ATTEMPT)
    assert_refused(UNDECIDED, event(EventKind.RETRYING, 1), Ignored.WRONG_ATTEMPT)
    assert_refused(UNDECIDED, event(EventKind.RETRYING, 3), Ignored.WRONG_ATTEMPT)


@pytest.mark.parametrize("state", [fold(pending()), RETRYING, UNDECIDED, HELD])
def test_a_cancel_without_an_open_attempt_is_final_at_once(state: RunState) -> None:
    verdict = reduce(state, event(EventKind.CANCEL_REQUESTED), 99)
    assert verdict.accepted
    assert verdict.state is not None
    assert verdict.state.status is RunStatus.CANCELLED


@pytest.mark.parametrize(("kind", "outcome"), OUTCOMES)
def test_the_outcome_of_the_open_attempt_answers_a_cancel(kind: EventKind, outcome: Outcome) -> None:
    asked = fold(pending(), started(), event(EventKind.CANCEL_REQUESTED))
    assert asked == RUNNING._replace(cancel_requested=True)
    assert_refused(asked, event(EventKind.CANCEL_REQUESTED), Ignored.ALREADY_REQUESTED)
    state = reduce(asked, ended(kind), 99).state
    assert state is not None
    assert (state.status, state.outcome) == (RunStatus.CANCELLED, outcome)


def test_a_success_before_the_end_beats_a_cancel_request() -> None:
    asked = fold(pending(), started(), event(EventKind.CANCEL_REQUESTED))
    state = reduce(asked, ended(EventKind.ATTEMPT_SUCCEEDED), 99).state
    assert state is not None
    assert state.status is RunStatus.SUCCEEDED


@pytest.mark.parametrize("state", [fold(pending()), RETRYING, HELD])
def test_a_waiting_run_can_expire(state: RunState) -> None:
    verdict = reduce(state, event(EventKind.RUN_EXPIRED), 99)
    assert verdict.accepted
    assert verdict.state is not None
    assert (verdict.state.status, verdict.state.held) == (RunStatus.FAILED, False)


@pytest.mark.parametrize("state", [RUNNING, UNDECIDED])
def test_a_running_run_never_expires(state: RunState) -> None:
    assert_refused(state, event(EventKind.RUN_EXPIRED), Ignored.NOT_WAITING)


@pytest.mark.parametrize("state", [SUCCEEDED, FAILED, CANCELLED, SKIPPED])
@pytest.mark.parametrize(
    "each",
    [
        pending(),
        event(EventKind.HELD),
        event(EventKind.SKIPPED),
        started(1),
        started(2),
        *(ended(kind) for kind, _ in OUTCOMES),
        ended(EventKind.ATTEMPT_SUCCEEDED),
        event(EventKind.RETRYING, 2),
        event(EventKind.RUN_FAILED, 1),
        event(EventKind.RUN_EXPIRED),
        event(EventKind.CANCEL_REQUESTED),
    ],
    ids=lambda each: each.kind.value,
)
def test_a_final_status_never_changes(state: RunState, each: RunEvent) -> None:
    assert_refused(state, each, Ignored.FINAL)


@pytest.mark.parametrize(
    "each",
    [
        started(),
        ended(EventKind.ATTEMPT_SUCCEEDED),
        event(EventKind.RETRYING, 2),
        event(EventKind.RUN_FAILED, 1),
        event(EventKind.RUN_EXPIRED),
        event(EventKind.CANCEL_REQUESTED),
    ],
    ids=lambda each: each.kind.value,
)
def test_nothing_but_a_birth_speaks_of_an_unknown_run(each: RunEvent) -> None:
    assert_refused(None, each, Ignored.UNKNOWN_RUN)


def test_what_speaks_of_dags_alone_is_refused_of_any_other_run() -> None:
    for kind in (EventKind.DAG_SUCCEEDED, EventKind.DAG_FAILED, EventKind.NODE_SKIPPED):
        assert_refused(None, event(kind), Ignored.NO_DAG_RUN)
    assert_refused(None, pending()._replace(run_id=f"{RUN}/load"), Ignored.NO_DAG_RUN)
    assert_refused(RUNNING, event(EventKind.UNKNOWN), Ignored.UNKNOWN_KIND)


def test_revised_touches_no_run() -> None:
    verdict = reduce(None, RunEvent(EventKind.REVISED, JOB, "", FIRE), 1)
    assert (verdict.state, verdict.accepted) == (None, True)


def test_a_skipped_range_covers_the_timeline_of_its_job_and_revision_alone() -> None:
    skipped = Skipped(4, FIRE, FIRE + 10, 3, Tier.LOW, FIRE + 10)
    run = parse_run_id(RUN)
    assert covers(JOB, skipped, run)
    assert covers(JOB, skipped, run._replace(fire_at=FIRE + 10), 4)
    assert not covers(JOB, skipped, run._replace(fire_at=FIRE + 11))
    assert not covers(JOB, skipped, run._replace(fire_at=FIRE - 1))
    assert not covers(JOB, skipped, run._replace(job_id="acme:other"))
    assert not covers(JOB, skipped, run._replace(series=9))
    assert not covers(JOB, skipped, run._replace(node="load"))
    assert not covers(JOB, skipped, run, 5)


def test_the_one_status_that_gives_way_gives_way_to_a_backfill_alone_and_once() -> None:
    skipped = RunState(RunStatus.SKIPPED)
    asked = Pending(1, 5, None, Tier.LOW, Origin.BACKFILL, backfill=7)
    plain = RunEvent(EventKind.PENDING, JOB, RUN, 5, detail=asked._replace(origin=Origin.SCHEDULE))
    event = plain._replace(detail=asked)
    assert reduce(skipped, plain, 1).reason is Ignored.FINAL
    assert reduce(skipped, event, 1) == Verdict(RunState(RunStatus.PENDING), True)
    for status in (RunStatus.PENDING, RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED):
        assert not reduce(RunState(status), event, 1).accepted
