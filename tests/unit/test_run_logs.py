"""The way of printed lines to the table: never in the way of a run or of history, twice is once, late is not lost."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from waterclock.workers.executors.capture import Capture, entered, left
from waterclock.workers.executors.port import Attempt, EndedAttempt
from waterclock.workers.executors.printed import QUEUE_BYTES_MAX, LineQueue
from waterclock.workers.executors.python import PythonExecutors
from waterclock.workers.run_logs import RunLogSender

from waterclock.app import App, Context
from waterclock.beside import Beside
from waterclock.clock import ManualClock, SystemClock
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.port import Outgoing, Ticket, TopicPartition
from waterclock.model.errors import BackendDown, NotFound
from waterclock.model.events import WorkRecord
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Tier
from waterclock.model.run_log import KEPT_DAYS, LINES_MAX, NOTE_SEQ, LogLine, LogStream, RunLog
from waterclock.recorder.run_logs import GROUP, RunLogs
from waterclock.store.line_pages import LinePlace, lines_of
from waterclock.store.memory import MemoryStore, MemoryTables, WriteFault
from waterclock.wire.codec import decode_run_log
from waterclock.wire.messages import run_log_message
from waterclock.wire.names import Names, topic_specs

BOUND_S = 20.0
CLOCK = SystemClock()
NAMES = Names()
RUN = "acme:nightly@20261121T090000Z"
NINE = 1_795_251_600 * US_PER_S
PLACE = TopicPartition(NAMES.run_logs, 0)


# The worker's side -------------------------------------------------------------------------------------------------


class Brokers:
    """An Appender that keeps what it is given, and acknowledges it only while ``answers``."""

    def __init__(self) -> None:
        self.answers = True
        self.refusal: Exception | None = None
        self.taken: list[Outgoing] = []

    def append(self, message: Outgoing) -> Ticket:
        if self.refusal:
            raise self.refusal
        self.taken.append(message)
        return Ticket()

    def flush(self, timeout_s: float) -> None:
        if not self.answers:
            raise BackendDown("kafka", f"not acknowledged after {timeout_s} s")

    def close(self) -> None:
        """Holds nothing."""

    @property
    def lines(self) -> list[LogLine]:
        return [line for message in self.taken for line in decode_run_log(message.value or b"").lines]


class Outlet:
    """A worker's queue and its sender, stepped by hand or by its thread."""

    def __init__(self) -> None:
        self.brokers = Brokers()
        self.queue = LineQueue(CLOCK)
        self.capture = Capture(self.queue)
        self.sender = RunLogSender(self.brokers, NAMES, CLOCK, self.queue, worker="w-1")
        self._count = 0

    def attempt(self, handler: str = "talk") -> Attempt:
        self._count += 1
        work = WorkRecord(f"acme:j@{self._count}", 0, 0, 1, "acme:j", 1, Tier.HIGH, "default", handler, b"")
        return Attempt(work, 0, self._count)

    def prints(self, *texts: str) -> Attempt:
        attempt = self.attempt()
        entered(attempt)
        for text in texts:
            self.capture.keep(attempt, LogStream.STDOUT, f"{text}\n")
        left(attempt)
        return attempt


@pytest.fixture
def outlet() -> Outlet:
    return Outlet()


def _until(condition: Callable[[], object]) -> None:
    give_up_at_s = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < give_up_at_s
        time.sleep(0.01)


def test_logs_never_hold_up_a_run(outlet: Outlet) -> None:
    """Nobody acknowledges anything: all runs end, the memory is bounded, and what is lost is said."""
    outlet.brokers.answers = False
    app = App()

    @app.handler("talk")
    def talk(_: Context) -> None:
        for _number in range(100):
            print("x" * 400)

    executors = PythonExecutors(app.handlers, CLOCK, threads_max=4)
    ended: list[EndedAttempt] = []
    with (
        capture_logs() as said,
        Path(os.devnull).open("w") as nowhere,
        redirect_stdout(nowhere),
        outlet.capture.installed(),
    ):
        outlet.sender.start()
        executors.submit([outlet.attempt() for _ in range(200)])
        _until(lambda: ended.extend(executors.take_ended()) or len(ended) == 200)
        executors.stop(1.0)
        _until(lambda: {"run_logs_wait", "run_logs_dropped"} <= {line["event"] for line in said})

    assert outlet.queue._bytes <= QUEUE_BYTES_MAX
    assert outlet.queue.dropped_count > 0
    outlet.brokers.answers = True
    _until(lambda: not outlet.queue._bytes)
    outlet.prints("they answer again")
    outlet.sender.stop(BOUND_S)
    assert outlet.brokers.lines[-1].text == "they answer again"


