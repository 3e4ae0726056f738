"""Claims of at-most-once runs: read back from the log, and run only where the arbiter has accepted them.

A claim that landed is not yet a claim that counts: after a torn round or a lost position a work record is claimed
twice, and the second STARTED is ignored by everybody. Ordinary runs bear that (their effect carries key and fence). A
run that must happen once or never does not: its attempt waits here until its own STARTED was read, committed, and the
fold of its job's events says that it opened the attempt. What was not accepted is dropped without a word: the one that
was accepted speaks for the run.

What must hold: nothing is decided before the log was read from before the run's PENDING to the STARTED. Where to begin:
PENDING and work record are of one transaction, so of about one time; offsets are asked for by time, with a margin.

How it fails: LostResource and BackendDown, and it goes on where it stood at the next turn; somebody's open transaction
makes it wait. The round thread is never held up: each turn reads a bounded slice.
"""

from __future__ import annotations

from typing import NamedTuple

import structlog

from waterclock.log.port import Isolation, Log, Reader, Record, TopicPartition
from waterclock.model.errors import RequestError
from waterclock.model.fold import Fold
from waterclock.model.ids import US_PER_S, offset_of, partition_of
from waterclock.wire.codec import decode_event

from .executors.port import Attempt
from .slots import Slots

_SLICE_RECORDS = 5_000
_MARGIN_US = 10 * US_PER_S

logger = structlog.get_logger()


class _Claim(NamedTuple):
    """A claim that waits: where its STARTED stands."""

    place: TopicPartition
    attempt: Attempt

    @property
    def offset(self) -> int:
        return offset_of(self.attempt.token)


class ReadBack:
    """At most as many claims as there are ``slots``. ``generation`` is that of run-events, for the tokens."""

    def __init__(self, log: Log, run_events: str, generation: int, slots: Slots) -> None:
        self._log = log
        self._topic = run_events
        self._generation = generation
        self._slots = slots
        self._partitions = log.partitions(run_events)
        self._reader: Reader | None = None
        self._queue: list[_Claim] = []
        self._reading: dict[TopicPartition, dict[int, Attempt]] = {}
        self._folds: dict[TopicPartition, Fold[None]] = {}
        self._jobs: set[bytes] = set()
        self._accepted: set[Attempt] = set()

    def hold_back(self, claims: list[Attempt]) -> list[Attempt]:
        """Those of these, landed under their tokens, that may run at once; the others come out of ``look``."""
        if not any(attempt.work.at_most_once for attempt in claims):
            return claims
        for attempt in claims:
            if attempt.work.at_most_once:
                place = TopicPartition(self._topic, partition_of(attempt.work.job_id, self._partitions))
                self._queue.append(_Claim(place, attempt))
        return [attempt for attempt in claims if not attempt.work.at_most_once]

    def look(self) -> list[Attempt]:
        """Read on: the claims that were found to count. Frees the slots of the others. Raises BackendDown."""
        if not self._reading:
            if not self._queue:
                return []
            self._begin()
        assert self._reader is not None, "made where reading begins"
        for record in self._reader.poll(_SLICE_RECORDS, 0.0):
            self._fold(record)
        found: list[Attempt] = []
        for place, claims in list(self._reading.items()):
            if self._reader.position(place) > max(claims):
                found += claims.values()
                del self._reading[place]
        dropped = [attempt for attempt in found if attempt not in self._accepted]
        self._slots.release(dropped)
        for attempt in dropped:
            logger.warning("claim_not_accepted", run_id=attempt.work.run_id, attempt=attempt.work.attempt)
        return [attempt for attempt in found if attempt in self._accepted]

    def clear(self) -> None:
        """Forget all: the incarnation that claimed them is over."""
        self._queue.clear()
        self._reading.clear()

    def close(self) -> None:
        """Give the reader up."""
        if self._reader is not None:
            self._reader.close()

    def _begin(self) -> None:
        """All that wait now are read back together; what is asked meanwhile waits for the next time."""
        if self._reader is None:
            self._reader = self._log.reader(Isolation.COMMITTED)
        starts: dict[TopicPartition, int] = {}
        for place in sorted({claim.place for claim in self._queue}):
            since = min(claim.attempt.placed_at for claim in self._queue if claim.place == place)
            first = min(claim.offset for claim in self._queue if claim.place == place)
            starts[place] = min(self._log.offset_at(place, since - _MARGIN_US), first)
        self._reader.assign(starts)
        self._accepted.clear()
        self._folds = {place: Fold(generation=self._generation) for place in starts}
        self._jobs = {claim.attempt.work.job_id.encode() for claim in self._queue}
        for claim in self._queue:
            self._reading.setdefault(claim.place, {})[claim.offset] = claim.attempt
        self._queue.clear()

    def _fold(self, record: Record) -> None:
        place = TopicPartition(record.topic, record.partition)
        claims = self._reading.get(place)
        if claims is None or record.key not in self._jobs or record.value is None:
            return
        try:
            verdict = self._folds[place].apply(decode_event(record.value), record.offset)
        except RequestError:
            return  # not an event of ours: it decides nothing
        attempt = claims.get(record.offset)
        if attempt is not None and verdict.accepted:
            self._accepted.add(attempt)
