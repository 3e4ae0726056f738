"""How user code's end becomes an outcome: what it returned as JSON, what it raised as class, message and short trace.

What must hold: whatever a handler returns or raises, the outcome is bounded and valid UTF-8, because it goes into the
same round as everybody else's. Results are at most 8 KiB of JSON, messages 2 KiB, traces 4 KiB (innermost frames).
A result that cannot be kept is not kept (``NOT_KEPT``), and ``reason`` says why; the attempt has succeeded all the
same.

How it fails: looking at what user code left behind runs user code. What it raises there is caught where that is known;
for the rest the caller has ``untold``.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import Any

from waterclock.log.port import Outgoing
from waterclock.model.dag_events import NOT_KEPT
from waterclock.model.errors import AttemptError, AttemptStopped
from waterclock.model.events import DRAINED, Outcome
from waterclock.model.failure_policy import DELAY_US_MAX
from waterclock.model.plain_json import NotJson, to_json

from .port import Attempt, EndedAttempt

RESULT_MAX_BYTES = 8 * 1024
MESSAGE_MAX_BYTES = 2 * 1024
TRACE_MAX_BYTES = 4 * 1024
TIMED_OUT = "timed-out"
UNTOLD = "handler.untold"
_UNTOLD_MESSAGE = (
    "the handler ended, and how cannot be told: reading what it raised or returned raised in its turn. Give exceptions "
    "plain values as their parts, and return plain values"
)
_CLASS_MAX_BYTES = 256
_FRAMES_MAX = 12
_NAMES_MAX = 20


def succeeded(attempt: Attempt, value: Any, emitted: tuple[Outgoing, ...] = ()) -> EndedAttempt:
    """The handler returned ``value``, and had ``emitted`` these records."""
    if value is None:
        return EndedAttempt(attempt, Outcome.SUCCEEDED, emitted=emitted)
    try:
        result = to_json(value, any_keys=True)
    except NotJson as error:
        note = cut(f"result not kept: {error}", _CLASS_MAX_BYTES)
        return EndedAttempt(attempt, Outcome.SUCCEEDED, result=NOT_KEPT, reason=note, emitted=emitted)
    if len(result) > RESULT_MAX_BYTES:
        note = f"result not kept: {len(result)} bytes, at most {RESULT_MAX_BYTES} are"
        return EndedAttempt(attempt, Outcome.SUCCEEDED, result=NOT_KEPT, reason=note, emitted=emitted)
    return EndedAttempt(attempt, Outcome.SUCCEEDED, result=result, emitted=emitted)


def failed(attempt: Attempt, error: BaseException) -> EndedAttempt:
    """The handler raised ``error``. An AttemptError may bring a class and a trace of its own."""
    name = type(error).__qualname__
    module = type(error).__module__
    error_class = name if module == "builtins" else f"{module}.{name}"
    trace = ""
    if isinstance(error, AttemptError):
        error_class, trace = _told(error, "error_class") or error_class, _told(error, "trace")
    error_class = cut(error_class, _CLASS_MAX_BYTES)
    return EndedAttempt(
        attempt,
        Outcome.FAILED,
        # That one is ours: only what this worker hands back costs no attempt.
        error_class="handler.drained" if error_class == DRAINED else error_class,
        error_message=cut(_message(error), MESSAGE_MAX_BYTES),
        error_trace=cut_front(trace or _trace(error), TRACE_MAX_BYTES),
        retry_after_us=_retry_after_us(error),
    )


def fell_short(attempt: Attempt, error: AttemptError) -> EndedAttempt:
    """A call of ours did not do it: as ``failed``, without frames of ours, which would tell nobody anything.

    The class ``timed-out`` is that of an executor's own time-out: the attempt has timed out.
    """
    return EndedAttempt(
        attempt,
        Outcome.TIMED_OUT if error.error_class == TIMED_OUT else Outcome.FAILED,
        error_class=cut(error.error_class, _CLASS_MAX_BYTES),
        error_message=cut(_message(error), MESSAGE_MAX_BYTES),
        error_trace=cut_front(error.trace, TRACE_MAX_BYTES),
        retry_after_us=_retry_after_us(error),
    )


def not_begun(attempt: Attempt, why: str) -> EndedAttempt:
    """It was stopped before its handler was called, or its call was sent."""
    error_class = AttemptStopped.__name__
    return EndedAttempt(attempt, Outcome.FAILED, error_class=error_class, error_message=why, has_begun=False)


def untold(attempt: Attempt) -> EndedAttempt:
    """The end of the last resort: nothing of what the handler left behind is looked at any more."""
    return EndedAttempt(attempt, Outcome.FAILED, error_class=UNTOLD, error_message=_UNTOLD_MESSAGE)


def unknown_handler(attempt: Attempt, known: Iterable[str]) -> EndedAttempt:
    """No handler of that name is registered in this worker. Another one, or a later release, may have it: retryable."""
    names = sorted(known)
    more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
    listed = ", ".join(names[:_NAMES_MAX]) + more if names else "none"
    hint = "Start a worker that registers it, or correct the job's handler"
    message = f"this worker has no handler {attempt.work.handler!r}; it has: {listed}. {hint}"
    return EndedAttempt(
        attempt, Outcome.FAILED, error_class="UnknownHandler", error_message=cut(message, MESSAGE_MAX_BYTES)
    )


def cut(text: str, limit: int) -> str:
    """At most ``limit`` bytes of valid UTF-8: the beginning."""
    return str.encode(text, "utf-8", "replace")[:limit].decode("utf-8", "ignore")


def cut_front(text: str, limit: int) -> str:
    """At most ``limit`` bytes of valid UTF-8: the end."""
    return str.encode(text, "utf-8", "replace")[-limit:].decode("utf-8", "ignore")


def _retry_after_us(error: BaseException) -> int:
    """What was asked for, within what any policy may allow: whose ``max_delay`` bounds it is the router's to say."""
    asked_us: object = getattr(error, "retry_after_us", 0) if isinstance(error, AttemptError) else 0
    # User code may have set anything.
    return max(0, min(asked_us, DELAY_US_MAX)) if isinstance(asked_us, int) else 0


def _told(error: AttemptError, name: str) -> str:
    """A text that the exception brings along; "" where there is none. User code may have set anything, or nothing."""
    try:
        found = getattr(error, name, "")
        return str(found) if found else ""
    except Exception:  # noqa: BLE001 - user code: a property, or __str__ of what was set
        return ""


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - user code: __str__ of a foreign exception may raise anything
        return "<the exception could not be printed>"


def _trace(error: BaseException) -> str:
    """The innermost frames; the first frame, our own call of the handler, is left out."""
    frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
    try:
        return "".join(traceback.format_exception(type(error), error, frames, limit=-_FRAMES_MAX))
    except Exception:  # noqa: BLE001 - user code again: formatting prints the exception and its causes
        return ""
