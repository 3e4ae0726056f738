"""How many threads sync handlers get, where ``prod`` is told the time by the test: no machine is too slow for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from waterclock.workers.executors.threads import Threads

BOUND_S = 20.0
TASKS, QUICK = 200, 100
PROD_EVERY_S = 0.005


class Served:
    """Serves tasks at once, but those from number QUICK on only once ``gate`` is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.count = 0
        self._moved = threading.Condition()

    def __call__(self, task: int) -> None:
        if task >= QUICK:
            assert self.gate.wait(BOUND_S)
        with self._moved:
            self.count += 1
            self._moved.notify_all()

    def wait_for(self, count: int) -> None:
        with self._moved:
            assert self._moved.wait_for(lambda: self.count == count, BOUND_S), f"{self.count} of {count} served"


@pytest.fixture
def served() -> Served:
    return Served()


@pytest.fixture
def threads(served: Served) -> Iterator[Threads[int]]:
    threads = Threads(served, threads_max=TASKS)
    yield threads
    served.gate.set()
    threads.stop(BOUND_S)


def test_quick_handlers_need_few_threads(threads: Threads[int], served: Served) -> None:
    for turn in range(1, 21):
        served.gate.clear()
        before = served.count
        threads.submit(range(TASKS))
        served.wait_for(before + QUICK)
        threads.prod(turn * PROD_EVERY_S)  # tasks wait, and 100 or more have moved since the last time
        served.gate.set()
        served.wait_for(before + TASKS)
    assert threads.thread_count <= 8


def test_handlers_that_block_get_ever_more_threads(threads: Threads[int], served: Served) -> None:
    threads.submit(range(TASKS))
    served.wait_for(QUICK)
    for turn in range(1, 9):
        threads.prod(10.0 + turn)
    assert threads.thread_count >= TASKS - QUICK
