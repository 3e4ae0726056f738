"""Bugs of what the ends of runs start: patches of the product for one play. See ``planted.py``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

from waterclock.dispatcher import admitting, emit, gathering, starts
from waterclock.dispatcher.admission import Admission
from waterclock.dispatcher.commands import Applied
from waterclock.dispatcher.emit import Emitter
from waterclock.dispatcher.shard import Shard
from waterclock.retry_router import loop as router_loop
from waterclock.retry_router.shard import Shard as RouterShard
from waterclock.retry_router.shard import Wanted
from waterclock.retry_router.trail import Note
from waterclock.retry_router.triggering import RunEnd

from waterclock.intake import topic_starts
from waterclock.intake.topic_listener import TopicListener
from waterclock.listeners import Listeners
from waterclock.log.port import Committed, Outgoing, TopicPartition
from waterclock.model.cause import NO_CAUSE, Cause
from waterclock.model.events import Origin, Pending, RunEvent
from waterclock.model.flow_state import RunFlow
from waterclock.model.fold import OpenRun
from waterclock.model.gathering import Arrival, Gathering
from waterclock.model.ids import Instant, job_of_run
from waterclock.model.job import Command, JobVersion
from waterclock.model.triggers import JobTriggers, RecordComes, Triggers
from waterclock.transact import Round, Rounds
from waterclock.wire.names import Names

from .planted_failures import Planted

_COMMANDS = Names().commands
_TURNS_APART = 5


@contextmanager
def sent_after_the_round() -> Iterator[None]:
    """What ends start is sent in the round after the one that commits the positions behind them."""
    right = Rounds.commit
    waiting: dict[int, list[Outgoing]] = {}

    def commit(self: Rounds, draft: Round) -> None:
        if ".retry-router." in self.transactional_id:
            starts = [message for message in draft.messages if message.topic == _COMMANDS]
            rest = [message for message in draft.messages if message.topic != _COMMANDS]
            draft.messages = [*waiting.pop(id(self), ()), *rest]
            waiting[id(self)] = starts
        right(self, draft)

    with mock.patch.object(Rounds, "commit", commit):
        yield


@contextmanager
def listeners_unread() -> Iterator[None]:
    """Ends are answered by what was read of ``triggers`` some time ago."""
    turns: Counter[int] = Counter()

    def look(self: Listeners) -> None:
        turns[id(self)] += 1
        if turns[id(self)] % _TURNS_APART == 1:
            right(self)

    right = Listeners.look
    with (
        mock.patch.object(Listeners, "ask"),
        mock.patch.object(Listeners, "caught_up", True),
        mock.patch.object(Listeners, "look", look),
    ):
        yield


@contextmanager
def cause_lost_with_a_wait() -> Iterator[None]:
    """A run that was HELD does not say any more what started it."""

    def release(self: Emitter, version: JobVersion, run: RunFlow, now: Instant) -> None:
        right(self, version, run._replace(triggered_by="", hops=0), now)

    right = Emitter.release
    with mock.patch.object(Emitter, "release", release):
        yield


@contextmanager
def told_ends_start_again() -> Iterator[None]:
    """A successor answers ends that its predecessor has answered, each under another name."""
    right, right_end = router_loop.started_by, RouterShard._ended

    def start(told: RunEnd, met: Sequence[JobTriggers], ring: Collection[str], now: Instant) -> Iterator[Command]:
        for command in right(told, met, ring, now):
            yield command._replace(command_id=f"{command.command_id}/{now}")

    def end(self: RouterShard, run_id: str, run: OpenRun[Note], at: Instant, wanted: Wanted) -> None:
        live, self.live = self.live, True
        right_end(self, run_id, run, at, wanted)
        self.live = live

    with (
        mock.patch.object(router_loop, "started_by", start),
        mock.patch.object(RouterShard, "_ended", end),
    ):
        yield


@contextmanager
def started_by_what_came_before() -> Iterator[None]:
    """What has made a run of a window is kept, and has its part in the next one."""
    right = gathering.arrive

    def arrive(on: Triggers, before: Gathering | None, job_id: str, arrival: Arrival) -> gathering.Step:
        step = right(on, before, job_id, arrival)
        if step.cause is None or step.after is not None or not on.wants_all:
            return step
        kept = (*(before.arrivals if before else ()), arrival)
        return step._replace(after=Gathering(job_id, arrival.at, arrival.number, arrival.at + on.within_us, kept))

    with mock.patch.object(gathering, "arrive", arrive):
        yield


@contextmanager
def window_lost_at_a_take_over() -> Iterator[None]:
    """A successor does not know what has come."""
    with mock.patch.object(gathering.Gatherings, "restore", return_value=[]):
        yield


@contextmanager
def started_though_the_window_lapsed() -> Iterator[None]:
    """What came too long ago counts still."""
    right = gathering.arrive

    def arrive(on: Triggers, before: Gathering | None, job_id: str, arrival: Arrival) -> gathering.Step:
        if on.wants_all and before is not None:
            before = before._replace(closes_at=max(before.closes_at, arrival.at + 1))
        return right(on, before, job_id, arrival)

    with mock.patch.object(gathering, "arrive", arrive):
        yield


@contextmanager
def windows_closed_by_the_clock() -> Iterator[None]:
    """The owner forgets a window when its own clock says so, and says nothing."""

    def over(self: gathering.Gatherings, now: Instant, most: int) -> Iterator[Gathering]:
        for each in right(self, now, most):
            self.drop(each.job_id)
        return iter(())

    right = gathering.Gatherings.over
    with mock.patch.object(gathering.Gatherings, "over", over):
        yield


@contextmanager
def paused_jobs_started() -> Iterator[None]:
    """A paused job is started by the ends that it waits for."""
    right = starts.start

    def start(
        shard: Shard, out: Emitter, fired: JobVersion, applied: Applied, command: Command, now: Instant
    ) -> Admission | None:
        return right(shard, out, fired, applied._replace(is_paused=False), command, now)

    with mock.patch.object(starts, "start", start):
        yield


@contextmanager
def records_answered_after_their_round() -> Iterator[None]:
    """What records start is sent in the round after the one that commits the positions behind them."""
    right = TopicListener._commit
    waiting: dict[int, list[Outgoing]] = {}

    def commit(self: TopicListener, messages: list[Outgoing]) -> None:
        before = waiting.pop(id(self), [])
        waiting[id(self)] = messages
        right(self, before)

    with mock.patch.object(TopicListener, "_commit", commit):
        yield


@contextmanager
def sources_begun_at_their_end() -> Iterator[None]:
    """Whoever takes a topic over hears of it from now on."""

    def begin(self: TopicListener, place: TopicPartition, committed: Committed | None, topic_id: str) -> int:
        return max(right(self, place, committed, topic_id), self._log.high_watermark(place))

    right = TopicListener._begin
    with mock.patch.object(TopicListener, "_begin", begin):
        yield


@contextmanager
def filters_not_heeded() -> Iterator[None]:
    """Every record of a topic starts whoever waits for some of it."""
    with mock.patch.object(RecordComes, "passes", return_value=True):
        yield


@contextmanager
def headers_not_told() -> Iterator[None]:
    """A record is told without the headers by which it was chosen: so a window cannot know which condition it met."""
    right = topic_starts.command_message

    def message(names: Names, command: Command) -> Outgoing:
        return right(names, command._replace(headers=()))

    with mock.patch.object(topic_starts, "command_message", message):
        yield


@contextmanager
def dag_runs_start_nobody() -> Iterator[None]:
    """The end of a DagRun starts nobody: it has no attempt that might have ended."""

    def end(self: RouterShard, run_id: str, run: OpenRun[Note], at: Instant, wanted: Wanted) -> None:
        ends = len(wanted.ends)
        right(self, run_id, run, at, wanted)
        if run.state.is_dag:
            del wanted.ends[ends:]

    right = RouterShard._ended
    with mock.patch.object(RouterShard, "_ended", end):
        yield


@contextmanager
def ends_by_nodes_not_told() -> Iterator[None]:
    """A DagRun that ends by the outcome of its last node, because it was cancelled or over its time, starts nobody."""

    def take(self: RouterShard, event: RunEvent, offset: int, wanted: Wanted) -> None:
        ends = len(wanted.ends)
        right(self, event, offset, wanted)
        wanted.ends[ends:] = [end for end in wanted.ends[ends:] if end.run_id == event.run_id]

    right = RouterShard.take
    with mock.patch.object(RouterShard, "take", take):
        yield


@contextmanager
def nodes_end_their_dag_run() -> Iterator[None]:
    """The end of a node is told as that of its DagRun; the command's id is the same, so the first one counts."""

    def end(self: RouterShard, run_id: str, run: OpenRun[Note], at: Instant, wanted: Wanted) -> None:
        right(self, run_id, run, at, wanted)
        dag_run_id, _, node = run_id.partition("/")
        if self.live and node:
            place = self.partition, self.fold.position - 1
            wanted.ends.append(RunEnd(dag_run_id, job_of_run(dag_run_id), run.state.status, at, 0, *place))

    right = RouterShard._ended
    with mock.patch.object(RouterShard, "_ended", end):
        yield


