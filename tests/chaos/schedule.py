"""The schedule of faults: what happens when, to whom, for how long. A function of the seed, kept as a file.

Every kind of fault has dice of its own, so that one more kind shifts no other; its faults are spread evenly over the
time, each somewhere in its part, so that a schedule holds as many of each as its size says. Faults overlap on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.chaos.rights import CLOCK, DISK

KAFKA, CASSANDRA = "kafka", "cassandra"
SERVERS = (KAFKA, CASSANDRA)

DISPATCHERS = ("dispatcher-1", "dispatcher-2")
WORKERS = ("worker-1", "worker-2", "worker-3", "worker-4")
ROUTERS = ("retry-router-1", "retry-router-2")
RECORDERS = ("recorder-1", "recorder-2")
OTHERS = ("intake-1", "api-1")
CAST = (*DISPATCHERS, *WORKERS, *ROUTERS, *RECORDERS, *OTHERS)
_KINDS = (DISPATCHERS, WORKERS, ROUTERS, RECORDERS, OTHERS[:1], OTHERS[1:])
"""Kills fall on each kind alike, however many there are of it."""

IN_A_ROUND = "in a round"

FAKED = "dispatcher-2"
"""Whose clock jumps: a dispatcher, because clocks decide what is due."""

LEASE_S = 5.0
SESSION_S = 10.0
SKEW_MAX_S = 20.0
_LEAD_S = 3.0


class Fault(NamedTuple):
    """One fault. ``lasts_s``: until it is healed, or until what was killed comes back. ``how``: which kind of it."""

    at_s: float
    kind: str
    target: str
    lasts_s: float
    how: str = ""


PER_MINUTE = {
    "kill": 5.6,
    "kill-kafka": 0.4,
    "kill-cassandra": 0.4,
    "stop": 1.0,
    "stop-server": 0.25,
    "cut": 0.4,
    "delay": 0.25,
    "one-way": 0.3,
    "late-endtxn": 0.8,
    CLOCK: 0.25,
    DISK: 0.05,
    "storm": 0.1,
}
"""How many of each kind in a minute; of every kind at least one in any schedule.

A server that was killed is away for 20 to 40 s on two cores. With more than twice as many faults, one of the two was
away nearly all the time, and a tenth of what was due ever ran: too little is at stake then.
"""


def draw(seed: int, minutes: float, left_out: Collection[str] = ()) -> list[Fault]:
    """The schedule of this seed for so many minutes, without the kinds that cannot be had, in order of time."""
    faults: list[Fault] = []
    for kind, per_minute in PER_MINUTE.items():
        if kind not in left_out:
            faults += _of_kind(kind, seed, max(1, round(per_minute * minutes)), minutes * 60.0)
    return sorted(faults)


def _of_kind(kind: str, seed: int, count: int, span_s: float) -> Iterable[Fault]:
    dice = Random(f"{seed}/{kind}")
    part_s = (span_s - _LEAD_S) / count
    for number in range(count):
        at_s = round(_LEAD_S + (number + dice.uniform(0.05, 0.95)) * part_s, 2)
        target, lasts_s, how = _DRAWN[kind](dice, number)
        yield Fault(at_s, kind, target, round(lasts_s, 2), how)


def _kill(dice: Random, number: int) -> tuple[str, float, str]:
    """Kind after kind in turn; two thirds come back at once, the others after their lease.

    Of the workers' two thirds wait until one of them has just begun a round, and hit that one.
    """
    kind = _KINDS[number % len(_KINDS)]
    at_once = dice.random() < 2 / 3
    away_s = dice.uniform(0.0, 1.0) if at_once else LEASE_S + dice.uniform(2.0, 5.0)
    in_a_round = kind is WORKERS and dice.random() < 2 / 3
    return dice.choice(kind), away_s, IN_A_ROUND if in_a_round else "at any time"


def _stop(dice: Random, number: int) -> tuple[str, float, str]:
    """For less than a lease, or beyond lease and session: a zombie that wakes; every third time that is a worker."""
    is_short = dice.random() < 0.5 and number % 3 != 0
    who = dice.choice(WORKERS if number % 3 == 0 else CAST)
    if is_short:
        return who, dice.uniform(0.5, LEASE_S - 1.0), "short"
    return who, max(LEASE_S, SESSION_S) + dice.uniform(2.0, 7.0), "long"


def _proxied(dice: Random) -> str:
    return dice.choice((KAFKA, KAFKA, CASSANDRA))


def _clock(dice: Random, number: int) -> tuple[str, float, str]:
    """Every other jump goes ahead: one that goes back shows nowhere, its dispatcher waits for real time.

    Those ahead last longer than a take-over after whatever else befalls that dispatcher: they show in what it says.
    """
    if number % 2 == 0:
        return FAKED, dice.uniform(25.0, 40.0), f"{dice.uniform(2.0, SKEW_MAX_S):+.1f}"
    return FAKED, dice.uniform(5.0, 15.0), f"{-dice.uniform(2.0, 600.0):+.1f}"


_DRAWN = {
    "kill": _kill,
    "kill-kafka": lambda dice, _: (KAFKA, dice.uniform(0.0, 5.0), ""),
    "kill-cassandra": lambda dice, _: (CASSANDRA, dice.uniform(0.0, 8.0), ""),
    "stop": _stop,
    "stop-server": lambda dice, _: (dice.choice(SERVERS), dice.uniform(1.0, 14.0), ""),
    "cut": lambda dice, _: (_proxied(dice), 0.0, ""),
    "delay": lambda dice, _: (_proxied(dice), dice.uniform(3.0, 10.0), f"{dice.uniform(0.02, 0.3):.3f}"),
    "one-way": lambda dice, _: (_proxied(dice), dice.uniform(1.0, 12.0), dice.choice(("requests", "answers"))),
    "late-endtxn": lambda dice, _: (KAFKA, dice.uniform(0.05, 4.0), ""),
    CLOCK: _clock,
    DISK: lambda dice, _: (KAFKA, dice.uniform(2.0, 6.0), ""),
    "storm": lambda dice, _: (dice.choice((*DISPATCHERS, *WORKERS, *ROUTERS)), dice.uniform(20.0, 30.0), ""),
}


def write(path: Path, faults: Iterable[Fault]) -> None:
    """One fault a line."""
    path.write_text("".join(json.dumps(fault._asdict()) + "\n" for fault in faults))
