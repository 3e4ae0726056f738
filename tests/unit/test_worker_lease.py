"""The lease on the worker's side, with user code that really runs: what is stopped when no broker answers any more."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from executor_world import Target, bench_of
from waterclock.workers.loop import Worker
from worker_world import START, HandExecutors, World

from waterclock.app import Context
from waterclock.clock import SystemClock
from waterclock.log.memory import CommitFate, MemoryLog
from waterclock.model.errors import BackendDown
from waterclock.model.events import EventKind, LeaseKind, Origin, Pending, RunEvent, WorkRecord
from waterclock.model.executor import Executor, HttpCall, ShellCommand, executor_to_json
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Tier
from waterclock.wire.messages import event_message, work_message

LEASE_S = 3.0
SH = "/bin/sh"
_BOUND_S = 20.0


class RealWorld(World):
    """Memory's log under the real clock, for executors that run on it."""

    def __init__(self) -> None:
        super().__init__()
        self.real = SystemClock()

    def put_work(self, job: str, handler: str = "", executor: Executor | None = None) -> str:
        job_id, run_id = f"acme:{job}", make_run_id(f"acme:{job}", START)
        pending = Pending(1, START, START, Tier.HIGH, Origin.SCHEDULE)
        self.put(event_message(self.names, RunEvent(EventKind.PENDING, job_id, run_id, START, detail=pending)))
        work = WorkRecord(run_id, START, START, 1, job_id, 1, Tier.HIGH, "default", handler, b"")
        reached = "" if executor is None else executor_to_json(executor)
        self.put(work_message(self.names, work._replace(executor=reached)))
        return run_id

    def until(self, worker: Worker, condition: Callable[[], bool], what: str) -> None:
        give_up_at_s = time.monotonic() + _BOUND_S
        while not condition():
            assert time.monotonic() < give_up_at_s, what
            worker.step()


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target()
    yield target
    target.close()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_three_quarters_of_a_lease_without_a_broker_stop_everything_that_can_be_stopped(
    tmp_path: Path, target: Target
) -> None:
    """Given a task, a program, a call and a thread under way, when no broker answers, then all end within the lease."""
    world = RealWorld()
    stopped_at_s: dict[str, float] = {}
    heeded = threading.Event()
    shell = {"enabled": True, "allow": (SH,), "working_dir": str(tmp_path)}
    with bench_of(shell=shell, egress={"allow": (target.place,)}) as bench:

        @bench.app.handler("task")
        async def task(ctx: Context) -> None:
            try:
                await asyncio.sleep(_BOUND_S * 2)
            finally:
                stopped_at_s["task"] = time.monotonic()

        @bench.app.handler("thread")
        def thread(ctx: Context) -> None:
            while not ctx.cancelled:
                time.sleep(0.01)
            stopped_at_s["thread"] = time.monotonic()
            heeded.set()

        worker = Worker(
            world.real,
            MemoryLog(world.cluster, "worker"),
            world.names,
            bench.executors,
            worker="worker-1",
            process="p",
            lease_ttl_s=LEASE_S,
            beat_interval_s=0.2,
        )
        text = "sleep 600 & echo $! > tmp; mv tmp child; wait"
        world.put_work("task", "task")
        world.put_work("thread", "thread")
        world.put_work("program", executor=ShellCommand((SH, "-c", text)))
        hanging = threading.Event()
        target.answer = lambda _: (hanging.wait(_BOUND_S), (200, {}, b""))[1]
        world.put_work("call", executor=HttpCall(f"http://{target.place}/hook", timeout_s=60.0))
        world.until(worker, lambda: (tmp_path / "child").exists() and bool(target.arrivals), "not all began")
        pid = int((tmp_path / "child").read_text())
        assert _is_alive(pid)

        def no_answer(client: str, _operation: str) -> None:
            if client == "worker":
                raise BackendDown("kafka", "no answer")

        world.cluster.faults.on_call = no_answer
        away_from_s = time.monotonic()
        world.until(worker, lambda: "task" in stopped_at_s and not _is_alive(pid) and heeded.is_set(), "it runs on")
        took_s = time.monotonic() - away_from_s
        assert LEASE_S * 0.4 < took_s < LEASE_S
        hanging.set()
        world.cluster.faults.on_call = None
        world.until(worker, lambda: len(world.leases()) == 2, "it did not begin anew")
        for _ in range(10):
            worker.step()
        assert world.events(EventKind.ATTEMPT_SUCCEEDED, EventKind.ATTEMPT_FAILED) == [], "its incarnation is dead"
        worker.close()


