"""Killing dispatchers inside their transactions loses no fire and doubles none.

Two dispatchers, herds of jobs that fire in one instant, a trickle of others, and edits, pauses, resumes, deletes and
triggers in flight. Most kills come the moment an uncommitted tail of run-events sees the first record of a herd's
round. At rest the fires owed, by a brute-force walk over the dump of commands and REVISED, must equal the runs plus
the expanded SKIPPED, each once; and the work records the PENDING events, both ways.
"""

from __future__ import annotations

import itertools
import statistics
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from random import Random
from typing import Any, NamedTuple

from confluent_kafka import Message
from confluent_kafka.admin import AdminClient

from tests.acceptance import dumps, tables
from tests.acceptance.evidence import Evidence, on_stage
from tests.acceptance.kills import Kill, Killer, Trap, split_by_kill
from tests.acceptance.orders import Churn, Orders
from tests.acceptance.real_stack import RealStack, wait_for
from tests.acceptance.taken import take_rows
from tests.oracle import books
from tests.oracle.records import decode
from waterclock.log.kafka_groups import committed_of
from waterclock.model.cursor_text import undecided_from
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Every, JobSpec, Tier

INSTANCES = ("dispatcher-1", "dispatcher-2")
INSIDE_PART_MIN = 0.4
_CALM_WITHIN_S = 30.0
_CALM_BEHIND_US = 2 * US_PER_S
_HERD = "acme:herd-"


class Size(NamedTuple):
    """How much of it. ``rest_s``: at most this long between a restart and the next kill.

    ``trapped_part`` of the kills wait for a round to begin; ``calm_part`` are left in peace until all is caught up.
    """

    kills: int
    herd_jobs: int
    herd_every_s: int
    trickle_jobs: int
    churned_jobs: int
    churn_per_s: float
    rest_s: float
    trapped_part: float
    calm_part: float


WHOLE = Size(50, 5_000, 6, 100, 300, 20.0, 2.0, 0.85, 0.6)
SHORT = Size(4, 500, 5, 20, 50, 10.0, 2.0, 1.0, 1.0)


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    seed = time.time_ns() % 1_000_000 if seed is None else seed
    with on_stage("dispatcher-kill") as (stack, evidence):
        evidence.figure("seed", seed)
        dice = Random(seed)
        for instance in INSTANCES:
            stack.role("dispatcher", instance)
        for instance in INSTANCES:
            stack.roles[instance].wait_ready()
        orders = Orders(stack)
        churned = _define(orders, size, dice)
        wait_for(lambda: _all_applied(stack), "the jobs were made", 120.0, every_s=0.5)
        kills, calm = _kill(stack, size, Churn(orders, churned, dice, size.churn_per_s), dice)
        orders.flush()
        until = time.time_ns() // 1_000
        come_to_rest(stack, until)
        evidence.figure("commands", orders.sent)
        _judge(stack, evidence, (kills, calm), until, judge_figures=not short)


def _define(orders: Orders, size: Size, dice: Random) -> list[str]:
    """The herd, the trickle, and the jobs to be churned, which begin as part of the herd."""
    begin = time.time_ns() // 1_000 // (60 * US_PER_S) * 60 * US_PER_S
    herd = JobSpec("demo.ping", Every(size.herd_every_s * US_PER_S, begin), Tier.HIGH)
    churned = [f"{_HERD}churned-{number}" for number in range(size.churned_jobs)]
    for number in range(size.herd_jobs):
        orders.send(CommandKind.CREATE, f"{_HERD}{number}", herd)
    for job_id in churned:
        orders.send(CommandKind.CREATE, job_id, herd)
    for number in range(size.trickle_jobs):
        every = Every(2 * US_PER_S, begin + dice.randrange(2 * US_PER_S))
        orders.send(CommandKind.CREATE, f"acme:trickle-{number}", JobSpec("demo.ping", every, Tier.LOW))
    orders.flush()
    return churned


def _kill(stack: RealStack, size: Size, churn: Churn, dice: Random) -> tuple[list[Kill], list[Kill]]:
    """All kills, and those after which there was peace until all was caught up; the others hit a take-over as well."""
    owners = _Owners(stack)
    trap = Trap(stack.bootstrap, stack.names.run_events, owners.of_herd)
    killer = Killer(stack, INSTANCES, trap, dice)
    calm = []
    try:
        for _ in range(size.kills):
            killer.rest(size.rest_s, churn.go_on)
            owners.look()
            killer.kill_one(trapped_part=size.trapped_part, patience_s=2.0 * size.herd_every_s)
            if dice.random() < size.calm_part and _catch_up(stack, churn):
                calm.append(killer.kills[-1])
    finally:
        trap.close()
    return killer.kills, calm


def _catch_up(stack: RealStack, churn: Churn) -> bool:
    """Whether every cursor came near the clock within the patience; commands go on meanwhile."""
    until_s = time.monotonic() + _CALM_WITHIN_S
    while time.monotonic() < until_s:
        churn.go_on()
        if _oldest_cursor(stack) > time.time_ns() // 1_000 - _CALM_BEHIND_US:
            return True
        time.sleep(0.05)  # each look asks the broker: not as fast as it answers
    return False


