"""200 kill -9 of workers, overlapping, under load: every run ends once, no attempt is called twice, LOST comes in time.

Six workers, >= 500 runs/s of handlers that take 0 to 2 s, call the sink once and emit records. A third of the killed
stay away until their lease (5 s; of one worker 15 s) is over and the keeper fences them, the rest come back at once. At
rest, by an independent reducer: one final status for every run; nobody was called lost who could still speak, and few
who had not been killed; the sink saw at most one call for each attempt, none without an accepted STARTED; emitted
records stand once per effect id; from a kill to ATTEMPT_LOST p95 <= lease + 2 s, and <= 3 s from the HELLO of a worker
that came back.
"""

from __future__ import annotations

import time
from collections import Counter
from random import Random
from typing import NamedTuple

from tests.acceptance import dumps
from tests.acceptance.at_rest import judge_rest, quantiles_s
from tests.acceptance.kills import Kill, Life, count_inside
from tests.acceptance.scene import Scene, scene
from tests.oracle import deaths, losses, waits
from tests.oracle.chronicle import Chronicle
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Every, JobSpec, Tier

RUNS_PER_S = 500
LOST_AFTER_LEASE_S = 2.0
LOST_AFTER_HELLO_S = 3.0
INNOCENT_PART = 0.05
"""Of all lost attempts, at most so many of workers that lived: starved on a small machine, and fenced."""

HELD_PART = 0.5
"""Of all kills, at least so many hit a worker that held an attempt."""

_EVERY_S = 2
_REST_WITHIN_S = 300.0
_LEAD_S = 8
_PATIENT = "worker-6"
"""The one with the long lease."""


class Size(NamedTuple):
    """How much of it. ``patient_kills`` of all kills hit the worker with the long lease; ``alive_s``: how long at most
    a worker lives between being ready and the next kill.
    """

    kills: int
    patient_kills: int
    workers: int
    jobs: int
    alive_s: float


WHOLE = Size(200, 20, 6, 1_030, 4.0)
SHORT = Size(6, 1, 4, 60, 2.0)
_LEASE_S = 5.0
_LONG_LEASE_S = 15.0


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    with scene("worker-crashes", seed, partitions=8) as played:
        leases = _leases(size)
        played.start({worker: _settings(lease_s) for worker, lease_s in leases.items()})
        played.define(_jobs(size, played.dice))
        time.sleep(_LEAD_S)
        since = time.time_ns() // 1_000
        kills = _kill(played, size, leases)
        until = time.time_ns() // 1_000
        for worker in leases:
            played.stack.roles[worker].wait_ready()
        chronicle = played.come_to_rest(_REST_WITHIN_S)
        kill_s = (until - since) / US_PER_S
        rate = len(waits.first_attempts(chronicle, since, until)) / kill_s
        played.evidence.figure("runs a second that were due during the kills", round(rate, 1), seconds=round(kill_s, 1))
        judge_rest(played, chronicle, lease_s=max(leases.values()))
        _judge_losses(played, chronicle, kills, leases, judge_figures=not short)
        if not short:
            played.evidence.demand(rate >= RUNS_PER_S, f"{rate:.0f} runs/s, fewer than {RUNS_PER_S}")


def _leases(size: Size) -> dict[str, float]:
    workers = [f"worker-{number}" for number in range(1, size.workers)] + [_PATIENT]
    return {worker: _LONG_LEASE_S if worker == _PATIENT else _LEASE_S for worker in workers}


def _settings(lease_s: float) -> dict[str, str]:
    return {"WATERCLOCK_WORKER__LEASE_TTL_S": str(lease_s), "WATERCLOCK_WORKER__SLOTS": "200"}


