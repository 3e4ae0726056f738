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

How it fails: BackendDown, and it goes on where it stood at the next turn; LostResource where retention took what it was
reading, and the next turn begins with what is left; somebody's open transaction makes the questions of that partition
wait. The round thread is never held up: each turn reads a bounded slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from waterclock.log.port import Isolation, Log, Reader, Record, TopicPartition
from waterclock.model.dag_work import split_node_run_id
from waterclock.model.errors import LostResource, RequestError
from waterclock.model.events import EventKind, RunEvent, RunStatus, WorkRecord
from waterclock.model.fold import Fold
from waterclock.model.ids import US_PER_S, Instant, offset_of, ordinal, partition_of
from waterclock.model.known_state import state_from_text
from waterclock.model.reduce import RunState, reduce
from waterclock.wire.codec import decode_event

from .executors.port import Attempt
from .stopping import Why

_SLICE_RECORDS = 5_000
_MARGIN_US = 10 * US_PER_S
_WIDER = 30
"""Times as far back where a run's beginning was not found. After four times that is three months: soon all there is."""
_TRIES = 2
_UNDER_WAY = RunState(RunStatus.RUNNING, is_dag=True)
_BEGINNINGS = frozenset({EventKind.PENDING, EventKind.HELD, EventKind.SKIPPED})


class Answer(NamedTuple):
    """What the log says of one claim. ``ends_for``: on file for this very attempt, which is still open; else None."""

    attempt: Attempt
    accepted: bool
    ends_for: Why | None = None


@dataclass(slots=True, eq=False)
class _Question:
    """One claim. ``to_end``: read on past its STARTED; ``end``: up to where. ``is_cut``: where to begin is gone.

    ``margin_us``: how long before its instant its run's beginning is looked for; ``is_whole``: the log has no more.
    """

    attempt: Attempt
    to_end: bool
    end: int = 0
    is_cut: bool = False
    margin_us: int = _MARGIN_US
    is_whole: bool = False
    accepted: bool = False
    was_read: bool = False
    tries: int = 0

    @property
    def run_id(self) -> str:
        return self.attempt.work.run_id

    @property
    def offset(self) -> int:
        return offset_of(self.attempt.token)

    @property
    def may_begin_earlier(self) -> bool:
        """Whether its run's beginning may have the stamp of another clock."""
        return not (_is_known(self.attempt.work) or self.attempt.is_made_with_its_run)

    @property
    def since_at(self) -> Instant:
        """From when on its run's beginning is looked for, where its work does not say."""
        return max(0, self.attempt.begun_at - self.margin_us)

    @property
    def is_open(self) -> bool:
        """Nothing can be said: its STARTED was not read. The second time it is not there."""
        return not self.was_read and self.tries < _TRIES

    def begin_anew(self) -> None:
        """It could not be read for to the end, and nobody knows whether its STARTED is there."""
        self.accepted = self.was_read = False
        self.tries -= 1


