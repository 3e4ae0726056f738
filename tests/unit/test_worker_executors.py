"""The Python executor: user code in threads and on a loop, and how its end is told. Real threads, no broker."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from waterclock.workers.executors.ending import MESSAGE_MAX_BYTES, RESULT_MAX_BYTES, TRACE_MAX_BYTES
from waterclock.workers.executors.port import Attempt, EndedAttempt
from waterclock.workers.executors.python import PythonExecutors

from waterclock.app import App, Context
from waterclock.clock import SystemClock
from waterclock.model.dag_events import NOT_KEPT
from waterclock.model.errors import AttemptError, LeaseLost
from waterclock.model.events import Outcome, WorkRecord
from waterclock.model.job import Tier

BOUND_S = 20.0
CLOCK = SystemClock()


def _attempt(handler: str, number: int = 0, payload: bytes = b"") -> Attempt:
    work = WorkRecord(f"acme:j@{number}", 0, 0, 1, "acme:j", 1, Tier.HIGH, "default", handler, payload)
    return Attempt(work, 0, 100 + number)


class Bench:
    def __init__(self, threads_max: int = 16) -> None:
        self.app = App()
        self.executors = PythonExecutors(self.app.handlers, CLOCK, threads_max=threads_max)

    def ends(self, count: int) -> list[EndedAttempt]:
        """Wait until so many have ended."""
        ended: list[EndedAttempt] = []
        give_up_at_s = CLOCK.monotonic_s() + BOUND_S
        while len(ended) < count:
            assert CLOCK.monotonic_s() < give_up_at_s, f"{len(ended)} of {count} ended"
            self.executors.wait(count - len(ended), 0.01)
            ended += self.executors.take_ended()
        return ended

    def run(self, function: Callable[[Context], Any], payload: bytes = b"") -> EndedAttempt:
        """Register, run once, return the end."""
        name = f"h{len(self.app.handlers)}"
        self.app.handler(name)(function)
        self.executors.submit([_attempt(name, payload=payload)])
        (ended,) = self.ends(1)
        return ended


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.executors.stop(2.0)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_return_value_is_kept_as_json(bench: Bench, is_async: bool) -> None:
    def sync(ctx: Context) -> dict[str, Any]:
        return {"attempt": ctx.attempt, "fence": ctx.fence, "payload": ctx.json()}

    async def on_loop(ctx: Context) -> dict[str, Any]:
        await asyncio.sleep(0)
        return sync(ctx)

    ended = bench.run(on_loop if is_async else sync, b"[1]")
    assert ended.outcome is Outcome.SUCCEEDED
    assert orjson.loads(ended.result or b"") == {"attempt": 1, "fence": 100, "payload": [1]}


def test_returning_nothing_keeps_nothing(bench: Bench) -> None:
    ended = bench.run(lambda _: None)
    assert (ended.outcome, ended.result, ended.reason) == (Outcome.SUCCEEDED, None, "")


@pytest.mark.parametrize(
    ("value", "why"), [("x" * RESULT_MAX_BYTES, "8194 bytes"), (object(), "not JSON"), ({1, 2}, "JSON")]
)
def test_a_result_that_cannot_be_kept_succeeds_and_says_why(bench: Bench, value: object, why: str) -> None:
    ended = bench.run(lambda _: value)
    assert (ended.outcome, ended.result) == (Outcome.SUCCEEDED, NOT_KEPT)
    assert ended.reason.startswith("result not kept: ")
    assert why in ended.reason or "serializable" in ended.reason


@pytest.mark.parametrize("is_async", [False, True])
def test_an_exception_fails_the_attempt_with_class_message_and_trace(bench: Bench, is_async: bool) -> None:
    def sync(ctx: Context) -> None:
        raise orjson.JSONDecodeError("no good", "doc", 0)

    async def on_loop(ctx: Context) -> None:
        sync(ctx)

    ended = bench.run(on_loop if is_async else sync)
    assert ended.outcome is Outcome.FAILED
    assert ended.error_class.endswith("JSONDecodeError")
    assert "." in ended.error_class
    assert "no good" in ended.error_message
    assert "in sync" in ended.error_trace
    assert "executors/python.py" not in ended.error_trace


def test_the_texts_of_a_failure_are_bounded_and_valid_whatever_was_raised(bench: Bench) -> None:
    def deep(ctx: Context, depth: int = 300) -> None:
        if depth:
            deep(ctx, depth - 1)
        raise ValueError("\udcff" + "é" * 5_000)

    ended = bench.run(deep)
    assert len(ended.error_message.encode()) <= MESSAGE_MAX_BYTES
    assert len(ended.error_trace.encode()) <= TRACE_MAX_BYTES
    assert ended.error_class == "ValueError"


def test_an_exception_that_cannot_be_printed_is_still_told(bench: Bench) -> None:
    class Nasty(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    def handler(ctx: Context) -> None:
        raise Nasty

    ended = bench.run(handler)
    assert ended.error_class.endswith("Nasty")
    assert "could not be printed" in ended.error_message


def test_an_attempt_error_brings_its_own_class(bench: Bench) -> None:
    def handler(ctx: Context) -> None:
        raise AttemptError("refused", error_class="acme.Refused")

    assert bench.run(handler).error_class == "acme.Refused"


def test_user_code_cannot_claim_that_it_was_handed_back(bench: Bench) -> None:
    """What is handed back costs no attempt: a handler that could say so would be called for ever."""

    def drained(_: Context) -> None:
        raise AttemptError("again, please", error_class="drained")

    assert bench.run(drained).error_class == "handler.drained"


@pytest.mark.parametrize("is_async", [False, True])
def test_even_sys_exit_ends_one_attempt_and_nothing_else(bench: Bench, is_async: bool) -> None:
    def sync(ctx: Context) -> None:
        sys.exit(3)

    async def on_loop(ctx: Context) -> None:
        sys.exit(3)

    assert bench.run(on_loop if is_async else sync).error_class == "SystemExit"
    assert bench.run(lambda _: 1).result == b"1"

    async def again(ctx: Context) -> int:
        return 2

    assert bench.run(again).result == b"2"


def test_an_unknown_handler_fails_and_names_the_known_ones(bench: Bench) -> None:
    bench.app.handler("mail")(print)
    bench.app.handler("bill")(print)
    bench.executors.submit([_attempt("nope")])
    (ended,) = bench.ends(1)
    assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "UnknownHandler")
    assert "'nope'" in ended.error_message
    assert "bill, mail" in ended.error_message


def test_a_coroutine_from_a_sync_handler_is_a_failure_that_says_what_to_do(bench: Bench) -> None:
    async def work() -> None: ...

    ended = bench.run(lambda _: work())
    assert ended.error_class == "TypeError"
    assert "async def" in ended.error_message


def test_async_handlers_overlap(bench: Bench) -> None:
    gate = asyncio.Event()
    inside = 0

    @bench.app.handler("meet")
    async def meet(ctx: Context) -> None:
        nonlocal inside
        inside += 1
        if inside == 50:
            gate.set()
        await gate.wait()

    bench.executors.submit([_attempt("meet", number) for number in range(50)])
    assert len(bench.ends(50)) == 50


def test_asyncio_time_outs_work_inside_a_handler(bench: Bench) -> None:
    async def slow(ctx: Context) -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)

    assert bench.run(slow).error_class == "TimeoutError"


def test_blocking_handlers_get_as_many_threads_as_they_may_have(bench: Bench) -> None:
    meeting = threading.Barrier(16, timeout=BOUND_S)

    @bench.app.handler("meet")
    def meet(ctx: Context) -> None:
        meeting.wait()

    bench.executors.submit([_attempt("meet", number) for number in range(16)])
    assert {ended.outcome for ended in bench.ends(16)} == {Outcome.SUCCEEDED}


def test_nothing_waits_behind_a_handler_that_blocks(bench: Bench) -> None:
    release = threading.Event()

    @bench.app.handler("block")
    def block(ctx: Context) -> None:
        release.wait(BOUND_S)

    bench.app.handler("quick")(lambda _: "done")
    blocked = [_attempt("block", number) for number in range(8)]
    bench.executors.submit(blocked)
    bench.executors.submit([_attempt("quick", number) for number in range(100)])
    try:
        assert {ended.result for ended in bench.ends(100)} == {b'"done"'}
    finally:
        release.set()
    assert len(bench.ends(8)) == 8


def test_every_attempt_ends_exactly_once_under_load(bench: Bench) -> None:
    @bench.app.handler("sync")
    def sync(ctx: Context) -> str:
        return ctx.run_id

    @bench.app.handler("async")
    async def on_loop(ctx: Context) -> str:
        return ctx.run_id

    attempts = [_attempt("sync" if number % 2 else "async", number) for number in range(4_000)]
    for start in range(0, len(attempts), 250):
        bench.executors.submit(attempts[start : start + 250])
    ended = bench.ends(4_000)
    assert {id(end.attempt) for end in ended} == {id(attempt) for attempt in attempts}
    assert all(orjson.loads(end.result or b"") == end.attempt.work.run_id for end in ended)


def test_past_the_lease_the_loop_cancels_its_handlers_by_itself(bench: Bench) -> None:
    started, cancelled = threading.Event(), threading.Event()

    @bench.app.handler("sleep")
    async def sleep(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(BOUND_S)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    bench.executors.submit([_attempt("sleep")])
    assert started.wait(BOUND_S)
    bench.executors.allow_until(CLOCK.monotonic_s() - 1.0)
    assert cancelled.wait(BOUND_S)
    assert bench.executors.take_ended() == []


def _sleeper(bench: Bench) -> tuple[threading.Event, threading.Event]:
    """A handler ``sleep``: (it has begun, it was cancelled)."""
    started, cancelled = threading.Event(), threading.Event()

    @bench.app.handler("sleep")
    async def sleep(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(BOUND_S)
        finally:
            cancelled.set()

    return started, cancelled


def test_a_lease_that_is_over_is_not_prolonged_until_all_is_forgotten(bench: Bench) -> None:
    """Given handlers that the loop has cancelled, when a beat is acknowledged late, then the lease stays lost."""
    started, cancelled = _sleeper(bench)
    bench.executors.allow_until(CLOCK.monotonic_s() + BOUND_S)
    bench.executors.submit([_attempt("sleep")])
    assert started.wait(BOUND_S)
    bench.executors.allow_until(CLOCK.monotonic_s() - 1.0)
    assert cancelled.wait(BOUND_S)
    with pytest.raises(LeaseLost):
        bench.executors.allow_until(CLOCK.monotonic_s() + BOUND_S)
    bench.executors.forget()
    bench.executors.allow_until(CLOCK.monotonic_s() + BOUND_S)
    assert bench.run(lambda _: 1).result == b"1"


def test_what_is_forgotten_is_cancelled_and_does_not_come_back(bench: Bench) -> None:
    started, cancelled = _sleeper(bench)
    bench.executors.submit([_attempt("sleep")])
    assert started.wait(BOUND_S)
    bench.executors.forget()
    assert cancelled.wait(BOUND_S)
    assert bench.run(lambda _: 1).result == b"1"


@pytest.mark.parametrize("why", ["asked", "lease"])
def test_a_handler_that_waits_for_a_thread_is_not_called_once_it_is_to_stop(why: str) -> None:
    blocked, go_on, begun = threading.Event(), threading.Event(), []
    bench = Bench(threads_max=1)

    @bench.app.handler("block")
    def block(ctx: Context) -> None:
        blocked.set()
        go_on.wait(BOUND_S)

    @bench.app.handler("effect")
    def effect(ctx: Context) -> None:
        begun.append(ctx.run_id)

    waiting = _attempt("effect", 1)
    bench.executors.submit([_attempt("block"), waiting])
    assert blocked.wait(BOUND_S)
    if why == "asked":
        bench.executors.ask([waiting])
        bench.executors.force([waiting])
    else:
        bench.executors.allow_until(CLOCK.monotonic_s() - 1.0)
    go_on.set()
    ended = {end.attempt: end for end in bench.ends(2)}
    assert begun == []
    assert ended[waiting].outcome is Outcome.FAILED
    assert ended[waiting].error_class == "AttemptStopped"
    assert not ended[waiting].has_begun
    bench.executors.stop(2.0)


def test_a_task_that_is_forced_before_its_first_step_comes_back(bench: Bench) -> None:
    """Given a loop that a handler blocks, when what waits behind it is forced, then it ends, and was never called."""
    blocked, go_on, begun = threading.Event(), threading.Event(), []

    @bench.app.handler("block")
    async def block(ctx: Context) -> None:
        blocked.set()
        go_on.wait(BOUND_S)

    @bench.app.handler("effect")
    async def effect(ctx: Context) -> None:
        begun.append(ctx.run_id)

    waiting = _attempt("effect", 1)
    bench.executors.submit([_attempt("block")])
    assert blocked.wait(BOUND_S)
    bench.executors.submit([waiting])
    bench.executors.ask([waiting])
    bench.executors.force([waiting])
    go_on.set()
    assert waiting in {end.attempt for end in bench.ends(2)}
    assert begun == []
