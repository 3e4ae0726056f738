"""Killing workers loses no unclaimed run and repeats no claimed one.

The whole pipeline, two workers, handlers that take a while and leave a line outside. Half of the kills come the moment
an uncommitted tail of run-events sees a worker's record. At rest, by a reducer of the check's own over the dump of
run-events: no attempt has two STARTED or two outcomes; a run that a killed worker had claimed stays RUNNING; every
other one SUCCEEDED in its first attempt, left exactly one line, and stands so in Cassandra.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from confluent_kafka import Message

from tests.acceptance import dumps
from tests.acceptance.evidence import Evidence, on_stage
from tests.acceptance.kills import Kill, Killer, Trap, split_by_kill
from tests.acceptance.orders import Orders
from tests.acceptance.real_stack import RealStack, wait_for
from tests.oracle import owed as judge
from tests.oracle import runs as reducer
from tests.oracle.records import decode
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Every, JobSpec, Tier

WORKERS = ("worker-1", "worker-2")
_SOURCE = "/workers/"
_OFFSET = (1 << 48) - 1
_STATUS = ("PENDING", "RUNNING", "RETRYING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED")


class Size(NamedTuple):
    """How much of it. ``rest_s``: at most this long between a restart and the next kill."""

    kills: int
    jobs: int
    rest_s: float


WHOLE = Size(50, 150, 5.0)
SHORT = Size(4, 60, 3.0)


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    seed = time.time_ns() % 1_000_000 if seed is None else seed
    with on_stage("worker-kill") as (stack, evidence):
        evidence.figure("seed", seed)
        sink = stack.folder / "effects.txt"
        dice = Random(seed)
        _start(stack, sink)
        _define(stack, size, dice)
        wait_for(lambda: sink.exists() and sink.read_bytes(), "the first effect")
        kills = _kill(stack, size, dice)
        _come_to_rest(stack)
        _judge(stack, evidence, kills, sink)


def _start(stack: RealStack, sink: Path) -> None:
    app = {"WATERCLOCK_WORKER__APP": "tests.acceptance.effects_app:app", "EFFECTS_SINK": str(sink)}
    stack.role("dispatcher", "dispatcher-1")
    stack.role("retry_router", "retry-router-1")
    stack.role("recorder", "recorder-1")
    for worker in WORKERS:
        stack.role("workers", worker, **app)
    for role in stack.roles.values():
        role.wait_ready()


def _define(stack: RealStack, size: Size, dice: Random) -> None:
    """Jobs of every tier, each once a second, spread over the second."""
    orders = Orders(stack)
    begin = time.time_ns() // 1_000 // US_PER_S * US_PER_S
    for number in range(size.jobs):
        handler = "effects.sync" if number % 3 == 0 else "effects.async"
        every = Every(US_PER_S, begin + dice.randrange(US_PER_S))
        orders.send(CommandKind.CREATE, f"acme:effect-{number}", JobSpec(handler, every, Tier(number % 3)))
    orders.flush()


def _kill(stack: RealStack, size: Size, dice: Random) -> list[Kill]:
    trap = Trap(stack.bootstrap, stack.names.run_events, _worker_of)
    killer = Killer(stack, WORKERS, trap, dice)
    try:
        for _ in range(size.kills):
            killer.rest(size.rest_s, lambda: None)
            killer.kill_one(trapped_part=0.5, patience_s=20.0)
    finally:
        trap.close()
    return killer.kills


def _worker_of(message: Message) -> str | None:
    """The worker that wrote an event, by its header."""
    source = dict(message.headers() or ()).get("ce_source") or b""
    return source.decode().partition(_SOURCE)[2] or None


def _come_to_rest(stack: RealStack) -> None:
    """Stop in the order in which work flows, each role when it has read all that the one before it wrote."""
    names = stack.names
    stack.roles["dispatcher-1"].stop()
    for tier in Tier:
        _await_read(stack, names.worker_group(tier), names.runs(tier))
    for worker in WORKERS:
        stack.roles[worker].wait_ready()
        stack.roles[worker].stop()
    for group, role in (("retry-router", "retry-router-1"), ("recorder", "recorder-1")):
        _await_read(stack, names.group(group), names.run_events)
        stack.roles[role].stop()


def _await_read(stack: RealStack, group: str, topic: str) -> None:
    wait_for(lambda: dumps.unread(stack.bootstrap, group, [topic]) == 0, f"{group} read all", 90.0, every_s=0.5)


def _judge(stack: RealStack, evidence: Evidence, kills: list[Kill], sink: Path) -> None:
    names = stack.names
    events = dumps.dump(stack.bootstrap, names.run_events)
    gone = dumps.aborted(stack.bootstrap, names.run_events, events)
    runs, complaints, counts = reducer.follow(events)
    inside = sum(1 for count in split_by_kill(kills, [stamp for _, _, stamp in gone]) if count)
    evidence.figure("kills", len(kills), **Counter(kill.instance for kill in kills))
    evidence.figure("kills inside an open transaction", inside, records_aborted=len(gone))
    evidence.figure("runs", len(runs), **Counter(run["status"] for run in runs.values()))
    evidence.demand(len(runs) > 0, "no run was made")
    evidence.figure("events accepted", counts["accepted"], ignored=counts["ignored"])
    evidence.demand(counts["ignored"] == 0, f"{counts['ignored']} events do not count: something was said twice")
    evidence.none_of(complaints, "attempts with more than one beginning or end")
    claimed = _judge_endings(evidence, runs, _dead_lives(stack, evidence))
    _judge_effects(evidence, runs, claimed, sink)
    _judge_history(stack, evidence, runs)


def _dead_lives(stack: RealStack, evidence: Evidence) -> set[tuple[str, int]]:
    """(worker, offset of its HELLO) of every life but each worker's last, from ``leases``."""
    lives: dict[str, list[int]] = defaultdict(list)
    for record in dumps.dump(stack.bootstrap, stack.names.leases):
        _, lease = decode(record["value"])
        lives[lease["worker"]].append(record["offset"])
    evidence.figure("lives of workers", {worker: len(hellos) for worker, hellos in sorted(lives.items())})
    return {(worker, hello) for worker, hellos in lives.items() for hello in sorted(hellos)[:-1]}


