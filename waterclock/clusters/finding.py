"""What a check of the clusters found: one line, how grave it is, and what to do next."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """OK; WARN: it works, and will not always; FAIL: it does not work, or loses data; UNREACHABLE: nobody answers."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNREACHABLE = "unreachable"


class Finding(NamedTuple):
    """One line of ``waterclock doctor``. ``next_step`` is empty where all is well."""

    check: str
    state: State
    found: str
    next_step: str = ""


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check, State.OK, found)


def unless(passed: object, check: str, found: str, next_step: str, state: State = State.FAIL) -> Finding:
    """OK where ``passed``, else ``state`` with what to do."""
    return Finding(check, State.OK, found) if passed else Finding(check, state, found, next_step)