def _jobs(size: Size, dice: Random) -> dict[str, JobSpec]:
    begin = (time.time_ns() // 1_000 // US_PER_S + _LEAD_S) * US_PER_S
    payload = b'{"longest_s": 2.0, "emits": 2}'
    return {
        f"acme:crash-{number}": JobSpec(
            "calls.sync" if number % 6 == 0 else "calls.async",
            Every(_EVERY_S * US_PER_S, begin + dice.randrange(_EVERY_S * US_PER_S)),
            Tier(number % 3),
            payload=payload,
        )
        for number in range(size.jobs)
    }


def _kill(played: Scene, size: Size, leases: dict[str, float]) -> list[Kill]:
    """Kill and restart the workers, each on its own, so that their deaths overlap."""
    budget = {True: size.patient_kills, False: size.kills - size.patient_kills}
    lives = [
        Life(played.stack.roles[worker], Random(played.dice.randrange(1 << 30)), lease_s, size.alive_s)
        for worker, lease_s in leases.items()
    ]
    kills = []
    while any(budget.values()) or any(life.is_down for life in lives):
        for life in lives:
            is_patient = life.role.instance == _PATIENT
            kill = life.go_on(may_kill=budget[is_patient] > 0)
            if kill is not None:
                budget[is_patient] -= 1
                kills.append(kill)
        time.sleep(0.02)
    return kills


def _judge_losses(
    played: Scene, chronicle: Chronicle, kills: list[Kill], leases: dict[str, float], *, judge_figures: bool
) -> None:
    evidence, names, bootstrap = played.evidence, played.stack.names, played.stack.bootstrap
    gone = dumps.aborted(bootstrap, names.run_events, played.following.events)
    inside = count_inside(kills, gone)
    evidence.figure("kills", len(kills), **Counter(kill.instance for kill in kills))
    evidence.figure("kills inside an open transaction", inside, records_aborted=len(gone))
    said = dumps.dump(bootstrap, names.leases)
    complaints, told = deaths.check(played.following.events, said)
    evidence.figure("records on leases", len(said), **told)
    evidence.none_of(complaints, "complaints about who was called lost")
    found, complaints, counts = losses.check(
        chronicle,
        said,
        [(kill.instance, kill.at) for kill in kills],
        lambda worker: int(leases[worker] * US_PER_S),
    )
    evidence.figure("attempts lost", len(found), **counts)
    evidence.none_of(complaints, "attempts that stand open, or were lost by no death")
    held, innocent = counts["deaths that held an attempt"], counts["lost by innocents"]
    evidence.demand(held > 0, "no kill hit a claimed run")
    if judge_figures:
        evidence.demand(held >= HELD_PART * len(kills), f"{held} of {len(kills)} kills hit a claimed run")
        most = INNOCENT_PART * (len(found) + innocent)
        evidence.demand(innocent <= most, f"{innocent} attempts were lost by workers that lived, of {len(found)}")
    for lease_s in sorted(set(leases.values())):
        ended = [loss.took_us for loss in found if loss.way == "lease" and leases[loss.worker] == lease_s]
        took = quantiles_s(ended)
        evidence.figure(f"seconds from kill to LOST, lease {lease_s:.0f} s", took["p95"], **took, n=len(ended))
        if judge_figures:
            evidence.demand(len(ended) > 0, f"no attempt was lost by a lease of {lease_s:.0f} s")
            bar = lease_s + LOST_AFTER_LEASE_S
            evidence.demand(took["p95"] <= bar, f"killed to LOST: p95 {took['p95']} s, wanted <= {bar}")
    came_back = [loss.took_us for loss in found if loss.way == "hello"]
    back = quantiles_s(came_back)
    evidence.figure("seconds from the next HELLO to LOST", back["worst"], **back, n=len(came_back))
    if judge_figures:
        evidence.demand(bool(came_back), "no attempt was lost by the HELLO of a worker that came back")
        evidence.demand(
            back["worst"] <= LOST_AFTER_HELLO_S,
            f"HELLO to LOST: {back['worst']} s at worst, wanted <= {LOST_AFTER_HELLO_S}",
        )
