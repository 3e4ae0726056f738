"""Ends that break whoever tells them: the attempt ends all the same, and its thread goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
