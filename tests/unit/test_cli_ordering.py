"""Sending a command and asking for a worker's life, over the log in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from waterclock.clock import ManualClock
from waterclock.commands import passing
from waterclock.commands.failing import CommandFailed, ExitCode
from waterclock.commands.liveness import judge
from waterclock.commands.ordering import command_for, order
from waterclock.log.memory import MemoryLog
from waterclock.log.port import Isolation, Ticket, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import AccessRefused, BackendDown, Busy, Conflict, NotFound, RequestError
from waterclock.model.events import Answered, CommandVerdict, EventKind, Heartbeat, Lease, LeaseKind, RunEvent, Started
from waterclock.model.ids import ordinal, partition_of
from waterclock.model.job import Command, CommandKind
from waterclock.settings import Settings
from waterclock.wire.codec import decode_command
from waterclock.wire.messages import event_message, heartbeat_message, lease_message
from waterclock.wire.names import Names, topic_specs

NAMES = Names()
JOB = "default:hello"
TTL_S = 15.0
BEFORE, ROW = SimpleNamespace(job_id=JOB, revision=3), SimpleNamespace(job_id=JOB, revision=7)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def log(clock):
    return MemoryLog.alone(clock, {spec.name: spec.partitions for spec in topic_specs(NAMES, 4)})


class Owned:
    """A log whose shard owner has answered every command by the time a flush returns, if it ``obeys``."""

    def __init__(self, log: MemoryLog, *, obeys: bool = True, **answer: Any) -> None:
        self.row: object = BEFORE
        self._log = log
        self._obeys = obeys
        self._answer = {"verdict": CommandVerdict.APPLIED, "revision": 7} | answer
        self.commands: list[Command] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def appender(self) -> Any:
        appender, flush = self._log.appender(), None

        def flushed(within_s: float) -> None:
            flush(within_s)
            self._obey(appender)

        flush, appender.flush = appender.flush, flushed
        return appender

    def _obey(self, appender: Any) -> None:
        place = TopicPartition(NAMES.commands, partition_of(JOB, 4))
        records = list(read_range(self._log, Isolation.COMMITTED, place, 0, self._log.high_watermark(place)))
        self.commands = [decode_command(record.value) for record in records]
        if not self._obeys:
            return
        self.row = ROW
        others = Answered("somebody-elses", records[-1].offset, CommandVerdict.REFUSED, 0, problem="conflict")
        for detail in (others, Answered(self.commands[-1].command_id, records[-1].offset, **self._answer)):
            appender.append(event_message(NAMES, RunEvent(EventKind.ANSWERED, JOB, "", 1, detail=detail)))


class Rows:
    """A store with the row of the job as ``owned`` has it, or with none."""

    def __init__(self, owned: Owned | None = None) -> None:
        self._owned = owned

    def job(self, job_id: str) -> object:
        assert job_id == JOB
        return self._owned.row if self._owned else None


def test_an_obeyed_command_shows_how_the_job_stands_then(log):
    owned = Owned(log)
    assert order(Settings(), owned, Rows(owned), command_for(CommandKind.PAUSE, JOB)) == (ROW, False)
    (command,) = owned.commands
    assert (command.kind, command.job_id, command.answer) == (CommandKind.PAUSE, JOB, True)
    assert command.actor.startswith("cli:")


def test_a_command_that_changes_nothing_says_so(log):
    owned = Owned(log, verdict=CommandVerdict.UNCHANGED)
    assert order(Settings(), owned, Rows(owned), command_for(CommandKind.PAUSE, JOB)).was_so


@pytest.mark.parametrize(
    ("problem", "kind"), [("not-found", NotFound), ("conflict", Conflict), ("busy", Busy), ("invalid", RequestError)]
)
def test_a_refused_command_raises_what_it_was_refused_with(log, problem, kind):
    refusal = {"message": "it cannot be", "pointer": "/spec", "hint": "do so"}
    owned = Owned(log, verdict=CommandVerdict.REFUSED, revision=0, problem=problem, **refusal)
    with pytest.raises(kind) as told:
        order(Settings(), owned, Rows(owned), command_for(CommandKind.PAUSE, JOB))
    assert type(told.value) is kind
    assert (told.value.message, told.value.pointer, told.value.hint) == ("it cannot be", "/spec", "do so")


def test_a_job_that_is_gone_behind_the_answer_is_not_found(log):
    with pytest.raises(NotFound, match="was obeyed"):
        order(Settings(), Owned(log), Rows(), command_for(CommandKind.DELETE, JOB))


def test_a_store_that_goes_away_behind_the_answer_makes_nobody_repeat_the_command(log):
    def away(job_id: str) -> object:
        raise BackendDown("cassandra", f"nothing of {job_id}")

    with pytest.raises(CommandFailed, match=r"was obeyed.*cassandra") as told:
        order(Settings(), Owned(log), SimpleNamespace(job=away), command_for(CommandKind.CREATE, JOB))
    assert told.value.exit_code is ExitCode.TIMEOUT
    assert f"Do not repeat it: waterclock job show {JOB}" in told.value.hint


def test_a_command_that_nobody_obeys_says_where_it_stands_and_not_to_repeat_it(log, monkeypatch):
    monkeypatch.setattr(passing, "ANSWERED_WITHIN_S", 0.2)
    with pytest.raises(CommandFailed) as told:
        order(Settings(), Owned(log, obeys=False), Rows(), command_for(CommandKind.PAUSE, JOB))
    assert told.value.exit_code is ExitCode.TIMEOUT
    assert f"waterclock.commands[{partition_of(JOB, 4)}]@0" in told.value.message
    assert "do not repeat" in told.value.hint


class Breaking(Owned):
    """The same, whose brokers go away: at a poll (``polls`` times), at each flush, or after so many appends."""

    def __init__(self, log: MemoryLog, *, polls: int = 0, flush: BackendDown | None = None, appends: int = 9, **more):
        super().__init__(log, **more)
        self._polls, self._flush, self._appends = polls, flush, appends

    def reader(self, *words: Any) -> Any:
        reader = self._log.reader(*words)
        poll = reader.poll

        def polled(*limits: Any) -> Any:
            self._polls -= 1
            if self._polls >= 0:
                raise AWAY
            return poll(*limits)

        reader.poll = polled
        return reader

    def appender(self) -> Any:
        appender = super().appender()
        append, flush = appender.append, appender.flush

        def appended(message: Any) -> Any:
            self._appends -= message.topic == NAMES.commands
            if self._appends < 0:
                raise AWAY
            ticket = append(message)
            return ticket if self._flush is None else Ticket()  # what no broker acknowledges has no place

        def flushed(within_s: float) -> None:
            if self._flush is not None:
                raise self._flush
            flush(within_s)

        appender.append, appender.flush = appended, flushed
        return appender


AWAY = BackendDown("kafka", "all brokers are down")
FOR_GOOD = 1 << 30


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(passing, "ANSWERED_WITHIN_S", 0.2)


def failure_of(log: Any) -> CommandFailed:
    with pytest.raises(CommandFailed) as told:
        order(Settings(), log, Rows(), command_for(CommandKind.TRIGGER, JOB))
    assert told.value.exit_code is ExitCode.TIMEOUT
    assert str(AWAY) in told.value.message
    return told.value


@pytest.mark.usefixtures("impatient")
def test_a_broker_that_goes_away_behind_a_command_is_told_with_its_place_and_not_to_repeat_it(log):
    told = failure_of(Breaking(log, polls=FOR_GOOD))
    assert f"stands at waterclock.commands[{partition_of(JOB, 4)}]@0" in told.message
    assert "do not repeat" in told.hint


@pytest.mark.usefixtures("impatient")
def test_a_command_that_no_broker_acknowledged_is_told_as_one_that_may_stand(log):
    told = failure_of(Breaking(log, flush=AWAY, obeys=False))
    assert "may stand on waterclock.commands" in told.message
    assert "repeat it only if" in told.hint


def test_an_answer_counts_also_where_the_broker_was_away_before_it(log):
    owned = Breaking(log, polls=3)
    assert order(Settings(), owned, Rows(owned), command_for(CommandKind.PAUSE, JOB)).row is ROW


def test_a_command_that_cannot_have_been_sent_is_told_as_a_backend_that_is_away(log):
    for broken in (Breaking(log, appends=0), Breaking(log, flush=AccessRefused("kafka", "wrong password"))):
        with pytest.raises(BackendDown):
            order(Settings(), broken, Rows(), command_for(CommandKind.TRIGGER, JOB))


@pytest.mark.usefixtures("impatient")
def test_commands_that_a_broker_breaks_off_are_told_with_what_was_sent_and_what_was_not(log, monkeypatch):
    monkeypatch.setattr(passing, "_SLICE", 2)
    commands = [command_for(CommandKind.TRIGGER, JOB)._replace(run_id=f"{JOB}@{number}") for number in range(9)]
    passed = passing.pass_on(Settings(), Breaking(log, appends=5), commands, 1_000.0)
    done, refused, silent = passed.tally(commands)
    assert (done, refused, silent) == (2, 0, (3, 0, 4, f"{JOB}@4", str(AWAY)))
    with pytest.raises(CommandFailed) as told:
        passing.tell_failures([], silent._replace(doubtful=1), done=done)
    assert told.value.exit_code is ExitCode.TIMEOUT
    for words in ("3 commands stand in the log", "1 were not acknowledged", f"4 were not sent: those behind {JOB}@4"):
        assert words in told.value.message
    assert "(2 were done, 0 refused)" in told.value.message
    assert str(AWAY) in told.value.message


# -- liveness: a run that waits for ever says so


def append(log: MemoryLog, *messages) -> list[int]:
    appender = log.appender()
    tickets = [appender.append(message) for message in messages]
    appender.flush(1)
    return [ticket.offset for ticket in tickets]


def hello(log: MemoryLog, worker: str, clock: ManualClock) -> int:
    return append(log, lease_message(NAMES, Lease(LeaseKind.HELLO, worker, clock.now(), "p")))[0]


def beat(log: MemoryLog, worker: str, incarnation: int, clock: ManualClock) -> None:
    append(log, heartbeat_message(NAMES, Heartbeat(worker, incarnation, clock.now(), "t", 0, 0, 32)))


def running(log: MemoryLog, worker: str, incarnation: int, clock: ManualClock):
    """A run's row as the recorder makes it from its STARTED."""
    detail = Started("waterclock.runs.high", 0, 0)
    event = RunEvent(
        EventKind.STARTED, JOB, f"{JOB}@20261121T090000Z", clock.now(), 1, worker, incarnation, detail=detail
    )
    (offset,) = append(log, event_message(NAMES, event))
    return SimpleNamespace(job_id=JOB, fence=ordinal(1, offset), worker=worker)


