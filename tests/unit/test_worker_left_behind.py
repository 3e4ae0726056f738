"""What a dead incarnation has left in threads that nobody can stop: its worker slots are not given away."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from structlog.testing import capture_logs
from waterclock.workers.executors.python import PythonExecutors
from waterclock.workers.loop import Worker
from worker_world import World

from waterclock.app import App, Context
from waterclock.log.memory import MemoryLog
from waterclock.model.events import EventKind, LeaseKind, Outcome
from waterclock.model.ids import US_PER_S

BOUND_S = 20.0
LEASE_US = 15 * US_PER_S


class Hanging:
    """A worker with four slots and four threads, whose handlers hang as long as ``gate`` is closed."""

    def __init__(self) -> None:
        self.world = World()
        self.gate = threading.Event()
        self.hangs = True
        self.begun: list[str] = []
        app = App()

        @app.handler("noop")
        def noop(ctx: Context) -> None:
            self.begun.append(ctx.run_id)
            if self.hangs:
                assert self.gate.wait(BOUND_S)

        executors = PythonExecutors(app.handlers, self.world.clock, threads_max=4)
        log = MemoryLog(self.world.cluster, "worker")
        self.worker = Worker(
            self.world.clock, log, self.world.names, executors, worker="worker-1", slots=4, process="p"
        )

    def until(self, condition: Callable[[], bool], what: str) -> None:
        give_up_at_s = time.monotonic() + BOUND_S
        while not condition():
            assert time.monotonic() < give_up_at_s, what
            self.world.turn(self.worker)

    def beyond_the_lease(self, count: int) -> list[str]:
        """So many runs that hang while the lease is lost; what is called from then on does not."""
        hung = self.world.fire(count)
        self.until(lambda: len(self.begun) == count, "they did not begin")
        self.hangs = False
        _lose_the_lease(self.world)
        return hung


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    hanging = Hanging()
    yield hanging
    hanging.gate.set()
    hanging.worker.close()


def _lose_the_lease(world: World) -> None:
    """Nothing was heard of the brokers for too long."""
    world.clock.advance(LEASE_US)


def test_a_new_incarnation_claims_nothing_for_which_hung_handlers_leave_no_thread(hanging: Hanging) -> None:
    """Given handlers that hang in every thread beyond their lease, then new runs wait on their tier, not in here."""
    world = hanging.world
    hung = hanging.beyond_the_lease(4)
    fresh = world.fire(6)
    world.turn(hanging.worker, count=150)
    assert [lease.kind for lease in world.leases()] == [LeaseKind.HELLO, LeaseKind.HELLO]
    assert world.started() == sorted(hung), "nobody could run what it claims now"
    last = world.beats()[-1]
    assert last.incarnation > 0
    assert (last.held_count, last.held_xor) == (0, 0), "what is left behind is not held"
    hanging.gate.set()
    hanging.until(lambda: world.succeeded() == sorted(fresh), "their slots were not freed")
    assert sorted(hanging.begun) == sorted(hung + fresh)


def test_the_threads_that_are_free_serve_a_new_incarnation(hanging: Hanging) -> None:
    world = hanging.world
    hung = hanging.beyond_the_lease(3)
    fresh = world.fire(6)
    hanging.until(lambda: world.succeeded() == sorted(fresh), "one thread was left, and did not serve them")
    assert not hanging.gate.is_set()
    assert sorted(hanging.begun) == sorted(hung + fresh)


def test_only_what_keeps_a_thread_keeps_its_slot_beyond_its_incarnation() -> None:
    """Given tasks and calls, which can be stopped, and threads, which cannot."""
    world = World()
    worker, executors = world.worker(slots=4)
    world.fire(4)
    world.settle(worker)
    lost = list(executors.running)
    for attempt in lost[:3]:
        attempt.is_in_thread = True
    _lose_the_lease(world)
    world.fire(6)
    with capture_logs() as told:
        world.settle(worker)
    assert [line["threads"] for line in told if line["event"] == "threads_left_behind"] == [3]
    assert len(executors.running) == 1
    lost[0].is_in_thread = False  # it has ended, and its end may have been dropped
    world.settle(worker)
    assert len(executors.running) == 2
    _lose_the_lease(world)
    world.settle(worker)
    assert len(executors.running) == 2, "two are left behind, of the incarnation before the last"


def test_what_was_given_up_keeps_its_slot_beyond_its_incarnation() -> None:
    """Given a cancelled handler that does not stop, and whose outcome was recorded all the same."""
    world = World()
    worker, executors = world.worker(slots=1)
    (run_id,) = world.fire(1)
    world.settle(worker)
    (deaf,) = executors.running
    deaf.is_in_thread = True
    world.cancel(run_id)
    world.turn(worker, count=600)
    assert [event.run_id for event in world.events(EventKind.ATTEMPT_CANCELLED)] == [run_id]
    _lose_the_lease(world)
    (fresh,) = world.fire(1)
    world.settle(worker)
    assert fresh not in world.started()
    deaf.is_in_thread = False
    world.turn(worker, count=600)  # it has left its groups meanwhile (test_worker_aside.py)
    assert fresh in world.started()


def test_the_late_end_of_what_was_left_behind_is_dropped() -> None:
    world = World()
    worker, executors = world.worker(slots=2)
    world.fire(1)
    world.settle(worker)
    (attempt,) = executors.running
    attempt.is_in_thread = True
    _lose_the_lease(world)
    world.settle(worker)
    executors.running.append(attempt)
    executors.end(attempt, Outcome.SUCCEEDED)
    world.settle(worker)
    assert world.succeeded() == []
    attempt.is_in_thread = False
    fresh = world.fire(2)
    world.settle(worker)
    assert sorted(running.work.run_id for running in executors.running) == sorted(fresh)
