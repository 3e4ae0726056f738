"""The topic listener's story: own, read, learn who waits, start; a second core of the intake.

It reads the topics that the setting ``intake.sources`` names, and no others. Each record that passes the filter of a
job that may hear it becomes a TRIGGER of that job, in the round that advances the offsets past the record; its value is
the payload of the run. What must hold: that, once for each, across crashes, take-overs and doubtful commits; and that
no record keeps the ones behind it waiting. Before a batch is answered, ``triggers`` was read to the high watermark that
was asked for after the batch was polled: so a condition that was saved before a record was appended is never missed.

How it fails: any trouble drops what is held and begins again from the committed positions (design §5.5). A topic of
which nobody has committed a position begins where the setting ``sources_begin`` says; one that was made anew, which its
id in the committed position tells, at its beginning, and so does a partition that was added to one that is heard. A
topic that is not there is waited for, and so is room for more conditions than may be held: both are told as errors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import structlog

from waterclock.clock import Clock
from waterclock.listeners import Listeners, ListenersFull
from waterclock.log.following import Position
from waterclock.log.port import Committed, Log, Outgoing, Polled, Record, TopicPartition
from waterclock.model.errors import BackendDown, Fenced, LostResource, NotFound, RequestError, WaterclockError
from waterclock.model.sources import Sources
from waterclock.model.triggers import JobTriggers
from waterclock.transact import Rounds
from waterclock.wire.names import Names

from .source_mark import Mark, mark_beside, mark_of
from .topic_starts import Answer, Heard, answer, heard, waits_for

ROLE = "intake-sources"

_POLL_S = 0.05
_TROUBLE_WAIT_S = 0.5
_HELP_WAIT_S = 5.0
"""Between two tries where somebody has to do something first."""

ROUND_BYTES = 4 * 1024 * 1024
"""A round sends so many bytes, and what one more record starts."""

ROUND_LOOKS = 1_000_000
"""A round asks so many times whether a record passes a job's filter, and what one more record takes: about a second."""

_log = structlog.get_logger()