class _Reading:
    """One partition: the questions that are being read for, and the runs' states so far."""

    def __init__(self, questions: list[_Question], generation: int) -> None:
        self.questions = {question.offset: question for question in questions}
        self.end = max(question.end for question in questions)
        self._generation = generation
        self._jobs = {question.attempt.work.job_id.encode() for question in questions}
        self._fold: Fold[None] = Fold(generation=generation)
        self._told: dict[str, RunState | None] = {}
        self._from: dict[str, int] = {}
        self._not_begun = {question.run_id for question in questions if question.may_begin_earlier}
        # Of two claims of one run the word that reaches back furthest counts: it leaves neither of them out.
        latest_first = sorted(questions, key=_reach, reverse=True)
        self._cut = {question.run_id: question.attempt.work for question in latest_first if question.is_cut}
        for work in {question.run_id: question.attempt.work for question in latest_first}.values():
            if work.run_id in self._cut:
                self._restore_dag_run(work)
            elif work.dag_from < 0 <= work.verify_from and work.verify_state:
                self._told[work.run_id] = _known(work.verify_state)
                self._from[work.run_id] = work.verify_from

    def asks(self, attempt: Attempt) -> bool:
        """Whether one of the questions is about this one."""
        question = self.questions.get(offset_of(attempt.token))
        return question is not None and question.attempt is attempt

    def take(self, record: Record) -> None:
        """The next record of this partition."""
        if record.key not in self._jobs or record.value is None:
            return
        try:
            event = decode_event(record.value)
            accepted = self._apply(event, record.offset)
        except RequestError:
            return  # not an event of ours: it decides nothing
        question = self.questions.get(record.offset)
        if question is not None:
            question.accepted, question.was_read = accepted, True

    def answers(self) -> list[Answer]:
        """Everything was read."""
        return [self._answer(question) for question in self.questions.values() if not self._is_asked_again(question)]

    def unanswered(self) -> list[_Question]:
        """Those to be asked once more: their STARTED did not come, although it is committed; or their run's beginning
        did not, whose stamp another clock has given: that is looked for further back from now on."""
        again = [question for question in self.questions.values() if self._is_asked_again(question)]
        for question in again:
            if question.run_id in self._not_begun:
                question.margin_us *= _WIDER
        return again

    def _is_asked_again(self, question: _Question) -> bool:
        return question.is_open or (question.run_id in self._not_begun and not question.is_whole)

    def _restore_dag_run(self, work: WorkRecord) -> None:
        dag_run_id, key = split_node_run_id(work.run_id)
        if key and dag_run_id not in self._fold.open:
            self._fold.restore(dag_run_id, _UNDER_WAY, work.dag_from, None)

    def _seed(self, work: WorkRecord, kind: EventKind) -> None:
        """The first that is left of a run. Where that is not its beginning, it waited for its attempt."""
        if kind in _BEGINNINGS:
            return
        state = RunState(RunStatus.RETRYING if work.attempt > 1 else RunStatus.PENDING, work.attempt - 1)
        dag_run_id, key = split_node_run_id(work.run_id)
        if not key:
            self._told[work.run_id], self._from[work.run_id] = state, 0
            return
        dag_run = self._fold.state(dag_run_id)
        if dag_run is not None and not (dag_run.final or dag_run.ending):  # else it ended with its DagRun
            self._fold.restore(work.run_id, state, work.dag_from, None)

    def _apply(self, event: RunEvent, offset: int) -> bool:
        run_id = event.run_id
        if event.kind in _BEGINNINGS:
            self._not_begun.discard(run_id)
        if run_id in self._cut:
            self._seed(self._cut.pop(run_id), event.kind)
        if run_id not in self._told:
            return self._fold.apply(event, offset).accepted
        if offset < self._from[run_id]:
            return False  # its maker knew this already
        verdict = reduce(self._told[run_id], event, ordinal(self._generation, offset))
        self._told[run_id] = verdict.state
        return verdict.accepted

    def _answer(self, question: _Question) -> Answer:
        attempt = question.attempt
        run_id = attempt.work.run_id
        state = self._told[run_id] if run_id in self._told else self._fold.state(run_id)
        if not question.accepted or state is None or not state.attempt_open or state.token != attempt.token:
            return Answer(attempt, question.accepted)
        why = Why.CANCELLED if state.cancel_requested else Why.DAG_RUN_OVER if state.expired else None
        return Answer(attempt, accepted=True, ends_for=why)


def _is_known(work: WorkRecord) -> bool:
    """Whether the record says from where on the log tells its run's state."""
    return bool(work.verify_state) or work.dag_from >= 0


