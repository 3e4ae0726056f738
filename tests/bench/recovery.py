"""Kills of one of two dispatchers under an even load: how late runs begin, and that none is lost or doubled.

Half of the story is the other dispatcher's: the killed one stays away until its shards have moved. The other half is
its own: it is started again at once, and its shards wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from tests.bench import load, raw_produce
from tests.bench.rig import ALL_ROLES, DISPATCHER, Rig, several
from tests.bench.sight import PENDING, STARTED, SUCCEEDED, US, Glimpse, Sight, fire_at

_EVERY_S = 6
_RAW_S = 5.0


class Size(NamedTuple):
    """Kills after which the other takes over, and after which the same one comes back; an even load."""

    taken_over: int
    restarted: int
    jobs: int
    away_s: float
    calm_s: float
    warm_up_s: int
    lead_s: float


WHOLE = Size(10, 10, 10_002, 12.0, 12.0, 30, 60.0)
SHORT = Size(1, 1, 120, 9.0, 5.0, 5, 15.0)


class Recovery(NamedTuple):
    """Worst due to STARTED seen after each kill, in seconds; runs never begun or ended, or begun twice."""

    taken_over_s: list[float]
    restarted_s: list[float]
    runs: int
    lost: int
    doubled: int
    raw_runs_per_s: float


def measure(size: Size, seed: int = 4_711) -> Recovery:
    """One round."""
    dice = Random(seed)
    roles = [*several("dispatcher", 2), *(role for role in ALL_ROLES if role != DISPATCHER)]
    with Rig(roles=roles) as rig:
        start_at = load.whole_second(size.lead_s)
        beats = load.spread(size.jobs, _EVERY_S, start_at)
        rig.create(load.specs(beats))
        load.wait_until(start_at - 2 * US, least_s=0.0)
        sight = Sight(rig.stack.bootstrap, rig.stack.names.run_events, (PENDING, STARTED, SUCCEEDED))
        load.wait_until(start_at + size.warm_up_s * US)
        taken_over = [_kill(rig, dice, size.away_s, size.calm_s) for _ in range(size.taken_over)]
        restarted = [_kill(rig, dice, 0.0, size.calm_s) for _ in range(size.restarted)]
        until = time.time_ns() // 1_000
        rig.end_load(until)
        owed = load.owed(beats, start_at, until)
        wanted = time.monotonic() + 60
        while time.monotonic() < wanted and not _ended(sight, owed):
            time.sleep(1.0)
        seen = sight.stop()
        rig.rest()
        raw = raw_produce.measure(rig.stack.bootstrap, rig.stack.partitions, _RAW_S)
    wrong = [load.wrong(owed, load.times(e.run_id for e in seen if e.kind == kind)) for kind in (PENDING, STARTED)]
    never_ended, _ = load.wrong(owed, load.times(e.run_id for e in seen if e.kind == SUCCEEDED))
    lost = {*wrong[0][0], *wrong[1][0], *never_ended}
    doubled = {*wrong[0][1], *wrong[1][1]}
    worst = [worst_after(seen, kills, until) for kills in (taken_over, restarted)]
    return Recovery(worst[0], worst[1], len(owed), len(lost), len(doubled), raw)


def _kill(rig: Rig, dice: Random, away_s: float, calm_s: float) -> int:
    """SIGKILL one of the two at some moment, let it be away for so long, start it again; when it was killed."""
    time.sleep(dice.random())  # not in step with the load's seconds
    role = dice.choice(rig.of("dispatcher"))
    at = time.time_ns() // 1_000
    role.kill()
    time.sleep(away_s)
    role.start()
    role.wait_ready()
    time.sleep(calm_s)
    return at


def worst_after(seen: Sequence[Glimpse], kills: Sequence[int], until: int) -> list[float]:
    """The latest beginning of a run due between a kill and the next one, in seconds, kill by kill."""
    ends = [*kills[1:], until]
    started = [(fire_at(each.run_id), each.seen_at) for each in seen if each.kind == STARTED]
    # A run that was due shortly before the kill is held up by it as well.
    spans = [(kill - US, end - US) for kill, end in zip(kills, ends, strict=True)]
    return [
        max(((at - due) / US for due, at in started if since <= due < end), default=float("inf"))
        for since, end in spans
    ]


def _ended(sight: Sight, owed: set[str]) -> bool:
    ended = {each.run_id for each in sight.since(0) if each.kind == SUCCEEDED}
    return not owed - ended
