"""Every crash point of every role struck ten times on real servers: all invariants hold, each back at work in <= 10 s.

More than fifty named places (``tests/failpoints/points.py``): before and after an init, a take-over, a store's write,
with records of a round on the broker and its offsets not, committed and unknown, between HELLO and beat, claim and
call, end and outcome, fencing and FENCED, FENCED and LOST. The process kills itself there at a drawn visit; its
successor starts unarmed at once. Up to three roles are struck at the same time, under jobs of all kinds by all doors.
Recovery is from the crash to the first round of the successor, as the topics show it. A point that is never reached
fails the check, also one that the short form does not strike; what the judges complain of names the points struck
around that time.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.acceptance import dumps
from tests.acceptance.at_rest import AtRest, quantiles_s
from tests.acceptance.evidence import Evidence
from tests.acceptance.excuses import Excuses
from tests.acceptance.judge_all import judge_all
from tests.acceptance.kills import BREATH_S
from tests.acceptance.placing import names_at
from tests.acceptance.real_stack import wait_for
from tests.acceptance.scene import Scene, scene
from tests.failpoints.lane import Lane, Strike, Struck, Victims, keep_up
from tests.failpoints.load import API_JOBS, HERD_FIRES, HERD_LEAD_US, ApiClient, Load, Wish, jobs
from tests.failpoints.points import POINTS, Point, Provoke
from tests.failpoints.progress import Progress
from tests.free_ports import free_port
from tests.oracle import losses
from tests.oracle import owed as judge
from tests.oracle.chronicle import Chronicle
from waterclock.model.ids import US_PER_S

RECOVERY_S = 10.0
POINTS_MIN = 30
_MODULE = "tests.failpoints.run"
_CRASHES, _VISITS = "crashes.jsonl", "visits.txt"
_PARTITIONS = 4
_LEASE_S = 5.0
_LEAD_S = 4.0
_FENCED = "_FENCED"
"""How a life may end by itself: it stood still for longer than its transaction's time-out (a starved machine)."""

_START_WITHIN_S = 180.0
"""Eleven processes at once: nothing is measured yet."""

_STRIKE_S_MAX = 60.0
_AT_ONCE = 3
"""Strikes under way at once, each of another role."""

_AROUND_US = 12 * US_PER_S
_STAMP = re.compile(r"@(\d{8}T\d{6}(?:\.\d+)?Z)")
_FIRST, _LAST = "victim", "wounded"
"""One before and one behind the workers that are struck: members get their partitions in the order of their names, so
each router judges what one of these two holds. Else the second router never hears of a death that it may call lost."""

_SHORT_SAMPLE = {"dispatcher": 4, "workers": 3, "retry_router": 4, "recorder": 1, "intake": 1, "api": 1}
"""How many points of each role the short form draws."""

CAST = {
    "dispatcher": ("dispatcher-1", "dispatcher-2"),
    "workers": ("worker-1", "worker-2"),
    "retry_router": ("retry-router-1", "retry-router-2"),
    "recorder": ("recorder-1",),
    "intake": ("intake-1",),
    "api": ("api-1",),
}


class Play(NamedTuple):
    """What became of it."""

    lanes: list[Lane]
    victims: Victims
    wishes: list[Wish]

    @property
    def struck(self) -> list[Struck]:
        """All crashes, in order."""
        return sorted((each for lane in self.lanes for each in lane.struck), key=lambda each: each.at)


def main(short: bool = False, seed: int | None = None) -> None:
    with scene("failpoints", seed, partitions=_PARTITIONS) as played:
        points, times = (_sample(played.dice), 1) if short else (POINTS, 10)
        play_and_judge(played, points, times, judge_figures=not short)
        if not short:
            played.evidence.demand(len(points) >= POINTS_MIN, f"{len(points)} points, fewer than {POINTS_MIN}")


def _sample(dice: Random) -> Sequence[Point]:
    return [
        point
        for role, count in _SHORT_SAMPLE.items()
        for point in dice.sample([point for point in POINTS if point.role == role], count)
    ]


