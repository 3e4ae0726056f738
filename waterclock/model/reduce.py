"""The one reducer of run-events: what a run is, by the order of the log alone (design §4).

Every role, the CLI and the API fold a run's events with :func:`reduce`; nobody keeps rules of their own. What must
hold: the function is pure and reads no clock; a duplicate, a replay or a stale event leaves the state as it was; a
final status never changes, so that cancel and complete have one winner. What is not valid is refused with a reason
from :class:`Ignored`, to be counted and never raised: a log may hold anything.

DagRuns and their nodes are runs as well; what is theirs alone stands in ``dag_reduce.py``. The one status that gives
way is SKIPPED, to the PENDING of a backfill.
"""

from __future__ import annotations

from collections.abc import Callable

from .dag_reduce import reduce_dag_run, reduce_node
from .events import EventKind, Origin, Outcome, Pending, RunEvent, RunStatus, Skipped
from .ids import RunId
from .run_state import DagView, Ignored, RunState, Verdict
from .run_state import refuse as _refuse

__all__ = ["DagView", "Ignored", "RunState", "Verdict", "covers", "reduce"]


def reduce(state: RunState | None, event: RunEvent, token: int, dag: DagView | None = None) -> Verdict:
    """The state of one run after ``event``; ``state`` is None while the run is unknown.

    ``token`` is ``ordinal(generation, offset)`` of the event's own record: a STARTED gets it as its fencing token.
    ``dag``: what is known of the DagRun, for its own events and for those of its nodes. Whoever folds by itself also
    does what an event of the one means for the other (``Fold`` does): ``dag_reduce.inherit`` and ``after_node``.
    A SKIPPED is applied to one run id; whether it speaks of that run says :func:`covers`. REVISED, ANSWERED
    and BACKFILL touch no run and are accepted.
    """
    rule = _RULES.get(event.kind)
    if rule is None:
        return Verdict(state, False, Ignored.UNKNOWN_KIND)
    if state is not None and state.is_dag:
        return reduce_dag_run(state, event, dag or DagView(state))
    if dag is not None:
        verdict = reduce_node(state, event, dag)
        if verdict is not None:
            return verdict
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


_make = tuple.__new__
"""Of a named tuple's class and all its fields: half the price of calling the class, which sorts arguments first."""

# Looking a member up in its Enum costs as much as the comparison after it, and every event pays for several.
_RUN_PENDING = RunStatus.PENDING
_RUN_RUNNING = RunStatus.RUNNING
_RUN_RETRYING = RunStatus.RETRYING
_RUN_SKIPPED = RunStatus.SKIPPED
_RUN_SUCCEEDED = RunStatus.SUCCEEDED
_NOT_IGNORED = Ignored.NOT
_NO_OUTCOME = Outcome.NONE
_OK = Outcome.SUCCEEDED
_PENDING = RunState(RunStatus.PENDING)
_NOTHING_SAID = _PENDING[6:]
"""What is no part of a claim: neither held, nor asked to end, nor a DagRun's."""
_HELD = RunState(RunStatus.PENDING, held=True)
_SKIPPED = RunState(RunStatus.SKIPPED)
_NOW_PENDING = Verdict(_PENDING, True)
_NOW_DAG_RUN = Verdict(RunState(RunStatus.PENDING, is_dag=True), True)
_NOW_HELD = Verdict(_HELD, True)
_NOW_SKIPPED = Verdict(_SKIPPED, True)
_OUTCOMES = {
    EventKind.ATTEMPT_SUCCEEDED: Outcome.SUCCEEDED,
    EventKind.ATTEMPT_FAILED: Outcome.FAILED,
    EventKind.ATTEMPT_TIMED_OUT: Outcome.TIMED_OUT,
    EventKind.ATTEMPT_CANCELLED: Outcome.CANCELLED,
    EventKind.ATTEMPT_LOST: Outcome.LOST,
}


def _pending(state: RunState | None, event: RunEvent, _token: int) -> Verdict:
    if "/" in event.run_id:
        return Verdict(state, False, Ignored.NO_DAG_RUN)
    if state is None or state.held or (state.status is _RUN_SKIPPED and is_of_backfill(event)):
        detail = event.detail
        return _NOW_DAG_RUN if isinstance(detail, Pending) and detail.dag is not None else _NOW_PENDING
    return _refuse(state, Ignored.KNOWN_RUN)


def _held(state: RunState | None, event: RunEvent, _token: int) -> Verdict:
    if "/" in event.run_id:
        return Verdict(state, False, Ignored.NOT_OF_NODES)
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
    claim = (_RUN_RUNNING, event.attempt, _NO_OUTCOME, event.worker, event.incarnation, token)
    return _accepted(_make(RunState, (*claim, *_NOTHING_SAID)))


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
        status = _RUN_SUCCEEDED
    elif state.cancel_requested:
        status = RunStatus.CANCELLED
    elif state.expired:
        status = RunStatus.FAILED
    return _accepted(_moved(state, status, outcome))


def _accepted(state: RunState) -> Verdict:
    return _make(Verdict, (state, True, _NOT_IGNORED))


def _moved(state: RunState, status: RunStatus, outcome: Outcome) -> RunState:
    return _make(RunState, (status, state[1], outcome, *state[3:]))


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


def _of_dags_alone(state: RunState | None, _event: RunEvent, _token: int) -> Verdict:
    return Verdict(state, False, Ignored.NO_DAG_RUN)


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
    EventKind.DAG_SUCCEEDED: _of_dags_alone,
    EventKind.DAG_FAILED: _of_dags_alone,
    EventKind.DAG_PAUSED: _of_dags_alone,
    EventKind.DAG_RESUMED: _of_dags_alone,
    EventKind.NODE_SKIPPED: _of_dags_alone,
    EventKind.REVISED: _of_no_run,
    EventKind.ANSWERED: _of_no_run,
    EventKind.BACKFILL: _of_no_run,
}
