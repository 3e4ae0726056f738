"""How the recorder writes a run down that has been open for long: what its rows show of it (``kept_runs.py``).

As the events that told it: their form on disk is kept for other reasons anyway, and whatever a run event learns to say
is kept here without another word.
"""

from __future__ import annotations

from waterclock.kept_runs import KeptRun, KeptRuns
from waterclock.log.port import Outgoing
from waterclock.model.events import Ended, EventKind, Pending, RunEvent
from waterclock.model.fold import OpenRun
from waterclock.model.known_state import state_from_text, state_to_text
from waterclock.model.role_state import RecordedRunState
from waterclock.wire.codec import decode_event, decode_recorded_run, encode_event
from waterclock.wire.messages import recorded_run_message
from waterclock.wire.names import Names

from .projection import Known

KEPT_BEHIND = 500_000
"""Offsets; folding so many takes about five seconds, and nothing but history waits for it. Fewer would make a burst of
runs write records of all that wait."""


def kept_runs(names: Names, role: str, partition: int, *, behind: int = KEPT_BEHIND) -> KeptRuns[Known]:
    """What ``role``'s state topic holds of a partition of run-events."""
    return KeptRuns(names, role, partition, _KnownForm(names, role), behind=behind)


class _KnownForm:
    """See ``Form``."""

    def __init__(self, names: Names, role: str) -> None:
        self._names = names
        self._role = role

    def message(self, partition: int, run_id: str, run: OpenRun[Known], folded_to: int) -> Outgoing:
        kept = RecordedRunState(run_id, run.first_offset, state_to_text(run.state), folded_to)
        if run.note is not None:  # else what made it said nothing of it, and it has no row
            kept = _with_story(kept, run.note, is_held=run.state.held)
        return recorded_run_message(self._names, self._role, partition, kept)

    def read(self, value: bytes) -> KeptRun[Known]:
        run = decode_recorded_run(value)
        known = None if run.said is None else _known(run, run.said)
        return KeptRun(state_from_text(run.state), run.first_offset, known, run.folded_to)


def _with_story(kept: RecordedRunState, known: Known, *, is_held: bool) -> RecordedRunState:
    kind = EventKind.HELD if is_held else EventKind.PENDING
    pending = known.pending
    if pending.dag is not None:  # what its nodes are given is in no row
        pending = pending._replace(dag=pending.dag._replace(payload=None))
    said = RunEvent(kind, known.job_id, kept.run_id, known.dispatched_at, detail=pending)
    # Which end it was, the state says; this kind stands for any.
    end = RunEvent(EventKind.ATTEMPT_FAILED, known.job_id, kept.run_id, known.ended_at, detail=known.ended)
    return kept._replace(
        said=encode_event(said),
        ended=None if known.ended is None else encode_event(end),
        dispatched_at=known.dispatched_at,
        started_at=known.started_at,
        ended_at=known.ended_at,
        next_attempt_at=known.next_attempt_at,
        turns=known.turns,
        was_held=known.was_held,
        reason=known.reason,
    )


def _known(run: RecordedRunState, said: bytes) -> Known:
    """Raises UndecodableRecord, ValueError."""
    made = decode_event(said)
    pending = made.detail if isinstance(made.detail, Pending) else None
    if pending is None:
        raise ValueError("it does not say what made the run")
    known = Known(made, pending, run.dispatched_at)
    if run.ended is not None:
        end = decode_event(run.ended).detail
        known.ended = end if isinstance(end, Ended) else None
    known.started_at, known.ended_at, known.next_attempt_at = run.started_at, run.ended_at, run.next_attempt_at
    known.turns, known.was_held, known.reason = run.turns, run.was_held, run.reason
    return known
