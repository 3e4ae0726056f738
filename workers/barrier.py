"""The control barrier: what a worker must have read before a handler's records may leave (design §7).

Why: a run can be cancelled after it was handed out and before it is claimed. Its STARTED is then not accepted, and
nothing that its handler emitted may ever be seen. Whoever cancels writes to ``control`` before it writes to run-events;
so of a cancel that stands before a claim, the record on ``control`` stands below the end of its partition as of any
moment after that claim was committed.

What must hold: an attempt has passed once ``control`` was read, committed records, to the *high watermark* of the run's
partition, taken after the round that claimed it had landed. Never to the last stable offset: somebody's open
transaction would hide the cancel behind it. A mark counts for every attempt that was claimed before it was taken, so a
round needs at most one for a partition, and only where records wait: who emits nothing costs nothing. A question costs
about 1 ms, so a turn asks at most ``MARKS_MAX`` of them, for those that have waited longest.

How it fails: BackendDown where the log does not answer; a mark is taken anew where ``control`` is read from its
beginning again. An open transaction on ``control`` keeps emitted records back, at most until it times out; everything
else goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from waterclock.log.port import TopicPartition

from .control import ControlTail
from .executors.port import Attempt

MARKS_MAX = 8


class _Mark(NamedTuple):
    """The end of a partition as of when ``claims`` rounds with claims had landed; ``beginnings``: of the reading."""

    claims: int
    end: int
    beginnings: int


class ControlBarrier:
    """Marks of one worker. It asks for ends; reading on is its owner's affair."""

    def __init__(self, control: ControlTail) -> None:
        self._control = control
        self._claims = 0
        self._open: dict[TopicPartition, _Mark] = {}
        self._passed: dict[TopicPartition, int] = {}

    def claimed(self, attempts: Iterable[Attempt]) -> None:
        """The round that claimed these has landed."""
        self._claims += 1
        for attempt in attempts:
            attempt.claim_number = self._claims

    def look(self, waiting: Iterable[Attempt]) -> None:
        """Take the marks that these, oldest first, need, and see which were reached. Raises BackendDown."""
        wanted: dict[TopicPartition, int] = {}
        for attempt in waiting:
            partition = self._control.partition_of(attempt)
            wanted[partition] = max(wanted.get(partition, 0), attempt.claim_number)
        asked = 0
        for partition, claim_number in wanted.items():
            # A mark that is not reached yet is not taken anew, or it would run ahead of the reader for ever.
            self._reach(partition)
            passed = self._passed.get(partition, 0) >= claim_number
            if not passed and partition not in self._open and asked < MARKS_MAX:
                asked += 1
                self._open[partition] = self._marked(partition)
                self._reach(partition)

    def passed(self, attempt: Attempt) -> bool:
        """Whether all that had to be read for this attempt was read."""
        return self._passed.get(self._control.partition_of(attempt), 0) >= attempt.claim_number

    def _marked(self, partition: TopicPartition) -> _Mark:
        return _Mark(self._claims, self._control.end_of(partition), self._control.beginnings)

    def _reach(self, partition: TopicPartition) -> None:
        mark = self._open.get(partition)
        if mark is None:
            return
        if mark.beginnings != self._control.beginnings:  # a topic that was made anew may never come to that end
            del self._open[partition]
        elif self._control.position(partition) >= mark.end:
            self._passed[partition] = mark.claims
            del self._open[partition]
