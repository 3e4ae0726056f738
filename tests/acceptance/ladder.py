"""1,000 retries over all rungs up to 2 m: none early, p99 at most 1 s late. 10,000 failures at once delay nobody much.

First, runs that fail once and wait 0.2 s to 2 m, by policy; their second attempt, and its call to the sink, is compared
with the end of the first plus that wait: what the router made of it plays no part. Then a steady load beside herds of
10,000 runs in one instant: one to warm up, one that succeeds, one that fails at once and is tried again. The p99 of
first attempts' due-to-start in the 20 s from each instant on, of all and of the steady load alone: with the failures at
most twice that without.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict
from random import Random
from typing import NamedTuple

from tests.acceptance import dumps
from tests.acceptance.at_rest import judge_rest, quantiles_s
from tests.acceptance.scene import Scene, scene
from tests.oracle import verdicts, waits
from tests.oracle.chronicle import Chronicle
from waterclock.model.failure_policy import Backoff, FailurePolicy
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Every, JobSpec, Once, Tier

SHORT_FORM = False
"""A shorter ladder is timed on a real broker by an ordinary test."""

LATE_P99_S = 1.0
HERD_FACTOR = 2.0
RUNGS = ("1s", "5s", "30s", "2m")
_LADDER = "acme:ladder-"
_LEAD_S = 8
_HERD_LEAD_S = 10
_CREATES_PER_S = 750
_HERD_APART_S = 20
_WORKERS = ("worker-1", "worker-2")


class Size(NamedTuple):
    """How long it warms up; how many retries, over which waits (seconds), spread over how long; how many runs a herd
    has, beside how many steady jobs (one run a second each); 0: no herds.
    """

    warm_up_s: float
    retries: int
    waits_s: tuple[float, ...]
    spread_s: float
    herd: int
    steady: int


_WAITS_S = (0.2, 0.9, 1.0, 1.7, 3.0, 5.0, 6.5, 11.0, 30.0, 36.0, 64.0, 93.0, 120.0, 125.0)
WHOLE = Size(12.0, 1_000, _WAITS_S, 12.0, 10_000, 150)
SHORT = Size(0.0, 60, (0.2, 1.0, 2.5, 6.0), 4.0, 0, 0)


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    with scene("ladder", seed) as played:
        played.start({key: {"WATERCLOCK_WORKER__SLOTS": "2000"} for key in _WORKERS}, WATERCLOCK_LOG_LEVEL="warning")
        _warm_up(played, size)
        played.define(_waiting(size, played.dice))
        # Until the last of them is due, and a little: the herds are to find nothing of these under way.
        time.sleep(_LEAD_S + size.spread_s + max(size.waits_s) + 5.0)
        herds = _stampede(played, size) if size.herd else ()
        chronicle = played.come_to_rest()
        judge_rest(played, chronicle)
        _judge_waits(played, chronicle, size)
        if herds:
            _judge_herds(played, chronicle, *herds)


def _waiting(size: Size, dice: Random) -> dict[str, JobSpec]:
    """Runs that fail in their first attempt, and wait what their policy says."""
    begin = time.time_ns() // 1_000 + _LEAD_S * US_PER_S
    jobs = {}
    for number in range(size.retries):
        wait_us = int(size.waits_s[number % len(size.waits_s)] * US_PER_S)
        policy = FailurePolicy(backoff=Backoff.FIXED, delays_us=(wait_us,), jitter=False)
        at = begin + int(dice.uniform(0.0, size.spread_s) * US_PER_S)
        jobs[f"{_LADDER}{number}"] = JobSpec(
            "calls.async", Once(at), Tier(number % 3), payload=b'{"fails": 1}', policy=policy
        )
    return jobs


def _warm_up(played: Scene, size: Size) -> None:
    """Runs that fail once, so that no server compiles while it is measured; being early is judged of them as well."""
    if not size.warm_up_s:
        return
    policy = FailurePolicy(backoff=Backoff.FIXED, delays_us=(US_PER_S // 2,), jitter=False)
    begin = time.time_ns() // 1_000
    warm = {
        f"acme:warm-{number}": JobSpec(
            "calls.async",
            Every(US_PER_S, begin + number * US_PER_S // 100),
            Tier(number % 3),
            payload=b'{"fails": 1}',
            policy=policy,
        )
        for number in range(100)
    }
    played.define(warm)
    time.sleep(size.warm_up_s)
    played.delete(list(warm))


def _stampede(played: Scene, size: Size) -> tuple[int, int]:
    """Three herds beside a steady load; the instants of the two that are compared: without, and with failures."""
    lead_s = 3 * size.herd // _CREATES_PER_S + _HERD_LEAD_S
    begin = (time.time_ns() // 1_000_000_000 + lead_s) * US_PER_S
    steady = {
        f"acme:steady-{number}": JobSpec(
            "calls.async",
            Every(US_PER_S, begin - 10 * US_PER_S + number * US_PER_S // size.steady),
            Tier(number % 3),
            payload=b'{"calls": false}',
        )
        for number in range(size.steady)
    }
    played.define(steady)
    instants = [begin + herd * _HERD_APART_S * US_PER_S for herd in range(3)]
    for herd, (at, fails) in enumerate(zip(instants, (0, 0, 1), strict=True)):
        payload = f'{{"calls": false, "fails": {fails}}}'.encode()
        spec = JobSpec("calls.async", Once(at), Tier.MEDIUM, payload=payload)
        played.define({f"acme:herd-{herd}-{number}": spec for number in range(size.herd)})
    left_s = begin / US_PER_S - time.time()
    played.evidence.figure("seconds between the last create and the first herd", round(left_s, 1))
    played.evidence.demand(left_s > 2.0, "the herds were made too late: nothing was provoked")
    time.sleep(max(0.0, instants[-1] / US_PER_S - time.time()) + _HERD_APART_S)
    return instants[1], instants[2]


def _judge_waits(played: Scene, chronicle: Chronicle, size: Size) -> None:
    evidence = played.evidence
    _judge_promises(played, chronicle)
    earliest = waits.earliest(chronicle, lambda job_id: _wait_us(played.specs[job_id].policy))
    found, complaints = waits.after(chronicle, earliest)
    evidence.none_of(complaints, "attempts that began before the wait of their policy was over")
    of_ladder = {key: late_us for key, late_us in found.items() if key[0].startswith(_LADDER)}
    evidence.demand(len(of_ladder) >= size.retries, f"{len(of_ladder)} retries, not {size.retries}")
    by_wait = defaultdict[int, list[int]](list)
    for (run_id, _), late_us in of_ladder.items():
        by_wait[_wait_us(played.specs[run_id.partition("@")[0]].policy)].append(late_us)
    for wait_us, those in sorted(by_wait.items()):
        late = quantiles_s(those)
        evidence.figure(f"seconds late after {wait_us / US_PER_S} s", late["p99"], **late)
    late = quantiles_s(list(of_ladder.values()))
    evidence.figure("seconds late, all retries", late["p99"], **late, n=len(of_ladder))
    evidence.demand(late["p99"] <= LATE_P99_S, f"p99 is {late['p99']} s late, wanted <= {LATE_P99_S}")
    calls = [(call["run_id"], call["attempt"], call["at"]) for call in played.sink.lines() if call["attempt"] > 1]
    early = (f"{run_id} attempt {n}" for run_id, n, at in calls if at < earliest.get((run_id, n), 0))
    evidence.figure("second attempts that called the sink", len(calls))
    evidence.none_of(early, "calls that reached the sink before the wait of their policy was over")
    _judge_rungs(played, size)


def _judge_promises(played: Scene, chronicle: Chronicle) -> None:
    """What RETRYING says is what the policies ask for, and is kept."""
    names, bootstrap = played.stack.names, played.stack.bootstrap
    work = itertools.chain(*(dumps.dump(bootstrap, names.runs(tier)) for tier in Tier))
    complaints, counts = verdicts.check(chronicle, work)
    played.evidence.figure("verdicts", counts["retries"], **counts)
    played.evidence.none_of(complaints, "verdicts that are not what the policy says")
    found, complaints = waits.retries(chronicle)
    late = quantiles_s([wait.late_us for wait in found if wait.run_id.startswith(_LADDER)])
    played.evidence.figure("seconds late by the due time that RETRYING names", late["p99"], **late)
    played.evidence.none_of(complaints, "retries that were early, or never came")


def _wait_us(policy: FailurePolicy) -> int:
    """The least that it lets a first failure wait."""
    return policy.delays_us[0] if policy.backoff is Backoff.FIXED and not policy.jitter else 0


def _judge_rungs(played: Scene, size: Size) -> None:
    evidence, names = played.evidence, played.stack.names
    stood = Counter({rung: len(dumps.dump(played.stack.bootstrap, names.delay(rung))) for rung in RUNGS})
    evidence.figure("records that stood on each rung", stood.total(), **stood)
    needed = [rung for rung, rung_s in (("1s", 1), ("5s", 5), ("30s", 30), ("2m", 120)) if rung_s <= max(size.waits_s)]
    for rung in needed:
        evidence.demand(stood[rung] > 0, f"nothing stood on the rung {rung}")


def _judge_herds(played: Scene, chronicle: Chronicle, calm_at: int, failing_at: int) -> None:
    evidence = played.evidence
    span = _HERD_APART_S * US_PER_S
    p99 = defaultdict[str, list[float]](list)
    for name, at in (("that succeed", calm_at), ("that fail", failing_at)):
        found = waits.first_attempts(chronicle, at, at + span)
        steady = quantiles_s([wait for run_id, wait in found.items() if run_id.startswith("acme:steady-")])
        every = quantiles_s(list(found.values()))
        p99["all"].append(every["p99"])
        p99["the steady load"].append(steady["p99"])
        evidence.figure(f"seconds from due to start, beside 10,000 runs {name}", every["p99"], **every, n=len(found))
        evidence.figure(f"the same, of the steady load alone, {name}", steady["p99"], **steady)
    failed = sum(run_id.startswith("acme:herd-2-") for run_id, _ in chronicle.retries)
    evidence.figure("failures at once", failed)
    evidence.demand(failed >= WHOLE.herd, f"{failed} runs failed at once")
    for whose, (without, with_failures) in p99.items():
        told = f"p99 of {whose} is {with_failures} s, more than {HERD_FACTOR} times that without: {without} s"
        evidence.demand(with_failures <= HERD_FACTOR * without, told)
