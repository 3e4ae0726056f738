"""What people ask for in a seed: jobs, their changes, cancels and redrives, with their times, drawn beforehand.

Which run a cancel or a redrive is for is only known once there are runs: an order carries a number, and whoever gives
it picks by that number among the runs that the log shows then.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from waterclock.model.document import spec_from_document, spec_to_document
from waterclock.model.errors import RequestError
from waterclock.model.failure_policy import DEFAULT, Backoff, ClassRule, FailurePolicy
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import JOB_VERBS, CommandKind, Cron, Dates, Every, JobSpec, Once, Schedule, Tier
from waterclock.model.timing import PLAIN, CalendarUse, CatchUpOrder, Misfire, Timing

from .handlers import HANDLERS

_WAITS_US = (200_000, 200_000, US_PER_S, 3 * US_PER_S, 6 * US_PER_S, 17 * US_PER_S, 33 * US_PER_S)
_FAILURES = (0, 0, 0, 0, 0, 0, 1, 2)
"""After how many failures in a row jobs are paused; 0: however many."""

_RUNS = (0, 0, 0, 0, 0, 0, 0, 2, 8)
"""How many runs their schedules make; 0: any number."""

LADDER_US = 3_600 * US_PER_S
LONG_WAIT_US = 4_000 * US_PER_S
"""Longer than the ladder: such a retry waits with the dispatcher."""


STEADY = {"t:steady": "sim.emits", "t:second": "sim.ok"}
"""Jobs that fire every second in every seed, whatever else is asked for."""


class Order(NamedTuple):
    """A command that people give at tick ``at``. One intention may be given several times, under one name.

    ``pick``: of a cancel or a redrive, which of the runs in sight it is for; of a cancel that names a job, which of its
    open DagRuns. ``door``: "" for ``commands`` itself,
    ``api``, or ``avro`` and ``json`` for job-events, there with ``has_id`` a ``ce_id`` and with a ``fate`` in the
    sender's own transaction (``commits``, ``aborts``, ``hangs``). ``caller``: the tenant that asks, where it is not the
    job's own. ``resume_at``: of a pause, when it ends by itself. Of a rollback ``pick`` chooses the version.
    ``payload``: of a trigger, in place of the job's own.
    ``calendars``: what a new version of a calendar brings. ``back_us``, ``span_us``, ``concurrency``, ``tier``: of a
    backfill, how long ago its range began, how long that is, and the rest.
    """

    at: int
    kind: CommandKind
    job_id: str
    spec: JobSpec | None
    command_id: str = ""
    key: str = ""
    wants_answer: bool = False
    pick: int = 0
    door: str = ""
    has_id: bool = False
    fate: str = ""
    caller: str = ""
    resume_at: Instant = 0
    payload: str = ""
    calendars: tuple[CalendarUse, ...] = ()
    back_us: int = 0
    span_us: int = 0
    concurrency: int = 0
    tier: str = ""


def rare_orders(start_at: Instant) -> list[Order]:
    """Jobs whose next row stands for a while before anybody loads it; one of them is given another jitter."""
    handler = STEADY["t:second"]
    schedules = {
        "t:rare": Every(3_600 * US_PER_S),
        "t:rarer": Cron("17 */2 * * *"),
        "t:rarest": Once(start_at + 7_200 * US_PER_S),
    }
    orders = [
        Order(US_PER_S, CommandKind.CREATE, job_id, JobSpec(handler, schedule))
        for job_id, schedule in schedules.items()
    ]
    for at, jitter_s in ((1, 900), (9, 600)):
        spec = JobSpec(handler, Cron("*/29 */2 * * *"), timing=Timing(jitter_us=jitter_s * US_PER_S))
        orders.append(Order(at * US_PER_S, CommandKind.CREATE, "t:now-and-then", spec))
    return orders


def job_orders(rng: random.Random, start_at: Instant, horizon: int, *, in_autumn: bool) -> list[Order]:
    """Jobs, and what becomes of them."""
    jobs = [f"t:job{number}" for number in range(rng.randint(3, 6))]
    orders = [Order(rng.randrange(5 * US_PER_S), CommandKind.CREATE, job, spec_of(rng, start_at)) for job in jobs]
    orders += [Order(0, CommandKind.CREATE, job_id, JobSpec(STEADY[job_id], Every(US_PER_S))) for job_id in STEADY]
    if in_autumn:
        orders.append(Order(rng.randrange(5 * US_PER_S), CommandKind.CREATE, "t:autumn", _autumnspec_of(rng)))
        jobs.append("t:autumn")
    for _ in range(rng.randint(2, 10)):
        at = rng.randrange(5 * US_PER_S, horizon)
        orders.append(_order(rng, at, rng.choice(jobs), start_at))
    return sorted(orders, key=lambda order: order.at)


def run_orders(rng: random.Random, horizon: int, *, races: bool) -> list[Order]:
    """Cancels, some of them several at once, and redrives."""
    cancels, redrives = rng.choice([60] if races else [0, 2, 6, 14]), rng.choice([0, 0, 1, 3])
    drawn = [CommandKind.CANCEL] * cancels + [CommandKind.REDRIVE] * redrives
    return [
        Order(rng.randrange(5 * US_PER_S, horizon), kind, "", None, f"r{number}", pick=rng.randrange(1 << 16))
        for number, kind in enumerate(drawn)
    ]


def control_orders(rng: random.Random, job_ids: Sequence[str], start_at: Instant, horizon: int) -> list[Order]:
    """Pauses that end by themselves, changes that are rolled back; some are given again."""
    drawn = [CommandKind.PAUSE] * rng.choice([0, 1, 2, 4]) + [CommandKind.ROLLBACK] * rng.choice([0, 0, 1, 3])
    found: list[Order] = []
    for number, kind in enumerate(drawn):
        at = rng.randrange(5 * US_PER_S, horizon)
        order = Order(at, kind, rng.choice(job_ids), None, f"p{number}", wants_answer=rng.random() < 0.5)
        order = order._replace(pick=rng.randrange(1 << 16), key=rng.choice(["", f"kp{number}"]))
        if kind is CommandKind.PAUSE:
            after = rng.choice([-1, 0, 1, 2, 4, 9, 11, 14, 20]) * US_PER_S
            on_a_second = (start_at + at + after) // US_PER_S * US_PER_S
            door = rng.choice(["", "", "api"])
            order = order._replace(resume_at=on_a_second + rng.choice([0, 0, 1, 400_000]), door=door)
        else:  # what it takes back
            before = max(0, at - rng.randrange(6 * US_PER_S))
            spec = spec_of(rng, start_at + before)
            found.append(Order(before, CommandKind.UPDATE, order.job_id, spec, f"p{number}.u"))
        found.append(order)
        if not order.door and rng.random() < 0.3:
            again_at = min(at + rng.choice([0, rng.randrange(20 * US_PER_S)]), horizon - 1)
            found.append(order._replace(at=again_at, command_id=rng.choice([order.command_id, f"p{number}.0"])))
    return found


def with_policies(rng: random.Random, orders: Iterable[Order]) -> Iterator[Order]:
    """Every spec gets a failure policy; one job in twelve is called at most once."""
    for order in orders:
        if order.spec is None:
            yield order
        elif rng.random() < 0.08:
            yield order._replace(spec=replace(order.spec, at_most_once=True))
        else:
            yield order._replace(spec=replace(order.spec, policy=_policy(rng)))


def with_timing(rng: random.Random, orders: Iterable[Order], start_at: Instant) -> Iterator[Order]:
    """Half of the specs say how missed fires are made up for; some have ends, some a jitter, some are lists of dates.

    Never the steady ones: whatever else goes wrong, they tell when something fires that should not, or the other way.
    """
    for order in orders:
        if order.spec is None or order.job_id in STEADY:
            yield order
            continue
        on_a_second = (start_at + order.at) // US_PER_S * US_PER_S
        schedule = _dates(rng, on_a_second) if rng.random() < 0.12 else order.spec.schedule
        spec = replace(order.spec, schedule=schedule, timing=_timing(rng, schedule, on_a_second))
        yield order._replace(spec=spec) if is_sound(spec) else order


def with_counts(rng: random.Random, orders: Iterable[Order]) -> Iterator[Order]:
    """Some jobs are paused after failures in a row, and fail often; some make a few runs and end. Now and then an edit
    says another number.

    Never the steady ones. What is given again says the same.
    """
    of_job: dict[str, tuple[int, int]] = {}
    of_order: dict[str, tuple[int, int, str]] = {}
    for order in orders:
        timing = PLAIN if order.spec is None else order.spec.timing
        if order.spec is None or order.job_id in STEADY or timing.pause_after_failures or timing.max_runs:
            yield order
            continue
        failures, runs = of_job.setdefault(order.job_id, (rng.choice(_FAILURES), rng.choice(_RUNS)))
        if rng.random() < 0.3:
            failures, runs = failures and rng.choice([0, 1, 2]), runs and rng.choice([0, 1, 4, 9])
        handler = rng.choice(["sim.fails", "sim.flaky", "sim.flaky", ""]) if failures else ""
        root = order.command_id.partition(".")[0]
        failures, runs, handler = of_order.setdefault(root, (failures, runs, handler))
        timing = replace(timing, pause_after_failures=failures, max_runs=runs)
        spec = replace(order.spec, timing=timing)
        if handler:
            spec = replace(spec, handler=handler, at_most_once=False, policy=FailurePolicy(max_attempts=1))
        yield order._replace(spec=spec)


def in_pools(rng: random.Random, orders: Iterable[Order], *, has_side: bool) -> Iterator[Order]:
    """Some jobs go to the side pool, where somebody serves it, and some to one that does not exist.

    Never the steady ones: a seed in which every job is refused proves nothing (5049 was one).
    """
    for order in orders:
        draw = rng.random()
        pool = (
            "nowhere"
            if draw > 0.97 and order.job_id not in STEADY
            else "side"
            if has_side and draw < 0.4
            else "default"
        )
        yield order if order.spec is None else order._replace(spec=replace(order.spec, pool=pool))


def repeated(rng: random.Random, orders: Iterable[Order], horizon: int) -> list[Order]:
    """Every order gets its name; some are given again: under one key, with one id, or as another request."""
    found: list[Order] = []
    for number, plain in enumerate(orders):
        order = plain._replace(command_id=f"c{number}", wants_answer=rng.random() < 0.5)
        how = rng.choice(["", "", "key", "key", "id", "other"])
        how = "" if how == "other" and order.job_id in STEADY else how
        if how in ("key", "other"):
            order = order._replace(key=f"k{number}")
        found.append(order)
        for time in range(rng.choice([1, 1, 2]) if how else 0):
            after = rng.choice([0, rng.randrange(US_PER_S), rng.randrange(60 * US_PER_S)])
            again = order._replace(at=min(order.at + after, horizon - 1), wants_answer=rng.random() < 0.5)
            if how != "id":
                again = again._replace(command_id=f"c{number}.{time}")
            if how == "other":
                again = again._replace(kind=CommandKind.PAUSE, spec=None)
            found.append(again)
    return sorted(found, key=lambda order: order.at)


def _order(rng: random.Random, at: int, job_id: str, start_at: Instant) -> Order:
    kind = rng.choice([*JOB_VERBS, CommandKind.UPDATE, CommandKind.CREATE, CommandKind.RESUME])
    has_spec = kind in (CommandKind.CREATE, CommandKind.UPDATE)
    return Order(at, kind, job_id, spec_of(rng, start_at + at) if has_spec else None)


def spec_of(rng: random.Random, now: Instant) -> JobSpec:
    """Some job, as somebody may define it at this instant."""
    on_a_second = now // US_PER_S * US_PER_S
    schedule = rng.choice(
        [
            Every(rng.choice([1, 2, 3, 7, 30, 90]) * US_PER_S),
            Every(rng.choice([2, 3, 5, 10, 60]) * US_PER_S, on_a_second // (10 * US_PER_S) * (10 * US_PER_S)),
            Every(rng.choice([3, 6, 20]) * US_PER_S, on_a_second + rng.randrange(-100, 60) * US_PER_S),
            Cron(rng.choice(["* * * * *", "*/2 * * * *", "1-59/3 * * * *"])),
            Cron("* * * * *", zone=rng.choice(["Europe/Berlin", "America/New_York", "Asia/Kathmandu"])),
            Once(on_a_second + rng.randrange(-90, 90) * US_PER_S),
        ]
    )
    return JobSpec(rng.choice(HANDLERS), schedule, rng.choice(list(Tier)))


def is_sound(spec: JobSpec) -> bool:
    """Whether a door takes it: not where its ends leave no fire."""
    try:
        spec_from_document(spec_to_document(spec))
    except RequestError:
        return False
    return True


def _dates(rng: random.Random, on_a_second: Instant) -> Dates:
    """Some over already, some soon, some never reached."""
    seconds = rng.sample(range(-60, 120, 2), rng.randint(1, 12))
    return Dates(tuple(sorted(on_a_second + second * US_PER_S for second in seconds)))


def _timing(rng: random.Random, schedule: Schedule, on_a_second: Instant) -> Timing:
    timing = PLAIN
    if rng.random() < 0.5:
        timing = replace(
            timing,
            misfire=rng.choice(list(Misfire)),
            catch_up_max=rng.choice([1, 3, 10, 40]),
            catch_up_window_us=rng.choice([10, 30, 120, 86_400]) * US_PER_S,
            catch_up_order=rng.choice(list(CatchUpOrder)),
        )
    if rng.random() < 0.15:
        timing = replace(timing, from_at=on_a_second + rng.randrange(-20, 30) * US_PER_S)
    if rng.random() < 0.15:
        timing = replace(timing, until_at=max(timing.from_at, on_a_second) + rng.randrange(1, 60) * US_PER_S)
    widest_s = _widest_jitter_s(schedule)
    if widest_s and rng.random() < 0.35:
        window_us = rng.randint(1, widest_s) * US_PER_S
        timing = replace(timing, jitter_us=window_us, jitter_per_fire=rng.random() < 0.5)
    return timing


def _widest_jitter_s(schedule: Schedule) -> int:
    """Half the distance of two fires, in whole seconds."""
    match schedule:
        case Every():
            return min(30, schedule.every_us // (2 * US_PER_S))
        case Dates():
            return 1
        case _:
            return 30


def _autumnspec_of(rng: random.Random) -> JobSpec:
    text = rng.choice(["0-59 1 * * *", "0-59/2 1 * * *", "1-59/2 0-2 * * *", "* 1 * * *"])
    return JobSpec("sim.ok", Cron(text, zone="America/New_York"), rng.choice(list(Tier)))


def _policy(rng: random.Random) -> FailurePolicy:
    if rng.random() < 0.3:
        return DEFAULT
    backoff = rng.choice(list(Backoff))
    waits = [rng.choice(_WAITS_US) for _ in range(3 if backoff is Backoff.LIST else 1)]
    if rng.random() < 0.03:
        backoff, waits = Backoff.FIXED, [LONG_WAIT_US]
    return FailurePolicy(
        max_attempts=rng.choice([1, 2, 2, 3, 4]),
        backoff=backoff,
        delays_us=tuple(waits),
        max_delay_us=max(40 * US_PER_S, *waits),
        jitter=rng.random() < 0.5,
        never=rng.choice([(), ("Never",)]),
        by_class=rng.choice([(), (), (ClassRule("Odd", 2, (US_PER_S,)),), (ClassRule("lost", 5),)]),
        queue_timeout_us=rng.choice([0, 0, 0, 9 * US_PER_S, 30 * US_PER_S]),
        attempt_timeout_us=rng.choice([0, 0, 0, 3 * US_PER_S]),
        run_timeout_us=rng.choice([0, 0, 0, 0, 20 * US_PER_S, 60 * US_PER_S]),
    )


def of_tenants(rng: random.Random, orders: Iterable[Order]) -> Iterator[Order]:
    """In some seeds one of the jobs is another tenant's."""
    has_other = rng.random() < 0.5
    for order in orders:
        yield order._replace(job_id="acme:job0") if has_other and order.job_id == "t:job0" else order


def through_doors(rng: random.Random, orders: Iterable[Order]) -> Iterator[Order]:
    """Every intention gets its door; the steady jobs have none in their way, or a seed might prove nothing.

    Its repeats come by the same one: two doors write the same request in different words.
    """
    doors: dict[str, Order] = {}
    for order in orders:
        root = order.command_id.partition(".")[0]
        if root not in doors:
            doors[root] = _at_a_door(rng, order, root)
        first = doors[root]
        key = order.key or (first.key if first.door == "api" else "")
        yield order._replace(door=first.door, fate=first.fate, has_id=first.has_id, caller=first.caller, key=key)


def _at_a_door(rng: random.Random, order: Order, root: str) -> Order:
    door = "" if order.job_id in STEADY else rng.choice(["", "", "avro", "json", "api", "api", "api"])
    fate = rng.choice(["", "", "commits", "aborts", "hangs"]) if door in ("avro", "json") else ""
    key = order.key or (f"a-{root}" if rng.random() < 0.6 else "")
    is_strange = door == "api" and rng.random() < 0.05 and order.job_id.startswith("t:")
    return order._replace(door=door, fate=fate, has_id=rng.random() < 0.5, key=key, caller="acme" if is_strange else "")
