"""Runs that stay open for long, kept in ``state.retry-router`` so that they pin no take-over to their first event.

Lazily: a run is kept once a successor would have to re-read more than ``KEPT_BEHIND`` offsets because of it, and again
when something happened to it and *that* lies so far back; most runs are never kept. On a quiet partition it is kept
after ``KEPT_AFTER_S``: else retention takes the only word of a run that waits for weeks. What must hold: records and
tombstones ride in the round that commits the offsets they speak of, so the topic tells what was so at the committed
position; and a run that ends leaves its tombstone in the round that reads its end.

How it fails: a record that cannot be read (of a later release) is left out, and its run is unknown to this router until
that release takes over again; the log line says so.
"""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from waterclock.log.aged import Aged
from waterclock.log.port import Isolation, Log, Outgoing, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import UndecodableRecord
from waterclock.model.fold import Fold, OpenRun
from waterclock.model.known_state import state_from_text, state_to_text
from waterclock.model.role_state import OpenRunState
from waterclock.wire.codec import decode_open_run
from waterclock.wire.messages import open_run_message, state_tombstone
from waterclock.wire.names import Names

from .trail import Note, Trail, trail_of

KEPT_BEHIND = 100_000
"""Offsets; folding so many takes about a second."""

KEPT_AFTER_S = 900.0
"""Soon enough for any retention, also where a partition changes hands twice an hour; most runs have ended before."""

_PER_ROUND = 500

_log = structlog.get_logger()


class KeptRuns:
    """What the state topic holds of one partition. ``role`` names the topic."""

    __slots__ = ("_aged", "_behind", "_ended", "_kept", "_names", "_partition", "_role")

    def __init__(self, names: Names, role: str, partition: int, *, behind: int = KEPT_BEHIND) -> None:
        self._names = names
        self._role = role
        self._partition = partition
        self._behind = behind
        self._aged = Aged(KEPT_AFTER_S)
        self._kept: set[str] = set()
        self._ended: list[str] = []

    def restore(self, log: Log, fold: Fold[Note]) -> None:
        """Read the topic to its high watermark as of now, and put what it holds into the fold. Raises BackendDown."""
        place = TopicPartition(self._names.state(self._role), self._partition)
        found: dict[str, OpenRunState] = {}
        for record in read_range(log, Isolation.COMMITTED, place, log.low_watermark(place), log.high_watermark(place)):
            run_id = (record.key or b"").decode(errors="replace")
            if record.value is None:
                found.pop(run_id, None)
                continue
            try:
                found[run_id] = decode_open_run(record.value)
            except UndecodableRecord as odd:
                _log.error("kept run cannot be read", run_id=run_id, reason=str(odd))
        for run_id, run in found.items():
            state = state_from_text(run.state)
            if state is not None:
                fold.restore(run_id, state, run.first_offset, _note(run), run.folded_to)
                self._kept.add(run_id)

    def ended(self, run_id: str) -> None:
        """The run is final."""
        if run_id in self._kept:
            self._kept.discard(run_id)
            self._ended.append(run_id)

    def messages(self, fold: Fold[Note], now_s: float) -> Iterator[Outgoing]:
        """What this round must tell the topic; the fold knows then that a successor need not re-read it."""
        for run_id in self._ended:
            yield state_tombstone(self._names, self._role, self._partition, run_id)
        self._ended.clear()
        self._aged.note(fold.position, now_s)
        for run_id in fold.pinned_below(max(fold.position - self._behind, self._aged.below), _PER_ROUND):
            self._kept.add(run_id)
            fold.keep(run_id)
            kept = _kept(run_id, fold.open[run_id], fold.position)
            yield open_run_message(self._names, self._role, self._partition, kept)


def _kept(run_id: str, run: OpenRun[Note], folded_to: int) -> OpenRunState:
    trail = trail_of(run.note)
    return OpenRunState(run_id, run.first_offset, state_to_text(run.state), *trail, folded_to)


def _note(run: OpenRunState) -> Note | None:
    trail = Trail(*run[3:-1])
    if trail == Trail():
        return None
    return trail.work if trail.work is not None and trail == Trail(trail.work) else trail
