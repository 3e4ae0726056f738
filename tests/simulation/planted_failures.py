"""Bugs of the failure path to be caught: patches of the product for the time of one play. See ``planted.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

from waterclock.retry_router import decide as deciding
from waterclock.retry_router import keeper, ladder, shard, verdicts, work_records
from waterclock.retry_router.deaths import Deaths
from waterclock.retry_router.decide import Again, Never
from waterclock.retry_router.keeper import Keeper
from waterclock.retry_router.ladder import Ladder
from waterclock.retry_router.letters import letter
from waterclock.retry_router.loop import RetryRouter
from waterclock.retry_router.open_attempts import OpenAttempts
from waterclock.retry_router.shard import GivenUp, Undecided
from waterclock.retry_router.standing import Standing
from waterclock.retry_router.verdicts import Verdicts
from waterclock.retry_router.watched import Watched
from waterclock.workers.attempts import Attempts
from waterclock.workers.control import ControlTail
from waterclock.workers.heartbeat import Beats
from waterclock.workers.incarnation import Incarnation

from waterclock.log.memory import MemoryLog
from waterclock.log.port import Log, Outgoing, Reader, Record, TopicPartition
from waterclock.model import reduce as reducing
from waterclock.model.events import EventKind, Lease, LeaseKind, RunEvent, RunStatus
from waterclock.model.ids import Instant
from waterclock.model.job import Tier
from waterclock.model.reduce import RunState, Verdict
from waterclock.transact import Round, Rounds
from waterclock.wire.messages import dead_letter_message, lease_message
from waterclock.wire.names import Names

Planted = Callable[[], AbstractContextManager[None]]


def _instead(owner: Any, name: str, bug: Any) -> Planted:
    """The bug in the place of what ``owner`` calls ``name``."""

    @contextmanager
    def planted() -> Iterator[None]:
        with mock.patch.object(owner, name, bug):
            yield

    return planted


# The reducer ----------------------------------------------------------------------------------------------------------


@contextmanager
def no_token_check() -> Iterator[None]:
    """An outcome counts, whoever it comes from."""

    def ended(state: RunState | None, event: RunEvent, token: int) -> Verdict:
        if state is not None and state.attempt_open:
            event = event._replace(worker=state.worker, token=state.token)
        return right(state, event, token)

    right = reducing._ended
    outcomes = dict.fromkeys((kind for kind in EventKind if kind.startswith("ATTEMPT_")), ended)
    with mock.patch.dict(reducing._RULES, outcomes):
        yield


@contextmanager
def cancel_overwrites() -> Iterator[None]:
    """A cancel ends a run whose attempt is open, and whatever that attempt says afterwards comes too late."""

    def cancelled(state: RunState | None, event: RunEvent, token: int) -> Verdict:
        if state is not None and state.attempt_open:
            return Verdict(state._replace(status=RunStatus.CANCELLED), True)
        return right(state, event, token)

    right = reducing._cancel_requested
    with mock.patch.dict(reducing._RULES, {EventKind.CANCEL_REQUESTED: cancelled}):
        yield


# Verdicts, letters, the ladder ----------------------------------------------------------------------------------------


def _crash_costs_nothing(before: Any, event: RunEvent) -> Any:
    """A crash costs no attempt, so a poison job kills worker after worker."""
    trail = _failed(before, event)
    return trail._replace(counted=trail.counted - 1) if event.kind is EventKind.ATTEMPT_LOST else trail


def _one_short(work: Any, state: RunState, trail: Any, now: Instant) -> Again | Never:
    """The run is given up one attempt before its last."""
    verdict = _decide(work, state, trail, now)
    short = _decide(work, state, trail._replace(counted=trail.counted + 1), now)
    return short if isinstance(short, Never) and isinstance(verdict, Again) and state.attempt > 1 else verdict


def _ages_while_held(before: Any, event: RunEvent, *, was_held: bool = False) -> Any:
    """The age of a run that waited for others counts from its trigger, and may be over when it goes out."""
    return _follow(before, event, was_held=False)


_failed, _follow, _decide, _onward = shard.failed, shard.follow, deciding.decide, ladder.onward


@contextmanager
def letter_with_its_verdict() -> Iterator[None]:
    """The dead letter goes out in the round of its verdict, which nobody has accepted yet."""

    def messages(self: Verdicts, undecided: Sequence[Undecided], now: Instant, known_to: Any) -> list[Outgoing]:
        found = []
        for each in undecided:
            said = right(self, [each], now, known_to)
            found += said
            if dict(said[0].headers)["ce_type"].endswith(b".run.failed"):
                event = RunEvent(EventKind.RUN_FAILED, each.run_id.partition("@")[0], each.run_id, now)
                place = TopicPartition(self._names.run_events, 0)  # only for the search of work that was never claimed
                given_up = GivenUp(event, each.state.attempt, each.trail, place, 0)
                found.append(dead_letter_message(self._names, letter(given_up, None, now)))
        return found

    def letters(self: RetryRouter, given_up: Sequence[GivenUp]) -> list[Outgoing]:
        return late(self, [each for each in given_up if each.event.kind is EventKind.RUN_EXPIRED])

    right, late = Verdicts.messages, RetryRouter._letters
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(Verdicts, "messages", messages))
        patches.enter_context(mock.patch.object(RetryRouter, "_letters", letters))
        yield


def _early(names: Names, tier_topic: str, record: Outgoing, due_at: Instant, now: Instant) -> Outgoing:
    """Whoever has stood on a rung goes to its tier, although more is left to wait than the rung's time."""
    return _onward(names, tier_topic, record, now, now)


