"""Finalizers that print: the garbage collector calls them wherever something is made, also where a line is kept."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator

import pytest
from waterclock.workers.executors.capture import Capture, entered, left
from waterclock.workers.executors.port import Attempt
from waterclock.workers.executors.printed import LineQueue, Printed

from tests.unit.executor_world import BOUND_S, attempt_of
from waterclock.clock import SystemClock
from waterclock.model.ids import Instant
from waterclock.model.run_log import NOTE_SEQ, LogStream, RunLog

WHOLE = 1 << 40


class Garbage:
    """Cannot be freed by counting references, and prints when it is collected."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        print("unclosed")


class CollectingClock(SystemClock):
    """The queue asks for the time under its lock: there the collector runs, as it may at any allocation."""

    def now(self) -> Instant:
        gc.collect()
        return super().now()


class CollectingQueue(LineQueue):
    """The collector runs where an attempt's ``Printed`` is made."""

    def begin(self, *args: object) -> Printed:
        gc.collect()
        return super().begin(*args)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """Only where the test lets it: every other allocation would collect the garbage before its time."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _printed_by(work: Callable[[Attempt], None], queue: LineQueue) -> list[RunLog]:
    """What is kept of an attempt whose code does this, in a thread of its own: a deadlock must not hold up the test."""
    attempt = attempt_of("")

    def run() -> None:
        entered(attempt)
        work(attempt)
        left(attempt)

    with Capture(queue).installed():
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(BOUND_S)
        assert not thread.is_alive(), "printing waits for itself"
    return queue.take(WHOLE)


def test_a_finalizer_that_prints_while_a_line_is_kept_is_dropped_and_told() -> None:
    def work(_: Attempt) -> None:
        print("before")
        Garbage()
        print("after")

    (log,) = _printed_by(work, LineQueue(CollectingClock()))

    *lines, note = log.lines
    assert [line.text for line in lines] == ["before", "after"]
    assert (note.seq, note.stream) == (NOTE_SEQ, LogStream.NOTE)
    # Two: print writes a text and its newline apart.
    assert note.text == "2 texts were dropped: a finalizer printed them while a line was being kept"


def test_a_finalizer_that_prints_while_lines_are_taken_or_an_attempt_ends_holds_up_nobody() -> None:
    queue = LineQueue(CollectingClock())

    def work(attempt: Attempt) -> None:
        print("\n" * 2_000)
        Garbage()
        queue.take(WHOLE)  # it makes the note, and asks for the time
        print("last")
        Garbage()

    (log,) = _printed_by(work, queue)
    assert "2 texts were dropped" in log.lines[-1].text, "at the end the attempt is not current any more"
    assert not queue.is_busy


def test_a_finalizer_may_print_the_first_text_of_its_attempt() -> None:
    def work(_: Attempt) -> None:
        Garbage()
        print("first")

    (log,) = _printed_by(work, CollectingQueue(SystemClock()))
    assert sorted(line.text for line in log.lines) == ["first", "unclosed"]


def test_what_one_thread_is_inside_of_costs_another_one_nothing() -> None:
    """Only whoever is inside already is dropped; another thread waits for the lock and is kept."""
    queue = LineQueue(SystemClock())
    capture, attempt = Capture(queue), attempt_of("")
    gate = threading.Barrier(4, timeout=BOUND_S)

    def work() -> None:
        gate.wait()
        for _ in range(200):
            capture.keep(attempt, LogStream.STDOUT, "line\n")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (log,) = queue.take(WHOLE)
    assert [line.text for line in log.lines] == ["line"] * 800
