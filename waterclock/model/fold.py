"""The fold of one run-events partition: what a role knows of its runs while it reads the log in order.

Open runs are kept with a note of the role's own; finished ones are remembered for at least ``window`` offsets, so
that a late duplicate finds its run final instead of unknown. What must hold: events are applied once, in offset
order, by one thread; and :meth:`Fold.fold_from` names the offset from which a successor must re-read to know the same
of every open run. A role lets it ride in the metadata of its offset commits (:func:`fold_from_text`). An open run
holds that offset back (it is *pinned*) unless the role has kept the run's state elsewhere (:meth:`Fold.keep`): then
only what happens to it afterwards does.

Limits. A duplicate that comes more than ``window`` offsets after its run's end is taken for a new run. Open runs are
bounded: at ``open_max`` :class:`FoldFull` is raised, before anything is forgotten; the log keeps everything until the
backlog shrinks or the bound is raised.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from .errors import WaterclockError
from .events import FINAL, EventKind, Pending, RunEvent, RunStatus, Skipped
from .ids import RunId, ordinal, parse_run_id
from .reduce import Ignored, RunState, Verdict, covers, is_of_backfill, reduce

WINDOW = 20_000
"""Offsets for which finished runs are remembered at least."""

OPEN_MAX = 1_000_000
"""Open runs in one partition, about 300 bytes each while they wait."""

_FOLD_FROM = "fold-from="
_REPAIRS = "repairs="
_SKIPPED = EventKind.SKIPPED

Note = TypeVar("Note")


class FoldFull(WaterclockError):
    """More open runs in one partition than the fold may hold."""


class OpenRun(Generic[Note]):
    """A run that is not final. ``first_offset`` is that of its first accepted event; ``note`` is the role's own.

    The object outlives the end of its run for whoever holds it: ``state`` is the final one then.
    """

    __slots__ = ("first_offset", "note", "state")

    def __init__(self, state: RunState, first_offset: int) -> None:
        self.state = state
        self.first_offset = first_offset
        self.note: Note | None = None


class _Range(NamedTuple):
    """A remembered SKIPPED of several fires."""

    skipped: Skipped
    job_id: str


class _Memory:
    """What finished within one window."""

    __slots__ = ("ranges", "runs")

    def __init__(self) -> None:
        self.runs: dict[str, RunState] = {}
        self.ranges: dict[str, list[_Range]] = {}

    def skips(self, run: RunId, revision: int) -> bool:
        return any(covers(known.job_id, known.skipped, run, revision) for known in self.ranges.get(run.job_id, ()))


class Fold(Generic[Note]):
    """Folds one partition. ``generation`` is the topic's, for the fencing tokens."""

    def __init__(self, *, generation: int = 0, window: int = WINDOW, open_max: int = OPEN_MAX) -> None:
        self.open: dict[str, OpenRun[Note]] = {}
        """Open runs by run id, oldest first. Read it, and set notes; only the fold adds and removes."""
        self.position = 0
        """One past the last offset applied."""
        self._pins: dict[str, int] = {}
        # By open run the first offset that its successor must re-read; in the order of the offsets.
        self._high_bits = ordinal(generation, 0)
        self._window = window
        self._open_max = open_max
        self._held: dict[str, dict[str, RunId]] = {}
        # Two halves: what finished in this window, and in the one before. Together never under one window.
        self._recent = _Memory()
        self._older = _Memory()
        self._turn_at = -1
        # By restored run the offset below which its state holds everything already; let go once all are passed.
        self._restored_to: dict[str, int] = {}
        self._restored_end = 0

    def apply(self, event: RunEvent, offset: int) -> Verdict:
        """Apply the event at ``offset``; raises FoldFull at the bound, ValueError when offsets run backwards.

        RequestError: the event names no run; nothing has changed then, and the next event can be applied.
        A SKIPPED of several fires is judged by its first one; it also ends the HELD runs that it covers.
        """
        if offset < self.position:
            raise ValueError(f"offset {offset} comes after {self.position - 1}: a fold never goes back")
        if offset >= self._turn_at:
            self._turn(offset)
        run = self.open.get(event.run_id)
        if run is None:
            verdict = self._apply_to_closed(event, offset)
        elif offset < self._restored_end and self._is_folded(event.run_id, offset):
            verdict = Verdict(run.state, False, Ignored.FOLDED)
        else:
            verdict = reduce(run.state, event, self._high_bits | offset)
            if verdict.accepted:
                self._move(event.run_id, run, verdict.state, offset)
        if event.kind is _SKIPPED:
            self._skip_range(event, offset)
        self.position = offset + 1
        return verdict

    def state(self, run_id: str) -> RunState | None:
        """What is known of a run: open, or finished within the memory."""
        run = self.open.get(run_id)
        return run.state if run is not None else self._finished(run_id)

    def fold_from(self) -> int:
        """From where a successor re-reads: what the oldest pinned run needs, and the window at least."""
        floor = max(self.position - self._window, 0)
        oldest = next(iter(self._pins.values()), None)
        return floor if oldest is None else min(oldest, floor)

    def restore(self, run_id: str, state: RunState, first_offset: int, note: Note | None, folded_to: int = 0) -> None:
        """An open run as it was kept elsewhere. Only before the first event is applied, each run once.

        ``folded_to``: its events below that offset are in ``state``, and are passed over when they are read again.
        What was *accepted* the reducer would ignore; what was refused in an earlier state it might accept in this one.
        """
        run = self.open[run_id] = OpenRun(state, first_offset)
        run.note = note
        if folded_to:
            self._restored_to[run_id] = folded_to
            self._restored_end = max(self._restored_end, folded_to)
        if state.held:
            self._held.setdefault(run_id.partition("@")[0], {})[run_id] = parse_run_id(run_id)

    def keep(self, run_id: str) -> None:
        """This open run is kept elsewhere as it is now: a successor need not re-read what happened to it so far."""
        self._pins.pop(run_id, None)

    def pinned_below(self, offset: int, limit: int) -> list[str]:
        """The open runs, at most ``limit``, that make a successor re-read from below ``offset``; the oldest first."""
        found: list[str] = []
        for run_id, pin in self._pins.items():
            if pin >= offset or len(found) >= limit:
                break
            found.append(run_id)
        return found

    def _is_folded(self, run_id: str, offset: int) -> bool:
        """Whether a restored run's state holds this offset already."""
        return offset < self._restored_to.get(run_id, 0)

    def _turn(self, offset: int) -> None:
        self._older, self._recent = self._recent, _Memory()
        self._turn_at = offset + self._window
        if offset >= self._restored_end:
            self._restored_to.clear()

    def _finished(self, run_id: str) -> RunState | None:
        return self._recent.runs.get(run_id) or self._older.runs.get(run_id)

    def _apply_to_closed(self, event: RunEvent, offset: int) -> Verdict:
        finished = self._recent.runs.get(event.run_id) or self._older.runs.get(event.run_id)
        verdict = reduce(finished, event, self._high_bits | offset)
        if not verdict.accepted or verdict.state is None:
            return verdict
        if verdict.state.status in FINAL:
            self._recent.runs[event.run_id] = verdict.state
            return verdict
        if (self._recent.ranges or self._older.ranges) and not is_of_backfill(event) and self._in_skipped_range(event):
            return Verdict(RunState(RunStatus.SKIPPED), False, Ignored.FINAL)
        if len(self.open) >= self._open_max:
            raise FoldFull(
                f"{len(self.open)} runs are open in one run-events partition, the most that is held: "
                "the workers are far behind. Add workers, or raise the bound"
            )
        if verdict.state.held:
            self._held.setdefault(event.job_id, {})[event.run_id] = parse_run_id(event.run_id)
        elif "~" in event.run_id:
            parse_run_id(event.run_id)  # whoever follows the run will ask for its series
        self.open[event.run_id] = OpenRun(verdict.state, offset)
        self._pins[event.run_id] = offset
        return verdict

    def _move(self, run_id: str, run: OpenRun[Note], state: RunState | None, offset: int) -> None:
        assert state is not None  # the reducer never makes a known run unknown
        if run.state.held and not state.held:
            self._release(run_id)
        run.state = state
        if state.status in FINAL:
            del self.open[run_id]
            self._pins.pop(run_id, None)
            self._recent.runs[run_id] = state
        elif run_id not in self._pins:
            self._pins[run_id] = offset

    def _release(self, run_id: str) -> None:
        job_id = run_id.partition("@")[0]
        held = self._held[job_id]
        del held[run_id]
        if not held:
            del self._held[job_id]

    def _in_skipped_range(self, event: RunEvent) -> bool:
        """Whether a remembered range already decided this fire (the ranges' first fires are known by run id)."""
        if event.job_id not in self._recent.ranges and event.job_id not in self._older.ranges:
            return False
        if not isinstance(event.detail, Pending):
            return False
        run, revision = parse_run_id(event.run_id), event.detail.revision
        return self._recent.skips(run, revision) or self._older.skips(run, revision)

    def _skip_range(self, event: RunEvent, offset: int) -> None:
        skipped = event.detail
        if not isinstance(skipped, Skipped) or skipped.from_at == skipped.to_at:
            return
        self._recent.ranges.setdefault(event.job_id, []).append(_Range(skipped, event.job_id))
        for run_id, parts in list(self._held.get(event.job_id, {}).items()):
            if covers(event.job_id, skipped, parts) and not self._is_folded(run_id, offset):
                run = self.open[run_id]
                self._move(run_id, run, reduce(run.state, event, self._high_bits | offset).state, offset)


def fold_from_text(offset: int, repairs: int = 0) -> str:
    """The text that rides with a committed position. ``repairs``: how many the reconciler has made here, ever."""
    return f"{_FOLD_FROM}{offset} {_REPAIRS}{repairs}" if repairs else f"{_FOLD_FROM}{offset}"


def parse_fold_from(metadata: str) -> int | None:
    """The offset in that text; None where a commit without it has erased it: then everything kept is re-read."""
    return _number_after(_FOLD_FROM, metadata.partition(" ")[0])


def parse_repairs(metadata: str) -> int:
    """The reconciler's repairs in that text."""
    return _number_after(_REPAIRS, metadata.partition(" ")[2]) or 0


def _number_after(name: str, text: str) -> int | None:
    number = text.removeprefix(name)
    return int(number) if number != text and number.isdecimal() else None
