"""The fold of one run-events partition: what a role knows of its runs while it reads the log in order.

Open runs are kept with a note of the role's own; finished ones are remembered for at least ``window`` offsets, so
that a late duplicate finds its run final instead of unknown. What must hold: events are applied once, in offset
order, by one thread; and :meth:`Fold.fold_from` names the offset from which a successor must re-read to know the same
of every open run. A role lets it ride in the metadata of its offset commits (:func:`fold_from_text`). An open run
holds that offset back (it is *pinned*) unless the role has kept the run's state elsewhere (:meth:`Fold.keep`): then
only what happens to it afterwards does.

One event may change more runs than its own: those of a DagRun and its nodes (``dag_nodes.py``); :attr:`Fold.touched`
names them. So may a SKIPPED of several fires (:attr:`Fold.skipped`).

Limits. A duplicate that comes more than ``window`` offsets after its run's end is taken for a new run; of a node only
where its DagRun has been kept elsewhere meanwhile, for an open DagRun remembers its nodes. Who begins from a kept
DagRun believes an end of it that was claimed while a node was open which has ended since: no engine claims one.
Open runs are bounded: at ``open_max`` :class:`FoldFull` is raised, before anything is forgotten. The log keeps
everything until the bound is raised; nothing else helps, for whoever folds it again comes to the same event.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, NamedTuple, TypeVar

from .dag_nodes import DagNodes
from .dag_reduce import after_node, inherit
from .errors import WaterclockError
from .events import FINAL, EventKind, Pending, RunEvent, RunStatus, Skipped
from .ids import RunId, ordinal, parse_run_id
from .reduce import DagView, Ignored, RunState, Verdict, covers, is_of_backfill, reduce

WINDOW = 20_000
"""Offsets for which finished runs are remembered at least."""

OPEN_MAX = 1_000_000
"""Open runs in one partition, 350 bytes (router) to 1 KB (recorder) each while they wait."""

_FOLD_FROM = "fold-from="
_REPAIRS = "repairs="
_SKIPPED = EventKind.SKIPPED

Note = TypeVar("Note")


class FoldFull(WaterclockError):
    """More open runs in one partition than the fold may hold."""


class OpenRun(Generic[Note]):
    """A run that is not final. ``first_offset`` is that of its first accepted event; ``note`` is the role's own.

    The object outlives the end of its run for whoever holds it: ``state`` is the final one then. ``dag``: of a DagRun
    and of each of its nodes, what is known of them together.
    """

    __slots__ = ("dag", "first_offset", "note", "state")

    def __init__(self, state: RunState, first_offset: int) -> None:
        self.state = state
        self.first_offset = first_offset
        self.note: Note | None = None
        self.dag: DagNodes[OpenRun[Note]] | None = None


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

    def __init__(
        self, *, generation: int = 0, window: int = WINDOW, open_max: int = OPEN_MAX, held_by: str = "is held here"
    ) -> None:
        """``held_by``: ends the message at the bound."""
        self.open: dict[str, OpenRun[Note]] = {}
        """Open runs by run id, oldest first. Read it, and set notes; only the fold adds and removes."""
        self.position = 0
        """One past the last offset applied."""
        self.touched: list[tuple[str, OpenRun[Note]]] = []
        """The runs that the last event changed beside its own: its DagRun, or the nodes of that, with their ids."""
        self.skipped: list[tuple[str, OpenRun[Note]]] = []
        """The HELD runs that the last SKIPPED ended beside its own, with their ids."""
        self._pins: OrderedDict[str, int] = OrderedDict()
        # By open run the first offset that its successor must re-read; in the order of the offsets. Each round asks for
        # the first: in a dict that is behind all that have ended since, of a backlog hundreds of thousands.
        self._high_bits = ordinal(generation, 0)
        self._window = window
        self._open_max = open_max
        self._held_by = held_by
        self._held: dict[str, dict[str, RunId]] = {}
        # Two halves: what finished in this window, and in the one before. Together never under one window.
        self._recent = _Memory()
        self._older = _Memory()
        self._turn_at = -1
        # By DagRun the nodes that were restored before it.
        self._strays: dict[str, list[str]] = {}
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
        if self.touched:
            self.touched = []
        run = self.open.get(event.run_id)
        if run is None:
            verdict = self._apply_to_closed(event, offset)
        elif offset < self._restored_end and self._is_folded(event.run_id, offset):
            verdict = Verdict(run.state, False, Ignored.FOLDED)
        elif run.dag is not None:
            verdict = self._apply_in_dag(event, run, run.dag, offset)
        else:
            verdict = reduce(run.state, event, self._high_bits | offset)
            if verdict.accepted:
                self._move(event.run_id, run, verdict.state, offset)
        if event.kind is _SKIPPED:
            self._skip_range(event, offset)
        self.position = offset + 1
        return verdict

    def state(self, run_id: str) -> RunState | None:
        """What is known of a run: open, or finished within the memory, or while its DagRun is open."""
        run = self.open.get(run_id)
        if run is not None:
            return run.state
        found = self._finished(run_id)
        return self._ended_node(run_id) if found is None and "/" in run_id else found

    def fold_from(self) -> int:
        """From where a successor re-reads: what the oldest pinned run needs, and the window at least."""
        floor = max(self.position - self._window, 0)
        oldest = next(iter(self._pins.values()), None)
        return floor if oldest is None else min(oldest, floor)

    def restore(self, run_id: str, state: RunState, first_offset: int, note: Note | None, folded_to: int = 0) -> None:
        """An open run as it was kept elsewhere. Only before the first event is applied, each run once.

        A node that has ended may be restored as well, once its DagRun is: nothing then makes it begin again.
        ``folded_to``: the events of an open one below that offset are in ``state``, and are passed over when they are
        read again: what was refused in an earlier state the reducer might accept in this one.
        """
        if state.final:
            dag = self.open[run_id.partition("/")[0]].dag
            assert dag is not None  # only DagRuns have nodes
            dag.ended[run_id] = state
            if not dag.run.state.ending:
                dag.run.state = after_node(dag.run.state, dag.running)  # its record may be older than its first node
            return
        run = self.open[run_id] = OpenRun(state, first_offset)
        run.note = note
        if folded_to:
            self._restored_to[run_id] = folded_to
            self._restored_end = max(self._restored_end, folded_to)
        if state.held:
            self._held.setdefault(run_id.partition("@")[0], {})[run_id] = parse_run_id(run_id)
        if state.is_dag:
            self._gather(run_id, run)
        elif "/" in run_id:
            self._join(run_id, run)

    def pass_over(self, offset: int) -> None:
        """The event at ``offset`` speaks of no run that is followed here."""
        self.position = offset + 1

    def keep(self, run_id: str) -> None:
        """This open run is kept elsewhere as it is now: a successor need not re-read what happened to it so far."""
        if not self._must_be_read(run_id):
            self._pins.pop(run_id, None)

    def pinned_below(self, offset: int, limit: int) -> list[str]:
        """The open runs, at most ``limit``, that make a successor re-read from below ``offset``; the oldest first.

        None of the DagRuns that are to end, which cannot be kept.
        """
        found: list[str] = []
        for run_id, pin in self._pins.items():
            if pin >= offset or len(found) >= limit:
                break
            if not self._must_be_read(run_id):
                found.append(run_id)
        return found

    def _must_be_read(self, run_id: str) -> bool:
        """Whether an event of its nodes came before or after it was to end, only the log can say."""
        state = self.open[run_id].state
        return state.is_dag and state.ending

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
        if "/" in event.run_id:
            return self._apply_to_closed_node(event, offset)
        finished = self._recent.runs.get(event.run_id) or self._older.runs.get(event.run_id)
        verdict = reduce(finished, event, self._high_bits | offset)
        if not verdict.accepted or verdict.state is None:
            return verdict
        if verdict.state.status in FINAL:
            self._recent.runs[event.run_id] = verdict.state
            return verdict
        if (self._recent.ranges or self._older.ranges) and not is_of_backfill(event) and self._in_skipped_range(event):
            return Verdict(RunState(RunStatus.SKIPPED), False, Ignored.FINAL)
        self._check_room()
        if verdict.state.held:
            self._held.setdefault(event.job_id, {})[event.run_id] = parse_run_id(event.run_id)
        elif "~" in event.run_id:
            parse_run_id(event.run_id)  # whoever follows the run will ask for its series
        run = self.open[event.run_id] = OpenRun(verdict.state, offset)
        self._pins[event.run_id] = offset
        if verdict.state.is_dag:
            self._gather(event.run_id, run)
        return verdict

    def _check_room(self) -> None:
        if len(self.open) >= self._open_max:
            raise FoldFull(f"{len(self.open)} runs are open in one run-events partition, the most that {self._held_by}")

    # DagRuns and their nodes -----------------------------------------------------------------------------------------

    def _gather(self, run_id: str, run: OpenRun[Note]) -> None:
        """A DagRun becomes known; its nodes may have been restored before it."""
        run.dag = DagNodes(run_id, run)
        for node_id in self._strays.pop(run_id, ()):
            self._join(node_id, self.open[node_id])

    def _join(self, node_id: str, node: OpenRun[Note]) -> None:
        """A node that was restored: to its DagRun, once that is known."""
        dag_run_id = node_id.partition("/")[0]
        dag_run = self.open.get(dag_run_id)
        if dag_run is None or dag_run.dag is None:
            self._strays.setdefault(dag_run_id, []).append(node_id)
            return
        node.dag = dag_run.dag
        node.dag.begin(node_id, node, running=node.state.attempt_open)
        dag_run.state = after_node(dag_run.state, node.dag.running)  # the node's own events may be folded already

    def _ended_node(self, node_id: str) -> RunState | None:
        dag_run = self.open.get(node_id.partition("/")[0])
        return None if dag_run is None or dag_run.dag is None else dag_run.dag.ended.get(node_id)

    def _apply_to_closed_node(self, event: RunEvent, offset: int) -> Verdict:
        """A node that is not open: it becomes known, or has ended."""
        node_id = event.run_id
        dag_run_id = node_id.partition("/")[0]
        dag_run = self.open.get(dag_run_id)
        dag = None if dag_run is None else dag_run.dag
        known = self._finished(node_id) or self._ended_node(node_id)
        view = DagView(dag_run.state if dag_run is not None else self._finished(dag_run_id))
        verdict = reduce(known, event, self._high_bits | offset, view)
        if not verdict.accepted or verdict.state is None:
            return verdict
        assert dag is not None  # only nodes of an open DagRun become known
        if verdict.state.final:
            self._recent.runs[node_id] = dag.ended[node_id] = verdict.state
        else:
            self._check_room()
            parse_run_id(node_id)  # whoever follows the run will ask for its parts
            node = self.open[node_id] = OpenRun(verdict.state, offset)
            node.dag = dag
            dag.begin(node_id, node, running=False)
        self._move_dag_run(dag, offset)
        if not verdict.state.final:
            self._pins[node_id] = offset  # behind its DagRun's: whoever keeps the oldest first keeps no node alone
        return verdict

    def _apply_in_dag(self, event: RunEvent, run: OpenRun[Note], dag: DagNodes[OpenRun[Note]], offset: int) -> Verdict:
        """An event of an open DagRun, or of one of its open nodes; and what it means for the others."""
        view = DagView(dag.run.state, len(dag.open), dag.running)
        verdict = reduce(run.state, event, self._high_bits | offset, view)
        if not verdict.accepted:
            return verdict
        if run is not dag.run:
            self._move_node(event.run_id, run, dag, verdict.state, offset)
            self._move_dag_run(dag, offset)
            return verdict
        self._move(event.run_id, run, verdict.state, offset)
        for node_id, node in list(dag.open.items()):
            state = inherit(node.state, event.kind)
            if state != node.state:
                self._move_node(node_id, node, dag, state, offset)
                self.touched.append((node_id, node))
        self._close(dag)
        return verdict

    def _move_node(
        self, node_id: str, node: OpenRun[Note], dag: DagNodes[OpenRun[Note]], state: RunState | None, offset: int
    ) -> None:
        was_running = node.state.attempt_open
        self._move(node_id, node, state, offset)
        dag.move(node_id, node.state, was_running=was_running)

    def _move_dag_run(self, dag: DagNodes[OpenRun[Note]], offset: int) -> None:
        state = after_node(dag.run.state, dag.running)
        if state is not dag.run.state:
            self._move(dag.run_id, dag.run, state, offset)
            self.touched.append((dag.run_id, dag.run))
            self._close(dag)

    def _close(self, dag: DagNodes[OpenRun[Note]]) -> None:
        """The nodes of a DagRun that has ended are remembered as long as any finished run."""
        if dag.run.state.final:
            self._recent.runs.update(dag.ended)

    def _move(self, run_id: str, run: OpenRun[Note], state: RunState | None, offset: int) -> None:
        assert state is not None  # the reducer never makes a known run unknown
        was_held, run.state = run.state.held, state
        if was_held and not state.held:
            self._release(run_id)
            if state.is_dag:
                self._gather(run_id, run)
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
        self.skipped = []
        skipped = event.detail
        if not isinstance(skipped, Skipped) or skipped.from_at == skipped.to_at:
            return
        self._recent.ranges.setdefault(event.job_id, []).append(_Range(skipped, event.job_id))
        for run_id, parts in list(self._held.get(event.job_id, {}).items()):
            if covers(event.job_id, skipped, parts) and not self._is_folded(run_id, offset):
                run = self.open[run_id]
                self._move(run_id, run, reduce(run.state, event, self._high_bits | offset).state, offset)
                self.skipped.append((run_id, run))


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
