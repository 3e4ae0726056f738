"""What becomes of attempts from their claim to their end: read back, run, cancelled, timed out, handed back.

The round thread's view of everything that is held. What must hold (design §7):

* user code of a claim that must be verified, or whose run ``control`` names, begins only after its STARTED was read
  back as accepted, with no cancel on file; what is not accepted is stopped and dropped without a record;
* what ``control`` says decides nothing by itself: that a run has expired is ignored once the claim counts; a cancel on
  file, and that the node's DagRun is over its time, stops the attempt, asked first and forced after the grace;
* what a handler emitted leaves only behind the control barrier, and never while the log is being asked about its claim.

How it fails: BackendDown where the log does not answer; all goes on at the next turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import structlog

from waterclock.clock import Clock
from waterclock.log.port import Log
from waterclock.model.ids import Instant
from waterclock.wire.names import Names

from .barrier import ControlBarrier
from .control import ControlTail
from .executors.port import Attempt, EndedAttempt, Executors
from .read_back import ReadBack
from .reading import Answer
from .slots import Slots
from .stopping import Stops, Why, stopped
from .timeouts import Timeouts

logger = structlog.get_logger()


class Attempts:
    """Everything that ``slots`` hold. ``generation``: that of run-events; ``cancel_grace_s``: between ask and force."""

    def __init__(
        self,
        clock: Clock,
        log: Log,
        names: Names,
        executors: Executors,
        slots: Slots,
        *,
        generation: int = 0,
        cancel_grace_s: float = 10.0,
    ) -> None:
        self._executors = executors
        self._slots = slots
        self._control = ControlTail(log, names.control)
        self._barrier = ControlBarrier(self._control)
        self._read_back = ReadBack(log, names.run_events, generation)
        self._stops = Stops(executors, clock, cancel_grace_s)
        self._timeouts = Timeouts(clock, slots)
        # In the order in which they are asked about, and handed back; a set has another one in each process.
        self._unbegun: dict[Attempt, None] = {}
        self._behind_barrier: set[Attempt] = set()
        self._ended: list[EndedAttempt] = []
        self._hands_back = False
        self.dropped_count = 0
        """Claims that did not count."""

    def prepare(self) -> None:
        """Before the first claim of an incarnation: know every cancel there is. Raises BackendDown."""
        self._control.catch_up()

    def begin(self, claims: Sequence[Attempt]) -> None:
        """The round that claimed these has landed: they run, or are read back first."""
        self._slots.hold(claims)
        self._barrier.claimed(claims)
        if self._hands_back:
            # Claimed by a round that was in doubt when the shutting down began.
            for attempt in claims:
                self._end(stopped(attempt, Why.DRAINED))
            return
        named = [attempt for attempt in claims if self._control.names(attempt)]
        doubtful = [attempt for attempt in claims if attempt.work.at_most_once or attempt.work.verify_from >= 0]
        if not named and not doubtful:
            self._run(claims)
            return
        self._read_back.ask(doubtful, to_end=False)
        self._read_back.ask(named, to_end=True)
        self._unbegun.update(dict.fromkeys((*doubtful, *named)))
        self._run([attempt for attempt in claims if attempt not in self._unbegun])

    def tend(self) -> None:
        """Read on, act on what was read, stop what must stop. Raises BackendDown."""
        named = self._control.look()
        if named:
            self._ask_about(named)
        for answer in self._read_back.look():
            self._heed(answer)
        self._stops.ask((attempt for attempt in self._timeouts.over() if not attempt.has_ended), Why.TIMED_OUT)
        for attempt in self._stops.tick():
            self._give_up(attempt)

    def take_ended(self) -> list[EndedAttempt]:
        """What has ended since the last call, with the outcome that is to be recorded."""
        self._slots.look_behind()
        ended = self._executors.take_ended()
        if self._slots.stuck_count:
            ended = [end for end in ended if not self._is_unstuck(end.attempt)]
        found = self._stops.ended(ended)
        if self._ended:
            found = [*self._ended, *found]
            self._ended = []
        for end in found:
            end.attempt.has_ended = True
            if end.emitted and self._slots.holds(end.attempt):
                self._behind_barrier.add(end.attempt)
        return found

    def look_at_barrier(self, waiting: Iterable[Attempt]) -> None:
        """These wait with emitted records. Raises BackendDown."""
        self._barrier.look(waiting)

    def may_emit(self, attempt: Attempt) -> bool:
        """Whether what its handler emitted may leave now."""
        may = self._barrier.passed(attempt) and not self._read_back.asks(attempt)
        if may:
            self._behind_barrier.discard(attempt)
        return may

    # -- shutting down --------------------------------------------------------------------------------------------

    def hand_back_unbegun(self) -> None:
        """What was claimed and has not begun is handed back at once, now and from now on."""
        self._hands_back = True
        for attempt in (*self._executors.withdraw(), *self._unbegun):
            self._read_back.drop(attempt)
            self._stops.drop(attempt)
            self._end(stopped(attempt, Why.DRAINED))
        self._unbegun.clear()

    def stop_all(self, grace_s: float) -> None:
        """Ask what still runs to stop, and force it ``grace_s`` later; what has ended by then is handed back."""
        self._stops.ask((attempt for attempt in self._slots.held() if not attempt.has_ended), Why.DRAINED, grace_s)

    # -- the end of an incarnation --------------------------------------------------------------------------------

    def forget(self) -> None:
        """This incarnation is dead: stop what can be stopped, and know nothing of it any more.

        Threads that are busy with it are not free for the next one: it claims so many fewer until they are.
        """
        # Asked before it is forgotten: what a thread takes from the queue meanwhile is not called, and keeps no thread.
        self._executors.ask(self._slots.held())
        self._executors.forget()
        self._read_back.clear()
        self._stops.clear()
        self._timeouts.clear()
        self._unbegun.clear()
        self._behind_barrier.clear()
        self._ended.clear()
        self._slots.clear()
        if self._slots.left_behind_count:
            logger.warning("threads_left_behind", threads=self._slots.left_behind_count, slots=self._slots.capacity)

    def close(self) -> None:
        """Close the readers."""
        self._control.close()
        self._read_back.close()

    # -- parts ----------------------------------------------------------------------------------------------------

    def _run(self, attempts: Sequence[Attempt]) -> None:
        if attempts:
            self._timeouts.watch(attempts)
            self._executors.submit(attempts)

    def _heed(self, answer: Answer) -> None:
        attempt = answer.attempt
        begun = attempt not in self._unbegun
        self._unbegun.pop(attempt, None)
        if not self._slots.holds(attempt):
            return
        if not answer.accepted:
            self._drop(attempt, begun=begun)
        elif not begun:
            if answer.ends_for is not None:
                self._end(stopped(attempt, answer.ends_for))
            else:
                self._run([attempt])
        elif answer.ends_for is not None and not attempt.has_ended:
            self._stops.ask([attempt], answer.ends_for, 0.0 if self._control.is_hard(attempt) else None)

    def _drop(self, attempt: Attempt, *, begun: bool) -> None:
        """Its claim does not count, and nothing is said of it: whoever's does speaks for the run."""
        logger.warning("claim_not_accepted", run_id=attempt.work.run_id, attempt=attempt.work.attempt, begun=begun)
        self.dropped_count += 1
        if begun and not attempt.has_ended:
            self._slots.stick(attempt)
            self._stops.ask([attempt], Why.NOT_OURS)
        elif begun and attempt not in self._behind_barrier:
            return  # its outcome is on its way, with nothing else: the arbiter ignores it
        self._behind_barrier.discard(attempt)
        self._slots.release([attempt])

    def _give_up(self, attempt: Attempt) -> None:
        """It would not end by force: its outcome is recorded, and its slot stays taken until its code has ended."""
        outcome = self._stops.outcome_of(attempt)
        if outcome is None:
            return
        logger.warning("attempt_does_not_stop", run_id=attempt.work.run_id, attempt=attempt.work.attempt)
        self._stops.drop(attempt)
        self._slots.stick(attempt)
        self._end(outcome)

    def _end(self, outcome: EndedAttempt) -> None:
        """An end that no executor reports."""
        outcome.attempt.has_ended = True
        self._ended.append(outcome)

    def _is_unstuck(self, attempt: Attempt) -> bool:
        """Whether this was the late end of one of which all is said: its slot is free then."""
        stuck = self._slots.unstick(attempt)
        if stuck:
            self._stops.drop(attempt)
        return stuck

    def _ask_about(self, named: Mapping[str, Instant]) -> None:
        unbegun = []
        for attempt in self._concerned(named):
            if attempt in self._unbegun:
                unbegun.append(attempt)
                continue
            run_id = attempt.work.run_id
            told_at = [named[each] for each in (run_id, run_id.partition("/")[0]) if each in named]
            self._read_back.ask_running(attempt, min(told_at))
        self._read_back.ask(unbegun, to_end=True)

    def _concerned(self, named: Iterable[str]) -> Iterator[Attempt]:
        """What a cancel of these may still change: whatever runs, and what waits with emitted records."""
        for attempt in self._slots.held_of(named):
            if not attempt.has_ended or attempt in self._behind_barrier:
                yield attempt