class TopicListener:
    """The core. ``begins_at_end``: a topic without positions is heard from now on, else from its oldest record on."""

    def __init__(
        self,
        log: Log,
        clock: Clock,
        names: Names,
        instance: str,
        sources: Sources,
        *,
        begins_at_end: bool = True,
        round_records: int = 500,
        offsets_every_s: float = 2.0,
    ) -> None:
        self._log = log
        self._clock = clock
        self._names = names
        self._begins_at_end = begins_at_end
        self._round_records = round_records
        self._offsets_every_s = offsets_every_s
        self._consumer = log.consumer(names.group(ROLE), sorted(sources), instance=instance, headers=True)
        self._rounds = Rounds(log, names.transactional_id(ROLE, instance))

        def hears(standing: JobTriggers) -> dict[str, int]:
            return waits_for(sources, standing)

        self._listeners = Listeners(log, names.triggers, hears, clock)
        self._places: dict[TopicPartition, Position] = {}
        self._marks: dict[TopicPartition, Mark] = {}
        self._unread: deque[Heard] = deque()
        """Polled, and not answered yet."""
        self._to_take: set[TopicPartition] = set()
        self._is_troubled, self._wait_s = False, _TROUBLE_WAIT_S
        self._has_joined = False
        self._offsets_due_s = 0.0

    @property
    def ready(self) -> bool:
        """A member of the group with its share, if only an empty one, and every partition of it has been started."""
        return self._has_joined and not self._to_take

    def step(self) -> bool:
        """One cycle; see ``waterclock.role``. Raises Fenced."""
        try:
            if self._is_troubled:
                self._notice(self._rounds.poll(self._consumer, 0, self._wait_s))
                self._is_troubled = False
            self._take_over()
            room = 0 if self._unread else self._round_records
            polled = self._rounds.poll(self._consumer, room, _POLL_S)
            self._notice(polled)
            self._keep(polled, has_asked=room > 0)
            self._listeners.look()
            if not self._listeners.caught_up:
                return True
            self._answer()
            return bool(self._unread or polled.records or polled.assigned)
        except Fenced:
            raise
        except (LostResource, BackendDown) as trouble:
            self._start_over(trouble)
        except NotFound as missing:
            self._wait_for_help(missing, "create it, or take it out of intake.sources and start the intakes again")
        except ListenersFull as full:
            self._wait_for_help(full, "take conditions on topics away from jobs that do not need them")
        return False

    def drain(self) -> bool:
        """Commit the positions; there is nothing else to finish."""
        try:
            self._commit([])
        except (LostResource, BackendDown, NotFound) as trouble:
            _log.warning("last positions not committed", trouble=str(trouble))
        return False

    def close(self) -> None:
        """Give up the producer, and the membership as a static member does: the slot's next process takes over."""
        self._rounds.close()
        self._listeners.close()
        self._consumer.close()

    # Owning -------------------------------------------------------------------------------------------------------

    def _notice(self, polled: Polled) -> None:
        for gone in polled.revoked:
            self._places.pop(gone, None)
            self._to_take.discard(gone)
        if polled.revoked:
            self._unread = deque(each for each in self._unread if _place_of(each.record) in self._places)
        self._to_take.update(polled.assigned)
        self._has_joined = self._has_joined or self._consumer.has_share

    def _take_over(self) -> None:
        """Start new partitions where the group stands: the producer first, which settles its last round."""
        if not self._to_take:
            return
        committed = self._rounds.positions(self._consumer, sorted(self._to_take))
        topic_ids = {topic: self._log.topic_id(topic) for topic in sorted({place.topic for place in committed})}
        marks = {topic: self._mark(topic, topic_id, committed) for topic, topic_id in topic_ids.items()}
        committed |= self._added(committed, marks)
        starts = {place: self._begin(place, position, topic_ids[place.topic]) for place, position in committed.items()}
        self._consumer.start(starts)
        for place, start_at in starts.items():
            self._places[place], self._marks[place] = Position(place, start_at), marks[place.topic]
            _log.info("source taken over", topic=place.topic, partition=place.partition, start_at=start_at)
        self._to_take.clear()
        self._offsets_due_s = self._clock.monotonic_s()

    def _mark(self, topic: str, topic_id: str, committed: Mapping[TopicPartition, Committed | None]) -> Mark:
        """What rides with the positions of a topic; where one is missing, all that the group has say it."""
        mine = {place: at for place, at in committed.items() if place.topic == topic}
        if not self._begins_at_end:
            return Mark(topic_id)
        if any(at is None for at in mine.values()):
            count = max(self._log.partitions(topic), *(place.partition + 1 for place in mine))
            mine = self._rounds.positions(self._consumer, [TopicPartition(topic, number) for number in range(count)])
        return mark_beside(topic_id, [at.metadata for at in mine.values() if at is not None], len(mine))

    def _added(
        self, committed: Mapping[TopicPartition, Committed | None], marks: Mapping[str, Mark]
    ) -> dict[TopicPartition, Committed]:
        """Where to begin the partitions that were added to topics that are heard: at their beginning."""
        found = dict[TopicPartition, Committed]()
        for place, at in committed.items():
            mark = marks[place.topic]
            if at is None and self._begins_at_end and place.partition >= mark.width:
                _log.warning("a partition was added: heard from its beginning", topic=place.topic,
                             partition=place.partition)  # fmt: skip
                found[place] = Committed(self._log.low_watermark(place), mark.text())
        return found

    def _begin(self, place: TopicPartition, committed: Committed | None, topic_id: str) -> int:
        low = self._log.low_watermark(place)
        if committed is None:
            return self._log.high_watermark(place) if self._begins_at_end else low
        if mark_of(committed.metadata).topic_id not in ("", topic_id):
            _log.warning("a source topic was made anew: it is read from its beginning", topic=place.topic)
            return low
        if committed.offset < low:
            _log.error("records were removed by retention before they were heard", topic=place.topic,
                       partition=place.partition, from_offset=committed.offset, to_offset=low)  # fmt: skip
        return max(low, committed.offset)

    def _start_over(self, trouble: Exception) -> None:
        """Every trouble leads back to the committed positions (design §5.5)."""
        _log.warning("begins again from the committed positions", trouble=str(trouble))
        self._places.clear()
        self._unread.clear()
        self._to_take = set(self._consumer.owned())
        self._is_troubled, self._wait_s = True, _TROUBLE_WAIT_S

    def _wait_for_help(self, trouble: WaterclockError, hint: str) -> None:
        """Begin again, and again: what else the process does goes on meanwhile. Said every now and then."""
        self._start_over(trouble)
        self._wait_s = _HELP_WAIT_S
        _log.error("no record starts a job: this has to be put right first", cause=str(trouble), hint=hint)

    # Answering ----------------------------------------------------------------------------------------------------

    def _keep(self, polled: Polled, *, has_asked: bool) -> None:
        """What was polled waits until it is known who waits for it."""
        self._unread.extend(heard(record) for record in polled.records if _place_of(record) in self._places)
        if polled.records:
            self._listeners.ask()
        for place in self._places.values():
            place.has_begun = place.has_begun or (has_asked and not polled.records)

    def _answer(self) -> None:
        """One round for as many records as there is room for; positions alone when it is time for that."""
        messages, size, looks, now = list[Outgoing](), 0, 0, self._clock.now()
        while self._unread and size < ROUND_BYTES and looks < ROUND_LOOKS:
            next_one = self._unread.popleft()
            found = self._answered(next_one, now)
            messages += found.messages
            size += found.size
            looks += self._listeners.count_of(next_one.record.topic)
            place = self._places[_place_of(next_one.record)]
            place.next_offset, place.has_begun = next_one.record.offset + 1, True
        if not self._unread:
            for place in self._places.values():
                place.move(self._consumer)
        if messages or self._clock.monotonic_s() >= self._offsets_due_s:
            self._commit(messages)

    def _answered(self, heard: Heard, now: int) -> Answer:
        record = heard.record
        topic_id = self._marks[_place_of(record)].topic_id
        try:
            return answer(self._names, heard, topic_id, self._listeners.of(record.topic), now)
        except RequestError as error:  # no message can carry what it asks for
            _log.error("a record starts nothing", topic=record.topic, offset=record.offset, reason=error.message)
            return Answer((), 0)

    def _commit(self, messages: list[Outgoing]) -> None:
        """The messages, and the positions behind what they answer, in one round. Raises LostResource, BackendDown."""
        draft = self._rounds.draft()
        draft.extend(messages)
        moved = {place: due for place in self._places.values() if (due := place.to_commit()) is not None}
        for place, due in moved.items():
            draft.advance(self._consumer, place.partition, due.offset, self._marks[place.partition].text())
        self._offsets_due_s = self._clock.monotonic_s() + self._offsets_every_s
        self._rounds.commit(draft)
        for place, due in moved.items():
            place.committed = due


def _place_of(record: Record) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)
