"""Rounds that members of a group left open when they died, ended by whoever waits for them.

Why: a process that is killed inside a round leaves the positions of its partitions pending. The group gives the
partitions to somebody else once the session is over, but committed positions are answered only when the broker has
ended the transaction: 10 s after it began, and Kafka looks for such ones every 10 s. So up to 20 s of fires waited.
Killed between its records and its positions it leaves none pending, but hides for as long what stands behind those
records: from take-overs, which read state topics to their end, and from whoever follows run-events or commands. Whoever
initialises the dead one's transactional id ends it at once (KIP-98); its own restart would do just that.

What must hold: only ids of members that the group itself has given up are touched, and who comes back to the group has
a new producer before it owns anything (``Rounds.positions``). A member that is merely slow is not fenced; one that was
evicted and wakes up inside a round finds itself fenced, as it would by its own successor, and its process ends. Who was
there is remembered from each take-over: of those that a new process has never met it knows nothing, and waits.

Nobody is fenced merely for having left, but where positions are held back, or where a transaction that was open before
a take-over asked for them is open behind that, as the rounds of the living mostly are not. Of one that is, the gone are
fenced although it is not theirs: that costs an init each, 0.05 s or ten times that, and each of them once. How it
fails: BackendDown where positions are held back, and the take-over begins again; else what is open is waited for.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from waterclock.log.port import Log, TopicPartition
from waterclock.model.errors import BackendDown, Fenced
from waterclock.transact import Rounds
from waterclock.wire.names import ROLES_WITH_STATE, Names

_SEEN_MAX = 1_000
_WRITES_EVENTS = frozenset({"dispatcher", "retry-router", "dag-engine"})
_WRITES_COMMANDS = frozenset({"dispatcher", "retry-router", "intake"})

_log = structlog.get_logger()


class Abandoned:
    """Of the group of one role, whose members are named as the slots of their processes; ``instance`` is ours."""

    def __init__(self, log: Log, names: Names, role: str, instance: str) -> None:
        self._log = log
        self._names = names
        self._role = role
        self._group = names.group(role)
        self._instance = instance
        self._written = _written(names, role)
        self._seen: set[str] = set()
        self._gone: set[str] = set()
        """Who had left when it was looked last."""

    def look(self) -> Mapping[TopicPartition, int]:
        """Remember who is in the group now: those whom the newest rebalance has given a share.

        Where somebody has left it that was there before: in which partitions a transaction is open, and from where.
        """
        self._gone = set()
        try:
            members = self._log.members(self._group)
            self._gone = self._seen - members - {self._instance}
            self._seen |= members
            if len(self._seen) > _SEEN_MAX:  # names that change with each process help nobody
                self._seen.clear()
            return self._log.open_from(self._written) if self._gone else {}
        except BackendDown as down:  # it is no more than a precaution
            _log.info("members of the group not noted", group=self._group, cause=str(down))
            return {}

    def end_where_open(self, seen: Mapping[TopicPartition, int]) -> bool:
        """After positions were told: end what those left open that are gone, if one of the transactions that ``look``
        saw has not ended since. Whether anything was ended; if not, and nothing is open, they are forgotten."""
        try:
            now = self._log.open_from(sorted({place.topic for place in seen})) if seen else {}
            if any(now.get(place) == offset for place, offset in seen.items()):
                self.end()
                return True
        except BackendDown as down:  # the positions are known: what is open is waited for, as if nobody had looked
            _log.warning("rounds that were left open not ended", group=self._group, cause=str(down))
            return False
        self._seen -= self._gone
        return False

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


def _written(names: Names, role: str) -> list[str]:
    """Where a round of this role leaves a record, if it leaves any that somebody waits behind. Only what it writes
    itself: brokers with access control tell it of nothing else."""
    state = [names.state(role)] if role in ROLES_WITH_STATE else []
    events = [names.run_events] if role in _WRITES_EVENTS else []
    return [*state, *events, *([names.commands] if role in _WRITES_COMMANDS else [])]
