"""The faults that a test or the simulation can plan: what becomes of a commit, and a crash at any port call.

Why: the guarantees are about what happens when an answer is lost, so losing answers must be as easy as giving them.
Must hold: deterministic; a fault happens because a queue or a callback said so, never by chance or by time. Without
a plan nothing fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum


class CommitFate(Enum):
    """What becomes of one EndTxn(commit) request and of its answer."""

    LANDS = "lands"
    """It is applied and answered."""
    UNANSWERED = "applied, the answer is lost"
    """The round stands, the producer sees RoundInDoubt."""
    LOST = "never arrives"
    """RoundInDoubt; the transaction stays open until its time-out or the next ``init`` of its id."""
    DELAYED = "arrives later"
    """RoundInDoubt; the request waits in the network until ``Coordinator.deliver`` (no KIP-890: it may then end the
    transaction that is open at that time, if the producer's epoch is still the same)."""
    DOUBLED = "applied and answered, and a copy arrives later"
    """The client retried by itself: commit returns, the producer is ``dirty``, the first copy is still on its way."""
    ABORTS = "refused"
    """RoundAborted: the producer must abort, and is usable after it."""


class Killed(BaseException):
    """A client that was killed was called again. No error of ours may catch it: a dead process runs no handlers."""


class Faults:
    """The plan. ``on_call`` and ``on_commit`` belong to the simulation; ``next_commit`` is for single tests.

    ``on_call(client_id, operation)`` runs at every port call, before its effect (``close`` excepted), and may raise;
    operation ``commit landed`` comes after the effect of a commit and before its answer. ``on_commit`` is asked where
    no fate was queued. ``on_poll`` is told how many records a poll may bring, and answers as many or fewer, as a slow
    fetch would. ``lets_dirty_producers_begin`` plants the bug of a client that is not replaced after doubt.
    """

    def __init__(self) -> None:
        self.on_call: Callable[[str, str], None] | None = None
        self.on_commit: Callable[[str], CommitFate] | None = None
        self.on_poll: Callable[[int], int] | None = None
        self.lets_dirty_producers_begin = False
        self._queued: dict[str, deque[CommitFate]] = {}

    def fetched(self, asked: int) -> int:
        """How many records a poll brings at most."""
        return asked if self.on_poll is None else self.on_poll(asked)

    def next_commit(self, transactional_id: str, fate: CommitFate) -> None:
        """Queue what becomes of the next commit (or the one after those queued already) of this id."""
        self._queued.setdefault(transactional_id, deque()).append(fate)

    def fate_of(self, transactional_id: str) -> CommitFate:
        """Taken by the producer, once for each commit request."""
        queued = self._queued.get(transactional_id)
        if queued:
            return queued.popleft()
        return self.on_commit(transactional_id) if self.on_commit is not None else CommitFate.LANDS
