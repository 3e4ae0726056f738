"""The Executors port: how a claimed attempt reaches user code, and how its end comes back.

What must hold: an attempt handed to ``submit`` comes back from ``take_ended`` exactly once, whatever user code does,
unless ``forget``, ``stop`` or ``withdraw`` came first (then at most once). Nothing here knows Kafka: the round thread
submits only what is committed (design §5, rule 2), and records what has ended in a later round.

Stopping one attempt takes two steps: ``ask``, which user code may heed or not, and ``force``. Whoever stopped it knows
why, and makes the outcome of it (``stopping.py``); here it just ends.

Threads: every method belongs to the round thread. ``python.py`` runs user code elsewhere; the simulation runs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from waterclock.log.port import Outgoing
from waterclock.model.events import Outcome, WorkRecord
from waterclock.model.failure_policy import policy_from_json
from waterclock.model.ids import Instant

from .printed import Printed


@dataclass(slots=True, eq=False)
class Attempt:
    """One claimed try of a run. Compared by identity: two claims of one run are two attempts.

    ``token`` is the fencing token, the ordinal of the STARTED record, and known only once that is committed.
    ``started_at`` is when the claim was made, ``placed_at`` the record time of the work record. ``claim_number``: which
    round of this worker claimed it, counted up (``barrier.py``). ``has_ended``: its end was taken, or made.
    ``is_asked_to_stop`` is set once, and read by user code in its own thread. ``is_in_thread``: it keeps one of the
    threads that nobody can stop; said by that thread, from before its code begins until after its end was put down.
    """

    work: WorkRecord
    started_at: Instant
    token: int = 0
    placed_at: Instant = 0
    printed: Printed | None = None
    claim_number: int = 0
    has_ended: bool = False
    is_asked_to_stop: bool = False
    is_in_thread: bool = False

    @property
    def is_made_with_its_run(self) -> bool:
        """Its work record and its run's beginning are of one transaction, and of one clock."""
        return self.work.attempt == 1 and self.work.verify_from < 0

    @property
    def begun_at(self) -> Instant:
        """An instant before which nothing was said of the run; a retry's record may be placed days after that."""
        return self.placed_at if self.is_made_with_its_run else min(self.placed_at, self.work.due_at)

    @property
    def timeout_us(self) -> int:
        """How long its job lets it run, 0 for no limit; its executor may have a shorter one of its own."""
        return policy_from_json(self.work.policy).attempt_timeout_us if self.work.policy else 0


class EndedAttempt(NamedTuple):
    """How an attempt ended. The texts are bounded and valid UTF-8; ``result`` is JSON, or None where none is kept.

    ``emitted``: records that leave in the very round that records this outcome; only one that SUCCEEDED has any. They
    have passed the checks of an ``Outlet`` and carry their effect ids. ``retry_after_us``: how long its target asked us
    to wait, 0 where it did not. ``has_begun`` False: it is known that nothing was done.
    """

    attempt: Attempt
    outcome: Outcome
    error_class: str = ""
    error_message: str = ""
    error_trace: str = ""
    result: bytes | None = None
    reason: str = ""
    emitted: tuple[Outgoing, ...] = ()
    retry_after_us: int = 0
    has_begun: bool = True


class Executors(Protocol):
    """Runs attempts, many at a time."""

    def submit(self, attempts: Sequence[Attempt]) -> None:
        """Start these; returns at once. The caller holds a worker slot for each."""
        ...

    def take_ended(self) -> list[EndedAttempt]:
        """What has ended since the last call, in no particular order; never waits."""
        ...

    def wait(self, enough: int, timeout_s: float) -> None:
        """Return when ``enough`` ended attempts wait to be taken, or after ``timeout_s``. A fake may return at once."""
        ...

    def allow_until(self, monotonic_s: float) -> None:
        """The lease lets attempts run up to this monotonic instant; past it they are stopped, asked or not, and those
        that can be stopped never come back. Raises LeaseLost where that has begun: then only ``forget`` helps.
        """
        ...

    def ask(self, attempts: Sequence[Attempt]) -> None:
        """Ask these to stop by themselves: a handler reads ``ctx.cancelled``, a program gets SIGTERM. A call to another
        system cannot be asked. Those that have ended already are passed over.
        """
        ...

    def force(self, attempts: Sequence[Attempt]) -> None:
        """Stop these: async handlers and calls are cancelled, a program's group is killed. They come back as ended. A
        sync handler cannot be stopped: it comes back whenever it ends, if ever.
        """
        ...

    def withdraw(self) -> list[Attempt]:
        """Take back those whose user code has not begun; they do not come back as ended."""
        ...

    def forget(self) -> None:
        """Stop what can be stopped and drop what waits. What cannot be stopped may still come back as ended: the
        caller knows that it has forgotten it.
        """
        ...

    def stop(self, grace_s: float) -> None:
        """Forget everything and give up threads; waits at most ``grace_s`` for them."""
        ...