def play_and_judge(played: Scene, points: Sequence[Point], times: int, *, judge_figures: bool) -> None:
    """Strike these points so often, let everything come to rest, and judge it."""
    notes, port = played.stack.folder / _CRASHES, free_port()
    victims = _start(played, notes, port)
    progress = Progress(played.stack.bootstrap, played.stack.names, played.following, f"default:{API_JOBS}".encode())
    workers = {name: played.stack.roles[name] for name in victims}
    play = _strike_all(played, points, times, progress, Victims(workers, progress, _PARTITIONS), notes, port)
    progress.close()
    names, bootstrap = played.stack.names, played.stack.bootstrap
    wait_for(
        lambda: dumps.unread(bootstrap, names.group("intake"), [names.job_events]) == 0, "job events read", every_s=0.2
    )
    chronicle = played.come_to_rest()
    struck = play.struck
    played.evidence.remark = lambda complaint: _around(struck, complaint)
    _judge_strikes(played, play, points, times, judge_figures=judge_figures)
    excuses = Excuses(verdict_within_s=_LEASE_S + RECOVERY_S, herd_fires=HERD_FIRES, herd_lead_us=HERD_LEAD_US)
    found = judge_all(played, chronicle, time.time_ns() // 1_000, excuses)
    _judge_doors(played, chronicle, play.wishes)
    _judge_losses(played, found, play)


def _start(played: Scene, notes: Path, port: int) -> list[str]:
    """All roles, under the starter that can arm them; returns the names of the workers whose deaths others notice."""
    visits = notes.with_name(_VISITS)
    env = {"FAILPOINT_NOTES": str(notes), "FAILPOINT_VISITS": str(visits), "WATERCLOCK_API__PORT": str(port)}
    worker = {
        "WATERCLOCK_WORKER__LEASE_TTL_S": str(_LEASE_S),
        "WATERCLOCK_WORKER__SLOTS": "64",
        "WATERCLOCK_WORKER__DRAIN_GRACE_S": "1.0",
    }
    for role, instances in CAST.items():
        for instance in instances:
            if role == "workers":
                played.add_worker(instance, module=_MODULE, args=[role], **env, **worker)
            else:
                herds = {"WATERCLOCK_DISPATCHER__HERD_FIRES": str(HERD_FIRES)} if role == "dispatcher" else {}
                played.stack.role(role, instance, module=_MODULE, args=[role], **env, **herds)
    victims = [_kept_at(0, _FIRST), _kept_at(_PARTITIONS - 1, _LAST)]
    for victim in victims:
        played.add_worker(victim, module=_MODULE, args=["workers"], **env, **worker)
    for role_process in played.stack.roles.values():
        role_process.wait_ready(_START_WITHIN_S)
    played.define(jobs(played.dice, _LEAD_S))
    return victims


def _kept_at(partition: int, word: str) -> str:
    """A worker's name whose beats lie in this partition: each router keeps the lease of one of them."""
    return next(names_at(partition, word, _PARTITIONS))


def _strike_all(
    played: Scene,
    points: Sequence[Point],
    times: int,
    progress: Progress,
    victims: Victims,
    notes: Path,
    port: int,
) -> Play:
    """Every lane through its plan, the load going on meanwhile."""
    plans = _plans(points, times, played.dice)
    lanes = [
        Lane(played.stack.roles[instance], plan, progress, victims, notes, Random(played.dice.randrange(1 << 30)))
        for instance, plan in plans.items()
    ]
    load, client = Load(played, played.dice), ApiClient(port)
    client.start()
    until_s = time.monotonic() + _STRIKE_S_MAX * (1 + len(points) * times // _AT_ONCE)
    while not all(lane.is_over for lane in lanes):
        progress.glance()
        load.go_on()
        for lane in sorted(lanes, key=lambda lane: -lane.left):  # so that no role is left alone in the end
            lane.go_on(may_begin=_may_begin(lane, lanes))
        if time.monotonic() > until_s:
            raise TimeoutError(f"strikes are left: {[len(lane.struck) for lane in lanes]} were made")
        time.sleep(BREATH_S)
    for role in played.stack.roles.values():
        keep_up(role)
        role.wait_ready(_STRIKE_S_MAX)
    client.finish()
    load.flush()
    return Play(lanes, victims, client.wishes)


def _may_begin(lane: Lane, lanes: Sequence[Lane]) -> bool:
    """Few at once, and never both of a role: else it is the machine's patience that is measured."""
    under_way = [each for each in lanes if each.is_struck]
    return len(under_way) < _AT_ONCE and all(each.role.role != lane.role.role for each in under_way)


def _plans(points: Sequence[Point], times: int, dice: Random) -> dict[str, list[Strike]]:
    """By instance, what it is struck with: the instances of a role in turn, at drawn visits, in a drawn order."""
    plans: dict[str, list[Strike]] = defaultdict(list)
    turn = Counter[str]()
    for point in points:
        for _ in range(times):
            instances = CAST[point.role]
            plans[instances[turn[point.role] % len(instances)]].append(Strike(point, dice.randint(1, point.most)))
            turn[point.role] += 1
    for plan in plans.values():
        dice.shuffle(plan)
    return dict(plans)


def _around(struck: Sequence[Struck], complaint: str) -> str:
    """The points that were struck around the time of the run that a complaint names."""
    found = _STAMP.search(complaint)
    if found is None:
        return ""
    at = judge.instant_of(f"job@{found[1]}")
    near = [each for each in struck if at - US_PER_S <= each.at <= at + _AROUND_US]
    told = ", ".join(f"{each.point} ({each.instance}, {(each.at - at) / US_PER_S:+.1f} s)" for each in near)
    return f" [struck: {told or 'nothing'}]"


# Judging ------------------------------------------------------------------------------------------------------------


def _judge_strikes(played: Scene, play: Play, points: Sequence[Point], times: int, *, judge_figures: bool) -> None:
    """Every point was reached as often as wanted, and everybody was back in time."""
    evidence = played.evidence
    took: dict[str, list[int]] = defaultdict(list)
    for each in play.struck:
        took[each.point].append(each.back_at - each.at)
    for point in points:
        found = quantiles_s(took[point.name])
        evidence.figure(
            f"struck: {point.name}",
            len(took[point.name]),
            p50_s=found["p50"],
            p95_s=found["p95"],
            worst_s=found["worst"],
            means=point.means,
        )
    every = [each for values in took.values() for each in values]
    evidence.figure("cores", len(os.sched_getaffinity(0)), load_average=round(os.getloadavg()[1], 1))
    evidence.figure("crashes at points", len(every), points=len(points), deaths_beside_them=len(play.victims.kills))
    evidence.figure(
        "seconds from a crash to the successor's first round", quantiles_s(every)["p95"], **quantiles_s(every)
    )
    missing = (f"{point.name}: {len(took[point.name])} of {times}" for point in points if len(took[point.name]) < times)
    evidence.none_of(missing, "points that were not struck as often as wanted")
    evidence.none_of((each for lane in play.lanes for each in lane.complaints), "complaints of the strikers")
    _judge_visits(evidence, played.stack.folder / _VISITS, {point.name for point in points if took[point.name]})
    ended = [each for lane in play.lanes for each in lane.ended]
    evidence.figure("lives that ended by themselves", len(ended), last_words=ended[:3])
    evidence.none_of(
        (each for each in ended if _FENCED not in each), "lives that ended by themselves, fenced by nobody"
    )
    late = (
        f"{each.instance}: {each.point}: {(each.back_at - each.at) / US_PER_S:.1f} s"
        for each in play.struck
        if judge_figures and each.back_at - each.at > RECOVERY_S * US_PER_S
    )
    evidence.none_of(late, f"recoveries that took more than {RECOVERY_S:.0f} s")


def _judge_visits(evidence: Evidence, visits: Path, struck: set[str]) -> None:
    """Somebody comes by every point, also by those that are not struck here and need no death to be reached."""
    seen = struck.union(visits.read_text().split())
    free = [point for point in POINTS if point.provoke is Provoke.NOTHING]
    evidence.figure("points that somebody came by", len(seen), of=len(POINTS), without_a_death=len(free))
    never = (f"{point.name}: {point.means}" for point in free if point.name not in seen)
    evidence.none_of(never, "points that nobody came by")


def _judge_doors(played: Scene, chronicle: Chronicle, wishes: Sequence[Wish]) -> None:
    """What the API acknowledged was done."""
    evidence = played.evidence
    made = Counter(run["job_id"] for run in chronicle.made.values())
    asked_again = sum(wish.asked > 1 for wish in wishes)
    statuses = Counter(str(wish.status) for wish in wishes)
    evidence.figure("jobs asked of the API", len(wishes), asked_again=asked_again, **statuses)
    good = [wish for wish in wishes if 200 <= wish.status < 300]
    evidence.demand(len(good) > 0, "the API acknowledged nothing")
    bad = (f"{wish.name}: {wish.status} after {wish.asked} times" for wish in wishes if wish not in good)
    evidence.none_of(bad, "requests to the API that came to nothing")
    lost = (
        f"default:{wish.name}: {made[f'default:{wish.name}']} runs"
        for wish in good
        if made[f"default:{wish.name}"] != 1
    )
    evidence.none_of(lost, "jobs that the API acknowledged, and that did not run once")


def _judge_losses(played: Scene, rest: AtRest, play: Play) -> None:
    """Nothing stands open, and whatever was lost was lost by a death."""
    died = [(each.instance, each.at) for each in play.struck] + [
        (kill.instance, kill.at) for kill in play.victims.kills
    ]
    found, complaints, counts = losses.check(
        rest.chronicle,
        rest.taken.leases,
        [death for death in died if death[0] in played.workers],
        lambda _: int(_LEASE_S * US_PER_S),
    )
    played.evidence.figure("attempts lost", len(found), **counts)
    played.evidence.none_of(complaints, "attempts that stand open, or were lost by no death")
