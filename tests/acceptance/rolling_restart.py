"""All workers restarted one by one at 1,000 runs/s: nothing LOST, nothing doubled, due-to-start at worst 2 s.

Each worker gets SIGTERM, drains, and is started again; the next one's turn comes when it is ready. Some handlers take
longer than the grace: they are handed back, half of them when they are asked, half by force. At rest: no ATTEMPT_LOST;
each run SUCCEEDED. Every fourth job calls the sink, which saw each of their attempts once at most, and so one call of
a run, not two, unless an attempt of it was handed back; its effect happened once then too. The worst due-to-start of
all runs due while it lasted is stated and judged.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from random import Random
from typing import NamedTuple

from tests.acceptance.at_rest import judge_rest, quantiles_s
from tests.acceptance.scene import Scene, scene
from tests.oracle import waits
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Every, JobSpec, Tier

RUNS_PER_S = 1_000
WORST_S = 2.0
_EVERY_S = 2
_SETTLE_S = 3.0
_LEAD_S = 12
"""From making the jobs to their first fire: a load that begins behind its time is not a steady one."""

_CALLING = 4
"""Every fourth job calls the sink: one call for each run would be half of the CPU."""

_SYNC = 36
"""Of forty jobs, the one whose handler is sync; none of the long ones, which could not be forced to end."""

_GRACE_S = 3.0
_LONG = (4.0, 5.0)
"""How long the handlers take that are to be handed back: longer than the grace."""


class Size(NamedTuple):
    """How many jobs (each every 2 s; ``long`` of them with handlers longer than the grace) and workers, how often all
    are restarted, and how long the load warms up.
    """

    jobs: int
    long: int
    workers: int
    times: int
    warm_up_s: float


WHOLE = Size(2_000, 24, 4, 2, 30.0)
SHORT = Size(100, 8, 2, 1, 3.0)


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    with scene("rolling-restart", seed) as played:
        workers = [f"worker-{number}" for number in range(1, size.workers + 1)]
        settings = {"WATERCLOCK_WORKER__SLOTS": "1000", "WATERCLOCK_WORKER__DRAIN_GRACE_S": str(_GRACE_S)}
        played.start(dict.fromkeys(workers, settings))
        played.define(_jobs(size, played.dice))
        time.sleep(_LEAD_S + size.warm_up_s)
        since = time.time_ns() // 1_000
        restarts = _restart_all(played, size)
        until = time.time_ns() // 1_000
        chronicle = played.come_to_rest()
        outcomes = judge_rest(played, chronicle)
        evidence = played.evidence
        evidence.figure("restarts", restarts)
        evidence.demand(outcomes["LOST"] == 0, f"{outcomes['LOST']} attempts were LOST")
        evidence.demand(outcomes["DRAINED"] > 0, "no attempt was handed back")
        statuses = chronicle.statuses()
        evidence.demand(statuses["FAILED"] == 0, f"{statuses['FAILED']} runs FAILED")
        calls = Counter(call["run_id"] for call in played.sink.lines())
        handed_back = Counter(run_id for (run_id, _), end in chronicle.ends.items() if end.error_class == "drained")
        again = [f"{run}: {n} calls" for run, n in calls.items() if n > 1 + handed_back[run]]
        evidence.figure("runs that were handed back", len(handed_back), called=len(handed_back.keys() & calls.keys()))
        evidence.none_of(again, "runs that were called twice, and not handed back")
        found = waits.first_attempts(chronicle, since, until)
        late = quantiles_s(list(found.values()))
        rate = len(found) / ((until - since) / US_PER_S)
        evidence.figure("seconds from due to start while workers were restarted", late["worst"], **late, n=len(found))
        evidence.figure("runs a second meanwhile", round(rate, 1))
        if not short:
            evidence.demand(rate >= 0.99 * RUNS_PER_S, f"{rate:.0f} runs/s, fewer than {RUNS_PER_S}")
            evidence.demand(late["worst"] <= WORST_S, f"due to start: {late['worst']} s at worst, wanted <= {WORST_S}")


def _jobs(size: Size, dice: Random) -> dict[str, JobSpec]:
    begin = (time.time_ns() // 1_000 // US_PER_S + _LEAD_S) * US_PER_S
    return {
        f"acme:roll-{number}": JobSpec(
            "calls.sync" if number % 40 == _SYNC else "calls.async",
            Every(_EVERY_S * US_PER_S, begin + dice.randrange(_EVERY_S * US_PER_S)),
            Tier(number % 3),
            payload=_payload(number, size),
        )
        for number in range(size.jobs)
    }


def _payload(number: int, size: Size) -> bytes:
    is_long = number < size.long
    shortest_s, longest_s = _LONG if is_long else (0.0, 0.5)
    asked = {
        "shortest_s": shortest_s,
        "longest_s": longest_s,
        "calls": number % _CALLING == 0,
        "heeds": is_long and number % 2 == 1,
    }
    return json.dumps(asked).encode()


def _restart_all(played: Scene, size: Size) -> int:
    """One after the other, the whole fleet ``times`` times."""
    restarts = 0
    for _ in range(size.times):
        for worker in played.workers:
            role = played.stack.roles[worker]
            began_s = time.monotonic()
            code = role.stop()
            stopped_s = time.monotonic()
            role.start().wait_ready()
            played.evidence.figure(
                f"seconds without {worker}",
                round(time.monotonic() - began_s, 2),
                draining=round(stopped_s - began_s, 2),
            )
            played.evidence.demand(code == 0, f"{worker} drained with {code}")
            restarts += 1
            time.sleep(_SETTLE_S)
    return restarts