def _judge_endings(evidence: Evidence, runs: dict[str, Any], dead: set[tuple[str, int]]) -> set[str]:
    """What the killed had claimed stays open, all the rest succeeded at once. Returns the former."""
    claimed = {
        run_id
        for run_id, run in runs.items()
        if run["status"] == "RUNNING" and (run["worker"], run["incarnation"] & _OFFSET) in dead
    }
    evidence.figure("runs claimed by a killed worker, left open", len(claimed))
    evidence.demand(len(claimed) > 0, "no kill hit a claimed run")
    other = (
        f"{run_id}: {run['status']}, attempt {run['attempt']} on {run['worker']} {run['incarnation'] & _OFFSET}"
        for run_id, run in runs.items()
        if run_id not in claimed and (run["status"], run["attempt"]) != ("SUCCEEDED", 1)
    )
    evidence.none_of(other, "runs that no killed worker had claimed and that did not succeed at once")
    return claimed


def _judge_effects(evidence: Evidence, runs: dict[str, Any], claimed: set[str], sink: Path) -> None:
    """One line for each run that succeeded, under its token; at most one for a claimed one; none for what is no run."""
    lines: dict[str, list[int]] = defaultdict(list)
    for line in sink.read_text().splitlines():
        run_id, _, fence = line.split(" ")
        lines[run_id].append(int(fence) & _OFFSET)
    wrong = (
        f"{run_id}: lines {lines.get(run_id)}, token {run['token']}"
        for run_id, run in runs.items()
        if lines.get(run_id, [run["token"]] if run_id in claimed else None) != [run["token"]]
    )
    evidence.figure("effects outside", sum(map(len, lines.values())), of_claimed=len(claimed & lines.keys()))
    evidence.none_of(wrong, "runs whose effects are not one, under their token")
    evidence.none_of((run_id for run_id in lines if run_id not in runs), "effects of no run")


def _judge_history(stack: RealStack, evidence: Evidence, runs: dict[str, Any]) -> None:
    """Cassandra's projection says of each run what the fold says."""
    query = "SELECT job_id, fire_at, series, status FROM runs"
    found = {
        judge.run_id(row.job_id, row.fire_at, row.series): _STATUS[row.status]
        for row in dumps.rows(stack.cassandra.port, query)
    }
    evidence.figure("rows of history", len(found), **Counter(found.values()))
    wanted = {run_id: run["status"] for run_id, run in runs.items()}
    other = (run_id for run_id in found | wanted if found.get(run_id) != wanted.get(run_id))
    evidence.none_of(
        (f"{run_id}: {found.get(run_id)}, not {wanted.get(run_id)}" for run_id in other),
        "runs whose history is not what the log says",
    )
