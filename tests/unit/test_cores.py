"""Several cores in one process: ready together, ended together, and none waits for another."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import structlog

from waterclock.clock import ManualClock
from waterclock.cores import STILL_S, STILL_S_MAX, Cores
from waterclock.model.errors import BackendDown, Fenced, LostResource
from waterclock.model.ids import US_PER_S

LOG = structlog.get_logger()
PATIENCE_S = 10.0


class Core:
    """A core whose steps are what the test wants."""

    def __init__(self, act: Callable[[Core], None] = lambda _: None) -> None:
        self.act = act
        self.ready = False
        self.step_count = 0
        self.threads: set[int] = set()
        self.drained = self.closed = False
        self.stepped = threading.Event()

    def step(self) -> bool:
        self.threads.add(threading.get_ident())
        self.step_count += 1
        self.act(self)
        self.stepped.set()
        return False

    def drain(self) -> bool:
        self.threads.add(threading.get_ident())
        self.drained = True
        return False

    def close(self) -> None:
        self.threads.add(threading.get_ident())
        self.closed = True


def become_ready(core: Core) -> None:
    core.ready = True


def until(condition: Callable[[], bool], cores: Cores) -> None:
    for _ in range(int(PATIENCE_S / 0.1)):
        if condition():
            return
        cores.step()
    raise AssertionError("it did not come about")


def test_the_process_is_ready_when_all_cores_are() -> None:
    slow = Core()
    cores = Cores({"quick": Core(become_ready), "slow": slow}, LOG)
    try:
        cores.step()
        assert slow.stepped.wait(PATIENCE_S)
        assert not cores.ready
        slow.act = become_ready
        until(lambda: cores.ready, cores)
    finally:
        cores.close()


def test_each_core_is_touched_by_one_thread_alone() -> None:
    both = [Core(), Core()]
    cores = Cores({"one": both[0], "two": both[1]}, LOG)
    until(lambda: all(core.step_count > 3 for core in both), cores)
    while cores.drain():
        pass
    cores.close()
    assert all(core.drained and core.closed and len(core.threads) == 1 for core in both)
    assert both[0].threads != both[1].threads


def test_a_core_that_waits_holds_up_no_other() -> None:
    gate = threading.Event()
    stuck, free = Core(lambda _: gate.wait(PATIENCE_S) and None), Core()
    cores = Cores({"stuck": stuck, "free": free}, LOG)
    until(lambda: free.step_count > 100, cores)
    assert stuck.step_count == 1
    gate.set()
    cores.close()


def test_what_ends_one_core_ends_the_process_with_its_message() -> None:
    def fenced(_: Core) -> None:
        raise Fenced("waterclock.retry-router.1 belongs to another process")

    other = Core()
    cores = Cores({"fenced": Core(fenced), "other": other}, LOG)
    with pytest.raises(Fenced, match="belongs to another process"):
        until(lambda: False, cores)
    cores.close()
    assert other.closed


def test_a_backend_that_is_away_ends_nobody() -> None:
    def away(core: Core) -> None:
        if core.step_count == 1:
            raise BackendDown("kafka", "nobody answers")
        core.ready = True

    cores = Cores({"one": Core(away)}, LOG)
    until(lambda: cores.ready, cores)
    cores.close()


def test_a_core_that_does_not_come_back_is_told_of_and_ends_the_process_in_the_end() -> None:
    """Its client beats on in the background, so nobody else would take over what it holds."""
    gate, clock = threading.Event(), ManualClock(0)

    def hang_in_a_call(_: Core) -> None:
        gate.wait(PATIENCE_S)

    stuck, free = Core(hang_in_a_call), Core()
    cores = Cores({"stuck": stuck, "free": free}, LOG, clock)

    def pass_time(us: int) -> None:
        """The clock jumps, and the other core has a turn before anybody looks."""
        clock.advance(us)
        for _ in range(2):  # the turn that was under way, and one that began behind the jump
            free.stepped.clear()
            assert free.stepped.wait(PATIENCE_S)

    until(lambda: stuck.step_count == 1 and free.step_count > 0, cores)
    with structlog.testing.capture_logs() as lines:
        pass_time(round(STILL_S * US_PER_S) + 1)
        cores.step()
        cores.step()
    (told,) = [line for line in lines if line["event"] == "core stands still"]
    assert told["core"] == "stuck"
    assert "hang_in_a_call (test_cores.py:" in told["where"]
    pass_time(round(STILL_S_MAX * US_PER_S))
    with pytest.raises(LostResource, match=r"stuck has stood still for 105 s: .*hang_in_a_call"):
        until(lambda: False, cores)
    gate.set()
    cores.close()