@pytest.mark.parametrize("heeds", [True, False])
def test_a_cancelled_thread_that_heeds_frees_its_slot(heeds: bool) -> None:
    world = RealWorld()
    go_on = threading.Event()
    with bench_of() as bench:

        @bench.app.handler("thread")
        def thread(ctx: Context) -> None:
            while not go_on.is_set():
                if heeds:
                    ctx.check()
                time.sleep(0.005)

        worker = Worker(
            world.real,
            MemoryLog(world.cluster, "worker"),
            world.names,
            bench.executors,
            worker="worker-1",
            process="p",
            slots=1,
            cancel_grace_s=0.3,
        )
        run_id = world.put_work("thread", "thread")
        world.until(worker, lambda: world.started() == [run_id], "it did not begin")
        world.cancel(run_id)
        world.until(worker, lambda: bool(world.events(EventKind.ATTEMPT_CANCELLED)), "no outcome")
        second = world.put_work("second", "thread")
        if heeds:
            world.until(worker, lambda: second in world.started(), "its slot was not freed")
        else:
            for _ in range(20):
                worker.step()
            assert second not in world.started(), "its thread runs on"
        go_on.set()
        world.until(worker, lambda: second in world.started(), "its slot was not freed in the end")
        worker.close()


def test_a_cancelled_task_ends_by_its_cancellation() -> None:
    world = RealWorld()
    with bench_of() as bench:

        @bench.app.handler("task")
        async def task(ctx: Context) -> None:
            await asyncio.sleep(_BOUND_S * 2)

        worker = Worker(
            world.real,
            MemoryLog(world.cluster, "worker"),
            world.names,
            bench.executors,
            worker="worker-1",
            process="p",
            cancel_grace_s=0.2,
        )
        run_id = world.put_work("task", "task")
        world.until(worker, lambda: world.started() == [run_id], "it did not begin")
        world.cancel(run_id)
        world.until(worker, lambda: bool(world.events(EventKind.ATTEMPT_CANCELLED)), "no outcome")
        worker.close()


def past_the_deadline_within(world: World, operation: str) -> None:
    """The next such call of the worker outlasts what is left of its lease."""

    def slow(client: str, called: str) -> None:
        if client != "outside" and called == operation:
            world.cluster.faults.on_call = None
            world.clock.advance(1_000_000)

    world.cluster.faults.on_call = slow


def until_shortly_before_the_deadline(world: World, executors: HandExecutors) -> None:
    left_s = executors.allowed_until_s - world.clock.monotonic_s()
    world.clock.advance(round((left_s - 0.5) * US_PER_S))


def test_a_deadline_that_passes_while_leases_are_read_is_not_moved_by_the_next_beat() -> None:
    """Given a call that outlasts the deadline, then that is the end: executors have stopped all, and would not say."""
    world = World()
    worker, executors = world.worker()
    world.fire(1)
    world.settle(worker)
    assert len(executors.running) == 1
    until_shortly_before_the_deadline(world, executors)
    past_the_deadline_within(world, "high_watermark")
    beats = len(world.beats())
    worker.step()
    assert world.cluster.faults.on_call is None, "nothing was slow, so this proves nothing"
    assert executors.forgotten_count == 1
    assert len(world.beats()) == beats, "a dead incarnation does not beat"
    world.turn(worker, count=20)
    assert [lease.kind for lease in world.leases()] == [LeaseKind.HELLO, LeaseKind.HELLO]


def test_claims_of_a_doubtful_round_do_not_begin_past_the_deadline() -> None:
    world = World()
    worker, executors = world.worker()
    world.settle(worker)
    world.cluster.faults.next_commit("t.worker.worker-1", CommitFate.UNANSWERED)
    run_ids = world.fire(2)
    worker.step()
    world.clock.advance(15 * US_PER_S)
    worker.step()
    assert world.started() == sorted(run_ids), "it landed, or this proves nothing"
    assert executors.submitted == []
    assert executors.forgotten_count == 1


def test_the_deadline_is_seen_while_no_producer_can_be_opened() -> None:
    world = World()
    worker, executors = world.worker()
    world.fire(1)
    world.settle(worker)
    world.cluster.faults.next_commit("t.worker.worker-1", CommitFate.UNANSWERED)
    world.fire(1)

    def no_init(_: str, operation: str) -> None:
        if operation == "init":
            raise BackendDown("kafka", "no answer")

    world.cluster.faults.on_call = no_init
    world.turn(worker, count=200, us=50_000)  # 10 s
    assert executors.forgotten_count == 0
    world.turn(worker, count=60, us=50_000)  # 13 s
    assert executors.forgotten_count == 1


def test_a_cancelled_program_that_heeds_with_exit_code_0_is_cancelled(tmp_path: Path) -> None:
    world = RealWorld()
    shell = {"enabled": True, "allow": (SH,), "working_dir": str(tmp_path)}
    with bench_of(shell=shell) as bench:
        worker = Worker(
            world.real,
            MemoryLog(world.cluster, "worker"),
            world.names,
            bench.executors,
            worker="worker-1",
            process="p",
        )
        text = "trap 'exit 0' TERM; touch up; while :; do sleep 0.05; done"
        run_id = world.put_work("program", executor=ShellCommand((SH, "-c", text)))
        world.until(worker, (tmp_path / "up").exists, "it did not begin")
        world.cancel(run_id)
        world.until(worker, lambda: bool(world.events(EventKind.ATTEMPT_CANCELLED)), "no outcome")
        assert world.events(EventKind.ATTEMPT_SUCCEEDED) == []
        worker.close()
