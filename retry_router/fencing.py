"""Ending a silent worker's life: fence first, then say so (design §8, guarantees 2.3).

The init of the worker's transactional id aborts whatever it has open, and its next commit fails; FENCED is written by
the producer that was just initialised, in a transaction of that same id. So once FENCED can be read, nothing of the old
incarnation can land any more. Fencing an innocent is safe: it reads its death on ``leases`` and begins a new life.

How it fails: anything that leaves FENCED in doubt is tried again by the keeper, which judges anew; Fenced means that
somebody else has the id by now (the worker came back, or another keeper was faster), and that decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from waterclock.log.port import Log
from waterclock.model.errors import WaterclockError
from waterclock.model.events import Lease, LeaseKind
from waterclock.model.ids import Instant
from waterclock.transact import Rounds
from waterclock.wire.messages import lease_message
from waterclock.wire.names import Names

WORKER_ROLE = "worker"
"""The role in the transactional ids of workers."""


class Hands(Protocol):
    """Who carries fencings out: a pool of threads, because an init that must abort takes half a second."""

    def submit(self, fence: Callable[[], None], /) -> Future[None]: ...


class OwnHands:
    """Carries each one out at once, in the caller's thread."""

    def submit(self, fence: Callable[[], None], /) -> Future[None]:
        """The future is done when this returns. What is no error of ours is not caught."""
        done: Future[None] = Future()
        try:
            fence()
        except WaterclockError as trouble:
            done.set_exception(trouble)
        else:
            done.set_result(None)
        return done


def fence(log: Log, names: Names, worker: str, by: str, now: Instant) -> None:
    """Init the worker's id, and write FENCED in a transaction of it.

    Raises Fenced, RoundAborted, RoundInDoubt, BackendDown: then the caller judges again.
    """
    rounds = Rounds(log, names.transactional_id(WORKER_ROLE, worker))
    try:
        rounds.open()
        draft = rounds.draft()
        draft.append(lease_message(names, Lease(LeaseKind.FENCED, worker, now, by)))
        rounds.commit(draft)
    finally:
        rounds.close()
