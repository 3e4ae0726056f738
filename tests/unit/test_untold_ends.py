"""Ends that break whoever tells them, or mislead: the attempt ends all the same, and its thread goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from decimal import Decimal, getcontext
from enum import Enum
from typing import Any

import pytest
from waterclock.workers.executors.port import EndedAttempt

from tests.unit.executor_world import Bench, bench_of
from waterclock.app import Context
from waterclock.model.errors import AttemptError
from waterclock.model.events import Outcome


@pytest.fixture
def bench() -> Iterator[Bench]:
    with bench_of(worker={"slots": 2}) as bench:
        yield bench


def _run(bench: Bench, work: Callable[[], Any], *, is_async: bool) -> EndedAttempt:
    """One attempt of a handler that does this."""

    def sync(_: Context) -> Any:
        return work()

    async def on_loop(_: Context) -> Any:
        return work()

    name = f"h{len(bench.app.handlers)}"
    bench.app.handler(name)(on_loop if is_async else sync)
    return bench.run("", handler=name)


class Bare(AttemptError):
    """A heir that forgets its parent's beginning."""

    def __init__(self, *_: object) -> None:
        pass


class Unreadable:
    def __str__(self) -> str:
        raise OSError("no text")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("make", "error_class"),
    [
        (lambda: AttemptError("x", error_class=404), "404"),  # type: ignore[arg-type]
        (lambda: AttemptError("x", error_class="a\ud800", trace=b"raw"), "a?"),  # type: ignore[arg-type]
        (lambda: AttemptError("x", error_class=Unreadable()), "AttemptError"),  # type: ignore[arg-type]
        (lambda: AttemptError("x", trace=Unreadable()), "AttemptError"),  # type: ignore[arg-type]
        (lambda: AttemptError(7), "AttemptError"),  # type: ignore[arg-type]
        (lambda: AttemptError("x", retry_after_us="soon"), "AttemptError"),  # type: ignore[arg-type]
        (Bare, "Bare"),
    ],
)
def test_an_attempt_error_may_have_been_given_anything(
    bench: Bench, is_async: bool, make: Callable[[], AttemptError], error_class: str
) -> None:
    def fail() -> None:
        raise make()

    ended = _run(bench, fail, is_async=is_async)
    assert ended.outcome is Outcome.FAILED
    assert ended.error_class.rpartition(".")[2] == error_class
    assert isinstance(ended.error_trace, str)


class Poison(Exception):
    """Whoever looks at it is asked to leave."""

    def __str__(self) -> str:
        raise SystemExit


@pytest.mark.parametrize("is_async", [False, True])
def test_an_end_that_cannot_be_told_ends_the_attempt_and_frees_its_thread(bench: Bench, is_async: bool) -> None:
    """Given an exception that breaks the telling of it, more often than there are threads, then the next is served."""

    def fail() -> None:
        raise Poison

    for _ in range(3):
        ended = _run(bench, fail, is_async=is_async)
        assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "handler.untold")
        assert "plain values" in ended.error_message
    assert _run(bench, lambda: 1, is_async=is_async).result == b"1"


class Leaving(Enum):
    A = 1

    @property
    def value(self) -> Any:
        raise SystemExit


@pytest.mark.parametrize("is_async", [False, True])
def test_a_result_that_breaks_its_reader_ends_the_attempt(bench: Bench, is_async: bool) -> None:
    for _ in range(3):
        ended = _run(bench, lambda: Leaving.A, is_async=is_async)
        assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "SystemExit")
    assert _run(bench, lambda: 1, is_async=is_async).result == b"1"


async def _work() -> int:
    return 1


def test_code_that_never_ran_has_not_succeeded(bench: Bench) -> None:
    """Given a handler with a 'yield' in it, or a forgotten await, then its run fails and says so: nothing was done."""

    @bench.app.handler("generator")
    def generator(_: Context) -> Iterator[int]:
        yield 1

    @bench.app.handler("async generator")
    async def async_generator(_: Context) -> AsyncIterator[int]:
        yield 1

    for name in ("generator", "async generator"):
        ended = bench.run("", handler=name)
        assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "TypeError")
        assert "whose code never ran" in ended.error_message
    for is_async, hint in ((True, "await it"), (False, "'async def'")):
        ended = _run(bench, _work, is_async=is_async)
        assert (ended.outcome, ended.error_class) == (Outcome.FAILED, "TypeError")
        assert hint in ended.error_message


def test_a_generator_that_is_returned_by_work_that_was_done_is_only_not_kept(bench: Bench) -> None:
    for is_async in (False, True):
        ended = _run(bench, lambda: (number for number in (1, 2)), is_async=is_async)
        assert ended.outcome is Outcome.SUCCEEDED
        assert "result not kept" in ended.reason


def test_what_a_sync_handler_sets_in_its_context_ends_with_it(bench: Bench) -> None:
    """Given threads that serve one after the other, then what a run sets (decimal too) is no other run's."""
    seen: ContextVar[str] = ContextVar("seen", default="")

    def change() -> None:
        getcontext().prec = 3
        seen.set("another run")

    def look() -> tuple[str, str]:
        return str(Decimal(1) / Decimal(8001)), seen.get()

    before = _run(bench, look, is_async=False).result
    for _ in range(8):  # whichever threads there are
        _run(bench, change, is_async=False)
    assert [_run(bench, look, is_async=False).result for _ in range(8)] == [before] * 8
