"""How the router writes a run down that has been open for long: its state and its trail (``kept_runs.py``)."""

from __future__ import annotations

from waterclock.kept_runs import KeptRun, KeptRuns
from waterclock.log.port import Outgoing
from waterclock.model.fold import OpenRun
from waterclock.model.known_state import state_from_text, state_to_text
from waterclock.model.role_state import OpenRunState
from waterclock.wire.codec import decode_open_run
from waterclock.wire.messages import open_run_message
from waterclock.wire.names import Names

from .trail import Note, Trail, trail_of

KEPT_BEHIND = 100_000
"""Offsets; folding so many takes about a second."""


def kept_runs(names: Names, role: str, partition: int, *, behind: int = KEPT_BEHIND) -> KeptRuns[Note]:
    """What ``role``'s state topic holds of a partition of run-events."""
    return KeptRuns(names, role, partition, _TrailForm(names, role), behind=behind)


class _TrailForm:
    """See ``Form``."""

    def __init__(self, names: Names, role: str) -> None:
        self._names = names
        self._role = role

    def message(self, partition: int, run_id: str, run: OpenRun[Note], folded_to: int) -> Outgoing:
        trail = trail_of(run.note)
        kept = OpenRunState(run_id, run.first_offset, state_to_text(run.state), *trail, folded_to)
        return open_run_message(self._names, self._role, partition, kept)

    def read(self, value: bytes) -> KeptRun[Note]:
        run = decode_open_run(value)
        return KeptRun(state_from_text(run.state), run.first_offset, _note(run), run.folded_to)


def _note(run: OpenRunState) -> Note | None:
    trail = Trail(*run[3:-1])
    if trail == Trail():
        return None
    return trail.work if trail.work is not None and trail == Trail(trail.work) else trail
