"""5,000 cancels around claims and completions, with worker kills: one winner each, as the log says; none stuck.

Half of the cancels are aimed at the claim of their run, half at its completion (how long a handler takes follows from
its run id; every fourth job's is over at once, so that its records wait to go out while the cancel is on its way).
Workers are killed and restarted all the while. At rest: every cancel that was sent stands in the log, and was told to
control first; every run has one final status; a cancel that was accepted before the claim, or answered by the open
attempt, made the run CANCELLED, and no record of its handler is visible; where the success stands first in the log,
the run SUCCEEDED.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from tests.acceptance.at_rest import at_rest, judge_orders, judge_rest
from tests.acceptance.calling_app import duration_s
from tests.acceptance.excuses import crossed
from tests.acceptance.kills import Kill, Life
from tests.acceptance.scene import Scene, scene
from tests.oracle import owed as judge
from tests.oracle import rest
from tests.oracle.chronicle import Chronicle
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Every, JobSpec, Tier

_JOB = "acme:race-"
_EVERY_S = 2
_LONGEST_S = 2.0
_INSTANT = 4
"""The handler of every fourth job emits and is over: only the control barrier keeps its records back."""

_GRACE_S = 0.3
"""From asking a handler to forcing it: half of them heed, the others are forced."""

_LEASE_S = 5.0
_LEAD_S = 6
_BREATH_S = 0.005
"""Between two rounds of its hand: so late a cancel may be sent, and the loop is not to take a core for it."""

_SIDES = (
    "before the claim",
    "of a claimed run, which ended CANCELLED",
    "of a claimed run, which ended SUCCEEDED",
    "after the end",
)
"""Each must have happened: else there was no race."""


class Size(NamedTuple):
    """How many cancels, of how many jobs' runs (one every 2 s), under how many kills."""

    cancels: int
    jobs: int
    workers: int
    kills: int


WHOLE = Size(5_000, 240, 4, 20)
SHORT = Size(300, 60, 4, 2)


class Aim(NamedTuple):
    """One cancel: when to send it (seconds, wall clock), and of which run."""

    at_s: float
    job_id: str
    run_id: str


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    with scene("cancel-race", seed, partitions=8) as played:
        settings = {
            "WATERCLOCK_WORKER__LEASE_TTL_S": str(_LEASE_S),
            "WATERCLOCK_WORKER__SLOTS": "200",
            "WATERCLOCK_WORKER__CANCEL_GRACE_S": str(_GRACE_S),
        }
        played.start({f"worker-{number}": settings for number in range(1, size.workers + 1)})
        jobs = _jobs(size, played.dice)
        played.define(jobs)
        aims = _aims(jobs, size, played.dice)
        kills = _race(played, aims, size)
        for worker in played.workers:
            played.stack.roles[worker].wait_ready()
        chronicle = played.come_to_rest()
        played.evidence.figure("kills", len(kills), **Counter(kill.instance for kill in kills))
        outcomes = judge_rest(played, chronicle, torn=crossed(played.following.events), lease_s=_LEASE_S)
        _judge_cancels(played, chronicle, aims, must_cross=not short)
        played.evidence.demand(outcomes["LOST"] > 0, "no kill hit a claimed run")


def _judge_cancels(played: Scene, chronicle: Chronicle, aims: list[Aim], *, must_cross: bool) -> None:
    """None was lost on its way, each has one winner, and all sides of the race were seen."""
    evidence = played.evidence
    judge_orders(at_rest(played, chronicle))
    complaints, counts = rest.cancels(chronicle, [aim.run_id for aim in aims])
    evidence.figure("cancels", len(aims), **counts)
    evidence.none_of(complaints, "complaints about cancels")
    for side in _SIDES:
        evidence.demand(counts[side] > 0, f"no cancel came {side}")
    late = Counter(kind for kind, told in chronicle.ignored.items() for _, _, was in told if was == "CANCELLED")
    evidence.figure("events after a final cancel, counted and ignored", sum(late.values()), **late)
    late_claims = [run_id for run_id, _, was in chronicle.ignored["STARTED"] if was == "CANCELLED"]
    instant = sum(_is_instant(run_id.partition("@")[0]) for run_id in late_claims)
    evidence.figure("claims that crossed a cancel", len(late_claims), of_handlers_that_were_over_at_once=instant)
    if must_cross:
        evidence.demand(bool(late_claims), "no claim crossed a cancel")


