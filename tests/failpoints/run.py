"""Runs a role with one crash point armed: ``FAILPOINT=NAME:VISIT python -m tests.failpoints.run ROLE``.

The role is the product's, unchanged; the one function that the point stands at is wrapped. At its ``VISIT``-th visit
the process notes the point, durably, in the file that ``FAILPOINT_NOTES`` names, and kills itself with SIGKILL: no
handler, no ``finally``, no buffer is served. Without ``FAILPOINT`` nothing is wrapped at all.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import json
import os
import runpy
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.failpoints.points import BY_NAME, Point, When
from tests.failpoints.visits import Call, note_rounds
from waterclock.transact import Rounds

_FLUSH_S = 5.0


def arm(point: Point, visit: int, die: Callable[[], None]) -> None:
    """Wrap the function at which the point stands; ``die`` is called at the ``visit``-th visit."""
    owner, name = _place(point.place)
    right = getattr(owner, name)
    visits = itertools.count(1)

    is_armed = True

    def visited(call: Call) -> None:
        nonlocal is_armed
        if not is_armed or not point.only(call) or next(visits) < visit:
            return
        if point.when in {When.FLUSHED, When.SENT}:
            # It raises where something is not acknowledged: then the role goes on from there as it must, and dies at
            # a later visit, because nothing of this one need lie where the point says.
            _producer_of(call.args[0]).flush(_FLUSH_S)
        is_armed = False
        die()

    setattr(owner, name, _wrapped(right, visited, after=point.when in {When.AFTER, When.SENT}))


def _producer_of(owner: Any) -> Any:
    """The producer, or that of the Rounds, whose function the point stands at."""
    return owner._producer if isinstance(owner, Rounds) else owner


def _wrapped(right: Callable[..., Any], visited: Callable[[Call], None], *, after: bool) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(right):

        @functools.wraps(right)
        async def struck_async(*args: Any, **words: Any) -> Any:
            if not after:
                visited(Call(args, None))
            result = await right(*args, **words)
            if after:
                visited(Call(args, result))
            return result

        return struck_async

    @functools.wraps(right)
    def struck(*args: Any, **words: Any) -> Any:
        if not after:
            visited(Call(args, None))
        result = right(*args, **words)
        if after:
            visited(Call(args, result))
        return result

    return struck


def _place(place: str) -> tuple[Any, str]:
    """The module or class that holds the function, and its name there."""
    module, _, path = place.partition(":")
    *owners, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for each in owners:
        owner = getattr(owner, each)
    return owner, name


def _kill_self(point: Point) -> None:
    note = {"point": point.name, "at": time.time_ns() // 1_000, "pid": os.getpid()}
    notes = os.open(os.environ["FAILPOINT_NOTES"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(notes, json.dumps(note).encode() + b"\n")
    os.fsync(notes)
    os.kill(os.getpid(), signal.SIGKILL)


def main(role: str) -> None:
    """Arm what is to be armed, then become the role."""
    armed = os.environ.get("FAILPOINT", "")
    if armed:
        name, _, visit = armed.partition(":")
        point = BY_NAME[name]
        arm(point, int(visit), lambda: _kill_self(point))
        note_rounds()  # outside of what was armed: a point at _send itself asks which round it is
    sys.argv = [role]
    runpy.run_module(f"waterclock.{role}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1])
