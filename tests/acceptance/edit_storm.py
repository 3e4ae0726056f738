"""2,000 edits, pauses, resumes and deletes of 200 jobs, about their fires: every fire owed once, by its revision.

Two dispatchers, killed inside and outside of their transactions, and stopped for longer than their session, so that
they wake as zombies whose partitions somebody else has. Each order is sent within a quarter of a second of a fire of
its job, before it or after. At rest the fires owed, by a brute-force walk over the dump of commands and the edges that
REVISED tells, must equal runs plus expanded skips, each once, and each run made of the revision that owed it.
"""

from __future__ import annotations

import heapq
import os
import signal
import time
from collections import Counter
from random import Random
from typing import Any, NamedTuple

from tests.acceptance import dumps
from tests.acceptance.dispatcher_kill import come_to_rest, judge_work
from tests.acceptance.evidence import Evidence, on_stage
from tests.acceptance.kills import BREATH_S, Killer, Trap, count_inside
from tests.acceptance.orders import Orders
from tests.acceptance.real_stack import RealStack, wait_for
from tests.oracle import books, jobs, makings, misfires, owed
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Cron, Every, JobSpec, Once, Tier

SHORT_FORM = False
"""The short form of ``dispatcher-kill`` edits under kills as well, and the simulation knows zombies."""

INSTANCES = ("dispatcher-1", "dispatcher-2")
_NEAR_US = US_PER_S // 4
_NEAR_PART = 0.5
_ASLEEP_S = 14.0
"""Longer than a session: the other one has taken over by then."""

_SESSION_US = 10 * US_PER_S
_VERBS = {
    CommandKind.UPDATE: 8,
    CommandKind.PAUSE: 4,
    CommandKind.RESUME: 5,
    CommandKind.DELETE: 2,
    CommandKind.CREATE: 3,
}
_RULES = owed.Rules(skew=US_PER_S)
"""All clocks are this machine's: nobody's is further ahead than the look-ahead of a round."""


class Size(NamedTuple):
    """How much of it. ``every_s``: from one disturbance (a kill or a zombie) to the next, on the average."""

    jobs: int
    orders: int
    orders_per_s: float
    kills: int
    zombies: int


WHOLE = Size(200, 2_000, 10.0, 16, 6)
SHORT = Size(40, 150, 8.0, 2, 1)


class Sleep(NamedTuple):
    """One zombie: who slept, from when until when (microseconds)."""

    instance: str
    since: int
    until: int


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    seed = time.time_ns() % 1_000_000 if seed is None else seed
    with on_stage("edit-storm") as (stack, evidence):
        evidence.figure("seed", seed)
        for instance in INSTANCES:
            stack.role("dispatcher", instance)
        for instance in INSTANCES:
            stack.roles[instance].wait_ready()
        storm = Storm(Orders(stack), size, Random(seed))
        killer, sleeps = _disturb(stack, storm, size, Random(seed + 1))
        storm.end()
        until = time.time_ns() // 1_000
        come_to_rest(stack, until)
        evidence.figure("orders", sum(storm.sent.values()), **storm.sent)
        _judge(stack, evidence, killer, sleeps, until)


class Storm:
    """The jobs and their orders. It knows when each job fires as long as its schedule is a period."""

    def __init__(self, orders: Orders, size: Size, dice: Random) -> None:
        self._orders = orders
        self._dice = dice
        self._left = size.orders
        self._every_s = 1.0 / size.orders_per_s
        self._next_s = time.monotonic()
        self._waiting: list[tuple[int, int, CommandKind, str]] = []
        self._specs: dict[str, JobSpec] = {}
        self.sent: Counter[str] = Counter()
        for number in range(size.jobs):
            self._send(CommandKind.CREATE, f"acme:storm-{number}", self._period())
        orders.flush()

    @property
    def is_over(self) -> bool:
        """Whether every order was sent."""
        return not self._left and not self._waiting

    def go_on(self) -> None:
        """Draw what is due to be drawn, send what is due to be sent."""
        now_s = time.monotonic()
        if self._left and now_s >= self._next_s:
            self._next_s = max(self._next_s + self._every_s, now_s - 1.0)
            self._left -= 1
            kind = self._dice.choices(list(_VERBS), list(_VERBS.values()))[0]
            job_id = self._dice.choice(list(self._specs))
            heapq.heappush(self._waiting, (self._near_a_fire(job_id), self._left, kind, job_id))
        while self._waiting and self._waiting[0][0] <= time.time_ns() // 1_000:
            _, _, kind, job_id = heapq.heappop(self._waiting)
            self._send(kind, job_id, self._any() if kind in (CommandKind.CREATE, CommandKind.UPDATE) else None)

    def end(self) -> None:
        """Until the broker has all of them."""
        self._orders.flush()

    def _near_a_fire(self, job_id: str) -> int:
        """An instant within a quarter of a second of the job's next fire but one."""
        now, schedule = time.time_ns() // 1_000, self._specs[job_id].schedule
        if not isinstance(schedule, Every) or schedule.start_at is None:
            return now
        fire = now - (now - schedule.start_at) % schedule.every_us + schedule.every_us
        return fire + self._dice.randrange(-_NEAR_US, _NEAR_US)

    def _any(self) -> JobSpec:
        """Mostly another period, now and then a schedule of another kind."""
        now = time.time_ns() // 1_000
        if self._dice.random() < 0.85:
            return self._period()
        schedule = self._dice.choice([Cron("* * * * *"), Once(now + self._dice.randrange(-1, 5) * US_PER_S)])
        return JobSpec("demo.ping", schedule, Tier.LOW)

    def _period(self) -> JobSpec:
        """In half of all cases two edits differ in more than the schedule, in half in nothing but the payload."""
        every_us = self._dice.choice([1, 2, 3, 5]) * US_PER_S
        start = time.time_ns() // 1_000 // (60 * US_PER_S) * 60 * US_PER_S + self._dice.choice([0, 0, 250, 500]) * 1_000
        return JobSpec(
            self._dice.choice(["demo.ping", "demo.ping", "demo.other"]),
            Every(every_us, start),
            self._dice.choice([Tier.HIGH, Tier.LOW]),
            payload=b"%d" % self._dice.randrange(1_000_000),
        )

    def _send(self, kind: CommandKind, job_id: str, spec: JobSpec | None) -> None:
        self.sent[kind.name] += 1
        if spec is not None:
            self._specs[job_id] = spec
        self._orders.send(kind, job_id, spec, key=f"storm-{sum(self.sent.values())}", answer=True)


