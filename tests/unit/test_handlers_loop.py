"""The loop that async handlers share: what one of them does to it ends nobody else."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest
from waterclock.workers.executors.loop_thread import _BlockingCalls

from tests.unit.executor_world import Bench, attempt_of, bench_of
from waterclock.app import Context
from waterclock.model.events import Outcome


@pytest.fixture
def bench() -> Iterator[Bench]:
    with bench_of() as bench:
        yield bench


async def _leave() -> None:
    await asyncio.sleep(0.01)
    sys.exit(3)


async def _in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_leave())


async def _gathered() -> None:
    await asyncio.gather(_leave())


async def _in_a_callback() -> None:
    asyncio.get_running_loop().call_soon(sys.exit, 3)
    await asyncio.sleep(0.05)


async def _stops_the_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("work", "outcome"),
    [
        (_in_a_group, Outcome.FAILED),
        (_gathered, Outcome.FAILED),
        (_in_a_callback, Outcome.SUCCEEDED),
        (_stops_the_loop, Outcome.SUCCEEDED),
    ],
)
def test_whoever_ends_the_loop_ends_nobody_elses_attempt(
    bench: Bench, work: Callable[[], Awaitable[None]], outcome: Outcome
) -> None:
    """Given a handler whose own task leaves the process, or that stops its loop, then the others on it go on."""

    @bench.app.handler("odd")
    async def odd(_: Context) -> None:
        await work()

    @bench.app.handler("beside")
    async def beside(_: Context) -> int:
        await asyncio.sleep(0.1)
        return 1

    attempts = [attempt_of("", number=number, handler=name) for number, name in enumerate(("odd", "beside"))]
    bench.executors.submit(attempts)
    ended = {end.attempt.work.handler: end for end in bench.ends(2)}
    assert ended["odd"].outcome is outcome
    assert ended["beside"].result == b"1"
    assert bench.run("", handler="beside").result == b"1"


def test_what_handlers_give_to_threads_has_as_many_as_there_are_slots() -> None:
    """Given calls that block until all slots have one, then none waits behind another, and the next waits for one."""
    slots = 40
    together = threading.Barrier(slots)
    names: set[str] = set()

    def block() -> None:
        names.add(threading.current_thread().name)
        together.wait(10.0)

    with bench_of(worker={"slots": slots}) as bench:

        @bench.app.handler("blocks")
        async def blocks(_: Context) -> None:
            await asyncio.to_thread(block)

        for count in (slots, 2 * slots):
            bench.executors.submit([attempt_of("", number=number, handler="blocks") for number in range(count)])
            assert {end.outcome for end in bench.ends(count)} == {Outcome.SUCCEEDED}
    assert names == {f"handlers-loop-blocking_{number}" for number in range(slots)}


def test_where_the_machine_gives_no_more_threads_those_there_are_do_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a call that is queued, then it is not called failed and run all the same."""
    gate = threading.Event()
    calls = _BlockingCalls(4)
    first = calls.submit(gate.wait, 10.0)

    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    second = calls.submit(lambda: 2)
    gate.set()
    assert (first.result(10.0), second.result(10.0)) == (True, 2)
    calls.shutdown()