def ask(log: MemoryLog, row, clock: ManualClock):
    return judge(log, NAMES, row, lease_ttl_s=TTL_S, now=clock.now())


def test_a_worker_that_beats_is_alive(log, clock):
    incarnation = hello(log, "worker-1", clock)
    row = running(log, "worker-1", incarnation, clock)
    clock.advance(60_000_000)
    beat(log, "worker-1", incarnation, clock)
    clock.advance(3_000_000)
    assert ask(log, row, clock).alive


def test_a_worker_without_a_beat_for_one_lease_is_dead(log, clock):
    incarnation = hello(log, "worker-1", clock)
    row = running(log, "worker-1", incarnation, clock)
    beat(log, "worker-1", incarnation, clock)
    clock.advance(17_000_000)
    found = ask(log, row, clock)
    assert not found.alive
    assert "no beat of worker-1 came for one lease (15 s)" in found.why


def test_a_worker_that_was_started_anew_no_longer_holds_the_run_although_it_beats(log, clock):
    incarnation = hello(log, "worker-1", clock)
    row = running(log, "worker-1", incarnation, clock)
    beat(log, "worker-1", incarnation, clock)
    second = hello(log, "worker-1", clock)
    beat(log, "worker-1", second, clock)
    found = ask(log, row, clock)
    assert not found.alive
    assert "started anew" in found.why


def test_a_fenced_worker_is_dead(log, clock):
    incarnation = hello(log, "worker-1", clock)
    row = running(log, "worker-1", incarnation, clock)
    beat(log, "worker-1", incarnation, clock)
    append(log, lease_message(NAMES, Lease(LeaseKind.FENCED, "worker-1", clock.now(), "retry-router-1")))
    found = ask(log, row, clock)
    assert not found.alive
    assert "fenced" in found.why


def test_another_workers_hello_kills_nobody(log, clock):
    incarnation = hello(log, "worker-1", clock)
    row = running(log, "worker-1", incarnation, clock)
    beat(log, "worker-1", incarnation, clock)
    for number in range(2, 12):
        hello(log, f"worker-{number}", clock)
    assert ask(log, row, clock).alive
