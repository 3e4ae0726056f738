"""The one reducer of run-events: what a run is, by the order of the log alone (design §4).

Every role, the CLI and the API fold a run's events with :func:`reduce`; nobody keeps rules of their own. What must
hold: the function is pure and reads no clock; a duplicate, a replay or a stale event leaves the state as it was; a
final status never changes, so that cancel and complete have one winner. What is not valid is refused with a reason
from :class:`Ignored`, to be counted and never raised: a log may hold anything.

The one status that gives way is SKIPPED, to the PENDING of a backfill. Not built yet, and refused so that nothing
half-works: events of Dags and PENDING or HELD of a node (``dag-not-built``).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from .events import FINAL, EventKind, Origin, Outcome, Pending, RunEvent, RunStatus, Skipped
from .ids import RunId


class Ignored(StrEnum):
    """Why an event was refused: the label ``reason`` of ``waterclock_reducer_ignored_total``. NOT: it was not."""

    NOT = ""
    UNKNOWN_KIND = "unknown-kind"
    DAG_NOT_BUILT = "dag-not-built"
    UNKNOWN_RUN = "unknown-run"
    KNOWN_RUN = "known-run"
    FINAL = "final"
    HELD = "held"
    NOT_WAITING = "not-waiting"
    NO_OPEN_ATTEMPT = "no-open-attempt"
    WRONG_ATTEMPT = "wrong-attempt"
    WRONG_OWNER = "wrong-owner"
    NO_VERDICT_DUE = "no-verdict-due"
    ALREADY_REQUESTED = "already-requested"
    FOLDED = "folded"
    """Said by a fold, not by the reducer: the state it began with holds this event."""


class RunState(NamedTuple):
    """A run as of some offset.

    ``attempt`` is the last one that started, 0 before the first. ``worker``, ``incarnation`` and ``token`` are those
    of its accepted STARTED, ``outcome`` how it ended (NONE while it is open).
    """

    status: RunStatus
    attempt: int = 0
    outcome: Outcome = Outcome.NONE
    worker: str = ""
    incarnation: int = 0
    token: int = 0
    held: bool = False
    cancel_requested: bool = False

    @property
    def final(self) -> bool:
        """The status is final: nothing changes it any more."""
        return self.status in FINAL

    @property
    def attempt_open(self) -> bool:
        """An attempt has started and no outcome of it was accepted."""
        return self.status is RunStatus.RUNNING and self.outcome is Outcome.NONE

    @property
    def undecided(self) -> bool:
        """The last attempt ended, not well, and the retry router's verdict is not there yet."""
        return self.status is RunStatus.RUNNING and self.outcome is not Outcome.NONE


class Verdict(NamedTuple):
    """What became of one event: the state after it (None: the run is unknown), and why it was refused."""

    state: RunState | None
    accepted: bool
    reason: Ignored = Ignored.NOT


def reduce(state: RunState | None, event: RunEvent, token: int) -> Verdict:
    """The state of one run after ``event``; ``state`` is None while the run is unknown.

    ``token`` is ``ordinal(generation, offset)`` of the event's own record: a STARTED gets it as its fencing token.
    A SKIPPED is applied to one run id; whether it speaks of that run says :func:`covers`. REVISED, ANSWERED
    and BACKFILL touch no run and are accepted.
    """
    rule = _RULES.get(event.kind)
    if rule is None:
        return Verdict(state, False, Ignored.UNKNOWN_KIND)
    return rule(state, event, token)


def covers(job_id: str, skipped: Skipped, run: RunId, revision: int | None = None) -> bool:
    """Whether a SKIPPED of ``job_id`` speaks of ``run``: its own timeline (no series, no node), within the range.

    ``revision``: that of the run where it is known; a range speaks of the fires of one revision only. Which instants
    of the range are fires at all, only the schedule can say.
    """
    return (
        run.job_id == job_id
        and not run.series
        and not run.node
        and skipped.from_at <= run.fire_at <= skipped.to_at
        and (revision is None or revision == skipped.revision)
    )


def is_of_backfill(event: RunEvent) -> bool:
    """Whether a backfill made the run: its PENDING is the one event that SKIPPED gives way to."""
    return isinstance(event.detail, Pending) and event.detail.origin is Origin.BACKFILL


# Looking a member up in its Enum costs as much as the comparison after it, and every event pays for several.
_RUN_PENDING = RunStatus.PENDING
_RUN_RUNNING = RunStatus.RUNNING
_RUN_RETRYING = RunStatus.RETRYING
_RUN_SKIPPED = RunStatus.SKIPPED
_NO_OUTCOME = Outcome.NONE
_OK = Outcome.SUCCEEDED
_PENDING = RunState(RunStatus.PENDING)
_HELD = RunState(RunStatus.PENDING, held=True)
_SKIPPED = RunState(RunStatus.SKIPPED)
_NOW_PENDING = Verdict(_PENDING, True)
_NOW_HELD = Verdict(_HELD, True)
_NOW_SKIPPED = Verdict(_SKIPPED, True)
_OUTCOMES = {
    EventKind.ATTEMPT_SUCCEEDED: Outcome.SUCCEEDED,
    EventKind.ATTEMPT_FAILED: Outcome.FAILED,
    EventKind.ATTEMPT_TIMED_OUT: Outcome.TIMED_OUT,
    EventKind.ATTEMPT_CANCELLED: Outcome.CANCELLED,
    EventKind.ATTEMPT_LOST: Outcome.LOST,
}


def _refuse(state: RunState | None, reason: Ignored) -> Verdict:
    """Unknown and final runs have one reason each, whatever the rule was about to say."""
    if state is None:
        return Verdict(None, False, Ignored.UNKNOWN_RUN)
    return Verdict(state, False, Ignored.FINAL if state.status in FINAL else reason)


