"""The troubles of a seed, with their times, drawn before anything runs.

Not every kind comes in every seed: half of them stay away, so that each also meets a system in which nothing else is
wrong.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from waterclock.model.ids import US_PER_S

LOG_OPERATIONS = (
    "init",
    "begin",
    "append",
    "flush",
    "send_offsets",
    "commit",
    "commit landed",
    "committed",
    "start",
    "poll",
    "high_watermark",
    "plain append",
)
AFTER_FLUSH = "after flush"
"""Not a call: from the flush of a round that tells control something on, every call counts."""

STORE_OPERATIONS = ("apply:versions", "apply:due", "apply:jobs", "load_due", "write_due", "versions_below", "record")
TROUBLES = {
    "crash": 8,
    "pause": 8,
    "abort": 4,
    "doubt": 6,
    "store": 3,
    "away": 2,
    "markers": 2,
    "sleep": 1,
    "absence": 1,
    "jump": 1,
    "skew": 1,
    "deploy": 3,
    "hold": 4,
    "stillborn": 2,
    "tear": 3,
    "swallow": 1,
    "compact": 1,
    "forget": 1,
    "lose": 1,
    "storm": 1,
    "drift": 1,
}
"""Kinds of trouble, and how often each comes beside the others."""

LOSERS = ("worker", "recorder")
"""Roles whose groups may lose their positions: what they do again is known by the log, and ignored or written alike.

An intake would send its commands a second time, which its promise leaves to the keys of the shard's owner, for a day. A
retry router without positions acts on nothing that was decided before: the dead letters of verdicts that stand and were
not read back are lost (seed 20041). Nobody has promised otherwise.
"""

_RESTART_US = (200_000, 1_000_000, 9_000_000)
"""A supervisor restarts within a second; now and then it takes longer than a session."""

_STANDSTILL_US = (2_000_000, 7_000_000, 11_000_000, 17_000_000)
"""Shorter than everything, longer than a session, than a transaction's time-out, than a lease."""

_ABSENCE_S = (20, 70, 200, 600, 600, 7_500)
"""Some beyond every grace, one so long that consumed buckets are disposed of."""


class Trouble(NamedTuple):
    """At tick ``at``: something is armed for ``slot``. It strikes at its ``calls``-th call of ``operation`` ("": any).

    ``us`` is how long it lasts, ``fate`` which kind of a doubt or of an unknown write it is, ``with_twin`` whether a
    replacement of the same name is started while the slot stands still.
    """

    at: int
    kind: str
    slot: str
    operation: str = ""
    calls: int = 1
    us: int = 0
    fate: str = ""
    with_twin: bool = False


def troubles(rng: random.Random, slots: Sequence[str], horizon: int, *, races: bool) -> list[Trouble]:
    """The troubles of a world with these slots, in order. ``races``: mostly standstills within rounds."""
    kinds = {kind: weight for kind, weight in TROUBLES.items() if rng.random() < (0.2 if races else 0.5)}
    kinds |= {"hold": 12} if races else {}
    if not kinds:
        return []
    drawn = rng.choices(list(kinds), list(kinds.values()), k=rng.randint(4, 22))
    return sorted(_trouble(rng, kind, rng.randrange(2 * US_PER_S, horizon), slots) for kind in drawn)


def _trouble(rng: random.Random, kind: str, at: int, slots: Sequence[str]) -> Trouble:
    make = {"crash": _process, "pause": _process, "abort": _commit, "doubt": _commit, "store": _store}
    make |= {"hold": _hold, "stillborn": _stillborn}
    return make.get(kind, _other)(rng, kind, at, slots)


def _of(slots: Sequence[str], role: str) -> list[str]:
    return [slot for slot in slots if slot.startswith(role)]


def _process(rng: random.Random, kind: str, at: int, slots: Sequence[str]) -> Trouble:
    """A kill or a standstill, at some call or at any. Dispatchers, workers and engines are hit twice as often."""
    operation = rng.choice(("", "", *LOG_OPERATIONS, *LOG_OPERATIONS, *STORE_OPERATIONS))
    calls = rng.choice([1, 2, rng.randint(1, 8), rng.randint(1, 60)])
    us = rng.choice(_RESTART_US if kind == "crash" else _STANDSTILL_US)
    slot = rng.choice([*_of(slots, "dispatcher"), *_of(slots, "worker"), *_of(slots, "dag-engine"), *slots])
    return Trouble(at, kind, slot, operation, calls, us, with_twin=rng.random() < 0.25)


def _hold(rng: random.Random, kind: str, at: int, slots: Sequence[str]) -> Trouble:
    """A standstill in the middle of a round that has told control something."""
    us = rng.choice([2_000_000, 7_000_000])
    return Trouble(at, kind, rng.choice(_of(slots, "dispatcher")), AFTER_FLUSH, rng.randint(2, 6), us)


def _stillborn(rng: random.Random, kind: str, at: int, slots: Sequence[str]) -> Trouble:
    """A worker dies, and its successor stands still on its way to its first claim, while a twin takes its place."""
    operation = rng.choice(["init", "append", "plain append", "commit"])
    return Trouble(at, kind, rng.choice(_of(slots, "worker")), operation, 1, rng.choice([7_000_000, 17_000_000]))


def _commit(rng: random.Random, kind: str, at: int, slots: Sequence[str]) -> Trouble:
    """``operation`` and ``calls`` of a doubt say when its delayed EndTxn arrives: also in a later round."""
    fate = rng.choice(["UNANSWERED", "LOST", "DELAYED", "DOUBLED", "DOUBLED"]) if kind == "doubt" else ""
    operation = rng.choice(["", "append", "append", "append", "send_offsets", "commit"])
    calls = rng.choice([1, 2, rng.randint(1, 25)]) if not operation else rng.randint(1, 4)
    committing = [slot for slot in slots if not slot.startswith(("lease-keeper", "api"))]
    slot = rng.choice([*_of(slots, "dispatcher"), *_of(slots, "dag-engine"), *committing])
    return Trouble(at, kind, slot, operation, calls, fate=fate)


def _store(rng: random.Random, kind: str, at: int, slots: Sequence[str]) -> Trouble:
    """``us``: how late a write lands that lands later."""
    slot = rng.choice([*_of(slots, "dispatcher"), *_of(slots, "recorder"), *_of(slots, "api")])
    us = rng.choice([1, 10, 60]) * US_PER_S
    fate = rng.choice(["APPLIED", "LOST", "HALF", "LATER"])
    return Trouble(at, kind, slot, rng.choice(["", *STORE_OPERATIONS]), rng.randint(1, 4), us, fate)


def _other(rng: random.Random, kind: str, at: int, slots: Sequence[str]) -> Trouble:
    us = {
        "skew": rng.randrange(-3 * US_PER_S, 3 * US_PER_S),
        "jump": rng.choice([5, 70, 400]) * US_PER_S,
        "sleep": rng.choice(_ABSENCE_S) * US_PER_S,
        "absence": rng.choice(_ABSENCE_S) * US_PER_S,
    }.get(kind, rng.choice([1, 5, 9]) * US_PER_S)
    among = {"deploy": [*_of(slots, "worker"), *slots], "lose": [slot for slot in slots if slot.startswith(LOSERS)]}
    slot = rng.choice(among.get(kind, list(slots)))
    return Trouble(at, kind, slot, calls=rng.randint(2, 30), us=us)
