"""Questions about claims, and the reading of one partition that answers them: a fold, and nothing that asks the log.

See ``read_back.py`` for what is asked and why. What must hold: records come in the order of their offsets, beginning
where each run's state was known; an answer is given once all up to its question's end has been taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from waterclock.log.port import Record
from waterclock.model.dag_work import split_node_run_id
from waterclock.model.errors import RequestError
from waterclock.model.events import EventKind, RunEvent, RunStatus, WorkRecord
from waterclock.model.fold import Fold
from waterclock.model.ids import US_PER_S, Instant, offset_of, ordinal
from waterclock.model.known_state import state_from_text
from waterclock.model.reduce import RunState, reduce
from waterclock.wire.codec import decode_event

from .executors.port import Attempt
from .stopping import Why

MARGIN_US = 10 * US_PER_S
NEAR_RECORDS = 100_000
_NEAR_US = 120 * US_PER_S
"""What was known, or begun, within these before a claim is read for in some seconds."""
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
class Question:
    """One claim. ``to_end``: read on past its STARTED; ``end``: up to where. ``is_cut``: where to begin is gone.

    ``margin_us``: how long before its instant its run's beginning is looked for; ``is_whole``: the log has no more.
    ``told_at``: its code runs, and ``control`` named it then: what lies between is passed over. None: all is read.
    ``was_short``: it was, and nothing was found there.
    """

    attempt: Attempt
    to_end: bool
    end: int = 0
    is_cut: bool = False
    margin_us: int = MARGIN_US
    is_whole: bool = False
    told_at: Instant | None = None
    was_short: bool = False
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
        return not (is_known(self.attempt.work) or self.attempt.is_made_with_its_run)

    @property
    def since_at(self) -> Instant:
        """From when on its run's beginning is looked for, where its work does not say."""
        return max(0, self.attempt.begun_at - self.margin_us)

    @property
    def known_from(self) -> int:
        """From which offset on its run's state is to be read, where its work says so; else -1."""
        work = self.attempt.work
        if not is_known(work):
            return -1
        return work.verify_from if work.dag_from < 0 else work.dag_from

    @property
    def is_long(self) -> bool:
        """Whether much may have to be read for it. It decides nothing but who waits for whom."""
        if self.was_short or is_known(self.attempt.work):
            return self.was_short or 0 <= self.known_from < self.offset - NEAR_RECORDS
        return self.attempt.started_at - self.since_at > _NEAR_US

    @property
    def is_open(self) -> bool:
        """Nothing can be said: its STARTED was not read. The second time it is not there."""
        return not self.was_read and self.tries < _TRIES

    def begin_anew(self) -> None:
        """It could not be read for to the end, and nobody knows whether its STARTED is there."""
        self.accepted = self.was_read = False
        self.tries -= 1


class Reading:
    """One partition: the questions that are being read for, and the runs' states so far.

    ``resumes_at``: where to go on behind the last STARTED; what lies between nobody asks for. 0: nothing does.
    """

    def __init__(self, questions: list[Question], generation: int, resumes_at: int = 0) -> None:
        self.questions = {question.offset: question for question in questions}
        self.end = max(question.end for question in questions)
        self.resumes_at = resumes_at
        self._claims_end = max((each.offset for each in questions if each.told_at is not None), default=0) + 1
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

    def may_resume(self, position: int) -> bool:
        """Whether a stretch begins here that nobody asks for."""
        return self._claims_end <= position < self.resumes_at

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

    def unanswered(self) -> list[Question]:
        """Those to be asked once more: their STARTED did not come, although it is committed; or their run's beginning
        did not, whose stamp another clock has given: that is looked for further back from now on; or no reason to end
        was found where one was told, and it may lie in what was passed over: all is read from now on."""
        again = [question for question in self.questions.values() if self._is_asked_again(question)]
        for question in again:
            if question.run_id in self._not_begun:
                question.margin_us *= _WIDER
            question.was_short |= question.told_at is not None
            question.told_at = None
        return again

    def _is_asked_again(self, question: Question) -> bool:
        if question.is_open or (question.run_id in self._not_begun and not question.is_whole):
            return True
        return question.told_at is not None and question.accepted and self._answer(question).ends_for is None

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

    def _answer(self, question: Question) -> Answer:
        attempt = question.attempt
        run_id = attempt.work.run_id
        state = self._told[run_id] if run_id in self._told else self._fold.state(run_id)
        if not question.accepted or state is None or not state.attempt_open or state.token != attempt.token:
            return Answer(attempt, question.accepted)
        why = Why.CANCELLED if state.cancel_requested else Why.DAG_RUN_OVER if state.expired else None
        return Answer(attempt, accepted=True, ends_for=why)


def is_known(work: WorkRecord) -> bool:
    """Whether the record says from where on the log tells its run's state."""
    return bool(work.verify_state) or work.dag_from >= 0


def _reach(question: Question) -> tuple[int, int]:
    """Orders claims of one run by how far back the word of their work records reaches."""
    work = question.attempt.work
    return work.attempt, work.verify_from


def _known(text: str) -> RunState | None:
    try:
        return state_from_text(text)
    except ValueError:
        return None  # written by nobody we know: its claim is then not accepted, and the reconciler looks again
