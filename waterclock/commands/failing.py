"""How a command fails: what, why, what to do next; and one exit code for each kind of failure.

0 ok, 1 failed, 2 usage, 3 not found, 4 conflict or precondition, 5 backend unreachable, 6 timeout, 7 awaited run
failed, 130 interrupted.
"""

from __future__ import annotations

from enum import IntEnum

from waterclock.model.errors import AccessRefused, BackendDown, RequestError, WaterclockError

from .visible import visible_lines


class ExitCode(IntEnum):
    """What the shell sees."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    UNREACHABLE = 5
    TIMEOUT = 6
    RUN_FAILED = 7
    INTERRUPTED = 130


class CommandFailed(WaterclockError):
    """A command did what it could and it was not enough: says why, what to do next, and with which code it ends."""

    def __init__(self, message: str, *, hint: str, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


_UNREACHABLE_HINT = (
    "Is it running? `waterclock status` tells about the stack of this folder, `waterclock up` starts one; another "
    "cluster is named by WATERCLOCK_KAFKA__BOOTSTRAP and WATERCLOCK_CASSANDRA__CONTACT_POINTS"
)


_REFUSED_HINT = (
    "User, password and certificate are WATERCLOCK_KAFKA__CLIENT (librdkafka's properties, as JSON) and "
    "WATERCLOCK_CASSANDRA__USER, __PASSWORD_FILE, __TLS__CA_FILE; rights: `waterclock init --plan`"
)


def told(error: WaterclockError) -> tuple[list[str], ExitCode]:
    """The lines for stderr, and the exit code."""
    if isinstance(error, RequestError):
        where = f" (at {error.pointer})" if error.pointer else ""
        return _lines(f"{error.message}{where}", error.hint), ExitCode(error.exit_code)
    if isinstance(error, AccessRefused):
        return _lines(f"Not let in by {error}", _REFUSED_HINT), ExitCode.UNREACHABLE
    if isinstance(error, BackendDown):
        return _lines(f"No answer from {error}", _UNREACHABLE_HINT), ExitCode.UNREACHABLE
    hint = str(getattr(error, "hint", ""))
    return _lines(str(getattr(error, "message", error)), hint), getattr(error, "exit_code", ExitCode.FAILED)


def _lines(what: str, next_step: str) -> list[str]:
    return [visible_lines(line) for line in (f"error: {what}", *([f"  try: {next_step}"] if next_step else []))]
