"""Runs that stay open for long, kept in a role's state topic so that they pin no take-over to their first event.

Lazily: a run is kept once a successor would have to re-read more than ``behind`` offsets because of it, and again
when something happened to it and *that* lies so far back; most runs are never kept. On a quiet partition it is kept
after ``KEPT_AFTER_S``: else retention takes the only word of a run that waits for weeks. What must hold: records and
tombstones ride in the round that commits the offsets they speak of, so the topic tells what was so at the committed
position; and a run that ends leaves its tombstone in the round that commits the position behind its end.

How it fails: a record that cannot be read (of a later release) is left out, and its run is unknown to this process
until that release takes over again; the log line says so. A run whose record would be too large is not kept.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

import structlog

from waterclock.log.aged import Aged
from waterclock.log.port import Log, Outgoing, TopicPartition
from waterclock.log.reading import gather_newest
from waterclock.model.errors import RequestError, UndecodableRecord
from waterclock.model.fold import Fold, OpenRun
from waterclock.model.reduce import RunState
from waterclock.taking_over import PART
from waterclock.wire.messages import state_tombstone
from waterclock.wire.names import Names

KEPT_AFTER_S = 900.0
"""Soon enough for any retention, also where a partition changes hands twice an hour; most runs have ended before."""

_PER_ROUND = 500

Note = TypeVar("Note")

_log = structlog.get_logger()


class KeptRun(NamedTuple, Generic[Note]):
    """What a record says; the fields are those of ``Fold.restore``. ``state`` None: it says nothing of a run."""

    state: RunState | None
    first_offset: int
    note: Note | None
    folded_to: int


class Form(Protocol[Note]):
    """How a role writes an open run with its note down, and reads it back."""

    def message(self, partition: int, run_id: str, run: OpenRun[Note], folded_to: int) -> Outgoing:
        """The record of a run whose events below ``folded_to`` are in it. Raises RequestError: it is too large."""
        ...

    def read(self, value: bytes) -> KeptRun[Note]:
        """What a record says. Raises UndecodableRecord, ValueError."""
        ...


class KeptRuns(Generic[Note]):
    """What the state topic of ``role`` holds of one partition."""

    __slots__ = ("_aged", "_behind", "_ended", "_form", "_kept", "_names", "_partition", "_role", "_too_large")

    def __init__(self, names: Names, role: str, partition: int, form: Form[Note], *, behind: int) -> None:
        """``behind``: a run that makes a successor re-read so many offsets is kept."""
        self._names = names
        self._role = role
        self._partition = partition
        self._form = form
        self._behind = behind
        self._aged = Aged(KEPT_AFTER_S)
        self._kept: set[str] = set()
        self._ended: list[str] = []
        self._too_large: set[str] = set()

    def restoring(
        self, log: Log, fold: Fold[Note], *, read_from: int | None = None
    ) -> Generator[None, None, dict[str, int]]:
        """Read the topic to its high watermark as of now, and put what it holds into the fold, part by part.

        ``read_from``: the log is read again from there, so runs that began at or above it are left to that. Returns
        the runs that were put in, with the offset up to which each is known. Raises BackendDown.
        """
        place = TopicPartition(self._names.state(self._role), self._partition)
        restored: dict[str, int] = {}
        newest: dict[str, bytes] = {}
        yield from gather_newest(log, place, newest)
        for number, (run_id, value) in enumerate(newest.items(), 1):
            if number % PART == 0:
                yield
            run = self._read(run_id, value)
            if run is None or run.state is None:
                continue
            self._kept.add(run_id)
            if read_from is None or run.first_offset < read_from:
                fold.restore(run_id, run.state, run.first_offset, run.note, run.folded_to)
                restored[run_id] = run.folded_to
        return restored

    def _read(self, run_id: str, value: bytes) -> KeptRun[Note] | None:
        try:
            return self._form.read(value)
        except (UndecodableRecord, ValueError) as odd:
            _log.error("kept run cannot be read", run_id=run_id, reason=str(odd))
            return None

    def ended(self, run_id: str) -> None:
        """The run is final."""
        self._too_large.discard(run_id)
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
            if run_id in self._too_large:
                continue
            try:
                message = self._form.message(self._partition, run_id, fold.open[run_id], fold.position)
            except RequestError as odd:
                self._too_large.add(run_id)
                _log.error(
                    "run cannot be kept: each take-over reads from its beginning", run_id=run_id, reason=str(odd)
                )
                continue
            self._kept.add(run_id)
            fold.keep(run_id)
            yield message