def test_an_attempt_whose_lines_were_dropped_says_so(outlet: Outlet) -> None:
    outlet.queue = LineQueue(CLOCK, bytes_max=1_000)
    outlet.capture = Capture(outlet.queue)
    outlet.sender = RunLogSender(outlet.brokers, NAMES, CLOCK, outlet.queue, worker="w-1")
    attempt = outlet.attempt()
    entered(attempt)
    for number in range(10):
        outlet.capture.keep(attempt, LogStream.STDOUT, f"{number}\n")
    outlet.sender.step()
    left(attempt)
    outlet.sender.step()

    *lines, note = outlet.brokers.lines
    assert [line.text for line in lines] == ["0", "1", "2", "3"]
    assert (note.seq, note.text) == (NOTE_SEQ, "6 lines were dropped: the brokers did not take them in time")


def test_a_batch_is_sent_again_until_it_is_acknowledged(outlet: Outlet) -> None:
    outlet.prints("one")
    outlet.brokers.answers = False
    assert not outlet.sender.step()
    outlet.prints("two")
    assert not outlet.sender.step()
    outlet.brokers.answers = True
    while outlet.sender.step():
        pass

    assert [line.text for line in outlet.brokers.lines] == ["one", "one", "one", "two"]
    assert outlet.queue._bytes == 0


def test_lines_that_kafka_refuses_are_dropped_and_hold_nothing_up(
    outlet: Outlet, capsys: pytest.CaptureFixture[str]
) -> None:
    outlet.prints("one")
    outlet.brokers.refusal = NotFound("There is no topic waterclock.run-logs")
    outlet.sender.step()
    outlet.brokers.refusal = None
    outlet.prints("two")
    outlet.sender.step()

    assert [line.text for line in outlet.brokers.lines] == ["two"]
    assert "run_logs_refused" in capsys.readouterr().out


def test_a_record_of_lines_says_whose_they_are(outlet: Outlet) -> None:
    attempt = outlet.prints("one", "two")
    outlet.sender.step()
    (message,) = outlet.brokers.taken
    log = decode_run_log(message.value or b"")

    assert (message.topic, message.key) == (NAMES.run_logs, attempt.work.run_id.encode())
    assert log[:5] == (attempt.work.run_id, 1, "acme:j", attempt.token, "w-1")
    assert [(line.seq, line.text) for line in log.lines] == [(1, "one"), (2, "two")]


def test_what_waits_is_sent_when_the_worker_stops(outlet: Outlet) -> None:
    outlet.sender.start()
    outlet.prints("last words")
    outlet.sender.stop(BOUND_S)

    assert [line.text for line in outlet.brokers.lines] == ["last words"]


# The recorder's side -----------------------------------------------------------------------------------------------


class World:
    """A cluster with a store, a reader of lines, and a hand that writes what a worker would."""

    def __init__(self, partitions: int = 1) -> None:
        self.clock = ManualClock(NINE)
        self.cluster = MemoryCluster(self.clock)
        for spec in topic_specs(NAMES, partitions):
            self.cluster.create_topic(spec.name, spec.partitions)
        self.log = MemoryLog(self.cluster, "hand")
        self.appender = self.log.appender()
        self.tables = MemoryTables(self.clock)
        self.store = MemoryStore(self.clock, self.tables, "reader")

    def reader(self, client: str = "r") -> RunLogs:
        store = MemoryStore(self.clock, self.tables, client)
        return RunLogs(MemoryLog(self.cluster, client), store, self.clock, NAMES, "recorder-1", commit_every_s=0.0)

    def say(self, *texts: str, seq: int = 1, token: int = 7, attempt: int = 1, at: int = NINE) -> None:
        lines = tuple(LogLine(seq + number, at, LogStream.STDOUT, text) for number, text in enumerate(texts))
        self.appender.append(run_log_message(NAMES, RunLog(RUN, attempt, "acme:nightly", token, "w-1", lines)))

    def texts(self, attempt: int = 1) -> list[str]:
        return [line.text for line in self.store.lines(RUN, attempt, 10_000)]

    def committed(self) -> int | None:
        consumer = MemoryLog(self.cluster, "asker").consumer(NAMES.group(GROUP), [NAMES.run_logs])
        found = consumer.committed([PLACE], 1.0)[PLACE]
        consumer.close(leave=True)
        return None if found is None else found.offset


@pytest.fixture
def world() -> World:
    return World()


def _settle(reader: RunLogs) -> None:
    for _ in range(6):
        reader.step()
    while reader.step():
        pass


def test_lines_come_to_the_table_in_their_order(world: World) -> None:
    world.say("one", "two")
    reader = world.reader()
    world.say("three", seq=3)
    world.say("again", attempt=2, token=9)
    _settle(reader)

    assert reader.ready
    assert world.texts() == ["one", "two", "three"]
    assert world.texts(attempt=2) == ["again"]
    assert world.store.lines(RUN, 1, 1)[0][:6] == (RUN, 1, 7, 1, NINE, LogStream.STDOUT)


def test_lines_that_come_twice_are_there_once(world: World) -> None:
    for _ in range(2):
        world.say("one", "two")
    _settle(world.reader())

    assert world.texts() == ["one", "two"]