class ReadBack:
    """At most as many questions as there are worker slots. ``generation`` is that of run-events, for the tokens."""

    def __init__(self, log: Log, run_events: str, generation: int) -> None:
        self._log = log
        self._topic = run_events
        self._generation = generation
        self._partitions = log.partitions(run_events)
        self._reader: Reader | None = None
        self._queue: dict[Attempt, _Question] = {}
        self._reading: dict[TopicPartition, _Reading] = {}
        self._asked: set[Attempt] = set()

    def ask(self, attempts: Iterable[Attempt], *, to_end: bool) -> None:
        """Ask about these, landed under their tokens; ``to_end``: also for what stands behind their STARTED."""
        for attempt in attempts:
            known = self._queue.get(attempt)
            if known is None:
                self._queue[attempt] = _Question(attempt, to_end)
            else:
                known.to_end |= to_end
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
        if self._reader is None or not self._reading:
            return []
        for record in self._polled(self._reader):
            reading = self._reading.get(TopicPartition(record.topic, record.partition))
            if reading is not None and record.offset < reading.end:
                reading.take(record)
        found: list[Answer] = []
        for place, reading in list(self._reading.items()):
            if self._reader.position(place) >= reading.end:
                found += reading.answers()
                for question in reading.unanswered():
                    self._queue.setdefault(question.attempt, question)
                del self._reading[place]
        # Asked again meanwhile: that answer will know more.
        answers = [answer for answer in found if answer.attempt not in self._queue]
        self._asked.difference_update(answer.attempt for answer in answers)
        return answers

    def clear(self) -> None:
        """Forget all: the incarnation that claimed them is over."""
        self._queue.clear()
        self._reading.clear()
        self._asked.clear()

    def drop(self, attempt: Attempt) -> None:
        """Nobody waits for this answer any more; one that is being read for still comes."""
        self._queue.pop(attempt, None)
        if not any(reading.asks(attempt) for reading in self._reading.values()):
            self._asked.discard(attempt)

    def close(self) -> None:
        """Give the reader up."""
        if self._reader is not None:
            self._reader.close()

    def _polled(self, reader: Reader) -> Sequence[Record]:
        try:
            return reader.poll(_SLICE_RECORDS, 0.0)
        except LostResource:  # told once, by a real client: it would deliver nothing more, and say nothing
            for reading in self._reading.values():
                for question in reading.questions.values():
                    question.begin_anew()
                    self._queue.setdefault(question.attempt, question)
            self._reading.clear()
            raise

    def _begin(self) -> None:
        """Read for all that wait now, partition by partition; what is asked meanwhile waits for the next time."""
        waiting: dict[TopicPartition, list[_Question]] = {}
        for question in self._queue.values():
            place = TopicPartition(self._topic, partition_of(question.attempt.work.job_id, self._partitions))
            if place not in self._reading:
                waiting.setdefault(place, []).append(question)
        if not waiting:
            return
        if self._reader is None:
            self._reader = self._log.reader(Isolation.COMMITTED)
        # Everything that may fail comes before anything changes.
        starts = {place: self._reader.position(place) for place in self._reading}
        for place, questions in waiting.items():
            end = self._log.high_watermark(place) if any(question.to_end for question in questions) else 0
            for question in questions:
                question.end = max(question.offset + 1, end if question.to_end else 0)
            starts[place] = self._start_of(place, questions)
        self._reader.assign(starts)
        for place, questions in waiting.items():
            self._reading[place] = _Reading(questions, self._generation)
            for question in questions:
                question.tries += 1
                del self._queue[question.attempt]

    def _start_of(self, place: TopicPartition, questions: list[_Question]) -> int:
        low = self._log.low_watermark(place)
        offsets = [question.offset for question in questions]
        unknown = [question for question in questions if not _is_known(question.attempt.work)]
        for question in questions:
            work = question.attempt.work
            if _is_known(work) and (offset := work.verify_from if work.dag_from < 0 else work.dag_from) >= 0:
                question.is_cut = offset < low
                offsets.append(offset)
        if unknown:
            oldest = self._log.offset_at(place, min(question.since_at for question in unknown))
            offsets.append(oldest)
            if oldest <= low or not all(question.since_at for question in unknown):
                for question in unknown:  # retention may have been quicker: one more request each
                    begins = self._log.offset_at(place, question.since_at) if low else low
                    question.is_whole = begins <= low or not question.since_at
                    question.is_cut = begins <= low and low > 0
        return max(min(offsets), low)


def _reach(question: _Question) -> tuple[int, int]:
    """Orders claims of one run by how far back the word of their work records reaches."""
    work = question.attempt.work
    return work.attempt, work.verify_from


def _known(text: str) -> RunState | None:
    try:
        return state_from_text(text)
    except ValueError:
        return None  # written by nobody we know: its claim is then not accepted, and the reconciler looks again
