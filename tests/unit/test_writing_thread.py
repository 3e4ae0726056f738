"""Histories from a thread of their own: in order, bounded, and whoever waits is told what went wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from waterclock.clock import SystemClock
from waterclock.model.errors import BackendDown, WriteUnknown
from waterclock.recorder.writing_thread import WritingThread
from waterclock.store.port import AuditRow, History, Writing

WAIT_S = 20.0
CLOCK = SystemClock()


def batch(number: int) -> History:
    return History(audit=[AuditRow("acme:x", number, 0, number, "ann", "create", "")])


class Gated:
    """A store that begins no write before the test lets it, and notes what it was given."""

    def __init__(self, trouble: Exception | None = None) -> None:
        self.trouble = trouble
        self.entered = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.given: list[History] = []
        self.waited: list[float] = []

    def record(self, history: History) -> Writing:
        self.entered.release()
        assert self.gate.acquire(timeout=WAIT_S)
        self.given.append(history)
        if self.trouble is not None:
            raise self.trouble
        return self

    def wait(self, timeout_s: float) -> None:
        self.waited.append(timeout_s)

    def open(self, count: int) -> None:
        self.gate.release(count)


def test_whoever_gives_a_batch_goes_on_while_the_store_is_busy_with_it() -> None:
    store = Gated()
    writing = WritingThread(store, CLOCK, waiting_max=4).record(batch(1))

    assert store.entered.acquire(timeout=WAIT_S)
    assert not store.given, "it is under way in the thread"
    store.open(1)
    writing.wait(WAIT_S)
    writing.wait(WAIT_S)
    assert store.given == [batch(1)]
    assert all(0 < each <= WAIT_S for each in store.waited)


def test_batches_go_out_in_the_order_in_which_they_were_given() -> None:
    store = Gated()
    thread = WritingThread(store, CLOCK, waiting_max=20)
    writings = [thread.record(batch(number)) for number in range(20)]
    store.open(20)

    for writing in reversed(writings):
        writing.wait(WAIT_S)
    assert store.given == [batch(number) for number in range(20)]


@pytest.mark.parametrize("trouble", [BackendDown("cassandra", "away"), ValueError("a stamp of 0")])
def test_what_goes_wrong_is_told_to_whoever_waits_and_the_next_batch_is_written(trouble: Exception) -> None:
    store = Gated(trouble)
    store.open(2)
    thread = WritingThread(store, CLOCK, waiting_max=4)
    first = thread.record(batch(1))
    with pytest.raises(type(trouble), match=str(trouble.args[-1])):
        first.wait(WAIT_S)

    store.trouble = None
    thread.record(batch(2)).wait(WAIT_S)
    assert store.given == [batch(1), batch(2)]


def test_a_batch_too_many_is_refused_and_one_more_fits_once_the_store_has_moved_on() -> None:
    store = Gated()
    thread = WritingThread(store, CLOCK, waiting_max=2)
    first = thread.record(batch(0))
    assert store.entered.acquire(timeout=WAIT_S), "taken out of the queue"
    waiting = [thread.record(batch(1)), thread.record(batch(2))]
    with pytest.raises(BackendDown, match="2 batches of history wait"):
        thread.record(batch(3))

    store.open(4)
    for writing in (first, *waiting):
        writing.wait(WAIT_S)
    thread.record(batch(4)).wait(WAIT_S)
    assert store.given == [batch(0), batch(1), batch(2), batch(4)]


def test_a_batch_that_nobody_waits_for_any_more_is_not_written() -> None:
    store = Gated()
    thread = WritingThread(store, CLOCK, waiting_max=4)
    first, given_up = thread.record(batch(0)), thread.record(batch(1))
    with pytest.raises(WriteUnknown, match="not sent within"):
        given_up.wait(0.0)

    store.open(3)
    thread.record(batch(2)).wait(WAIT_S)
    first.wait(WAIT_S)
    assert store.given == [batch(0), batch(2)]
    with pytest.raises(WriteUnknown, match="given up"):
        given_up.wait(WAIT_S)


def test_a_batch_that_the_store_takes_longer_than_anybody_waits_is_sent_once_and_acknowledged() -> None:
    store = Gated()
    thread, mine = WritingThread(store, CLOCK, waiting_max=4), batch(0)
    first = thread.record(mine)
    assert store.entered.acquire(timeout=WAIT_S)
    with pytest.raises(WriteUnknown, match="still being sent"):
        first.wait(0.0)
    again = thread.record(mine)
    with pytest.raises(WriteUnknown, match="still being sent"):
        again.wait(0.0)

    store.open(2)
    thread.record(mine).wait(WAIT_S)
    assert store.given == [mine]
    thread.record(mine).wait(WAIT_S)
    assert store.given == [mine, mine], "what the store has answered is written anew when it is given again"


def test_a_write_that_was_sent_and_is_not_acknowledged_is_unknown() -> None:
    class Silent:
        def record(self, history: History) -> Writing:
            return self

        def wait(self, timeout_s: float) -> None:
            raise WriteUnknown("cassandra", f"not acknowledged within {timeout_s > 0}")

    waiting: Callable[[float], None] = WritingThread(Silent(), CLOCK, waiting_max=1).record(batch(0)).wait
    with pytest.raises(WriteUnknown, match="within True"):
        waiting(WAIT_S)
