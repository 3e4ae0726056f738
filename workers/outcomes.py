"""From an ended attempt to its outcome on run-events, and the outbox in which outcomes wait for their round.

What must hold: an outcome leaves the outbox when its round has landed and not before; it survives aborts, doubt and
rebalances, because it stands under the lease and not under a partition. What ended after its attempt was forgotten is
dropped: its incarnation is dead, and the arbiter would refuse it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from waterclock.log.port import Outgoing
from waterclock.model.events import Ended, EventKind, Outcome, RunEvent
from waterclock.model.ids import Instant
from waterclock.wire.messages import event_message
from waterclock.wire.names import Names

from .executors.port import Attempt, EndedAttempt
from .slots import Slots

_KINDS = {
    Outcome.SUCCEEDED: EventKind.ATTEMPT_SUCCEEDED,
    Outcome.FAILED: EventKind.ATTEMPT_FAILED,
    Outcome.TIMED_OUT: EventKind.ATTEMPT_TIMED_OUT,
    Outcome.CANCELLED: EventKind.ATTEMPT_CANCELLED,
}


class Unsent(NamedTuple):
    """An outcome that no landed round has carried yet."""

    attempt: Attempt
    message: Outgoing


class Outbox:
    """Outcomes waiting for their round; at most as many as there are worker slots."""

    def __init__(self, names: Names, worker: str, slots: Slots) -> None:
        self._names = names
        self._worker = worker
        self._slots = slots
        self.waiting: list[Unsent] = []

    def put(self, ended: Iterable[EndedAttempt], now: Instant, incarnation: int) -> None:
        """Write the outcomes of these, once: a round that fails sends the same bytes again."""
        names, worker, holds = self._names, self._worker, self._slots.holds
        for end in ended:
            if holds(end.attempt):
                event = outcome_event(end, now, worker, incarnation)
                self.waiting.append(Unsent(end.attempt, event_message(names, event)))

    def landed(self) -> None:
        """Everything that waited is committed."""
        self._slots.release(unsent.attempt for unsent in self.waiting)
        self.waiting = []

    def clear(self) -> None:
        """Forget all: the incarnation that ran them is over."""
        self.waiting = []


def outcome_event(ended: EndedAttempt, now: Instant, worker: str, incarnation: int) -> RunEvent:
    """The outcome of one attempt, under the token of its claim."""
    attempt = ended.attempt
    work = attempt.work
    return RunEvent(
        _KINDS[ended.outcome],
        work.job_id,
        work.run_id,
        now,
        work.attempt,
        worker,
        incarnation,
        attempt.token,
        ended.reason,
        Ended(attempt.started_at, ended.error_class, ended.error_message, ended.error_trace, ended.result),
    )
