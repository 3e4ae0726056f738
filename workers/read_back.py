"""Reading claims back from the log: whether the arbiter has accepted our STARTED, and whether a cancel is on file.

A claim that landed is not yet a claim that counts: after a torn round or a lost position a work record is claimed
twice, and its run may have been cancelled before the claim. The second STARTED, and the late one, are ignored by
everybody. Ordinary runs bear that (their effect carries key and fence); asked about here are:

* runs that are called at most once, and work records whose maker asks for it (``verify_from``): before user code;
* runs that ``control`` names, before user code or while it runs. Whoever cancels writes to run-events after control, in
  the same round: so these are read to the end of run-events as of now, and a cancel that counts is found on file.

What must hold: nothing is decided before the log was read from where the run's state was known to the STARTED. That is
``verify_from``, where a record brings the state as of there; else the run's beginning: PENDING and work record are of
one transaction, so of about one time (offsets are asked for by time, with a margin), but a later attempt's record, or
one that says nothing of the state, may be long after, so that the run's due time counts there. Of a trigger that is the
brokers' time, and the beginning's stamp the dispatcher's: where it is not found, it is looked for further back. A node
is read from the beginning of its DagRun (``dag_from``). Where retention has removed that place, the work record itself
is the word: its run waited for this attempt, its DagRun was under way; whoever made it knew so from a state of his own.
What is left of the log is read all the same: another claim, a cancel or an end that stands there counts.

A run may have gone on for hours when ``control`` names it, and its cancel then stands near the end: of one whose code
runs, what lies between its STARTED and shortly before it was named is passed over at first. How shortly, is a matter of
clocks, and decides nothing: where no reason to end is found behind it, the whole is read.

How it fails: BackendDown, and it goes on where it stood at the next turn; LostResource where retention took what it was
reading, and the next turn begins with what is left; somebody's open transaction makes the questions of that partition
wait. The round thread is never held up: each turn reads a bounded slice. Nor does who asks for little wait for who asks
for much: a partition has a reading for each of the two, with clients of their own, and what is asked meanwhile waits
for the reading of its kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from waterclock.log.port import Isolation, Log, Reader, TopicPartition
from waterclock.model.errors import LostResource
from waterclock.model.ids import Instant, partition_of

from .executors.port import Attempt
from .reading import MARGIN_US, NEAR_RECORDS, Answer, Question, Reading, is_known

_SLICE_RECORDS = 5_000


class _Lane:
    """One client, and the readings that it serves: at most one of a partition. ``is_long``: of which questions."""

    def __init__(self, log: Log, *, is_long: bool) -> None:
        self._log = log
        self._reader: Reader | None = None
        self.is_long = is_long
        self.readings: dict[TopicPartition, Reading] = {}

    def asks(self, place: TopicPartition, attempt: Attempt) -> bool:
        """Whether this one is being read for."""
        return place in self.readings and self.readings[place].asks(attempt)

    def begin(self, starts: dict[TopicPartition, int], readings: dict[TopicPartition, Reading]) -> None:
        """Read for these too. Raises BackendDown; nothing has changed then."""
        if self._reader is None:
            self._reader = self._log.reader(Isolation.COMMITTED)
        positions = {place: self._reader.position(place) for place in self.readings}
        self._reader.assign(positions | starts)
        self.readings.update(readings)

    def look(self, limit: int) -> list[Reading]:
        """Read on, at most so many records; the readings that are done. Raises BackendDown, LostResource."""
        reader = self._reader
        if reader is None or not self.readings:
            return []
        for record in reader.poll(limit, 0.0):
            reading = self.readings.get(TopicPartition(record.topic, record.partition))
            if reading is not None and record.offset < reading.end:
                reading.take(record)
        positions = self._pass_over(reader)
        done = [place for place, reading in self.readings.items() if positions[place] >= reading.end]
        return [self.readings.pop(place) for place in done]

    def close(self) -> None:
        """Give the client up."""
        if self._reader is not None:
            self._reader.close()

    def _pass_over(self, reader: Reader) -> dict[TopicPartition, int]:
        """Where each reading stands, once it has left out what nobody asks for."""
        positions = {place: reader.position(place) for place in self.readings}
        resumed = {
            place: reading.resumes_at
            for place, reading in self.readings.items()
            if reading.may_resume(positions[place])
        }
        if resumed:
            positions |= resumed
            reader.assign(positions)
        return positions


class ReadBack:
    """At most as many questions as there are worker slots. ``generation`` is that of run-events, for the tokens."""

    def __init__(self, log: Log, run_events: str, generation: int) -> None:
        self._log = log
        self._topic = run_events
        self._generation = generation
        self._partitions = log.partitions(run_events)
        self._lanes = [_Lane(log, is_long=False), _Lane(log, is_long=True)]
        self._queue: dict[Attempt, Question] = {}
        self._found: list[Answer] = []
        """Not told yet: trouble of another lane may come before that."""
        self._asked: set[Attempt] = set()

    def ask(self, attempts: Iterable[Attempt], *, to_end: bool) -> None:
        """Ask about these, landed under their tokens; ``to_end``: also for what stands behind their STARTED."""
        for attempt in attempts:
            known = self._queue.get(attempt)
            if known is None:
                self._queue[attempt] = Question(attempt, to_end)
            else:
                known.to_end |= to_end
            self._asked.add(attempt)

    def ask_running(self, attempt: Attempt, told_at: Instant) -> None:
        """Ask whether this one, whose code runs, is to end: ``control`` named it, in a record of that time."""
        known = self._queue.get(attempt)
        if known is None:
            self._queue[attempt] = Question(attempt, True, told_at=told_at)
        else:
            known.to_end = True
            known.told_at = None if known.told_at is None else min(known.told_at, told_at)
        self._asked.add(attempt)

    def asks(self, attempt: Attempt) -> bool:
        """Whether an answer about this one is still to come."""
        return attempt in self._asked

    def look(self) -> list[Answer]:
        """Read on; the answers that were found. Raises BackendDown, LostResource."""
        if not self._asked:
            return []
        if self._queue:
            self._begin()
        busy = [lane for lane in self._lanes if lane.readings]
        for lane in busy:
            for reading in self._read_on(lane, max(1, _SLICE_RECORDS // len(busy))):
                self._found += reading.answers()
                for question in reading.unanswered():
                    self._queue.setdefault(question.attempt, question)
        # Asked again meanwhile: that answer will know more.
        answers = [each for each in self._found if not (each.attempt in self._queue or self._is_read_for(each.attempt))]
        self._found.clear()
        self._asked.difference_update(answer.attempt for answer in answers)
        return answers

    def clear(self) -> None:
        """Forget all: the incarnation that claimed them is over."""
        self._queue.clear()
        self._found.clear()
        for lane in self._lanes:
            lane.readings.clear()
        self._asked.clear()

    def drop(self, attempt: Attempt) -> None:
        """Nobody waits for this answer any more; one that is being read for still comes."""
        self._queue.pop(attempt, None)
        if not self._is_read_for(attempt):
            self._asked.discard(attempt)

    def close(self) -> None:
        """Give the clients up."""
        for lane in self._lanes:
            lane.close()

    def _is_read_for(self, attempt: Attempt) -> bool:
        place = self._place_of(attempt)
        return any(lane.asks(place, attempt) for lane in self._lanes)

    def _place_of(self, attempt: Attempt) -> TopicPartition:
        return TopicPartition(self._topic, partition_of(attempt.work.job_id, self._partitions))

    def _read_on(self, lane: _Lane, limit: int) -> list[Reading]:
        try:
            return lane.look(limit)
        except LostResource:  # told once, by a real client: it would deliver nothing more, and say nothing
            for reading in lane.readings.values():
                for question in reading.questions.values():
                    question.begin_anew()
                    self._queue.setdefault(question.attempt, question)
            lane.readings.clear()
            raise

    def _begin(self) -> None:
        """Read for all that wait now and whose lane is free there; what is asked meanwhile waits for the next time, and
        so does what is asked once more of an attempt that is being read for: of one there is one reading at a time."""
        waiting: dict[TopicPartition, list[Question]] = {}
        for question in self._queue.values():
            place = self._place_of(question.attempt)
            if not any(lane.asks(place, question.attempt) for lane in self._lanes):
                waiting.setdefault(place, []).append(question)
        for lane in self._lanes:
            chosen = {
                place: _together([question for question in questions if question.is_long is lane.is_long])
                for place, questions in waiting.items()
                if place not in lane.readings
            }
            if any(chosen.values()):
                self._begin_in(lane, {place: questions for place, questions in chosen.items() if questions})

    def _begin_in(self, lane: _Lane, chosen: Mapping[TopicPartition, list[Question]]) -> None:
        starts: dict[TopicPartition, int] = {}
        readings: dict[TopicPartition, Reading] = {}
        for place, questions in chosen.items():
            end = self._log.high_watermark(place) if any(question.to_end for question in questions) else 0
            for question in questions:
                question.end = max(question.offset + 1, end if question.to_end else 0)
            starts[place], resumes_at = self._stretches_of(place, questions)
            readings[place] = Reading(questions, self._generation, resumes_at)
        # Everything that may fail comes before anything changes.
        lane.begin(starts, readings)
        for questions in chosen.values():
            for question in questions:
                question.tries += 1
                del self._queue[question.attempt]

    def _stretches_of(self, place: TopicPartition, questions: list[Question]) -> tuple[int, int]:
        """Where to begin, and where to go on behind the claims of those whose code runs; 0: nothing is passed over."""
        told_at = [question.told_at for question in questions if question.told_at is not None]
        if not told_at:
            return self._start_of(place, questions), 0
        running = [question for question in questions if question.told_at is not None]
        others = [question for question in questions if question.told_at is None]
        start = self._start_of(place, running)
        resumes_at = self._log.offset_at(place, max(0, min(told_at) - MARGIN_US))
        resumes_at = min(resumes_at, max(question.end for question in running))
        if not others:
            return start, resumes_at
        others_start = self._start_of(place, others)
        return min(start, others_start), min(resumes_at, others_start)

    def _start_of(self, place: TopicPartition, questions: list[Question]) -> int:
        low = self._log.low_watermark(place)
        offsets = [question.offset for question in questions]
        unknown = [question for question in questions if not is_known(question.attempt.work)]
        for question in questions:
            if question.known_from >= 0:
                question.is_cut = question.known_from < low
                offsets.append(question.known_from)
        if unknown:
            oldest = self._log.offset_at(place, min(question.since_at for question in unknown))
            offsets.append(oldest)
            if oldest <= low or not all(question.since_at for question in unknown):
                for question in unknown:  # retention may have been quicker: one more request each
                    begins = self._log.offset_at(place, question.since_at) if low else low
                    question.is_whole = begins <= low or not question.since_at
                    question.is_cut = begins <= low and low > 0
        return max(min(offsets), low)


def _together(questions: list[Question]) -> list[Question]:
    """Those that one reading is made for: the stretches of claims far apart would have all that lies between them."""
    first = next((question.offset for question in questions if question.told_at is not None), 0)
    return [each for each in questions if each.told_at is None or abs(each.offset - first) <= NEAR_RECORDS]
