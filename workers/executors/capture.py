"""Whose output it is: what user code prints and logs is routed to the attempt that is current where it does so.

A context variable names the attempt. Async handlers run in tasks, whose context their own tasks inherit; a handler's
thread sets it around the call. ``sys.stdout`` and ``sys.stderr`` are wrapped, records of ``logging`` are seen when they
are made, structlog's (``ctx.log`` too) just before they are rendered.

What must hold: everything still goes where it went before; two attempts at once never mix their lines; a line that a
logger writes to a stream of ours counts once; while no attempt is current nothing is kept.

How it fails: what does not pass through these doors is not seen: ``sys.stdout.buffer``, ``os.write``, C code, child
processes of a handler, and threads that a handler starts without ``contextvars.copy_context().run`` (``asyncio``'s own
``to_thread`` copies it). What is printed after the attempt's end still counts as its own, up to the same bounds.
"""

from __future__ import annotations

import codecs
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, cast

import structlog

from waterclock.model.run_log import LogStream

from .port import Attempt
from .printed import LineQueue, Printed

_CURRENT: ContextVar[Attempt | None] = ContextVar("waterclock_attempt", default=None)

_HIDDEN_FIELDS = frozenset({"ts", "timestamp", "level", "event", "role", "instance", "run_id", "job_id", "attempt"})
"""Fields of a structlog line that the run's log says by itself."""


def entered(attempt: Attempt) -> None:
    """From here on, in this context, what is printed is this attempt's."""
    _CURRENT.set(attempt)


def left(attempt: Attempt) -> None:
    """The attempt's user code has ended."""
    _CURRENT.set(None)
    if attempt.printed is not None:
        attempt.printed.end()


class Capture:
    """Keeps the lines of one worker's attempts in ``queue``."""

    def __init__(self, queue: LineQueue) -> None:
        self._queue = queue

    def keep(self, attempt: Attempt, stream: LogStream, text: str) -> None:
        """Text that the attempt printed."""
        self._printed(attempt).write(stream, text)

    def follow(self, attempt: Attempt, stream: LogStream) -> Callable[[bytes], None]:
        """Takes what a program writes to one stream, in whatever pieces it comes."""
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        return lambda chunk: self._printed(attempt).write(stream, decode(chunk))

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Route this process's output, once it has set its own logging up; undone at the end."""
        streams = sys.stdout, sys.stderr
        factory = logging.getLogRecordFactory()
        root = logging.getLogger()
        level, processors = root.level, structlog.get_config()["processors"]
        tap = self._tap
        logging.setLogRecordFactory(self._record_factory(factory))
        if level == logging.WARNING and not root.handlers:
            root.setLevel(logging.INFO)  # nobody has chosen a level: what a handler calls info is worth a line
        processors.insert(max(0, len(processors) - 1), tap)
        sys.stdout = cast("TextIO", _Routed(self, LogStream.STDOUT, sys.stdout, tap))
        sys.stderr = cast("TextIO", _Routed(self, LogStream.STDERR, sys.stderr, tap))
        try:
            yield
        finally:
            sys.stdout, sys.stderr = streams
            processors.remove(tap)
            root.setLevel(level)
            logging.setLogRecordFactory(factory)

    def _printed(self, attempt: Attempt) -> Printed:
        printed = attempt.printed
        if printed is None:
            made = self._queue.begin(attempt.work, attempt.token)  # first: nothing is made between look and store
            with self._queue.lock:
                if attempt.printed is None:
                    attempt.printed = made
                printed = attempt.printed
        return printed

    # -- loggers --------------------------------------------------------------------------------------------------

    def _record_factory(self, before: Callable[..., logging.LogRecord]) -> Callable[..., logging.LogRecord]:
        def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
            record = before(*args, **kwargs)
            attempt = _CURRENT.get()
            if attempt is not None and record.name:  # without a name it is a copy that somebody makes
                self.keep(attempt, LogStream.LOG, _text_of(record))
            return record

        return make

    def _tap(self, _: object, __: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """A structlog processor."""
        attempt = _CURRENT.get()
        if attempt is not None:
            self.keep(attempt, LogStream.LOG, _text_of_fields(dict(fields)))
        return fields


class _Routed:
    """A text stream that tells the current attempt's text, and writes as before."""

    def __init__(self, capture: Capture, stream: LogStream, real: TextIO, tap: object) -> None:
        self._capture = capture
        self._stream = stream
        self._real = real
        self._tap = tap

    def write(self, text: str) -> int:
        written = self._real.write(text)
        attempt = _CURRENT.get()
        if attempt is not None and not self._is_told(sys._getframe(1).f_code):
            self._capture.keep(attempt, self._stream, text)
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def _is_told(self, writer: object) -> bool:
        """Whether the writer is a logger whose line was kept already, when it was made."""
        if writer in _STRUCTLOG_WRITERS:
            return self._tap in structlog.get_config()["processors"]
        return writer is _LOGGING_WRITER

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


_LOGGING_WRITER = logging.StreamHandler.emit.__code__
_STRUCTLOG_WRITERS = frozenset({structlog.PrintLogger.msg.__code__, structlog.WriteLogger.msg.__code__})


def _text_of(record: logging.LogRecord) -> str:
    text = f"{record.levelname} {record.name}: {_said(record)}\n"
    if record.exc_info and record.exc_info[1] is not None:
        text += _trace(record.exc_info[1])
    return text


def _text_of_fields(fields: dict[str, Any]) -> str:
    error = fields.pop("exc_info", None)
    trace = fields.pop("exception", None)
    level, event = str(fields.get("level", "")).upper(), fields.get("event", "")
    pairs = "".join(f" {name}={_shown(value)}" for name, value in fields.items() if name not in _HIDDEN_FIELDS)
    text = f"{level} {_shown(event)}{pairs}\n".lstrip()
    if trace:
        return f"{text}{trace}\n"
    if isinstance(error, tuple):
        error = error[1]
    elif error is True:
        error = sys.exc_info()[1]
    return text + _trace(error) if isinstance(error, BaseException) else text


def _said(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - user code: wrong arguments, or a __str__ that raises; logging tells it elsewhere
        return str(record.msg) if isinstance(record.msg, str) else "<a message that could not be printed>"


def _shown(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - user code: __str__ may raise anything
        return "<a value that could not be printed>"


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - user code again: formatting prints the exception and its causes
        return ""
