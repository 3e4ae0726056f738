"""Sending a command and asking for a worker's life, over the log in memory."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from waterclock.clock import ManualClock
from waterclock.commands import ordering
from waterclock.commands.failing import CommandFailed, ExitCode
from waterclock.commands.liveness import judge
from waterclock.commands.ordering import command_for, order
from waterclock.log.memory import MemoryLog
from waterclock.log.port import Isolation, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import Conflict, NotFound, RequestError
from waterclock.model.events import EventKind, Heartbeat, Lease, LeaseKind, Reject, RunEvent, SourceRecord, Started
from waterclock.model.ids import ordinal, partition_of
from waterclock.model.job import CommandKind
from waterclock.settings import Settings
from waterclock.wire.codec import decode_command
from waterclock.wire.messages import event_message, heartbeat_message, lease_message, reject_message
from waterclock.wire.names import Names, topic_specs

NAMES = Names()
JOB = "default:hello"
TTL_S = 15.0


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def log(clock):
    return MemoryLog.alone(clock, {spec.name: spec.partitions for spec in topic_specs(NAMES, 4)})


class Shard:
    """A store whose job row is as far as ``obey`` says, asked after every look; refuses where ``refusal`` is set."""

    def __init__(self, log: MemoryLog, refusal: tuple[str, str] | None = None, *, obeys: bool = True) -> None:
        self.log = log
        self.refusal = refusal
        self.obeys = obeys

    def job(self, job_id: str):
        record = newest_command(self.log)
        if record is None or not self.obeys:
            return None
        if self.refusal:
            reason, pointer = self.refusal
            source = SourceRecord(record.topic, record.partition, record.offset, record.key, record.value)
            appended = self.log.appender()
            appended.append(reject_message(NAMES, Reject("dispatcher", reason, pointer, "do so", 1, source)))
            appended.flush(1)
            return None
        return SimpleNamespace(src_partition=record.partition, src_offset=record.offset)


def newest_command(log: MemoryLog) -> Record | None:
    place = TopicPartition(NAMES.commands, partition_of(JOB, 4))
    records = list(read_range(log, Isolation.COMMITTED, place, 0, log.high_watermark(place)))
    return records[-1] if records else None


def test_an_obeyed_command_names_its_revision(log):
    obeyed = order(Settings(), log, Shard(log), command_for(CommandKind.PAUSE, JOB))
    record = newest_command(log)
    assert obeyed.revision == ordinal(Settings().generation, record.offset)
    command = decode_command(record.value)
    assert (command.kind, command.job_id) == (CommandKind.PAUSE, JOB)
    assert command.actor.startswith("cli:")


@pytest.mark.parametrize(
    ("pointer", "kind"), [("/job_id", NotFound), ("/expected_revision", Conflict), ("/spec/schedule/at", RequestError)]
)
def test_a_refused_command_raises_what_it_was_refused_with(log, pointer, kind):
    with pytest.raises(kind) as told:
        order(Settings(), log, Shard(log, ("it cannot be", pointer)), command_for(CommandKind.PAUSE, JOB))
    assert type(told.value) is kind
    assert (told.value.message, told.value.pointer, told.value.hint) == ("it cannot be", pointer, "do so")


def test_somebody_elses_refusal_is_not_ours(log, monkeypatch):
    monkeypatch.setattr(ordering, "APPLIED_WITHIN_S", 0.2)
    order(Settings(), log, Shard(log), command_for(CommandKind.PAUSE, JOB))
    first = newest_command(log)
    source = SourceRecord(first.topic, first.partition, first.offset, first.key, first.value)
    appender = log.appender()
    appender.append(reject_message(NAMES, Reject("dispatcher", "old", "/job_id", "", 1, source)))
    appender.flush(1)
    assert order(Settings(), log, Shard(log), command_for(CommandKind.RESUME, JOB)).offset == first.offset + 1


def test_a_command_that_nobody_obeys_says_where_it_stands_and_not_to_repeat_it(log, monkeypatch):
    monkeypatch.setattr(ordering, "APPLIED_WITHIN_S", 0.2)
    with pytest.raises(CommandFailed) as told:
        order(Settings(), log, Shard(log, obeys=False), command_for(CommandKind.PAUSE, JOB))
    assert told.value.exit_code is ExitCode.TIMEOUT
    assert f"waterclock.commands[{partition_of(JOB, 4)}]@0" in told.value.message
    assert "do not repeat" in told.value.hint


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