def _pending(state: RunState | None, event: RunEvent, _token: int) -> Verdict:
    if "/" in event.run_id:
        return Verdict(state, False, Ignored.DAG_NOT_BUILT)
    if state is None or state.held or (state.status is _RUN_SKIPPED and is_of_backfill(event)):
        return _NOW_PENDING
    return _refuse(state, Ignored.KNOWN_RUN)


def _held(state: RunState | None, event: RunEvent, _token: int) -> Verdict:
    if "/" in event.run_id:
        return Verdict(state, False, Ignored.DAG_NOT_BUILT)
    if state is None:
        return _NOW_HELD
    return _refuse(state, Ignored.KNOWN_RUN)


def _skipped(state: RunState | None, _event: RunEvent, _token: int) -> Verdict:
    if state is None or state.held:
        return _NOW_SKIPPED
    return _refuse(state, Ignored.KNOWN_RUN)


def _started(state: RunState | None, event: RunEvent, token: int) -> Verdict:
    if state is None or (state.status is not _RUN_PENDING and state.status is not _RUN_RETRYING):
        return _refuse(state, Ignored.NOT_WAITING)
    if state.held:
        return _refuse(state, Ignored.HELD)
    if event.attempt != state.attempt + 1:
        return _refuse(state, Ignored.WRONG_ATTEMPT)
    return Verdict(RunState(_RUN_RUNNING, event.attempt, _NO_OUTCOME, event.worker, event.incarnation, token), True)


def _ended(state: RunState | None, event: RunEvent, _token: int) -> Verdict:
    if state is None or state.status is not _RUN_RUNNING or state.outcome is not _NO_OUTCOME:
        return _refuse(state, Ignored.NO_OPEN_ATTEMPT)
    if event.attempt != state.attempt:
        return _refuse(state, Ignored.WRONG_ATTEMPT)
    if event.token != state.token or event.worker != state.worker:
        return _refuse(state, Ignored.WRONG_OWNER)
    outcome = _OUTCOMES[event.kind]
    status = _RUN_RUNNING
    if outcome is _OK:
        status = RunStatus.SUCCEEDED
    elif state.cancel_requested:
        status = RunStatus.CANCELLED
    return Verdict(_moved(state, status, outcome), True)


def _moved(state: RunState, status: RunStatus, outcome: Outcome) -> RunState:
    _, attempt, _, worker, incarnation, token, held, cancel_requested = state
    return RunState(status, attempt, outcome, worker, incarnation, token, held, cancel_requested)


def _retrying(state: RunState | None, event: RunEvent, _token: int) -> Verdict:
    if state is None or not state.undecided:
        return _refuse(state, Ignored.NO_VERDICT_DUE)
    if event.attempt != state.attempt + 1:
        return _refuse(state, Ignored.WRONG_ATTEMPT)
    return Verdict(_moved(state, _RUN_RETRYING, state.outcome), True)


def _run_failed(state: RunState | None, event: RunEvent, _token: int) -> Verdict:
    if state is None or not state.undecided:
        return _refuse(state, Ignored.NO_VERDICT_DUE)
    if event.attempt != state.attempt:
        return _refuse(state, Ignored.WRONG_ATTEMPT)
    return Verdict(_moved(state, RunStatus.FAILED, state.outcome), True)


def _run_expired(state: RunState | None, _event: RunEvent, _token: int) -> Verdict:
    if state is None or (state.status is not _RUN_PENDING and state.status is not _RUN_RETRYING):
        return _refuse(state, Ignored.NOT_WAITING)
    return Verdict(_moved(state, RunStatus.FAILED, state.outcome)._replace(held=False), True)


def _cancel_requested(state: RunState | None, _event: RunEvent, _token: int) -> Verdict:
    if state is None or state.final:
        return _refuse(state, Ignored.FINAL)
    if not state.attempt_open:
        return Verdict(state._replace(status=RunStatus.CANCELLED, held=False, cancel_requested=True), True)
    if state.cancel_requested:
        return _refuse(state, Ignored.ALREADY_REQUESTED)
    return Verdict(state._replace(cancel_requested=True), True)


def _dag_not_built(state: RunState | None, _event: RunEvent, _token: int) -> Verdict:
    return Verdict(state, False, Ignored.DAG_NOT_BUILT)


def _of_no_run(state: RunState | None, _event: RunEvent, _token: int) -> Verdict:
    return Verdict(state, True)


_RULES: dict[EventKind, Callable[[RunState | None, RunEvent, int], Verdict]] = {
    EventKind.PENDING: _pending,
    EventKind.HELD: _held,
    EventKind.SKIPPED: _skipped,
    EventKind.STARTED: _started,
    EventKind.ATTEMPT_SUCCEEDED: _ended,
    EventKind.ATTEMPT_FAILED: _ended,
    EventKind.ATTEMPT_TIMED_OUT: _ended,
    EventKind.ATTEMPT_CANCELLED: _ended,
    EventKind.ATTEMPT_LOST: _ended,
    EventKind.RETRYING: _retrying,
    EventKind.RUN_FAILED: _run_failed,
    EventKind.RUN_EXPIRED: _run_expired,
    EventKind.CANCEL_REQUESTED: _cancel_requested,
    EventKind.DAG_SUCCEEDED: _dag_not_built,
    EventKind.DAG_FAILED: _dag_not_built,
    EventKind.NODE_SKIPPED: _dag_not_built,
    EventKind.REVISED: _of_no_run,
    EventKind.ANSWERED: _of_no_run,
    EventKind.BACKFILL: _of_no_run,
}