@contextmanager
def retries_on_high() -> Iterator[None]:
    """What waited on a rung comes to HIGH in the end, whatever its tier."""

    def following(self: Ladder, standing: Standing, now: Instant) -> Outgoing:
        runs = self._names.runs
        with mock.patch.object(Names, "runs", lambda _, __, pool: runs(Tier.HIGH, pool)):
            return right(self, standing, now)

    right = Ladder._next
    with mock.patch.object(Ladder, "_next", following):
        yield


@contextmanager
def retry_apart_from_its_verdict() -> Iterator[None]:
    """RETRYING goes out in one transaction, the work of the next attempt in another one after it."""

    def commit_twice(self: Rounds, draft: Round) -> None:
        delayed = [message for message in draft.messages if ".delay." in message.topic]
        if ".retry-router." not in self.transactional_id or not delayed:
            commit(self, draft)
            return
        rest = Round(draft.epoch)
        rest.messages = delayed
        draft.messages = [message for message in draft.messages if message not in delayed]
        commit(self, draft)
        commit(self, rest)

    commit = Rounds.commit
    with mock.patch.object(Rounds, "commit", commit_twice):
        yield


def _last_record_dropped(reader: Reader, wave: dict[TopicPartition, list[int]]) -> Iterator[Record]:
    """Of work that is read back, the last record of a stretch is left out where a wave of polls ends just before it.

    A wave is of one poll here: in waves of twenty, as the product has them, hardly any play reads so far.
    """
    next_at = {place: offsets[0] for place, offsets in wave.items()}
    while next_at:
        reader.assign(next_at)
        records = reader.poll(work_records._BATCH, work_records._WAIT_S)
        for record in records:
            place = TopicPartition(record.topic, record.partition)
            next_at[place] = record.offset + 1
            if record.offset in wave[place]:
                yield record
        if not records:
            next_at |= {place: max(at, reader.position(place)) for place, at in next_at.items()}
        next_at = {place: at for place, at in next_at.items() if at < wave[place][-1]}


# Leases ---------------------------------------------------------------------------------------------------------------


def _one_forgotten(self: RetryRouter, trouble: Exception) -> None:
    """After a trouble one of the partitions is not begun again: only a new process, or another owner, would."""
    right_start_over(self, trouble)
    for place in sorted(self._taking_over.places)[:1]:
        self._taking_over.places.discard(place)


def _say_only(log: Log, names: Names, worker: str, by: str, now: Instant) -> None:
    """FENCED is written, and nobody was fenced."""
    appender = log.appender()
    appender.append(lease_message(names, Lease(LeaseKind.FENCED, worker, now, by)))
    appender.close()


