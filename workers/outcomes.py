"""From an ended attempt to its outcome on run-events, and the outbox in which outcomes wait for their round.

What must hold:

* an outcome leaves the outbox when its round has landed and not before, and with it, in the same round, every record
  that its handler emitted; it survives aborts, doubt and rebalances, because it stands under the lease and not under a
  partition. What ended after its attempt was forgotten is dropped: its incarnation is dead, and the arbiter would
  refuse it;
* emitted records, with their outcome, wait until their attempt is behind the control barrier (``attempts.py``), and
  are dropped with it where its claim turns out not to count;
* a round carries at most 8 MiB of outcomes and emitted records, and at least one outcome where one waits. After one
  that did not land it carries a quarter of it, for its bytes may be why: made again as it was it would cost the lease;
* one bad record takes nobody else down (design §5, rule 7). A round that carried emitted records and did not land is
  made again without them. They then ride apart, without claims and positions, in groups that are halved until the one
  that never lands is alone: that run fails, with the reason, and nothing that it emitted was sent.

How it fails: an innocent run whose records ride apart and meet three troubles in a row fails as well (EmitRefused).
Nothing of it was sent, so it may be tried again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

import structlog

from waterclock.log.port import Log, Outgoing, TopicPartition
from waterclock.model.errors import BackendDown, EmitRefused, NotFound
from waterclock.model.events import Ended, EventKind, Outcome, RunEvent
from waterclock.model.ids import Instant
from waterclock.wire.messages import event_message
from waterclock.wire.names import Names

from .executors import ending
from .executors.emitting import size_of
from .executors.port import Attempt, EndedAttempt
from .slots import Slots

ROUND_BYTES_MAX = 8 * 1024 * 1024
_ROUND_BYTES_LEAST = 64 * 1024
_SMALLER, _SLOWLY = 4, 8
"""A quarter at once: three quarters of a lease leave time for few tries. An eighth more for each that lands."""
_STRIKES_MAX = 3
_TOPICS_ASKED_MAX = 100

_KINDS = {
    Outcome.SUCCEEDED: EventKind.ATTEMPT_SUCCEEDED,
    Outcome.FAILED: EventKind.ATTEMPT_FAILED,
    Outcome.TIMED_OUT: EventKind.ATTEMPT_TIMED_OUT,
    Outcome.CANCELLED: EventKind.ATTEMPT_CANCELLED,
}

logger = structlog.get_logger()


@dataclass(slots=True, eq=False)
class Unsent:
    """An outcome that no landed round has carried yet. ``strikes``: how often it rode alone in vain."""

    ended: EndedAttempt
    message: Outgoing
    size: int
    strikes: int = 0


class Gate(Protocol):
    """Says when what a handler emitted may leave."""

    def look_at_barrier(self, waiting: Iterable[Attempt]) -> None:
        """These wait. Raises BackendDown."""
        ...

    def may_emit(self, attempt: Attempt) -> bool:
        """Whether the records of this one may leave now."""
        ...


class Outbox:
    """Outcomes waiting for their round; at most as many as there are worker slots."""

    def __init__(self, log: Log, names: Names, worker: str, slots: Slots, gate: Gate) -> None:
        self._log = log
        self._gate = gate
        self._behind_gate: list[Unsent] = []
        self._names = names
        self._worker = worker
        self._slots = slots
        self._waiting: list[Unsent] = []
        self._apart: list[list[Unsent]] = []
        self._apart_is_next = False
        self._bytes_max = ROUND_BYTES_MAX
        self.riding: list[Unsent] = []
        self.rides_apart = False
        """The round in hand carries suspects: no claims, no positions, nothing of anybody else."""

    def put(self, ended: Iterable[EndedAttempt], now: Instant, incarnation: int) -> None:
        """Write the outcomes of these, once: a round that fails sends the same bytes again."""
        holds = self._slots.holds
        for end in ended:
            if holds(end.attempt):
                place = self._behind_gate if end.emitted else self._waiting
                place.append(self._written(end, now, incarnation))

    def ride(self) -> int:
        """Choose what the next round carries (``riding``); answers how many worker slots that will free.

        Raises BackendDown.
        """
        if self._behind_gate:
            self._let_pass()
        self.rides_apart = bool(self._apart) and self._apart_is_next
        self._apart_is_next = not self.rides_apart
        self.riding = self._apart[-1] if self.rides_apart else _that_fit(self._waiting, self._bytes_max)
        stuck = self._slots.stuck_count and sum(self._slots.is_stuck(unsent.ended.attempt) for unsent in self.riding)
        return len(self.riding) - stuck

    def messages(self) -> list[Outgoing]:
        """The records of what rides: each outcome, followed by what its handler emitted."""
        found = []
        for unsent in self.riding:
            found.append(unsent.message)
            found.extend(unsent.ended.emitted)
        return found

    @property
    def carries_emitted(self) -> bool:
        """Whether somebody's records beside our own are in the round."""
        return any(unsent.ended.emitted for unsent in self.riding)

    def landed(self) -> None:
        """Everything that rode is committed."""
        self._slots.release(unsent.ended.attempt for unsent in self.riding)
        self._bytes_max = min(ROUND_BYTES_MAX, self._bytes_max + self._bytes_max // _SLOWLY)
        if self.rides_apart:
            self._apart.pop()
        else:
            del self._waiting[: len(self.riding)]
        self._step_off()

    def not_landed(self, why: str, now: Instant, incarnation: int) -> None:
        """Nothing that rode is committed. Who emitted records is suspect, and rides apart from now on."""
        self._apart_is_next = False
        if self.riding:
            rode = min(self._bytes_max, sum(unsent.size for unsent in self.riding))
            self._bytes_max = max(_ROUND_BYTES_LEAST, rode // _SMALLER)
        suspects = [unsent for unsent in self.riding if unsent.ended.emitted]
        if not suspects:
            self._step_off()
            return
        if self.rides_apart:
            self._apart.pop()
        else:
            suspected = set(suspects)
            self._waiting = [unsent for unsent in self._waiting if unsent not in suspected]
        missing = self._missing_topics({record.topic for unsent in suspects for record in unsent.ended.emitted})
        left = []
        for unsent in suspects:
            reason = self._guilt(unsent, why, missing, alone=self.rides_apart and len(suspects) == 1)
            if reason:
                self._refuse(unsent, reason, now, incarnation)
            else:
                left.append(unsent)
        if left:
            # At the front: whoever is in trouble again lets the others pass.
            self._apart[:0] = _halves(left) if self.rides_apart else [left]
        self._step_off()

    def clear(self) -> None:
        """Forget all: the incarnation that ran them is over."""
        self._waiting, self._apart, self._behind_gate = [], [], []
        self._step_off()

    def _let_pass(self) -> None:
        held = [unsent for unsent in self._behind_gate if self._slots.holds(unsent.ended.attempt)]
        self._gate.look_at_barrier(unsent.ended.attempt for unsent in held)
        self._behind_gate = []
        for unsent in held:
            place = self._waiting if self._gate.may_emit(unsent.ended.attempt) else self._behind_gate
            place.append(unsent)

    def _step_off(self) -> None:
        self.riding, self.rides_apart = [], False

    def _written(self, ended: EndedAttempt, now: Instant, incarnation: int) -> Unsent:
        message = event_message(self._names, outcome_event(ended, now, self._worker, incarnation))
        size = len(message.value or b"")
        if ended.emitted:
            size += sum(map(size_of, ended.emitted))
        return Unsent(ended, message, size)

    def _guilt(self, unsent: Unsent, why: str, missing: Collection[str], *, alone: bool) -> str:
        """Why this run's records can never leave; "" while that is not known."""
        gone = next((record.topic for record in unsent.ended.emitted if record.topic in missing), "")
        if gone:
            return f"the topic {gone} is gone: what was emitted to it could not be sent"
        unsent.strikes += alone
        return f"what was emitted could not be sent: {why}" if unsent.strikes >= _STRIKES_MAX else ""

    def _refuse(self, unsent: Unsent, reason: str, now: Instant, incarnation: int) -> None:
        attempt = unsent.ended.attempt
        logger.warning("emitted_records_refused", worker=self._worker, run_id=attempt.work.run_id, why=reason)
        self._waiting.append(self._written(ending.failed(attempt, EmitRefused(reason)), now, incarnation))

    def _missing_topics(self, topics: Collection[str]) -> set[str]:
        """Which of these are gone. A broker that does not answer has not denied any."""
        missing: set[str] = set()
        for topic in sorted(topics)[:_TOPICS_ASKED_MAX]:
            try:
                self._log.low_watermark(TopicPartition(topic, 0))
            except NotFound:
                missing.add(topic)
            except BackendDown:
                break
        return missing


def _that_fit(waiting: list[Unsent], room: int) -> list[Unsent]:
    for count, unsent in enumerate(waiting):
        room -= unsent.size
        if room < 0 and count:
            return waiting[:count]
    return waiting[:]


def _halves(group: list[Unsent]) -> list[list[Unsent]]:
    middle = len(group) // 2
    return [half for half in (group[:middle], group[middle:]) if half]


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
        Ended(
            attempt.started_at,
            ended.error_class,
            ended.error_message,
            ended.error_trace,
            ended.result,
            len(ended.emitted),
            ended.retry_after_us,
        ),
    )
