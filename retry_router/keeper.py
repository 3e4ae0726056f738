"""The lease keeper: who is silent for longer than its lease is fenced, and only then called dead (design §8).

One keeper for each worker: the owner of the heartbeat partition that its name hashes to. It knows a worker by its
beats or by its record on ``leases``, and judges by its own monotonic clock alone: a beat counts from when it was read.

What must hold before a worker is judged, each time (guarantees 2.3):

* its partition was watched for a full lease, by a keeper that never fell behind for half a lease meanwhile: whoever was
  away itself, or has just come, first gives everybody a full lease;
* ``leases`` was read to its end immediately before, and ``heartbeats`` to its end as of a moment ago, by which it had
  been silent for a lease, and nothing that speaks for the worker was among it. Not to its end as of now: of a thousand
  workers somebody always beats between the reading and the question, and nobody could ever be judged.

None of it is needed for correctness, which rests on fencing first; it keeps innocents from being fenced. How it fails:
a backend that is away, a lost partition: nobody is judged, and the watch begins anew. Its positions are committed for
those who look at lag; nobody starts from them.
"""

from __future__ import annotations

from concurrent.futures import Future

import structlog

from waterclock.clock import Clock
from waterclock.log.port import Log, Polled, Record, TopicPartition
from waterclock.model.errors import BackendDown, Fenced, LostResource, RequestError, WaterclockError
from waterclock.model.events import Heartbeat
from waterclock.model.ids import US_PER_S, partition_of
from waterclock.transact import Rounds
from waterclock.wire.codec import decode_heartbeat
from waterclock.wire.names import Names

from .deaths import Deaths
from .fencing import Hands, OwnHands, fence
from .watched import Asked, Watched

KEEPER = "lease-keeper"
"""Names its consumer group and its clients."""

FENCINGS_MAX = 4
"""At once; whoever else is silent is judged again when there is room, those first who were tried longest ago: else
those whose ids no broker answers for would take all the room for as long as that lasts."""

_POLL_RECORDS = 2_000
_POLL_S = 0.2
_LOOK_EVERY_S = 0.5
_AT_ONCE_S = 0.1
"""Whoever carries fencings out for longer has stood still himself: the others are judged at the next look."""
_AGAIN_S = 2.0
_TROUBLE_WAIT_S = 0.5
_OFFSETS_EVERY_S = 1.0
_READ_BACK_US = 60 * US_PER_S
"""How far back beats are read at first, to learn the leases of those who live."""

_log = structlog.get_logger()


