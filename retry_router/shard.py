"""One run-events partition in the retry router's hands: what is read of it, and what that asks for.

What must hold: each attempt that ended badly asks for one verdict, each accepted final failure for one dead letter,
and only at or above the offset from which this router acts: what lies below was answered in the round that committed
it. Where nobody ever committed a position, only what is still undecided when the end is reached is answered: that may
be all that failed in weeks, so a part of it in each round. How it fails: what of that has not come to its turn when
this process ends, or begins again after trouble, is left to the reconciler, and what that asks for has its turns too.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import NamedTuple

from waterclock.kept_runs import KeptRuns
from waterclock.log.following import Beginning, Followed
from waterclock.log.port import Committed, Outgoing, TopicPartition
from waterclock.model.events import EventKind, Pending, RunEvent, RunStatus, Started
from waterclock.model.fold import Fold, OpenRun, fold_from_text, parse_repairs
from waterclock.model.ids import Instant, job_of_run
from waterclock.model.reduce import RunState

from .expiry import Deadlines
from .inspected import Inspected
from .open_attempts import OpenAttempts
from .trail import Note, Trail, failed, follow, trail_of
from .triggering import RunEnd

_BADLY_ENDED = frozenset(
    {
        EventKind.ATTEMPT_FAILED,
        EventKind.ATTEMPT_TIMED_OUT,
        EventKind.ATTEMPT_CANCELLED,
        EventKind.ATTEMPT_LOST,
    }
)
_GIVEN_UP = frozenset({EventKind.RUN_FAILED, EventKind.RUN_EXPIRED})
_STARTED = EventKind.STARTED
_SUCCEEDED = EventKind.ATTEMPT_SUCCEEDED
_SKIPPED = EventKind.SKIPPED
_PENDING = EventKind.PENDING


class Undecided(NamedTuple):
    """A run that waits for its verdict: its last attempt ended, not well.

    ``asked_before``: it has been asked for already, and may be on its way (the reconciler).
    """

    run_id: str
    state: RunState
    trail: Trail
    asked_before: bool = False


class GivenUp(NamedTuple):
    """An accepted final failure that wants its dead letter. ``first_offset``: where its run began in ``partition``."""

    event: RunEvent
    attempts: int
    trail: Trail
    partition: TopicPartition
    first_offset: int

    @property
    def work_place(self) -> Started | None:
        """Where the work record stands; None for a run that was never claimed."""
        return self.trail.work


class Wanted:
    """What one round has to answer, and what was ignored meanwhile (by reason)."""

    __slots__ = ("ends", "given_up", "has_asked", "ignored", "rejects")

    def __init__(self) -> None:
        self.has_asked = False
        """Whether it was asked for who is started by ``ends``."""
        self.rejects: list[Outgoing] = []
        self.ends: list[RunEnd] = []
        self.given_up: list[GivenUp] = []
        self.ignored: Counter[str] = Counter()


class Shard(Followed[Note]):
    """A partition and its fold, with a note for each open run (``trail.py``)."""

    __slots__ = (
        "_backlog",
        "_settles_backlog",
        "_undecided",
        "attempts",
        "deadlines",
        "inspected",
        "kept",
        "predecessor_to",
        "repairs",
    )

    def __init__(
        self,
        partition: TopicPartition,
        start: Beginning,
        fold: Fold[Note],
        attempts: OpenAttempts,
        kept: KeptRuns[Note],
    ) -> None:
        super().__init__(partition, start, fold)
        self.attempts = attempts
        self.kept = kept
        self.deadlines = Deadlines()
        self.inspected = Inspected()
        self.repairs = 0
        """How many the reconciler has made in this partition, ever: it rides with the position."""
        self.predecessor_to = start.act_from
        """Before the log was read to here nothing is expired, and nobody is called lost whose end may stand hidden: a
        predecessor may have said so, further on."""
        self._settles_backlog = start.is_first
        # By run: whether its verdict has been asked for before.
        self._undecided: dict[str, bool] = {}
        # The same of those that no position waits for: they have their turns.
        self._backlog: dict[str, bool] = {}
        for run_id, run in fold.open.items():  # what the state topic kept
            self.deadlines.note(run_id, run)
            if run.state.attempt_open:
                attempts.started(run.state.worker, run.state.incarnation, run_id)

    def take(self, event: RunEvent, offset: int, wanted: Wanted) -> None:
        """Fold one event. A shard must be made live before its first event at or above ``act_from``."""
        run = self.fold.open.get(event.run_id)
        verdict = self.fold.apply(event, offset)
        if event.kind is _SKIPPED:  # of a range, which may end other runs that were HELD, whatever its first one was
            for run_id, _ in self.fold.skipped:
                self.kept.ended(run_id)
        if not verdict.accepted:
            if self.live:
                wanted.ignored[verdict.reason] += 1
            return
        kind = event.kind
        if run is None:
            self._born(event)
            return
        if kind is _PENDING:
            self._released(run, event)
            return
        if kind is _STARTED:
            self.attempts.started(event.worker, event.incarnation, event.run_id)
        elif kind is _SUCCEEDED:
            self.attempts.ended(event.worker, event.run_id)
        self._follow(run, event, wanted)
        if run.state.final:
            self._ended(event.run_id, run, event.at, wanted)
        for run_id, touched in self.fold.touched:  # by an event of a DagRun its nodes, by one of a node its DagRun
            if touched.state.final:
                self._ended(run_id, touched, event.at, wanted)

    def _ended(self, run_id: str, run: OpenRun[Note], at: Instant, wanted: Wanted) -> None:
        self.kept.ended(run_id)
        self.deadlines.forget(run_id)
        if self.live and "/" not in run_id and run.state.status is not RunStatus.SKIPPED:
            hops = run.note.hops if isinstance(run.note, Trail) else 0
            place = self.partition, self.fold.position - 1
            wanted.ends.append(RunEnd(run_id, job_of_run(run_id), run.state.status, at, hops, *place))

    @property
    def has_read_predecessor(self) -> bool:
        """Whether the log was read to where it ended when this process took it over."""
        return self.next_offset >= self.predecessor_to

    def go_live(self) -> None:
        """The fold has reached the offset from which we act. Say what the backlog of a first start wants."""
        self.live = True
        self.attempts.suspect_all()
        if self._settles_backlog:
            self._settles_backlog = False
            self._backlog.update((run_id, False) for run_id, run in self.fold.open.items() if run.state.undecided)

    def take_turns(self, most: int) -> int:
        """Have at most ``most`` of those decided now that wait for their turn; answers how many."""
        turns = list(islice(self._backlog, most))
        for run_id in turns:
            self._undecided.setdefault(run_id, self._backlog.pop(run_id))
        return len(turns)

    def waits_its_turn(self, run_id: str) -> bool:
        """Whether it is to be decided, and was not yet."""
        return run_id in self._backlog

    def take_undecided(self) -> list[Undecided]:
        """The runs that want a verdict now, by what was read up to now: not those that were cancelled meanwhile."""
        if not self._undecided:
            return []
        open_runs = ((run_id, self.fold.open.get(run_id), before) for run_id, before in self._undecided.items())
        found = [
            Undecided(run_id, run.state, trail_of(run.note), before)
            for run_id, run, before in open_runs
            if run is not None and run.state.undecided
        ]
        self._undecided.clear()
        return found

    def ask_again(self, run_id: str) -> None:
        """This run's verdict has not come (the reconciler)."""
        self._backlog[run_id] = True

    def to_commit(self) -> Committed | None:
        """As of any partition that is followed, with the count of repairs; also where nothing but that has changed."""
        told = self.committed
        if super().to_commit() is None and (told is None or parse_repairs(told.metadata) == self.repairs):
            return None
        return self.stand()

    def stand(self) -> Committed:
        """As of any partition that is followed, with the count of repairs."""
        return Committed(self.next_offset, fold_from_text(self.fold.fold_from(), self.repairs))

    def _born(self, event: RunEvent) -> None:
        """A run's first event: nothing is owed yet, but it may come with limits, or with a cause."""
        run = self.fold.open.get(event.run_id)
        if run is not None and isinstance(event.detail, Pending):
            run.note = follow(None, event)
            if run.note is not None:
                self.deadlines.note(event.run_id, run)

    def _released(self, run: OpenRun[Note], event: RunEvent) -> None:
        """A run that was HELD goes out: all its times count from now. While it was held nobody could claim it."""
        run.note = follow(None, event, was_held=True)
        run.first_offset = self.fold.position - 1  # of its PENDING: where its work is looked for
        if run.note is not None:
            self.deadlines.note(event.run_id, run)

    def _follow(self, run: OpenRun[Note], event: RunEvent, wanted: Wanted) -> None:
        kind = event.kind
        if kind in _BADLY_ENDED:
            self.attempts.ended(event.worker, event.run_id)
            run.note = failed(run.note, event)
            if self.live and run.state.undecided:
                self._backlog.pop(event.run_id, None)  # an older attempt's turn: it had its verdict meanwhile
                self._undecided[event.run_id] = False
        elif kind in _GIVEN_UP:
            if self.live and not run.state.is_dag:  # which has no work that could be redriven; its nodes have letters
                wanted.given_up.append(
                    GivenUp(event, run.state.attempt, trail_of(run.note), self.partition, run.first_offset)
                )
        else:
            run.note = follow(run.note, event)
            if isinstance(run.note, Trail):
                self.deadlines.note(event.run_id, run)
