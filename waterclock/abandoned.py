"""Rounds that members of a group left open when they died, ended by whoever waits for them.

Why: a process that is killed inside a round leaves the positions of its partitions pending. The group gives the
partitions to somebody else once the session is over, but committed positions are answered only when the broker has
ended the transaction: 10 s after it began, and Kafka looks for such ones every 10 s. So up to 20 s of fires waited.
Whoever initialises the dead one's transactional id ends it at once (KIP-98); its own restart would do just that.

What must hold: only ids of members that the group itself has given up are touched, and who comes back to the group has
a new producer before it owns anything (``Rounds.positions``). A member that is merely slow is not fenced; one that was
evicted and wakes up inside a round finds itself fenced, as it would by its own successor, and its process ends. Who was
there is remembered from each take-over: of those that a new process has never met it knows nothing, and waits. How
it fails: BackendDown, and the take-over begins again.
"""

from __future__ import annotations

import structlog

from waterclock.log.port import Log
from waterclock.model.errors import BackendDown, Fenced
from waterclock.transact import Rounds
from waterclock.wire.names import Names

_SEEN_MAX = 1_000

_log = structlog.get_logger()


class Abandoned:
    """Of the group of one role, whose members are named as the slots of their processes; ``instance`` is ours."""

    def __init__(self, log: Log, names: Names, role: str, instance: str) -> None:
        self._log = log
        self._names = names
        self._role = role
        self._group = names.group(role)
        self._instance = instance
        self._seen: set[str] = set()

    def look(self) -> None:
        """Remember who is in the group now: those whom the newest rebalance has given a share."""
        try:
            self._seen |= self._log.members(self._group)
        except BackendDown as down:  # it is no more than a precaution
            _log.info("members of the group not noted", group=self._group, cause=str(down))
        if len(self._seen) > _SEEN_MAX:  # names that change with each process help nobody
            self._seen.clear()

    def end(self) -> None:
        """End what those left open that are not in the group any more. Raises BackendDown."""
        gone = self._seen - self._log.members(self._group) - {self._instance}
        for name in sorted(gone):
            self._end(self._names.transactional_id(self._role, name))
            self._seen.discard(name)

    def _end(self, transactional_id: str) -> None:
        _log.warning("a member that is gone may have left a round open: its id is fenced", id=transactional_id)
        rounds = Rounds(self._log, transactional_id)
        try:
            rounds.open()
        except Fenced:
            pass  # its own successor was quicker
        finally:
            rounds.close()
