"""The retry ladder's story: own, read, wait, hand on.

What waits for its next attempt stands on a delay topic until its hop's end; then it goes to the largest rung not longer
than what is left, and in the end to its tier. What must hold: never early, by this process's wall clock; no later than
a second, while brokers answer and rungs are not behind; moving on and the position behind it are one round, so that
nothing is lost or handed out twice. How it fails: any trouble drops what is held and begins again from the committed
positions (design §5.5); where those were lost, or set by hand, what is kept is handed on once more, marked, so that its
claimer asks the log before it runs it; what is no waiting work goes to rejects; fenced by a twin it stops, and the
message names the id.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import structlog

from waterclock.clock import Clock
from waterclock.log.port import Log, Outgoing, Record
from waterclock.model.errors import BackendDown, Fenced, LostResource, NotFound, RequestError, RoundAborted
from waterclock.model.events import Reject, SourceRecord
from waterclock.model.ids import US_PER_S, Instant
from waterclock.transact import Round, Rounds
from waterclock.wire.codec import decode_work, encode_work
from waterclock.wire.messages import reject_message
from waterclock.wire.names import RUNGS, Names

from .hops import DUE, HOP, onward
from .round_size import RoundSize
from .rung import Rung
from .standing import Stand, Standing
from .tier_topics import TierTopics

ROLE = "retry-ladder"

_BATCH = 2_000
_POLL_S = 0.05
_ROUND_EVERY_S = 0.05
"""What ends within so much goes in one round: a round costs as much for one record as for a hundred."""
_TROUBLE_WAIT_S = 0.5
_ASKING_S = 0.1
"""So long a step asks for positions, and then for no other rung's: what ends meanwhile is late."""
_LATE_US = US_PER_S

_log = structlog.get_logger()


