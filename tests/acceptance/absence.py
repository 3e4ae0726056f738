"""Three hours and some real minutes without dispatchers: what was missed ends as its policy says, behind what is due.

First they are gone for real minutes, in which jobs are edited, paused, resumed and deleted. Then for three hours, for
them alone: they come back under libfaketime, or where that does not let Kafka's client wait, with Python's clock three
hours ahead (the short form leaves these out then). Each time gaps open, and while over 50,000 fires that were missed
are caught up both dispatchers are killed in turn. Judged by the brute-force walk over the dump of commands and REVISED
and by the misfire policies' own rules; ``waterclock ledger verify`` must agree. Work that is on time is at most a
second late meanwhile, but for the seconds of a take-over itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient

from tests.acceptance import dumps
from tests.acceptance.dispatcher_kill import judge_work
from tests.acceptance.evidence import Evidence, on_stage
from tests.acceptance.orders import Orders
from tests.acceptance.placing import spread
from tests.acceptance.real_stack import RealStack, wait_for
from tests.chaos.rights import ahead, faked
from tests.oracle import books, jobs, makings, misfires, owed
from tests.oracle.records import decode
from waterclock.log.kafka_groups import committed_of
from waterclock.model.cursor_text import Told, read_cursor
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Every, JobSpec, Tier
from waterclock.model.time_text import format_rfc3339
from waterclock.model.timing import CatchUpOrder, Misfire, Timing

SHORT_TIMEOUT_S = 420

INSTANCES = ("dispatcher-1", "dispatcher-2")
HOURS_US = 3 * 3_600 * US_PER_S
LATE_US_MAX = US_PER_S
MISSED_MIN = 50_000
_TAKEN_OVER_WITHIN_US = 15 * US_PER_S
"""After a kill: a session, and the take-over. Nobody can be on time on shards that nobody owns."""
_SETTLED_US = 5 * US_PER_S
"""After the edge has jumped its own margin of a few seconds is caught up in order."""
_AWAY_BY_CLOCK_S = 3.0
"""In real time, where the hours of an absence are those of the dispatchers' clock alone."""
_ASKS_EVERY_S = 1.0
"""People ask for something about so often while nobody is there."""
_LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
)
_RULES = owed.Rules(skew=US_PER_S)


class Size(NamedTuple):
    """How much of it. ``away_s``: the outage in real time; ``per_s``: the catch-up's rate after it, and after the three
    hours, so that kills fall into it.

    ``jobs`` fire every ``every_s`` and are what is missed; ``beats`` fire each second and show who is on time.
    """

    jobs: int
    every_s: int
    beats: int
    away_s: float
    per_s: tuple[float, float]


WHOLE = Size(jobs=700, every_s=120, beats=20, away_s=240.0, per_s=(20.0, 150.0))
SHORT = Size(jobs=60, every_s=240, beats=4, away_s=80.0, per_s=(0.3, 15.0))


class Absence(NamedTuple):
    """One of them, by the clock of the dispatchers: gone at ``since``, back at ``until``, caught up at ``done``.

    ``opened``: when the edge of the last shard had jumped over it; until then what is on time waits for the jump.
    ``offset_us``: by how much that clock was ahead of the brokers'. ``kills``: by the same clock.
    """

    since: int
    until: int
    opened: int
    done: int
    offset_us: int
    kills: tuple[int, ...]
    gaps: int