def _disturb(stack: RealStack, storm: Storm, size: Size, dice: Random) -> tuple[Killer, list[Sleep]]:
    """Kills and sleeps in any order, spread over the storm; whatever is left of either when it is over comes then."""
    trap = Trap(stack.bootstrap, stack.names.run_events, lambda _: dice.choice(INSTANCES))
    killer, sleeps = Killer(stack, INSTANCES, trap, dice), list[Sleep]()
    disturbances = ["kill"] * size.kills + ["sleep"] * size.zombies
    dice.shuffle(disturbances)
    rest_s = 2.0 * max(1.0, (size.orders / size.orders_per_s - size.zombies * _ASLEEP_S) / len(disturbances))
    try:
        for disturbance in disturbances:
            killer.rest(rest_s, storm.go_on)
            if disturbance == "kill":
                killer.kill_one(trapped_part=0.8, patience_s=2.0)
            else:
                sleeps.append(_sleep(stack, dice.choice(INSTANCES), storm))
        while not storm.is_over:
            storm.go_on()
            time.sleep(BREATH_S)
    finally:
        trap.close()
    return killer, sleeps


def _sleep(stack: RealStack, instance: str, storm: Storm) -> Sleep:
    """SIGSTOP for longer than a session; the storm goes on."""
    role = stack.roles[instance]
    wait_for(lambda: role.is_ready, f"{instance} ready", every_s=0.1)
    os.kill(role.pid, signal.SIGSTOP)
    since, wake_s = time.time_ns() // 1_000, time.monotonic() + _ASLEEP_S
    try:
        while time.monotonic() < wake_s:
            storm.go_on()
            time.sleep(BREATH_S)
    finally:
        os.kill(role.pid, signal.SIGCONT)
    return Sleep(instance, since, time.time_ns() // 1_000)


def _judge(stack: RealStack, evidence: Evidence, killer: Killer, sleeps: list[Sleep], until: int) -> None:
    names = stack.names
    commands, events = dumps.dump(stack.bootstrap, names.commands), dumps.dump(stack.bootstrap, names.run_events)
    work = [record for tier in Tier for record in dumps.dump(stack.bootstrap, names.runs(tier))]
    gone = dumps.aborted(stack.bootstrap, names.run_events, events)
    inside = count_inside(killer.kills, gone)
    evidence.figure("kills", len(killer.kills), inside_a_transaction=inside)
    evidence.demand(inside > 0, "no kill fell inside an open transaction")
    taken_from = sum(_was_taken_from(sleep, events, stack.partitions) for sleep in sleeps)
    evidence.figure("dispatchers that slept", len(sleeps), of_whom_somebody_took_over=taken_from)
    evidence.demand(taken_from > 0, "no partition was taken from one that slept")
    _tell_nearness(evidence, commands, events)
    for what, judged in (
        ("fires lost or doubled", books.balance(commands, events, until, _RULES)),
        ("fires that came too late", misfires.check(commands, events, until, _RULES)),
        ("runs that are not made of what their command says", makings.check(commands, events, work, _RULES)),
    ):
        complaints, counts = judged
        evidence.figure(f"looked at for {what}", sum(counts.values()), **counts)
        evidence.none_of(complaints, what)
    judge_work(evidence, events, work)


def _was_taken_from(sleep: Sleep, events: list[dict[str, Any]], partitions: int) -> bool:
    """Whether events were committed in every partition while one slept and its session was over."""
    after = sleep.since + _SESSION_US
    seen = {record["partition"] for record in events if after < record["timestamp_us"] < sleep.until}
    return len(seen) == partitions


def _tell_nearness(evidence: Evidence, commands: list[dict[str, Any]], events: list[dict[str, Any]]) -> None:
    """How many versions came into force near a fire of the one before, by what the log says."""
    looked_at = near = ahead = 0
    for job in jobs.read(commands, events, _RULES).values():
        for before, after in zip(job.judged.made, job.judged.made[1:], strict=False):
            if before.status != "ACTIVE":
                continue
            looked_at += 1
            near += bool(owed.fires(before.spec, before.anchor, after.stamp - _NEAR_US, after.stamp + _NEAR_US))
            ahead += after.edge.at > after.stamp
    evidence.figure("versions that ended an active one", looked_at, near_a_fire=near, edge_ahead_of_the_order=ahead)
    evidence.demand(near >= _NEAR_PART * looked_at > 0, f"{near} of {looked_at} orders came near a fire")
    evidence.demand(ahead > 0, "no order met a fire that was decided already")