def _jobs(size: Size, dice: Random) -> dict[str, JobSpec]:
    """Their fires are known beforehand, and so are their runs' ids."""
    begin = (time.time_ns() // 1_000 // US_PER_S + _LEAD_S) * US_PER_S
    return {
        f"{_JOB}{number}": JobSpec(
            "calls.sync" if number % 6 == 0 else "calls.async",
            Every(_EVERY_S * US_PER_S, begin + dice.randrange(_EVERY_S * US_PER_S)),
            Tier(number % 3),
            payload=_payload(number),
        )
        for number in range(size.jobs)
    }


def _payload(number: int) -> bytes:
    if _is_instant(f"{_JOB}{number}"):
        return b'{"emits": 2, "calls": false}'
    heeds = "true" if number % 2 == 0 else "false"
    return f'{{"longest_s": {_LONGEST_S}, "emits": 2, "heeds": {heeds}}}'.encode()


def _is_instant(job_id: str) -> bool:
    return int(job_id.removeprefix(_JOB)) % _INSTANT == 1


def _aims(jobs: dict[str, JobSpec], size: Size, dice: Random) -> list[Aim]:
    """Cancels for about every other run, until there are enough; in the order in which they are sent."""
    aims = list[Aim]()
    now_us = time.time_ns() // 1_000 + US_PER_S
    for job_id, fire_at in _fires(jobs, now_us):
        if len(aims) >= size.cancels:
            break
        if dice.random() < 0.5:
            continue
        run_id = judge.run_id(job_id, fire_at)
        longest_s = 0.0 if _is_instant(job_id) else _LONGEST_S
        after_s = dice.uniform(-0.1, 0.2) if dice.random() < 0.5 else duration_s(run_id, 1, longest_s)
        aims.append(Aim(fire_at / US_PER_S + after_s + dice.uniform(-0.05, 0.15), job_id, run_id))
    return sorted(aims)


def _fires(jobs: dict[str, JobSpec], now_us: int) -> Iterator[tuple[str, int]]:
    fire = 0
    while True:
        for job_id, spec in jobs.items():
            assert isinstance(spec.schedule, Every)
            assert spec.schedule.start_at is not None
            at = spec.schedule.start_at + fire * spec.schedule.every_us
            if at > now_us:
                yield job_id, at
        fire += 1


def _race(played: Scene, aims: list[Aim], size: Size) -> list[Kill]:
    """Send each cancel at its moment, and kill workers meanwhile, evenly over the time that there is."""
    lives = [
        Life(played.stack.roles[worker], Random(played.dice.randrange(1 << 30)), _LEASE_S, 6.0)
        for worker in played.workers
    ]
    kills: list[Kill] = []
    began_s, whole_s = time.time(), aims[-1].at_s - time.time()
    sent, worst_s = 0, 0.0
    while sent < len(aims) or any(life.is_down for life in lives):
        now_s = time.time()
        while sent < len(aims) and aims[sent].at_s <= now_s:
            aim = aims[sent]
            played.orders.send(CommandKind.CANCEL, aim.job_id, run_id=aim.run_id)
            worst_s = max(worst_s, now_s - aim.at_s)
            sent += 1
        for life in lives:
            may_kill = len(kills) < size.kills * (now_s - began_s) / whole_s
            kill = life.go_on(may_kill=may_kill and sent < len(aims))
            if kill is not None:
                kills.append(kill)
        time.sleep(_BREATH_S)
    played.orders.flush()
    played.evidence.figure("seconds that a cancel was sent late", round(worst_s, 3))
    return kills
