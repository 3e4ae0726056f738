"""Who is started by what: the whole topic ``triggers``, in memory; for whoever hears of ends of runs, or of records.

What must hold: before what a batch brought is answered, this was read to the high watermark that was
asked for after the batch was polled (``ask``, ``caught_up``). So a condition that was saved before a run ended is
never missed; the last stable offset would not do, for of one transaction the markers land one by one. How it fails:
somebody's open transaction on the topic holds the answers back for its time-out (10 s) at most. Who has not asked for
so long that brokers may have dropped a tombstone unread (a machine that slept, a network that was away) reads all of it
again: else a job would go on being started by what it does not wait for any more. More conditions than
there may be: ``ListenersFull`` before any is forgotten; the log keeps everything meanwhile. But no tenant stops the
others, nor those who have no conditions: near that bound, jobs of one that has more than half of what there may be are
left out, with an error. Which of its jobs these are depends on the order of the topic; nothing starts them until they
are saved, or the topic read, while there is room.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import structlog

from waterclock.clock import Clock
from waterclock.log.port import Isolation, Log, Record, TopicPartition
from waterclock.model.errors import LostResource, UndecodableRecord, WaterclockError
from waterclock.model.ids import US_PER_S, Instant, tenant_of_job
from waterclock.model.shared_room import finds_room
from waterclock.model.triggers import JobTriggers
from waterclock.wire.codec import decode_job_triggers

LISTENED_MAX = 200_000
"""Conditions of all jobs, about 300 bytes each."""

RING_LOOKS = 5_000
"""Jobs, at the most, among which a ring is looked for: all from which three ends lead to one, of 16 conditions each."""

_TOMBSTONES_US = 12 * 3_600 * US_PER_S
"""Half of what brokers keep the tombstones of a compacted topic (``delete.retention.ms``)."""

_BATCH = 1_000

_log = structlog.get_logger()


class ListenersFull(WaterclockError):
    """More conditions than a router may hold."""


Hears: TypeAlias = Callable[[JobTriggers], Mapping[str, Instant]]
"""By what is waited for (a job's id, a topic's name) since when a job does so; only what its caller hears of."""


class Listeners:
    """Follows ``topic``."""

    def __init__(self, log: Log, topic: str, hears: Hears, clock: Clock, *, most: int = LISTENED_MAX) -> None:
        self._log = log
        self._clock = clock
        self._hears = hears
        self._place = TopicPartition(topic, 0)
        self._most = most
        self._reader = log.reader(Isolation.COMMITTED)
        self._standing: dict[str, JobTriggers] = {}
        self._by_source: dict[str, set[str]] = {}
        self._count = 0
        self._count_of: Counter[str] = Counter()
        """By tenant."""
        self._overfull: set[str] = set()
        """Tenants of which something was left out: each is told of once."""
        self._until = 0
        self._is_lost = False
        """What is held does not say all there is: it is to be read from the beginning."""
        self._in_order: dict[str, tuple[str, ...]] = {}
        """By job, who waits for its ends, oldest first: as far as it was asked for since that changed."""
        self._rings: dict[str, frozenset[str]] = {}
        """By job, what ``leading_back`` has found since anything changed."""
        self._asked_at = clock.now()
        """By the wall clock: the other one may stand still while a machine sleeps."""
        self._begin()

    @property
    def caught_up(self) -> bool:
        """Whether it was read as far as was asked for."""
        return not self._is_lost and self._reader.position(self._place) >= self._until

    def ask(self) -> None:
        """What stands in the topic by now is wanted. Raises BackendDown."""
        now = self._clock.now()
        if now - self._asked_at > _TOMBSTONES_US:
            self._begin()
        self._until = max(self._until, self._log.high_watermark(self._place))
        self._asked_at = now

    def look(self) -> None:
        """Read on without waiting; after any trouble from the beginning. Raises BackendDown, ListenersFull."""
        if self._is_lost:
            self._begin()
            return
        try:
            records = self._reader.poll(_BATCH, 0.0)
        except LostResource:  # what we stood at was compacted away: what is kept says all there is
            self._begin()
            return
        for record in records:
            self._apply(record)

    def of(self, source: str) -> Iterator[JobTriggers]:
        """What all jobs say that wait for this one's ends, or for this topic's records: who waits longest, first.

        How many of them are started is the caller's to bound, once it is known whose conditions are met.
        """
        for listener in self._waiting(source):
            yield self._standing[listener]

    def count_of(self, source: str) -> int:
        """How many jobs wait for it, whether their conditions are met or not."""
        return len(self._by_source.get(source, ()))

    def leading_back(self, source: str) -> frozenset[str]:
        """Of those who wait for this job's ends: whose own ends lead to it, so that they stand in a ring with it. Those
        who stand so near that they are among the first ``RING_LOOKS`` that are looked at."""
        if source not in self._standing:
            return frozenset()  # it waits for nobody
        known = self._rings.get(source)
        if known is None:
            waiting = self._by_source.get(source, set())
            known = self._rings[source] = frozenset(waiting & self._before(source))
        return known

    def _before(self, source: str) -> set[str]:
        """Whose ends lead to this job, by way of others too: the nearest first."""
        found: dict[str, None] = {source: None}
        ahead = deque([source])
        while ahead and len(found) < RING_LOOKS:
            standing = self._standing.get(ahead.popleft())
            for each in self._hears(standing) if standing is not None else ():
                if each not in found:
                    found[each] = None
                    ahead.append(each)
        return set(found)

    def _waiting(self, source: str) -> tuple[str, ...]:
        mine = self._by_source.get(source)
        if mine is None:
            return ()  # not noted: of most jobs nobody waits for an end, and a router hears of all of them
        known = self._in_order.get(source)
        if known is None:
            known = tuple(sorted(mine, key=lambda who: (self._hears(self._standing[who])[source], who)))
            self._in_order[source] = known
        return known

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()

    def _begin(self) -> None:
        """From the beginning. Whatever raises on the way, the next look begins again: the reader tells a loss once."""
        self._is_lost = True
        self._reader.assign({self._place: self._log.low_watermark(self._place)})
        self._until = self._log.high_watermark(self._place)  # may be lower than before: the topic was made anew
        self._standing.clear()
        self._by_source.clear()
        self._in_order.clear()
        self._rings.clear()
        self._count = 0
        self._count_of.clear()
        self._overfull.clear()
        self._is_lost = False

    def _apply(self, record: Record) -> None:
        job_id = (record.key or b"").decode(errors="replace")
        self._forget(job_id)
        self._rings.clear()
        if record.value is None:
            return
        try:
            standing = decode_job_triggers(record.value)
        except UndecodableRecord as odd:
            _log.error("what starts a job cannot be read: nothing does", job_id=job_id, reason=str(odd))
            return
        tenant, count = tenant_of_job(job_id), len(self._hears(standing))
        mine = self._count_of[tenant]
        if not finds_room(mine, self._count, self._most, more=count):
            if mine > self._most // 2:
                self._leave_out(tenant)
                return
            self._is_lost = True  # this record is behind the reader, and is not held
            raise ListenersFull(f"jobs are started by more than {self._most} conditions, the most that is held")
        self._count += count
        self._count_of[tenant] += count
        self._standing[job_id] = standing
        for source in self._hears(standing):
            self._by_source.setdefault(source, set()).add(job_id)
            self._in_order.pop(source, None)

    def _leave_out(self, tenant: str) -> None:
        if tenant not in self._overfull:
            _log.error("nothing starts some of a tenant's jobs: it has most of all conditions, and there are too many",
                       tenant=tenant, conditions=self._count_of[tenant], conditions_max=self._most)  # fmt: skip
            self._overfull.add(tenant)

    def _forget(self, job_id: str) -> None:
        standing = self._standing.pop(job_id, None)
        if standing is None:
            return
        tenant = tenant_of_job(job_id)
        count = len(self._hears(standing))
        self._count -= count
        self._count_of[tenant] -= count
        if not self._count_of[tenant]:
            del self._count_of[tenant]
        for source in self._hears(standing):
            self._by_source[source].discard(job_id)
            self._in_order.pop(source, None)
            if not self._by_source[source]:
                del self._by_source[source]