class Keeper:
    """The core. ``default_lease_s``: of a worker that was never heard, until its first beat names its own."""

    def __init__(
        self,
        log: Log,
        clock: Clock,
        names: Names,
        instance: str,
        *,
        default_lease_s: float = 15.0,
        hands: Hands | None = None,
    ) -> None:
        self._log = log
        self._clock = clock
        self._names = names
        self._by = f"{KEEPER} of {instance}"
        self._default_lease_s = default_lease_s
        self._hands = hands or OwnHands()
        self._consumer = log.consumer(names.group(KEEPER), [names.heartbeats], instance=instance)
        self._rounds = Rounds(log, names.transactional_id(KEEPER, instance))
        self._partitions = log.partitions(names.heartbeats)
        self._deaths = Deaths(log, names.leases)
        self._watched: dict[int, Watched] = {}
        self._to_take: set[TopicPartition] = set()
        self._fencing: dict[str, Future[None]] = {}
        self._not_before_s: dict[str, float] = {}
        self._is_troubled = False
        self._has_joined = False
        self._look_at_s = float("-inf")
        self._offsets_due_s = float("-inf")
        self.fenced_count = 0

    @property
    def ready(self) -> bool:
        """A member of the group, and every partition of it is being watched."""
        return self._has_joined and not self._to_take

    def step(self) -> bool:
        """One cycle. Raises Fenced where another process has this instance's name."""
        try:
            if self._is_troubled:
                self._notice(self._rounds.poll(self._consumer, 0, _TROUBLE_WAIT_S))
                self._is_troubled = False
            self._take_over()
            polled = self._rounds.poll(self._consumer, _POLL_RECORDS, _POLL_S)
            self._notice(polled)
            self._hear(polled)
            self._tend()
            self._commit_positions()
            return bool(polled.assigned) or len(polled.records) == _POLL_RECORDS
        except Fenced:
            raise
        except (LostResource, BackendDown) as trouble:
            _log.warning("keeper begins again", trouble=str(trouble))
            self._to_take = set(self._consumer.owned())
            self._is_troubled = True
            return False

    def drain(self) -> bool:
        """Nothing to finish: a fencing under way ends by itself, or is done again by whoever keeps the leases next."""
        return False

    def close(self) -> None:
        """Give up the clients; a static member keeps its partitions for its successor."""
        self._rounds.close()
        self._deaths.close()
        self._consumer.close()

    def _commit_positions(self) -> None:
        """Soon after beats were heard, so that the group's lag reads what it is. Raises LostResource, BackendDown."""
        now_s = self._clock.monotonic_s()
        if now_s < self._offsets_due_s:
            return
        self._offsets_due_s = now_s + _OFFSETS_EVERY_S
        draft = self._rounds.draft()
        for place in sorted(self._consumer.owned() - self._to_take):
            draft.advance(self._consumer, place, self._watched[place.partition].next_offset)
        self._rounds.commit(draft)

    # Reading ------------------------------------------------------------------------------------------------------

    def _notice(self, polled: Polled) -> None:
        """Membership. What is known of a partition is kept while it is away: the gap in the watch tells the rest."""
        self._to_take.difference_update(polled.revoked)
        self._to_take.update(polled.assigned)
        self._has_joined = self._has_joined or self._consumer.has_share

    def _take_over(self) -> None:
        """Go on where a partition was left, or begin a little before now: older beats say nothing any more."""
        if not self._to_take:
            return
        starts: dict[TopicPartition, int] = {}
        for place in sorted(self._to_take):
            watched = self._watched.get(place.partition) or self._watch(place)
            low, high = self._log.low_watermark(place), self._log.high_watermark(place)
            starts[place] = watched.next_offset = min(max(watched.next_offset, low), high)
            watched.asked = None
        self._consumer.start(starts)
        self._to_take.clear()
        _log.info("heartbeats watched", partitions=[place.partition for place in starts])

    def _watch(self, place: TopicPartition) -> Watched:
        """Begin: those who stand on ``leases`` are expected to beat, also if they never did."""
        now_s = self._clock.monotonic_s()
        start_at = self._log.offset_at(place, self._clock.now() - _READ_BACK_US)
        watched = self._watched[place.partition] = Watched(start_at, now_s, self._default_lease_s)
        for worker in self._deaths.standings:
            if partition_of(worker, self._partitions) == place.partition:
                self._expect(worker, now_s)
        return watched

    def _expect(self, worker: str, now_s: float) -> None:
        """Its HELLO counts as a beat."""
        watched = self._watched.get(partition_of(worker, self._partitions))
        standing = self._deaths.standing(worker)
        if watched is not None and standing.hello > standing.fenced:
            watched.hear(worker, standing.hello, 0.0, now_s)

    def _hear(self, polled: Polled) -> None:
        """Every beat counts from now, whenever it was sent."""
        now_s = self._clock.monotonic_s()
        for record in polled.records:
            watched = self._watched.get(record.partition)
            if watched is None:
                continue
            watched.next_offset = record.offset + 1
            beat = _beat(record)
            if beat is not None:
                watched.hear(beat.worker, beat.incarnation, beat.lease_ttl_us / US_PER_S, now_s)

    def _hear_of_lives(self, now_s: float) -> None:
        for worker in self._deaths.look():
            self._expect(worker, now_s)

    def _tend(self) -> None:
        now_s = self._clock.monotonic_s()
        self._hear_of_lives(now_s)
        self._collect()
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + _LOOK_EVERY_S
            places = sorted(self._consumer.owned() - self._to_take)
            for place in sorted(places, key=lambda each: self._watched[each.partition].served_s):
                self._look(place)

    # Judging ------------------------------------------------------------------------------------------------------

    def _look(self, place: TopicPartition) -> None:
        """Judge the workers of one partition, each by what there is to be read at its turn: a fencing takes its time,
        and who was silent before it may have spoken meanwhile."""
        watched, now_s = self._watched[place.partition], self._clock.monotonic_s()
        read_at_s = self._read_at_s(place, watched, now_s)
        if read_at_s is None:
            return
        watched.read_to_end(read_at_s)
        silent = [worker for worker in watched.silent(read_at_s) if self._may_fence(worker, watched, now_s)]
        silent.sort(key=lambda worker: self._not_before_s.get(worker, float("-inf")))
        for worker in silent[: FENCINGS_MAX - len(self._fencing)]:
            now_s = self._clock.monotonic_s()
            self._hear_of_lives(now_s)
            if not self._deaths.caught_up(place.partition):
                return
            if worker not in watched.silent(read_at_s) or not self._may_fence(worker, watched, now_s):
                continue
            standing, incarnation = self._deaths.standing(worker), watched.incarnation(worker)
            _log.warning("worker is silent", worker=worker, incarnation=incarnation, **standing._asdict())
            self._not_before_s[worker] = now_s + _AGAIN_S
            watched.served_s = now_s
            submitted_s = self._clock.monotonic_s()
            self._fencing[worker] = self._hands.submit(
                lambda worker=worker: fence(self._log, self._names, worker, self._by, self._clock.now())  # type: ignore[misc]
            )
            if self._clock.monotonic_s() - submitted_s > _AT_ONCE_S:
                return

    def _read_at_s(self, place: TopicPartition, watched: Watched, now_s: float) -> float | None:
        """When the end was asked for up to which every beat was heard; None: there is more to be heard up to there.

        One end is asked for at a time, and the next one when it is reached: who asks anew runs ahead of himself.
        """
        if watched.asked is None:
            watched.asked = Asked(self._log.high_watermark(place), now_s)
        end, asked_at_s = watched.asked
        if watched.next_offset < end:
            return None
        watched.asked = None
        return asked_at_s

    def _may_fence(self, worker: str, watched: Watched, now_s: float) -> bool:
        """Whether it is worth asking: it is not known to be dead, and nobody is at it."""
        standing = self._deaths.standing(worker)
        if standing.fenced > max(standing.hello, watched.incarnation(worker)):
            watched.forget(worker)
            self._not_before_s.pop(worker, None)
            return False
        return worker not in self._fencing and now_s >= self._not_before_s.get(worker, now_s)

    def _collect(self) -> None:
        """What became of the fencings. One that failed is judged again."""
        for worker in [worker for worker, pending in self._fencing.items() if pending.done()]:
            trouble = self._fencing.pop(worker).exception()
            self._look_at_s = float(
                "-inf"
            )  # there is room for the next: of a rack of workers each would wait for a look
            if trouble is None:
                self.fenced_count += 1
                _log.warning("worker fenced", worker=worker)
            elif isinstance(trouble, WaterclockError):
                _log.warning("worker not fenced", worker=worker, trouble=str(trouble))
            else:
                raise trouble


def _beat(record: Record) -> Heartbeat | None:
    """The beat of a record; what is none, or speaks under another's name, is nobody's sign of life."""
    try:
        beat = decode_heartbeat(record.value or b"")
    except RequestError:
        return None
    return beat if record.key == beat.worker.encode() else None