@contextmanager
def lost_by_edge() -> Iterator[None]:
    """Who is dead is judged when the death is read, and never again."""

    def started(self: OpenAttempts, worker: str, _incarnation: int, run_id: str) -> None:
        right(self, worker, 1 << 60, run_id)

    right = OpenAttempts.started
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(OpenAttempts, "suspect_all", return_value=None))
        patches.enter_context(mock.patch.object(OpenAttempts, "started", started))
        yield


@contextmanager
def judges_while_lagging() -> Iterator[None]:
    """The keeper judges by what it has read so far, and makes up for no gap in its own watch."""

    def look(self: Keeper, place: TopicPartition) -> None:
        self._watched[place.partition].next_offset = 1 << 60
        right(self, place)

    right = Keeper._look
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(Keeper, "_look", look))
        patches.enter_context(mock.patch.object(Watched, "read_to_end", return_value=None))
        patches.enter_context(mock.patch.object(Deaths, "caught_up", return_value=True))
        yield


def _hello_plainly(self: Incarnation) -> None:
    """HELLO goes out as a plain record, which no fencing stops."""
    appender = self._rounds._log.appender()
    hello = Lease(LeaseKind.HELLO, self._worker, self._clock.now(), self._process)
    began_at_s = self._clock.monotonic_s()
    ticket = appender.append(lease_message(self._names, hello))
    appender.close()
    assert ticket.offset is not None
    self.number, self.began_at_s = ticket.offset, began_at_s


@contextmanager
def minds_no_death() -> Iterator[None]:
    """A worker goes on whatever ``leases`` says of it, and however long nobody has heard a beat of it."""
    for_ever = mock.PropertyMock(return_value=float("inf"))
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(Incarnation, "_end_if_dead", return_value=None))
        patches.enter_context(mock.patch.object(Beats, "_allow_from", return_value=None))
        patches.enter_context(mock.patch.object(Beats, "deadline_s", for_ever, create=True))
        yield


# Cancels --------------------------------------------------------------------------------------------------------------


@contextmanager
def control_told_last() -> Iterator[None]:
    """A cancel stands on run-events before control hears of it."""

    def commit_reversed(self: Rounds, draft: Round) -> None:
        if draft.ahead and not draft.tickets:
            draft.ahead, draft.messages = draft.messages, draft.ahead
        commit(self, draft)

    commit = Rounds.commit
    with mock.patch.object(Rounds, "commit", commit_reversed):
        yield


def _stable_end(self: ControlTail, partition: TopicPartition) -> int:
    """The barrier ends where readers of committed records stop, before somebody's open transaction."""
    log = self._log
    assert isinstance(log, MemoryLog)
    return log.cluster.partition(partition).lso


right_start_over = RetryRouter._start_over

PLANTED_FAILURES: dict[str, Planted] = {
    "reducer skips the token check": no_token_check,
    "cancel overwrites an attempt's success": cancel_overwrites,
    "attempt not counted after a crash": _instead(shard, "failed", _crash_costs_nothing),
    "a run's age counts from before it went out": _instead(shard, "follow", _ages_while_held),
    "dead letter before the last retry": _instead(verdicts, "decide", _one_short),
    "dead letter before its verdict is accepted": letter_with_its_verdict,
    "retry moved early": _instead(ladder, "onward", _early),
    "retry comes to another tier": retries_on_high,
    "retry apart from its verdict": retry_apart_from_its_verdict,
    "a run ends although its work stands": _instead(work_records, "_read_wave", _last_record_dropped),
    "a partition forgotten after a trouble": _instead(RetryRouter, "_start_over", _one_forgotten),
    "lost before fencing": _instead(keeper, "fence", _say_only),
    "lost by edge, not by level": lost_by_edge,
    "keeper judges while lagging": judges_while_lagging,
    "hello outside the transaction": _instead(Incarnation, "begin", _hello_plainly),
    "worker minds neither its deadline nor its death": minds_no_death,
    "cancel told to run-events before control": control_told_last,
    "control barrier at the last stable offset": _instead(ControlTail, "end_of", _stable_end),
    "no control barrier": _instead(Attempts, "may_emit", lambda *_: True),
}