def main(short: bool = False, seed: int | None = None) -> None:
    size = SHORT if short else WHOLE
    seed = time.time_ns() % 1_000_000 if seed is None else seed
    library, env = next((path for path in _LIBRARIES if Path(path).exists()), ""), dict[str, str]()
    with on_stage("absence") as (stack, evidence):
        evidence.figure("seed", seed)
        start(stack, size.per_s[0])
        wait_ready(stack)
        orders = Orders(stack)
        names = define(orders, size, Random(seed), stack.partitions)
        wait_for(lambda: all_applied(stack), "the jobs were made", 120.0, every_s=0.5)
        applied_at = time.time_ns() // 1_000
        # So that an absence begins behind fires that were on time, and not behind the making of the jobs.
        wait_for(lambda: have_passed(stack, applied_at + 10 * US_PER_S), "all shards are on time", 120.0, every_s=0.5)
        found = [be_absent(stack, size, meanwhile=Meanwhile(orders, names, Random(seed + 1)))]
        fake = faked(library, f"+{HOURS_US // US_PER_S}s") if library else {}
        can_wait = bool(library) and client_can_wait(fake)
        evidence.figure("Kafka's client can wait under libfaketime, three hours ahead", can_wait)
        if can_wait or not short:
            env = fake if can_wait else ahead(HOURS_US // US_PER_S)
            evidence.figure("three hours ahead by", "libfaketime" if can_wait else "Python's clock alone")
            found.append(be_absent(stack, size, offset_us=HOURS_US, env=env))
        until = found[-1].done - US_PER_S
        for instance in INSTANCES:
            stack.roles[instance].stop()
        judge(stack, evidence, found, until, env=env, whole=not short)


_WAITS = """
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
producer.produce("none", b"")
producer.flush(0.5)
"""


def client_can_wait(env: dict[str, str]) -> bool:
    """Whether a wait of librdkafka ends: libfaketime 0.9.10 has it last for as long as the clock is ahead."""
    try:
        subprocess.run([sys.executable, "-c", _WAITS], env={**os.environ, **env}, timeout=15, check=False)
    except subprocess.TimeoutExpired:
        return False
    return True


def start(stack: RealStack, per_s: float, env: dict[str, str] | None = None) -> None:
    """Both dispatchers, whose catch-up is slow enough to be hit."""
    for instance in INSTANCES:
        stack.role("dispatcher", instance, WATERCLOCK_DISPATCHER__CATCH_UP_PER_S=str(per_s), **(env or {}))


def wait_ready(stack: RealStack) -> None:
    for instance in INSTANCES:
        stack.roles[instance].wait_ready(120.0)


def define(orders: Orders, size: Size, dice: Random, partitions: int) -> list[str]:
    """What will be missed, under every policy, and the beats; returns the names of the former.

    On every shard some of both: one on which nothing was due would have no gap to open.
    """
    begin = time.time_ns() // 1_000 // (60 * US_PER_S) * 60 * US_PER_S
    names = spread("acme:missed", size.jobs, partitions)
    for number in range(size.jobs):
        timing = Timing(
            misfire=list(Misfire)[number % 3],
            catch_up_max=dice.choice([1, 10, 100, 1_000]),
            catch_up_window_us=dice.choice([3_600, 86_400]) * US_PER_S,
            catch_up_order=dice.choice(list(CatchUpOrder)),
        )
        schedule = Every(size.every_s * US_PER_S, begin + dice.randrange(size.every_s) * US_PER_S)
        spec = JobSpec("demo.ping", schedule, dice.choice(list(Tier)), timing=timing)
        orders.send(CommandKind.CREATE, names[number], spec)
    for name in spread("acme:beat", size.beats, partitions):
        spec = JobSpec("demo.ping", Every(US_PER_S, begin), Tier.HIGH, timing=Timing(misfire=Misfire.LATEST))
        orders.send(CommandKind.CREATE, name, spec)
    orders.flush()
    return names


class Meanwhile:
    """What people ask for while nobody is there: edits, pauses, resumes, deletes, each within the outage."""

    def __init__(self, orders: Orders, names: list[str], dice: Random) -> None:
        self._orders = orders
        self._dice = dice
        self._left = list(names)
        dice.shuffle(self._left)

    def ask(self) -> None:
        """For the next of them."""
        if len(self._left) < 10:
            return
        job_id, kind = (
            self._left.pop(),
            self._dice.choice([CommandKind.UPDATE, CommandKind.PAUSE, CommandKind.DELETE, CommandKind.TRIGGER]),
        )
        spec = JobSpec("demo.ping", Every(self._dice.choice([30, 60]) * US_PER_S), payload=b"new")
        self._orders.send(kind, job_id, spec if kind is CommandKind.UPDATE else None)
        if kind is CommandKind.PAUSE and self._dice.random() < 0.5:
            self._orders.send(CommandKind.RESUME, job_id)
        self._orders.flush()


def be_absent(
    stack: RealStack,
    size: Size,
    *,
    offset_us: int = 0,
    env: dict[str, str] | None = None,
    meanwhile: Meanwhile | None = None,
) -> Absence:
    """Kill both, come back, kill one after the other while gaps are open, and wait until all is caught up."""
    for instance in INSTANCES:
        stack.roles[instance].kill()
    since = time.time_ns() // 1_000
    gone_until_s = time.monotonic() + (size.away_s if meanwhile else _AWAY_BY_CLOCK_S)
    while time.monotonic() < gone_until_s:
        if meanwhile is not None:
            meanwhile.ask()
        time.sleep(_ASKS_EVERY_S)
    start(stack, size.per_s[1 if env else 0], env)
    back_at = time.time_ns() // 1_000 + offset_us
    gaps = Opened(stack)
    wait_for(gaps.on_all_shards, "a gap opened on every shard", 120.0, every_s=0.1)
    opened = time.time_ns() // 1_000 + offset_us
    wait_ready(stack)
    kills = []
    for instance in INSTANCES:
        rows = max(1, open_rows(stack))  # where none is left it is over
        wait_for(lambda before=rows: open_rows(stack) < before, "the catch-up began", 60.0, every_s=0.1)
        if not open_rows(stack):
            break
        stack.roles[instance].kill()
        kills.append(time.time_ns() // 1_000 + offset_us)
        stack.roles[instance].start()
        wait_for(lambda one=instance: stack.roles[one].is_ready, f"{instance} came back", 60.0)
    wait_for(lambda: is_caught_up(stack, back_at), "all is caught up", 900.0, every_s=0.5)
    done = time.time_ns() // 1_000 + offset_us
    return Absence(since, back_at, opened, done, offset_us, tuple(kills), gaps.count)


def all_told(stack: RealStack) -> dict[int, Told]:
    """Cursor and gaps of every shard, as they stand in the group's offset metadata."""
    positions = committed_of(AdminClient(dumps.client(stack.bootstrap)), stack.names.group("dispatcher"), stable=False)
    told = {place.partition: read_cursor(at.metadata) for place, at in positions.items()}
    return {shard: each for shard, each in told.items() if each is not None}


class Opened:
    """The gaps that shards were seen with, each shard for itself: a small one may be caught up before another opens."""

    def __init__(self, stack: RealStack) -> None:
        self._stack = stack
        self._of: dict[int, int] = {}

    def on_all_shards(self) -> bool:
        """Look; whether every shard was seen with one. A take-over before that is none of the catch-up."""
        for shard, told in all_told(self._stack).items():
            self._of[shard] = max(self._of.get(shard, 0), len(told.gaps))
        return sum(count > 0 for count in self._of.values()) == self._stack.partitions

    @property
    def count(self) -> int:
        return sum(self._of.values())


def open_rows(stack: RealStack) -> int:
    """How many rows are still to come."""
    return sum(told.row_count for told in all_told(stack).values())


def is_caught_up(stack: RealStack, back_at: int) -> bool:
    """Whether no gap is open, and every cursor has passed the return by far."""
    return have_passed(stack, back_at + 20 * US_PER_S)


def have_passed(stack: RealStack, at: int) -> bool:
    """Whether all that was due by then is decided, on every shard."""
    told = all_told(stack)
    return len(told) == stack.partitions and all(each.undecided_from > at for each in told.values())


def all_applied(stack: RealStack) -> bool:
    return dumps.unread(stack.bootstrap, stack.names.group("dispatcher"), [stack.names.commands]) == 0


def judge(
    stack: RealStack, evidence: Evidence, found: list[Absence], until: int, *, env: dict[str, str], whole: bool
) -> None:
    commands = dumps.dump(stack.bootstrap, stack.names.commands)
    events = dumps.dump(stack.bootstrap, stack.names.run_events)
    work = [record for tier in Tier for record in dumps.dump(stack.bootstrap, stack.names.runs(tier))]
    complaints, counts = books.balance(commands, events, until, _RULES)
    evidence.figure("books", counts["owed"], **counts)
    evidence.none_of(complaints, "complaints about the books")
    complaints, counts = misfires.check(commands, events, until, _RULES)
    evidence.figure("misfires", counts["misfires"], **counts)
    evidence.none_of(complaints, "fires that did not end as their policy says")
    wrong = makings.check(commands, by_one_clock(events, found[-1]), work, _RULES)[0]
    evidence.none_of(wrong, "runs that are not made of their revision")
    judge_work(evidence, events, work)
    evidence.demand(counts["decided in gaps"] > 0, "nothing was decided in a gap")
    missed = missed_in(commands, events, found)
    evidence.figure("fires that were missed", sum(missed), by_absence=missed)
    evidence.demand(not whole or sum(missed) >= MISSED_MIN, f"{sum(missed)} fires were missed, fewer than {MISSED_MIN}")
    for each in found:
        late = sorted(lateness(events, each))
        seconds = round((each.done - each.until) / US_PER_S, 1)
        jumped = round((each.opened - each.until) / US_PER_S, 1)
        counted = {"gaps": each.gaps, "take_overs": len(each.kills), "on_time": len(late)}
        evidence.figure("absence", seconds, seconds_until_all_edges_had_jumped=jumped, **counted)
        evidence.demand(each.gaps > 0, "no gap was opened")
        evidence.demand(len(each.kills) == len(INSTANCES), f"{len(each.kills)} take-overs fell into the catch-up")
        evidence.demand(bool(late), "nothing was on time beside the catch-up")
        if late:
            evidence.figure("latest on time, microseconds", late[-1], median=late[len(late) // 2])
            evidence.demand(
                not whole or late[-1] <= LATE_US_MAX, f"on-time work was up to {late[-1]} us late during the catch-up"
            )
    judge_ledger(stack, evidence, found, until, env)


def by_one_clock(events: list[dict[str, Any]], last: Absence) -> list[dict[str, Any]]:
    """The dump with the stamps of the log as the dispatchers of the last absence would have given them."""
    return [
        {**each, "timestamp_us": each["timestamp_us"] + last.offset_us * (each["timestamp_us"] > last.since)}
        for each in events
    ]


def missed_in(commands: list[dict[str, Any]], events: list[dict[str, Any]], found: list[Absence]) -> list[int]:
    """How many fires fell due while nobody was there."""
    counts = [0] * len(found)
    for job in jobs.read(commands, events, _RULES).values():
        for fire, duty in job.duties(found[-1].done).items():
            due = duty.version.due(fire)
            for number, each in enumerate(found):
                counts[number] += each.since < due <= each.until
    return counts


def lateness(events: list[dict[str, Any]], absence: Absence) -> Iterator[int]:
    """How late the beats were that fell due during the catch-up, by the brokers' clock; not within a take-over."""
    quiet = [(at, at + _TAKEN_OVER_WITHIN_US) for at in absence.kills]
    for record in events:
        _, event = decode(record["value"])
        if event["kind"] != "PENDING" or not event["job_id"].startswith("acme:beat-") or "~" in event["run_id"]:
            continue
        due = event["pending"]["due_at"] or event["pending"]["fire_at"]
        if absence.opened + _SETTLED_US < due < absence.done and not any(begin <= due <= end for begin, end in quiet):
            yield record["timestamp_us"] + absence.offset_us - due


def judge_ledger(stack: RealStack, evidence: Evidence, found: list[Absence], until: int, env: dict[str, str]) -> None:
    """The product's own proof must come to the same, by the clock that the dispatchers had in the end."""
    begin = min(each.since for each in found) - 60 * US_PER_S
    command = [sys.executable, "-m", "waterclock.cli", "ledger", "verify"]
    command += ["--from", format_rfc3339(begin), "--to", format_rfc3339(until), "--output", "jsonl"]
    done = subprocess.run(
        command,
        env={**os.environ, **stack.env, **env},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    evidence.figure("ledger verify ended with", done.returncode)
    evidence.demand(done.returncode == 0, f"ledger verify says:\n{done.stdout[-2_000:]}{done.stderr[-2_000:]}")
