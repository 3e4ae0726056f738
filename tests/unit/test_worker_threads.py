"""How many threads sync handlers get, where ``prod`` is told the time by the test: no machine is too slow for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from waterclock.workers.executors.port import Attempt
from waterclock.workers.executors.threads import Threads

from waterclock.model.events import WorkRecord
from waterclock.model.job import Tier

BOUND_S = 20.0
TASKS, QUICK = 200, 100
PROD_EVERY_S = 0.005
_WORK = WorkRecord("acme:a@20261121T090000Z", 0, 0, 1, "acme:a", 1, Tier.LOW, "default", "noop", b"")

Task = tuple[int, Attempt]


class Served:
    """Serves tasks at once, but those from number QUICK on only once ``gate`` is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.count = 0
        self._moved = threading.Condition()

    def __call__(self, task: Task) -> None:
        if task[0] >= QUICK:
            assert self.gate.wait(BOUND_S)
        with self._moved:
            self.count += 1
            self._moved.notify_all()

    def wait_for(self, count: int) -> None:
        with self._moved:
            assert self._moved.wait_for(lambda: self.count == count, BOUND_S), f"{self.count} of {count} served"


def tasks() -> list[Task]:
    return [(number, Attempt(_WORK, 0)) for number in range(TASKS)]


@pytest.fixture
def served() -> Served:
    return Served()


@pytest.fixture
def threads(served: Served) -> Iterator[Threads[Task]]:
    threads = Threads(served, threads_max=TASKS)
    yield threads
    served.gate.set()
    threads.stop(BOUND_S)


def test_quick_handlers_need_few_threads(threads: Threads[Task], served: Served) -> None:
    for turn in range(1, 21):
        served.gate.clear()
        before = served.count
        threads.submit(tasks())
        served.wait_for(before + QUICK)
        threads.prod(turn * PROD_EVERY_S)  # tasks wait, and 100 or more have moved since the last time
        served.gate.set()
        served.wait_for(before + TASKS)
    assert threads.thread_count <= 8


def test_handlers_that_block_get_ever_more_threads(threads: Threads[Task], served: Served) -> None:
    threads.submit(tasks())
    served.wait_for(QUICK)
    for turn in range(1, 9):
        threads.prod(10.0 + turn)
    assert threads.thread_count >= TASKS - QUICK


def test_an_attempt_says_that_it_keeps_a_thread_as_long_as_it_does(threads: Threads[Task], served: Served) -> None:
    threads.submit(ours := tasks()[: QUICK + 1])
    _, hung = ours[-1]
    until(lambda: hung.is_in_thread)
    until(lambda: not any(attempt.is_in_thread for _, attempt in ours[:-1]))
    assert hung.is_in_thread
    served.gate.set()
    until(lambda: not hung.is_in_thread)
    assert served.count == len(ours)


def until(condition: Callable[[], bool]) -> None:
    pause, give_up_at_s = threading.Event(), time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < give_up_at_s
        pause.wait(0.001)


def test_where_the_machine_gives_no_more_threads_those_that_there_are_do_it_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, begun = threading.Thread.start, []

    def start(thread: threading.Thread) -> None:
        if len(begun) == 3:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    served = Served()
    threads: Threads[Task] = Threads(served, 16)
    threads.submit(tasks())
    for turn in range(8):  # three are blocked, and each turn wants twice as many
        threads.prod(turn * PROD_EVERY_S)
    served.gate.set()
    served.wait_for(TASKS)
    assert threads.thread_count == 3
    threads.stop(2.0)