@contextmanager
def cause_of_a_dag_run_lost() -> Iterator[None]:
    """A DagRun does not say what started it: who it starts in its turn counts anew."""

    def pending(version: JobVersion, origin: Origin, payload: bytes | None = None, cause: Cause = NO_CAUSE) -> Pending:
        return right(version, origin, payload, NO_CAUSE if version.spec.dag is not None else cause)

    right = emit.pending_of_version
    with (
        mock.patch.object(emit, "pending_of_version", pending),
        mock.patch.object(admitting, "pending_of_version", pending),
    ):
        yield


PLANTED_TRIGGERS: dict[str, Planted] = {
    "what an end starts sent after its round": sent_after_the_round,
    "ends answered before it is known who waits": listeners_unread,
    "cause lost with a wait": cause_lost_with_a_wait,
    "an end that was answered starts again": told_ends_start_again,
    "what a record starts sent after its round": records_answered_after_their_round,
    "a source begun at its end at a take-over": sources_begun_at_their_end,
    "filters on headers not heeded": filters_not_heeded,
    "headers of a record not told": headers_not_told,
    "one end counted in two windows": started_by_what_came_before,
    "half a window lost at a take-over": window_lost_at_a_take_over,
    "started though the window lapsed": started_though_the_window_lapsed,
    "windows end unsaid": windows_closed_by_the_clock,
    "paused jobs started by others": paused_jobs_started,
    "the end of a DagRun starts nobody": dag_runs_start_nobody,
    "the end of a DagRun by a node not told": ends_by_nodes_not_told,
    "the end of a node told as its DagRun's": nodes_end_their_dag_run,
    "cause of a DagRun lost": cause_of_a_dag_run_lost,
}