def test_two_claims_of_one_attempt_do_not_mix_their_lines(world: World) -> None:
    world.say("one", "two", token=7)
    world.say("ONE", "TWO", token=9)
    _settle(world.reader())

    assert world.texts() == ["one", "two", "ONE", "TWO"]


def test_a_note_gives_way_to_the_later_one_whatever_a_workers_clock_says(world: World) -> None:
    years_us = 400 * 86_400 * US_PER_S
    reader = world.reader()
    for note, at in (("10 more", NINE + years_us), ("20 more", NINE + years_us + 1)):
        world.clock.advance(1_000_000)
        world.say(note, seq=NOTE_SEQ, at=at)
        _settle(reader)

    assert world.texts() == ["20 more"]


def test_no_offset_runs_ahead_of_its_lines(world: World) -> None:
    reader = world.reader()
    _settle(reader)
    world.say("one")
    world.tables.on_call = lambda _, operation: WriteFault.LOST if operation == "keep_lines" else None
    for _ in range(5):
        reader.step()
    assert world.committed() in (None, 0)
    assert world.texts() == []

    world.tables.on_call = None
    _settle(reader)
    assert world.texts() == ["one"]
    assert world.committed() == 1


def test_a_successor_reads_on_where_it_was_committed(world: World) -> None:
    first = world.reader("r1")
    world.say("one")
    _settle(first)
    first.drain()
    first.close()
    world.say("two", seq=2)
    _settle(world.reader("r2"))

    assert world.texts() == ["one", "two"]


def test_a_position_stands_everywhere_also_where_nobody_printed() -> None:
    world = World(partitions=2)
    reader = world.reader()
    _settle(reader)

    assert world.committed() == 0


def test_undecodable_lines_are_passed_over(world: World) -> None:
    world.appender.append(Outgoing(NAMES.run_logs, b"k", b"no record of ours", partition=0))
    world.appender.append(Outgoing(NAMES.run_logs, b"k", None, partition=0))
    world.say("one")
    _settle(world.reader())

    assert world.texts() == ["one"]


def test_lines_are_kept_for_a_week_and_no_longer(world: World) -> None:
    world.say("one")
    _settle(world.reader())
    world.clock.advance(KEPT_DAYS * 86_400 * US_PER_S - US_PER_S)
    assert world.texts() == ["one"]
    world.clock.advance(2 * US_PER_S)

    assert world.texts() == []


class _Core:
    """A core that counts its steps, and what becomes of it."""

    ready = True

    def __init__(self, trouble: Exception | None = None) -> None:
        self.trouble = trouble
        self.steps = 0
        self.closed = threading.Event()

    def step(self) -> bool:
        self.steps += 1
        if self.trouble:
            raise self.trouble
        time.sleep(0.001)
        return False

    def drain(self) -> bool:
        return False

    def close(self) -> None:
        self.closed.set()


@pytest.mark.parametrize("trouble", [BackendDown("cassandra", "away"), ZeroDivisionError("a bug")])
def test_trouble_with_lines_does_not_hold_history_up(trouble: Exception) -> None:
    history, lines = _Core(), _Core(trouble)
    both = Beside(history, lines)
    both.step()
    _until(lambda: lines.steps)
    for _ in range(100):
        both.step()
    assert history.steps == 101
    assert both.drain() is False
    both.close()

    assert lines.closed.wait(BOUND_S)


# Pages -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def printed(world: World) -> World:
    world.say(*(f"a{number}" for number in range(5)))
    world.say("5 more", seq=NOTE_SEQ)
    world.say(*(f"b{number}" for number in range(3)), attempt=2, token=9)
    _settle(world.reader())
    return world


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 100])
def test_pages_miss_no_line_and_repeat_none(printed: World, limit: int) -> None:
    found: list[str] = []
    after: tuple[LinePlace, ...] = ()
    for _ in range(20):
        page = lines_of(printed.store, RUN, 1, 2, limit, after)
        found += [line.text for line in page.lines]
        after = page.after
        if not page.more:
            break

    assert found == ["a0", "a1", "a2", "a3", "a4", "5 more", "b0", "b1", "b2"]


@pytest.mark.parametrize("limit", [2, LINES_MAX])
def test_whoever_follows_gets_the_note_again_and_nothing_else(world: World, limit: int) -> None:
    """Also where a page ends with it."""
    reader = world.reader()
    world.say("one")
    world.say("5 more", seq=NOTE_SEQ, at=NINE)
    _settle(reader)
    first = lines_of(world.store, RUN, 1, 1, limit)
    world.clock.advance(1_000_000)
    world.say("9 more", seq=NOTE_SEQ, at=NINE + 10)
    _settle(reader)
    second = lines_of(world.store, RUN, 1, 1, limit, first.after)

    assert ([line.text for line in first.lines], first.more) == (["one", "5 more"], False)
    assert [line.text for line in second.lines] == ["9 more"]