class Ladder:
    """The core. ``instance`` is the process slot's stable name."""

    def __init__(
        self,
        log: Log,
        clock: Clock,
        names: Names,
        instance: str,
        *,
        round_records: int = 1_000,
        offsets_every_s: float = 2.0,
    ) -> None:
        self._log = log
        self._clock = clock
        self._names = names
        self._size = RoundSize(round_records)
        self._offsets_every_s = offsets_every_s
        self._tier_topics = TierTopics(log)
        self._rounds = Rounds(log, names.transactional_id(ROLE, instance))
        self._rungs = [Rung(log, names, word, instance, self._rounds) for word in RUNGS]
        self._round_due_s = 0.0
        self._is_troubled = False

    @property
    def ready(self) -> bool:
        """A member of every rung's group, with nothing left to take over."""
        return all(rung.ready for rung in self._rungs)

    def step(self) -> bool:
        """One cycle; see ``waterclock.role``. Raises Fenced."""
        try:
            if self._is_troubled:
                self._settle_down()
            self._take_over()
            self._read()
            return self._hand_on()
        except Fenced:
            raise
        except (LostResource, BackendDown) as trouble:
            self._start_over(trouble)
            return False

    def drain(self) -> bool:
        """Commit where we stand; what waits goes on waiting, for whoever comes next."""
        try:
            self._commit(self._rounds.draft(), self._rungs)
        except (LostResource, BackendDown) as trouble:
            _log.warning("last positions not committed", trouble=str(trouble))
        return False

    def close(self) -> None:
        """Give up the producer, and the memberships as a static member does: the slot's next process takes over."""
        self._rounds.close()
        for rung in self._rungs:
            rung.consumer.close()

    def _settle_down(self) -> None:
        for place, rung in enumerate(self._rungs):
            rung.notice(self._rounds.poll(rung.consumer, 0, 0.0 if place else _TROUBLE_WAIT_S))
        self._is_troubled = False

    def _start_over(self, trouble: Exception) -> None:
        """Every trouble leads back to the committed positions (design §5.5)."""
        _log.warning("begins again from the committed positions", trouble=str(trouble))
        self._size.met(trouble)
        self._tier_topics.forget()
        for rung in self._rungs:
            rung.start_over()
        self._is_troubled = True

    def _take_over(self) -> None:
        """Start new partitions where they stand: the producer first, then the positions.

        What waits for an answer waits for long: then the other rungs are asked for at the next steps, in their turn.
        """
        began_s = self._clock.monotonic_s()
        for rung in sorted((rung for rung in self._rungs if rung.to_take), key=lambda each: each.asked_at_s):
            now_s = self._clock.monotonic_s()
            if now_s - began_s >= _ASKING_S:
                return
            rung.asked_at_s = now_s
            if rung.start(self._log, now_s):
                _log.info("rung taken over", rung=rung.word, partitions=len(rung.stands))

    def _read(self) -> None:
        """Poll the rungs that are due for it, and last the smallest: there we wait until something ends."""
        for rung in reversed(self._rungs):
            is_smallest, now_s = rung is self._rungs[0], self._clock.monotonic_s()
            if not is_smallest and now_s < rung.poll_due_s and not rung.wants_more:
                continue
            polled = self._rounds.poll(rung.consumer, _BATCH, self._wait_s() if is_smallest else 0.0)
            rung.notice(polled)
            rung.take(polled)
            rung.poll_due_s = now_s if len(polled.records) == _BATCH else now_s + rung.poll_every_s

    def _wait_s(self) -> float:
        """Until the next hop ends and a round may go, at most a poll's time."""
        ends = [end for rung in self._rungs if (end := rung.next_end) is not None]
        if not ends:
            return _POLL_S
        until_end_s = (min(ends) - self._clock.now()) / US_PER_S
        until_round_s = self._round_due_s - self._clock.monotonic_s()
        return min(_POLL_S, max(0.0, until_end_s, until_round_s))

    def _hand_on(self) -> bool:
        """What has ended, and the positions behind it, in one round. True when it was as much as a round holds."""
        now_s, now = self._clock.monotonic_s(), self._clock.now()
        most = self._size.now
        ended = list(self._ended(now, most)) if now_s >= self._round_due_s else []
        draft = self._rounds.draft()
        self._tier_topics.begin_round()
        draft.extend(self._next(standing, now) for _, standing in ended)
        moved = {rung.word for rung, _ in ended}
        self._commit(draft, [rung for rung in self._rungs if rung.word in moved or now_s >= rung.commit_due_s])
        is_full = len(ended) >= most
        if ended:
            self._round_due_s = now_s if is_full else now_s + _ROUND_EVERY_S
            self._say_late([standing for _, standing in ended], now)
        return is_full

    def _ended(self, now: Instant, most: int) -> Iterator[tuple[Rung, Standing]]:
        """Records whose hop is over, the earliest end first, at most ``most``."""
        heads: list[tuple[Instant, int, Rung, Stand]] = []
        number = 0
        for rung in self._rungs:
            for stand in rung.stands.values():
                if stand.next_end is not None and stand.next_end <= now:
                    heads.append((stand.next_end, number, rung, stand))
                    number += 1
        heapq.heapify(heads)
        for _ in range(most):
            if not heads:
                return
            _, mark, rung, stand = heads[0]
            standing = stand.move_on(now)
            if standing is not None:
                yield rung, standing
            if standing is None or stand.next_end is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (stand.next_end, mark, rung, stand))

    def _next(self, standing: Standing, now: Instant) -> Outgoing:
        """The record on its next rung or its tier; on rejects, where it is no waiting work."""
        record, wait = standing.record, standing.wait
        try:
            if wait is None:
                raise RequestError(f"a waiting record without its headers {DUE} and {HOP}", pointer="/headers")
            work = decode_work(record.value or b"")
            tier_topic = self._names.runs(work.tier, work.pool)
            self._tier_topics.check(tier_topic)  # NotFound: a topic that is gone would hold the whole round up
        except RequestError as error:
            return self._reject(record, error, now)
        value = record.value
        if standing.may_repeat and work.verify_from < 0:
            # Its claimer asks the log first: an attempt that was handed out twice is not to run twice.
            value = encode_work(work._replace(verify_from=0, verify_state=""))
        outgoing = Outgoing(record.topic, record.key or b"", value, record.headers)
        return onward(self._names, tier_topic, outgoing, wait.due_at, now)

    def _commit(self, draft: Round, rungs: list[Rung]) -> None:
        """Send the round with the positions of these rungs that moved. Raises LostResource, BackendDown."""
        positions = [(rung, due) for rung in rungs if (due := rung.due())]
        for rung, due in positions:
            for place, position in due.items():
                draft.advance(rung.consumer, place, position.offset, position.metadata)
        try:
            if not draft.empty:
                self._rounds.commit(draft)
                if draft.messages:  # positions alone say nothing of what brokers take
                    self._size.landed()
        except NotFound as gone:  # a topic that went since it was asked for, and the client has heard of it
            raise RoundAborted(str(gone)) from gone
        now_s = self._clock.monotonic_s()
        for rung, due in positions:
            rung.committed(due)
        for rung in rungs:
            rung.commit_due_s = now_s + self._offsets_every_s

    def _reject(self, record: Record, error: RequestError, now: Instant) -> Outgoing:
        topic, partition, offset, _, key, value, headers = record
        source = SourceRecord(topic, partition, offset, key, value, headers)
        _log.warning("no waiting work", topic=topic, partition=partition, offset=offset, reason=error.message)
        return reject_message(self._names, Reject(ROLE, error.message, error.pointer, error.hint, now, source))

    def _say_late(self, moved: Sequence[Standing], now: Instant) -> None:
        late = [now - wait.due_at for _, _, wait, _, _ in moved if wait is not None and wait.due_at + _LATE_US < now]
        if late:
            _log.warning("handed on late", records=len(late), latest_s=round(max(late) / US_PER_S, 1))
