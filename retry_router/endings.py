"""What the router writes where an attempt or a run comes to an end without its worker: lost, expired, out of time.

What must hold: control is told before run-events (``draft.go_ahead``), so that a worker which reads control to its end
knows of every expiry that the log holds; a lost attempt is named by worker, incarnation and token of its STARTED, so
that the reducer accepts it for that attempt alone.
"""

from __future__ import annotations

from hashlib import blake2b

import structlog

from waterclock.model.events import EXPIRED, Control, ControlKind, Ended, EventKind, RunEvent
from waterclock.model.ids import Instant, job_of_run
from waterclock.model.job import Command, CommandKind
from waterclock.model.reduce import RunState
from waterclock.transact import Round
from waterclock.wire.messages import command_message, control_message, event_message
from waterclock.wire.names import Names

from .shard import Shard

LOST = "lost"
_ACTOR = "retry-router"

_log = structlog.get_logger()


def lost_event(run_id: str, state: RunState, now: Instant) -> RunEvent:
    """ATTEMPT_LOST for the open attempt of a run."""
    _, attempt, _, worker, incarnation, token, *_ = state
    detail = Ended(
        0, LOST, f"worker {worker} (incarnation {incarnation}) died, or was silent for longer than its lease"
    )
    return RunEvent(
        EventKind.ATTEMPT_LOST, job_of_run(run_id), run_id, now, attempt, worker, incarnation, token, detail=detail
    )


def expire(draft: Round, names: Names, shard: Shard, now: Instant, limit: int, until: Instant) -> None:
    """End the runs of a shard whose time was over at ``until``, up to where all of it is known: RUN_EXPIRED for those
    that wait, a cancel for those that run."""
    for run_id, state in shard.deadlines.over(until, shard.fold.open, limit):
        job_id = job_of_run(run_id)
        if state.attempt_open:
            _log.info("run is over its time", run_id=run_id, attempt=state.attempt)
            command = Command(CommandKind.CANCEL, job_id, _command_id(run_id), _ACTOR, now, note=EXPIRED, run_id=run_id)
            draft.append(command_message(names, command))
        elif not state.undecided:  # else its verdict is on its way, and minds the time too
            _log.info("run expired", run_id=run_id, attempt=state.attempt)
            end_waiting(draft, names, run_id, state, EXPIRED, now)


def end_waiting(draft: Round, names: Names, run_id: str, state: RunState, reason: str, now: Instant) -> None:
    """RUN_EXPIRED for a run that waits, with this reason; control hears of it first."""
    job_id = job_of_run(run_id)
    draft.go_ahead([control_message(names, Control(ControlKind.RUN_EXPIRED, job_id, run_id, now))])
    event = RunEvent(EventKind.RUN_EXPIRED, job_id, run_id, now, state.attempt, reason=reason)
    draft.append(event_message(names, event))


def _command_id(run_id: str) -> str:
    """The same for the same run, and as short as command ids must be, however long the run id."""
    return f"{EXPIRED}-{blake2b(run_id.encode(), digest_size=16).hexdigest()}"
