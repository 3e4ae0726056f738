"""One partition of ``heartbeats`` under watch: who was heard when, and who has been silent for too long (pure).

All times are the keeper's own monotonic seconds. What must hold: nobody is called silent who was not watched for a full
lease without a gap of half a lease, so that beats which were late on *our* side are never held against a worker.
"""

from __future__ import annotations

from typing import NamedTuple

_LEASE_MIN_S = 3.0
"""The shortest lease that can be set; a gap of less than half of it harms nobody."""


class _Heard:
    """The last sign of life of a worker's newest incarnation."""

    __slots__ = ("at_s", "incarnation", "lease_s")

    def __init__(self, incarnation: int, lease_s: float, at_s: float) -> None:
        self.incarnation = incarnation
        self.lease_s = lease_s
        self.at_s = at_s


class Asked(NamedTuple):
    """Where the partition ended, as of when that was asked for."""

    end: int
    at_s: float


class Watched:
    """``next_offset``: where reading goes on; ``asked``: an end that it has not come to yet.

    ``default_lease_s``: of a worker whose beats have not named one yet. ``served_s``: when one of its workers was last
    about to be fenced.
    """

    __slots__ = ("_default_lease_s", "_heard", "_read_at_s", "asked", "next_offset", "served_s")

    def __init__(self, start_at: int, now_s: float, default_lease_s: float) -> None:
        self.next_offset = start_at
        self.asked: Asked | None = None
        self.served_s = float("-inf")
        self._default_lease_s = default_lease_s
        self._heard: dict[str, _Heard] = {}
        self._read_at_s = now_s

    def hear(self, worker: str, incarnation: int, lease_s: float, now_s: float) -> None:
        """A beat, or with ``lease_s`` 0 a HELLO. An older incarnation counts for nobody; which one is older, the
        HELLO says: its number may be lower than that of a life before, where ``leases`` was made anew."""
        heard = self._heard.get(worker)
        if heard is None:
            self._heard[worker] = _Heard(incarnation, lease_s or self._default_lease_s, now_s)
        elif incarnation >= heard.incarnation or not lease_s:
            heard.incarnation = incarnation
            heard.lease_s = lease_s or heard.lease_s
            heard.at_s = now_s

    def read_to_end(self, at_s: float) -> None:
        """Everything was read that stood there by then. Who may have beaten while we did not look gets a full lease."""
        gap_s, self._read_at_s = at_s - self._read_at_s, at_s
        if gap_s <= _LEASE_MIN_S / 2:
            return
        for heard in self._heard.values():
            if gap_s > heard.lease_s / 2:
                heard.at_s = max(heard.at_s, at_s)

    def silent(self, at_s: float) -> list[str]:
        """Who was heard, and by then not for a lease."""
        return [worker for worker, heard in self._heard.items() if at_s - heard.at_s > heard.lease_s]

    def incarnation(self, worker: str) -> int:
        """The newest one that was heard of; -1 where none was."""
        heard = self._heard.get(worker)
        return -1 if heard is None else heard.incarnation

    def forget(self, worker: str) -> None:
        """It is dead, and known to be."""
        self._heard.pop(worker, None)