class _Owners:
    """Which dispatcher owns which partition, as the broker tells it; a restart within the session moves none."""

    def __init__(self, stack: RealStack) -> None:
        self._admin = AdminClient(dumps.client(stack.bootstrap))
        self._group = stack.names.group("dispatcher")
        self._of: dict[int, str] = {}

    def look(self) -> None:
        described = self._admin.describe_consumer_groups([self._group])[self._group].result(10)
        for member in described.members:
            for place in member.assignment.topic_partitions if member.assignment else ():
                self._of[place.partition] = member.group_instance_id

    def of_herd(self, message: Message) -> str | None:
        """The writer of a herd's record: its rounds are long enough to be hit."""
        key: Any = message.key()
        return self._of.get(message.partition()) if key and key.startswith(_HERD.encode()) else None


def _oldest_cursor(stack: RealStack) -> int:
    """The due time up to which all is decided in every shard, gaps too, as it stands in the group's offset metadata."""
    admin, group = AdminClient(dumps.client(stack.bootstrap)), stack.names.group("dispatcher")
    positions = committed_of(admin, group, stable=False)
    cursors = [at for each in positions.values() if (at := undecided_from(each.metadata)) is not None]
    return min(cursors) if len(cursors) == stack.partitions else 0


def _all_applied(stack: RealStack) -> bool:
    return dumps.unread(stack.bootstrap, stack.names.group("dispatcher"), [stack.names.commands]) == 0


def come_to_rest(stack: RealStack, until: int) -> None:
    """Until every cursor in the group's offsets has passed ``until`` and every command is applied; then stop."""
    wait_for(
        lambda: _oldest_cursor(stack) > until and _all_applied(stack),
        "the dispatchers came to rest",
        120.0,
        every_s=0.5,
    )
    for instance in INSTANCES:
        stack.roles[instance].stop()


def _judge(
    stack: RealStack, evidence: Evidence, done: tuple[list[Kill], list[Kill]], until: int, *, judge_figures: bool
) -> None:
    kills, calm = done
    names = stack.names
    commands = dumps.dump(stack.bootstrap, names.commands)
    events = dumps.dump(stack.bootstrap, names.run_events)
    work = {tier: dumps.dump(stack.bootstrap, names.runs(tier)) for tier in Tier}
    gone = dumps.aborted(stack.bootstrap, names.run_events, events)
    for tier in Tier:
        gone += dumps.aborted(stack.bootstrap, names.runs(tier), work[tier])
    hit = split_by_kill(kills, [stamp for _, _, stamp in gone])
    inside = sum(1 for count in hit if count)
    evidence.figure("kills", len(kills), **Counter(kill.instance for kill in kills))
    evidence.figure("kills inside an open transaction", inside, trapped=sum(kill.trapped for kill in kills))
    evidence.figure("records aborted", len(gone), by_no_kill=len(gone) - sum(hit))
    evidence.demand(inside > 0, "no kill fell inside an open transaction")
    if judge_figures:
        evidence.demand(
            inside >= INSIDE_PART_MIN * len(kills),
            f"{inside} of {len(kills)} kills fell inside an open transaction, fewer than {INSIDE_PART_MIN:.0%}",
        )
    complaints, counts = books.balance(commands, events, until)
    evidence.figure("books", counts["owed"], **counts)
    evidence.none_of(complaints, "complaints about the books")
    evidence.demand(counts["command repeated"] > 0, "no command was given twice under one key")
    judge_work(evidence, events, list(itertools.chain(*work.values())))
    _judge_jobs(stack, evidence, commands, events)
    _tell_take_overs(evidence, calm, events)


def judge_work(evidence: Evidence, events: list[dict[str, Any]], work: list[dict[str, Any]]) -> None:
    """Work records and PENDING events are the same runs, each once."""
    decoded = (decode(record["value"])[1] for record in events)
    pending = Counter(event["run_id"] for event in decoded if event["kind"] == "PENDING")
    asked = Counter(decode(record["value"])[1]["run_id"] for record in work)
    evidence.figure("work records", asked.total(), pending=pending.total())
    evidence.demand(pending.total() > 0, "no run was made")
    evidence.none_of((run for run in asked if run not in pending), "work records without PENDING")
    evidence.none_of((run for run in pending if run not in asked), "PENDING without a work record")
    evidence.none_of((run for run, times in (asked + pending).items() if times != 2), "runs made more than once")


def _judge_jobs(
    stack: RealStack, evidence: Evidence, commands: list[dict[str, Any]], events: list[dict[str, Any]]
) -> None:
    """The table of jobs shows the newest version that the log of commands makes of each."""
    rows = take_rows(stack.cassandra.port, ["jobs"])["jobs"]
    evidence.figure("jobs in Cassandra", len(rows), **tables.statuses(rows))
    complaints = tables.jobs_differ(commands, events, rows)
    evidence.none_of(complaints, "jobs whose row is not their newest version")


def _tell_take_overs(evidence: Evidence, calm: list[Kill], events: list[dict[str, Any]]) -> None:
    """From a kill to the next committed event in the partition that stood still longest, where no other kill fell."""
    stamps: dict[int, list[int]] = defaultdict(list)
    for record in events:
        stamps[record["partition"]].append(record["timestamp_us"])
    for each in stamps.values():
        each.sort()
    waits = []
    for kill in calm:
        nexts = [each[at] for each in stamps.values() if (at := bisect_right(each, kill.at)) < len(each)]
        waits.append((max(nexts) - kill.at) / US_PER_S)
    if waits:
        evidence.figure(
            "seconds from a kill to the next committed event everywhere",
            round(statistics.median(waits), 2),
            longest=round(max(waits), 2),
            take_overs=len(waits),
        )
