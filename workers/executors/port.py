"""The Executors port: how a claimed attempt reaches user code, and how its end comes back.

What must hold: an attempt handed to ``submit`` comes back from ``take_ended`` exactly once, whatever user code does,
unless ``forget`` or ``stop`` came first (then at most once). Nothing here knows Kafka: the round thread submits only
what is committed (design §5, rule 2), and records what has ended in a later round.

Threads: every method belongs to the round thread. ``python.py`` runs user code elsewhere; the simulation runs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from waterclock.log.port import Outgoing
from waterclock.model.events import Outcome, WorkRecord
from waterclock.model.ids import Instant

from .printed import Printed


@dataclass(slots=True, eq=False)
class Attempt:
    """One claimed try of a run. Compared by identity: two claims of one run are two attempts.

    ``token`` is the fencing token, the ordinal of the STARTED record, and known only once that is committed.
    ``started_at`` is when the claim was made, ``placed_at`` the record time of the work record. ``printed``: what its
    code has printed, None while that is nothing.
    """

    work: WorkRecord
    started_at: Instant
    token: int = 0
    placed_at: Instant = 0
    printed: Printed | None = None


class EndedAttempt(NamedTuple):
    """How an attempt ended. The texts are bounded and valid UTF-8; ``result`` is JSON, or None where none is kept.

    ``emitted``: records that leave in the very round that records this outcome; only one that SUCCEEDED has any. They
    have passed the checks of an ``Outlet`` and carry their effect ids.
    """

    attempt: Attempt
    outcome: Outcome
    error_class: str = ""
    error_message: str = ""
    error_trace: str = ""
    result: bytes | None = None
    reason: str = ""
    emitted: tuple[Outgoing, ...] = ()


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
        """The lease lets attempts run up to this monotonic instant; past it they are stopped, asked or not."""
        ...

    def forget(self) -> None:
        """Stop what can be stopped and drop what waits. What cannot be stopped may still come back as ended: the
        caller knows that it has forgotten it.
        """
        ...

    def stop(self, grace_s: float) -> None:
        """Forget everything and give up threads; waits at most ``grace_s`` for them."""
        ...
