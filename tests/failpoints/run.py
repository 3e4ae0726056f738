"""Runs a role with one crash point armed: ``FAILPOINT=NAME:VISIT python -m tests.failpoints.run ROLE``.

The role is the product's, unchanged; the one function that the point stands at is wrapped. At its ``VISIT``-th visit
the process notes the point, durably, in the file that ``FAILPOINT_NOTES`` names, and kills itself with SIGKILL: no
handler, no ``finally``, no buffer is served. All other points of the role are watched: the first time that somebody
comes by one, its name is written to the file that ``FAILPOINT_VISITS`` names, so that a point which no life reaches any
more is known without a strike at it.

One thing is made small in every life, armed or not: router and recorder keep runs that are open for few records, and
remember few that have ended. By their own bounds nothing would be kept within an hour of this load.
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

from tests.failpoints.points import POINTS, Point, When
from tests.failpoints.visits import Call, note_rounds
from waterclock.transact import Rounds

_FLUSH_S = 5.0
_KEEPERS = {"retry_router": "waterclock.retry_router.loop:RetryRouter", "recorder": "waterclock.recorder.loop:Recorder"}
_KEPT_SOON = {"kept_behind": 20, "window": 40}
"""Offsets, as in plays of the simulation."""


def arm(point: Point, visit: int, die: Callable[[], None]) -> None:
    """Wrap the function at which the point stands; ``die`` is called at the ``visit``-th visit."""
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

    _stand_at(point, visited)


def watch(point: Point, tell: Callable[[], None]) -> None:
    """Wrap the function at which the point stands; ``tell`` is called at the first visit."""
    is_over = False

    def visited(call: Call) -> None:
        nonlocal is_over
        if not is_over and point.only(call):
            is_over = True
            tell()

    _stand_at(point, visited)


def _stand_at(point: Point, visited: Callable[[Call], None]) -> None:
    owner, name = _place(point.place)
    after = point.when in {When.AFTER, When.SENT}
    setattr(owner, name, _wrapped(getattr(owner, name), visited, after=after))


def _producer_of(owner: Any) -> Any:
    """The producer, or that of the Rounds, whose function the point stands at."""
    return owner._producer if isinstance(owner, Rounds) else owner


def _wrapped(right: Callable[..., Any], visited: Callable[[Call], None], *, after: bool) -> Callable[..., Any]:
    assert not inspect.isgeneratorfunction(right), f"{right}: a call of a generator does nothing of it yet"
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


def keep_soon(role: str) -> None:
    """Where this role keeps open runs, let it do so after few records."""
    if role not in _KEEPERS:
        return
    owner, name = _place(_KEEPERS[role])
    defaults = getattr(owner, name).__init__.__kwdefaults__
    if not _KEPT_SOON.keys() <= defaults.keys():
        raise LookupError(f"{_KEEPERS[role]} does not take all of {sorted(_KEPT_SOON)} any more")
    defaults.update(_KEPT_SOON)


def _kill_self(point: Point) -> None:
    note = {"point": point.name, "at": time.time_ns() // 1_000, "pid": os.getpid()}
    _append(os.environ["FAILPOINT_NOTES"], json.dumps(note))
    os.kill(os.getpid(), signal.SIGKILL)


def _append(path: str, line: str) -> None:
    """Durably: the process may be gone the next moment."""
    notes = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(notes, line.encode() + b"\n")
    os.fsync(notes)
    os.close(notes)


def main(role: str) -> None:
    """Arm what is to be armed, then become the role."""
    keep_soon(role)
    name, _, visit = os.environ.get("FAILPOINT", "").partition(":")
    for point in POINTS:
        if point.name == name:
            arm(point, int(visit), functools.partial(_kill_self, point))
        elif point.role == role:
            watch(point, functools.partial(_append, os.environ["FAILPOINT_VISITS"], point.name))
    note_rounds()  # outside of what stands at points: one at _send itself asks which round it is
    sys.argv = [role]
    runpy.run_module(f"waterclock.{role}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1])
