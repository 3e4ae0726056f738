"""What handlers and programs print is kept with their attempt, within bounds. Real threads, loops and processes."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from waterclock.workers.executors.building import executors_of
from waterclock.workers.executors.capture import Capture, entered, left
from waterclock.workers.executors.port import Attempt, EndedAttempt
from waterclock.workers.executors.printed import LineQueue

from tests.unit.executor_world import BOUND_S, CLOCK
from waterclock.app import App, Context
from waterclock.model.events import Outcome, WorkRecord
from waterclock.model.executor import Executor, ShellCommand, executor_to_json
from waterclock.model.job import Tier
from waterclock.model.run_log import BYTES_MAX, LINE_BYTES_MAX, LINES_MAX, NOTE_SEQ, LogLine, LogStream
from waterclock.settings import Settings

WHOLE = 1 << 40


class World:
    """The executors of a worker, and what was printed in them."""

    def __init__(self, folder: Path) -> None:
        self.app = App()
        self.queue = LineQueue(CLOCK)
        self.capture = Capture(self.queue)
        shell = {"enabled": True, "allow": ("/bin/sh",), "working_dir": folder}
        settings = Settings(shell=shell)  # type: ignore[arg-type]
        self.executors = executors_of(self.app, settings, CLOCK, lambda _: False, capture=self.capture)
        self._kept: dict[str, list[LogLine]] = {}
        self._count = 0

    def attempt(self, handler: str = "", executor: Executor | None = None, number: int = 1) -> Attempt:
        self._count += 1
        text = executor_to_json(executor) if executor else ""
        work = WorkRecord(f"acme:j@{self._count}", 0, 0, number, "acme:j", 1, Tier.HIGH, "default", handler, b"", text)
        return Attempt(work, 0, 1_000 + self._count)

    def run(self, *attempts: Attempt) -> list[EndedAttempt]:
        self.executors.submit(attempts)
        ended: list[EndedAttempt] = []
        give_up_at_s = CLOCK.monotonic_s() + BOUND_S
        while len(ended) < len(attempts):
            assert CLOCK.monotonic_s() < give_up_at_s, f"{len(ended)} of {len(attempts)} ended"
            self.executors.wait(1, 0.01)
            ended += self.executors.take_ended()
        return ended

    def lines(self, attempt: Attempt) -> list[LogLine]:
        """What is kept of it, once the last of it has come."""
        for log in self.queue.take(WHOLE):
            self._kept.setdefault(log.run_id, []).extend(log.lines)
        self.queue.sent()
        return self._kept.get(attempt.work.run_id, [])

    def texts(self, attempt: Attempt, *streams: LogStream) -> list[str]:
        return [line.text for line in self.lines(attempt) if not streams or line.stream in streams]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.executors.stop(4.0)


def listening(test: Callable[..., None]) -> Callable[..., None]:
    """In the test itself: pytest puts other streams in place between a fixture and its test."""

    @functools.wraps(test)
    def call(*, world: World, **fixtures: object) -> None:
        with world.capture.installed():
            test(world=world, **fixtures)

    return call


def _says_much(ctx: Context) -> None:
    print("printed")
    print("to stderr", file=sys.stderr)
    logging.getLogger("shop.billing").warning("charged %d", 12)
    ctx.log.info("mailed", to="a@b.example")
    print("unfinished", end="")


async def _says_much_async(ctx: Context) -> None:
    _says_much(ctx)


@pytest.mark.parametrize("handler", [_says_much, _says_much_async])
@listening
def test_what_a_handler_prints_is_kept_with_its_attempt(world: World, handler: Callable[[Context], object]) -> None:
    world.app.handler("talk")(handler)
    attempt = world.attempt("talk", number=3)

    (ended,) = world.run(attempt)
    assert ended.outcome is Outcome.SUCCEEDED
    (log,) = world.queue.take(WHOLE)

    assert (log.run_id, log.attempt, log.job_id, log.token) == (attempt.work.run_id, 3, "acme:j", attempt.token)
    assert [(line.stream, line.text) for line in log.lines] == [
        (LogStream.STDOUT, "printed"),
        (LogStream.STDERR, "to stderr"),
        (LogStream.LOG, "WARNING shop.billing: charged 12"),
        (LogStream.LOG, "INFO mailed to=a@b.example"),
        (LogStream.STDOUT, "unfinished"),
    ]
    assert [line.seq for line in log.lines] == [1, 2, 3, 4, 5]


@listening
def test_two_handlers_at_once_do_not_mix_their_lines(world: World) -> None:
    together = threading.Barrier(4, timeout=BOUND_S)

    @world.app.handler("sync")
    def sync(ctx: Context) -> None:
        together.wait()
        for number in range(200):
            print(ctx.run_id, end=" ")
            print(number)

    @world.app.handler("async")
    async def on_loop(ctx: Context) -> None:
        await asyncio.to_thread(together.wait)
        for number in range(200):
            print(ctx.run_id, end=" ")
            await asyncio.sleep(0)
            print(number)

    attempts = [world.attempt(name) for name in ("sync", "sync", "async", "async")]
    world.run(*attempts)

    for attempt in attempts:
        assert world.texts(attempt) == [f"{attempt.work.run_id} {number}" for number in range(200)]


@listening
def test_what_a_handlers_own_tasks_and_threads_print_is_its_own(world: World) -> None:
    async def child(word: str) -> None:
        await asyncio.sleep(0)
        print(word)

    @world.app.handler("parent")
    async def parent(_: Context) -> None:
        await asyncio.gather(child("a task"), asyncio.to_thread(print, "a thread of asyncio"))
        copied = contextvars.copy_context()
        thread = threading.Thread(target=copied.run, args=(print, "a thread in its context"))
        thread.start()
        await asyncio.to_thread(thread.join)

    attempt = world.attempt("parent")
    world.run(attempt)

    assert sorted(world.texts(attempt)) == ["a task", "a thread in its context", "a thread of asyncio"]


@listening
def test_a_flood_of_lines_is_cut_and_says_so(world: World) -> None:
    @world.app.handler("flood")
    def flood(_: Context) -> None:
        for number in range(10_000):
            print(number)

    attempt = world.attempt("flood")
    world.run(attempt)
    *kept, note = world.lines(attempt)

    assert [line.text for line in kept] == [str(number) for number in range(LINES_MAX)]
    assert (note.seq, note.stream) == (NOTE_SEQ, LogStream.NOTE)
    assert note.text.startswith("9,000 more lines")


@listening
def test_a_flood_of_bytes_is_cut_and_says_so(world: World) -> None:
    @world.app.handler("flood")
    def flood(_: Context) -> None:
        print("\n".join(["x" * 1_000] * 5_000))
        print("later")

    attempt = world.attempt("flood")
    world.run(attempt)
    *kept, note = world.lines(attempt)

    assert sum(len(line.text) for line in kept) <= BYTES_MAX
    assert len(kept) == BYTES_MAX // 1_000
    assert note.text.startswith(f"{5_001 - len(kept):,} more lines")


@listening
def test_a_flood_that_goes_on_is_told_before_its_end(world: World) -> None:
    attempt = world.attempt()
    entered(attempt)
    print("\n".join(str(number) for number in range(2_000)))
    first = world.lines(attempt)[-1]
    print("more\n" * 500)
    left(attempt)
    last = world.lines(attempt)[-1]

    assert (first.seq, last.seq) == (NOTE_SEQ, NOTE_SEQ)
    assert first.text.startswith("1,000 more lines")
    assert last.text.startswith("1,501 more lines")


@listening
def test_a_line_without_end_is_cut_and_says_so(world: World) -> None:
    attempt = world.attempt()
    entered(attempt)
    for _ in range(1_000):
        print("é" * 100, end="")
    print()
    left(attempt)
    (line,) = world.lines(attempt)

    assert len(line.text.encode()) <= LINE_BYTES_MAX
    head, _, told = line.text.partition(" ... (")
    assert set(head) == {"é"}
    assert told == f"{100_000 - len(head):,} more)"


@listening
def test_text_that_is_no_utf8_is_kept_as_some(world: World) -> None:
    attempt = world.attempt()
    entered(attempt)
    world.capture.keep(attempt, LogStream.STDOUT, "half \ud83d of a pair\r\n\0\x1b[2J\n")
    left(attempt)

    assert world.texts(attempt) == ["half ? of a pair", "\0\x1b[2J"]


def test_what_is_printed_still_goes_where_it_went_before(
    capsys: pytest.CaptureFixture[str], world: World, caplog: pytest.LogCaptureFixture
) -> None:
    real, errors = sys.stdout, sys.stderr
    with world.capture.installed(), caplog.at_level(logging.INFO):
        attempt = world.attempt()
        entered(attempt)
        print("out")
        print("err", file=sys.stderr)
        logging.getLogger("x").info("logged")
        assert sys.stdout.isatty() is real.isatty()
        assert sys.stdout.encoding == real.encoding
        left(attempt)

    captured = capsys.readouterr()
    assert "out\n" in captured.out
    assert "err\n" in captured.err
    assert [record.message for record in caplog.records] == ["logged"]
    assert (sys.stdout, sys.stderr) == (real, errors)


@listening
def test_nothing_is_kept_while_no_attempt_is_current(world: World) -> None:
    attempt = world.attempt()
    print("before")
    entered(attempt)
    left(attempt)
    print("after")
    structlog.get_logger().info("ours")

    assert attempt.printed is None
    assert world.queue.take(WHOLE) == []


@listening
def test_a_line_that_a_logger_writes_to_stdout_counts_once(world: World) -> None:
    attempt = world.attempt()
    entered(attempt)
    handler = logging.StreamHandler(sys.stdout)
    logger = logging.getLogger("twice")
    logger.addHandler(handler)
    try:
        logger.warning("said once")
        structlog.PrintLogger(sys.stdout).msg("not by our structlog")
        structlog.get_logger().info("said once too", run_id="hidden")
    finally:
        logger.removeHandler(handler)
    left(attempt)

    assert "WARNING twice: said once" in world.texts(attempt, LogStream.LOG)
    assert "INFO said once too" in world.texts(attempt, LogStream.LOG)
    assert world.texts(attempt, LogStream.STDOUT) == []


@listening
def test_an_exception_that_is_logged_brings_its_trace(world: World) -> None:
    attempt = world.attempt()
    entered(attempt)
    for log in (logging.getLogger("x").exception, structlog.get_logger().exception):
        try:
            raise KeyError("gone")
        except KeyError:
            log("failed")
    left(attempt)

    texts = world.texts(attempt, LogStream.LOG)
    assert [text for text in texts if "failed" in text] == ["ERROR x: failed", "ERROR failed"]
    assert texts.count("KeyError: 'gone'") == 2


@listening
def test_a_message_that_cannot_be_printed_fails_nobody(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    class Bad:
        def __str__(self) -> str:
            raise RuntimeError("no")

    attempt = world.attempt()
    entered(attempt)
    root, raises = logging.getLogger("quiet"), logging.raiseExceptions
    root.propagate, logging.raiseExceptions = False, False
    try:
        root.warning("value %s", Bad())
        root.warning("%d", "not a number")
    finally:
        root.propagate, logging.raiseExceptions = True, raises
    left(attempt)

    assert world.texts(attempt) == ["WARNING quiet: value %s", "WARNING quiet: %d"]


@listening
def test_what_a_program_prints_is_kept_line_by_line(world: World) -> None:
    script = "echo one; printf 'h\\303\\244lf '; printf '\\377\\n' ; echo oops >&2; printf last; exit 3"
    attempt = world.attempt(executor=ShellCommand(("/bin/sh", "-c", script)))

    (ended,) = world.run(attempt)

    assert ended.error_class == "exit-3"
    assert world.texts(attempt, LogStream.STDOUT) == ["one", "hälf \N{REPLACEMENT CHARACTER}", "last"]
    assert world.texts(attempt, LogStream.STDERR) == ["oops"]


@listening
def test_an_attempt_that_prints_nothing_leaves_no_trace(world: World) -> None:
    world.app.handler("quiet")(lambda _: None)
    attempt = world.attempt("quiet")
    world.run(attempt, world.attempt(executor=ShellCommand(("/bin/sh", "-c", ":"))))

    assert attempt.printed is None
    assert world.queue.take(WHOLE) == []
