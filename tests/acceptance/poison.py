"""Three jobs that kill their worker, at once: each ends in the DLQ after its attempts, and the fleet lives on.

One dies by SIGSEGV, one runs against a limit of memory and aborts, one grows until somebody outside kills it, as the
kernel would. Whoever dies is restarted within a second, as a supervisor does, under a load of other jobs. At rest: each
poison run FAILED after its four attempts, all of them LOST, with its dead letter; the other runs' due-to-start is
stated before, during and after, and almost all of them SUCCEEDED.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from random import Random
from typing import NamedTuple

import psutil

from tests.acceptance.at_rest import judge_rest, quantiles_s
from tests.acceptance.placing import names_at
from tests.acceptance.scene import Scene, scene
from tests.oracle import waits
from tests.oracle.chronicle import Chronicle
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Every, JobSpec, Once, Tier

SHORT_FORM = False
"""A process grows to 900 MB in it: not everybody has them."""

POISONS = ("segv", "abort", "grow")
OTHERS_SUCCEED_MIN = 0.999
_EVERY_S = 2
_LEASE_S = 5.0
_RSS_MAX = 900 << 20
_RESTART_AFTER_S = 1.0
_LOOK_EVERY_S = 0.1
_WITHIN_S = 150.0
_ATTEMPTS = 4
_PARTITIONS = 4


class Size(NamedTuple):
    """How many other jobs run (each every 2 s), and for how long before and after the poison."""

    jobs: int
    workers: int
    calm_s: float


WHOLE = Size(400, 4, 20.0)
SHORT = Size(40, 4, 3.0)


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    with scene("poison", seed, partitions=_PARTITIONS) as played:
        settings = {"WATERCLOCK_WORKER__LEASE_TTL_S": str(_LEASE_S), "WATERCLOCK_WORKER__SLOTS": "200"}
        played.start({f"worker-{number}": settings for number in range(1, size.workers + 1)})
        played.define(_others(size, played.dice))
        time.sleep(size.calm_s)
        given_at = time.time_ns() // 1_000 + 2 * US_PER_S
        played.define({job_id(poison): _poisonous(poison, given_at) for poison in POISONS})
        deaths = _supervise(played)
        cured_at = time.time_ns() // 1_000
        time.sleep(size.calm_s)
        chronicle = played.come_to_rest()
        judge_rest(played, chronicle, lease_s=_LEASE_S)
        _judge_poison(played, chronicle, deaths)
        _tell_others(played, chronicle, given_at, cured_at)


def job_id(poison: str) -> str:
    """A name that falls into a partition of the poison's own: so each is some other worker's, and kills by itself."""
    return next(names_at(POISONS.index(poison), f"acme:poison-{poison}", _PARTITIONS))


def _others(size: Size, dice: Random) -> dict[str, JobSpec]:
    begin = time.time_ns() // 1_000 // US_PER_S * US_PER_S
    return {
        f"acme:healthy-{number}": JobSpec(
            "calls.async",
            Every(_EVERY_S * US_PER_S, begin + dice.randrange(_EVERY_S * US_PER_S)),
            Tier(number % 3),
            payload=b'{"longest_s": 0.3, "emits": 1}',
        )
        for number in range(size.jobs)
    }


def _poisonous(poison: str, at: int) -> JobSpec:
    return JobSpec("calls.sync", Once(at), Tier.HIGH, payload=f'{{"poison": "{poison}", "calls": false}}'.encode())


def _supervise(played: Scene) -> list[tuple[str, int]]:
    """Restart who dies, kill who grows, until each poison run has its verdict: (worker, exit code) of every death."""
    deaths: list[tuple[str, int]] = []
    back_at_s: dict[str, float] = {}
    until_s = time.monotonic() + _WITHIN_S
    read_at_s = 0.0
    while time.monotonic() < until_s:
        now_s = time.monotonic()
        for worker in played.workers:
            role = played.stack.roles[worker]
            assert role.process is not None
            if worker in back_at_s:
                if now_s >= back_at_s[worker]:
                    del back_at_s[worker]
                    role.start()
            elif role.process.poll() is not None:
                deaths.append((worker, role.process.returncode))
                back_at_s[worker] = now_s + _RESTART_AFTER_S
            elif psutil.Process(role.pid).memory_info().rss > _RSS_MAX:
                role.process.send_signal(signal.SIGKILL)
        if now_s >= read_at_s:
            read_at_s = now_s + 1.0
            played.following.glance()
            given_up = sum(_is_poisoned(run_id) for run_id in played.following.chronicle.verdicts)
            if given_up == len(POISONS) and not back_at_s:
                break
        time.sleep(_LOOK_EVERY_S)
    for worker in played.workers:
        if worker in back_at_s:
            played.stack.roles[worker].start()
        played.stack.roles[worker].wait_ready()
    return deaths


def _is_poisoned(run_id: str) -> bool:
    return run_id.startswith("acme:poison-")


def _judge_poison(played: Scene, chronicle: Chronicle, deaths: list[tuple[str, int]]) -> None:
    """That each has its letter, and only they are given up, was judged with the rest."""
    evidence = played.evidence
    signals = Counter(signal.Signals(-code).name if code < 0 else f"exit {code}" for _, code in deaths)
    evidence.figure("workers that died", len(deaths), **signals)
    for wanted in ("SIGSEGV", "SIGABRT", "SIGKILL"):
        evidence.demand(signals[wanted] > 0, f"no worker died by {wanted}")
    poisoned = {run_id: run for run_id, run in chronicle.runs.items() if _is_poisoned(run_id)}
    evidence.demand(len(poisoned) == len(POISONS), f"{len(poisoned)} poison runs, not {len(POISONS)}")
    for run_id, run in poisoned.items():
        ends = [chronicle.ends[run_id, n].kind for n in range(1, run["attempt"] + 1) if (run_id, n) in chronicle.ends]
        evidence.figure(f"ends of {run_id}", ends, status=run["status"], reason=chronicle.verdicts.get(run_id))
        evidence.demand(run["status"] == "FAILED", f"{run_id} is {run['status']}, not FAILED")
        evidence.demand(ends == ["ATTEMPT_LOST"] * _ATTEMPTS, f"{run_id} ended {ends}")


def _tell_others(played: Scene, chronicle: Chronicle, given_at: int, cured_at: int) -> None:
    evidence = played.evidence
    others = {run_id: run for run_id, run in chronicle.made.items() if not _is_poisoned(run_id)}
    well = sum(run["status"] == "SUCCEEDED" for run in others.values())
    evidence.figure("other runs", len(others), succeeded=well)
    evidence.demand(
        bool(others) and well >= OTHERS_SUCCEED_MIN * len(others), f"{well} of {len(others)} others went well"
    )
    for phase, since, until in (("before", 0, given_at), ("during", given_at, cured_at), ("after", cured_at, 1 << 62)):
        found = waits.first_attempts(chronicle, since, until)
        late = quantiles_s([wait for run_id, wait in found.items() if not _is_poisoned(run_id)])
        evidence.figure(f"seconds from due to start of the others, {phase}", late["p99"], **late, n=len(found))
