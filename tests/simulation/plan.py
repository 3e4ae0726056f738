"""What a seed means: who lives in the world, the people's commands and the troubles, drawn before anything runs.

Must hold: a plan is a value that follows from the seed alone. Constants shrink in some seeds (rounds of one fire, a
short look-ahead, a lease of three seconds), so that the borders between two rounds lie everywhere.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime

from waterclock.dispatcher.pace import Pace

from waterclock.model.ids import US_PER_S, Instant
from waterclock.store.tabular import DUE_KEPT_US

from .backfill_people import backfill_orders
from .beside_people import beside_orders
from .buggify import SITES, SMALL, draw_some
from .calendar_people import calendar_orders
from .counted_people import counted_orders
from .dag_chain_people import dag_chain_orders
from .dag_people import dag_orders
from .delay_people import delay_orders
from .dice import dice
from .instant_people import instant_orders, narrowed_orders
from .outages import horizon_for, how_many, losses_after, orders_around, outages
from .people import (
    STEADY,
    Order,
    control_orders,
    in_pools,
    job_orders,
    of_tenants,
    rare_orders,
    repeated,
    run_orders,
    through_doors,
    with_counts,
    with_policies,
    with_timing,
)
from .remade_people import owners_ahead, remade_orders
from .senders import Garbage, draw_garbage, draw_sales
from .trigger_people import trigger_orders, waits_for_sales
from .troubles import Trouble, troubles
from .zone_people import zone_orders, zone_troubles

ALWAYS = (
    "dispatcher-1",
    "dispatcher-2",
    "worker-1",
    "worker-2",
    "recorder-1",
    "retry-router-1",
    "lease-keeper-1",
    "retry-ladder-1",
)
DOORS = ("intake-1", "api-1")
"""Served in most seeds, as the orders ask for them."""
SOMETIMES = ("worker-3", "recorder-2", "retry-router-2", "lease-keeper-2", "retry-ladder-2", "intake-2", "api-2")
ENGINES = ("dag-engine-1", "dag-engine-2")
"""Where somebody has a Dag."""
DISPATCHERS = ALWAYS[:2]
POOLS = ("default", "side")

_AUTUMN = round(datetime(2026, 11, 1, 5, 59, tzinfo=UTC).timestamp()) * US_PER_S
"""A minute before New York's clocks go back."""
_ANY_DAY = 1_795_000_020 * US_PER_S

_RACES_SHARE = 0.25
"""Seeds in which cancels race with claims and verdicts: dispatchers and workers are quick, and runs wait for slots."""

CATCH_UP_PER_S = (0.0, 0.0, 1.0, 1.0, 3.0)
"""Some so slow that a gap stays open over the next trouble, and still soon enough after the heal."""

HERD_FIRES = (1, 1, 2, 3, 1_000)
"""In the last of them nothing is a herd."""
_HERD_LEAD_S = 0.9
"""As long as there is: of those who look twice in it, that a herd waits for its instant."""

_ANEW_SHARE = 0.5
"""The rest must come to rest with what it has in memory: a new process hides what the old one has forgotten."""

_SHORT_LIFE_SHARE = 0.3
_SHORT_LIFE_US = 180 * US_PER_S
"""An absence of minutes then is what one of more than three days is: the rows that carry the chains are gone."""

_LOSES_SHARE = 0.15

_LOOKS_S = (5.0, 20.0, 60.0)
_LOOKS_SHARE = 0.3
"""Seeds in which each new dispatcher has a look-ahead of its own: settings that change with a deployment."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One seed, drawn out. Times are ticks: microseconds since the beginning.

    ``sites`` and ``small``: see ``buggify.py``; ``kept_behind``: that of router, recorder and DAG engine.
    ``patience``: who finds nothing to do for several turns rests up to so many times longer; ``busy_us``: who had
    something to do goes on about so soon; ``heals_anew``: in the end everybody is started anew, not only who is dead.
    ``rows_kept_us``: how long rows of ``due`` live after their time; ``loses_rows``: after the heal the store loses
    some of them. ``looks_s``: how far ahead dispatchers look, each new process as it draws; none: as ``pace`` says.
    """

    seed: int
    start_at: Instant
    horizon: int
    partitions: int
    slots: tuple[str, ...]
    slots_per_slice: int
    pace: Pace
    lease_s: float
    worker_slots: int
    drain_grace_s: float
    cancel_grace_s: float
    skew_us: dict[str, int]
    step_us: dict[str, int]
    pool_of: dict[str, str]
    repeat_within_us: int
    patience: int
    busy_us: int
    orders: tuple[Order, ...]
    garbage: tuple[Garbage, ...]
    sites: tuple[str, ...]
    small: tuple[str, ...]
    kept_behind: int
    api_wait_s: float
    troubles: tuple[Trouble, ...]
    heals_anew: bool
    rows_kept_us: int = DUE_KEPT_US
    loses_rows: bool = False
    looks_s: tuple[float, ...] = ()

    def job_ids(self) -> set[str]:
        """Every job that there may be, those too that one tenant makes by a request for another's."""
        mine = {order.job_id for order in self.orders if order.job_id}
        return mine | {f"{order.caller}:{order.job_id.partition(':')[2]}" for order in self.orders if order.caller}

    @property
    def lease_us(self) -> int:
        """Of every worker."""
        return round(self.lease_s * US_PER_S)


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    rng = dice(seed, "plan")
    pools = dice(seed, "pools")
    has_side = pools.random() < 0.4
    in_autumn = rng.random() < 0.3
    start_at = (_AUTUMN if in_autumn else _ANY_DAY) + 60 * US_PER_S - rng.randrange(3, 15) * US_PER_S
    away = how_many(dice(seed, "how many outages"))
    horizon = horizon_for(away, rng.choice([15, 20, 26, 36]) * US_PER_S)
    slots = (*ALWAYS, *DOORS, *(slot for slot in SOMETIMES if rng.random() < 0.5))
    races = dice(seed, "races").random() < _RACES_SHARE
    lease_s = rng.choice([15.0] if races else [3.0, 5.0, 5.0, 15.0])
    given = job_orders(dice(seed, "people"), start_at, horizon, in_autumn=in_autumn)
    given = [*with_timing(dice(seed, "timing"), given, start_at)]
    given = [*in_pools(pools, with_policies(dice(seed, "policies"), given), has_side=has_side)]
    named = repeated(dice(seed, "repeats"), of_tenants(dice(seed, "tenants"), given), horizon)
    orders = [*through_doors(dice(seed, "doors"), named), *run_orders(dice(seed, "runs"), horizon, races=races)]
    jobs = sorted({order.job_id for order in named} - STEADY.keys())
    controls = control_orders(dice(seed, "control"), jobs, start_at, horizon)
    orders += with_timing(dice(seed, "control timing"), controls, start_at)
    orders += beside_orders(dice(seed, "beside"), start_at, horizon)
    loses_rows = dice(seed, "rows lost").random() < _LOSES_SHARE
    orders += rare_orders(start_at) if loses_rows else []
    gone = outages(dice(seed, "outages"), away, DISPATCHERS[0], horizon)
    lost = losses_after(dice(seed, "cursors lost"), gone, horizon)
    around = orders_around(dice(seed, "around outages"), gone, jobs, start_at, horizon)
    orders += with_timing(dice(seed, "outage timing"), around, start_at)
    orders += backfill_orders(dice(seed, "backfills"), jobs, start_at, horizon)
    orders += calendar_orders(dice(seed, "calendars"), start_at, horizon)
    orders += counted_orders(dice(seed, "counted"), start_at, horizon)
    orders = [*with_counts(dice(seed, "counts"), orders)]
    orders += trigger_orders(dice(seed, "triggers"), horizon)
    orders += delay_orders(dice(seed, "delays"), start_at, horizon)
    remade = remade_orders(dice(seed, "remade"), start_at, horizon)
    orders += remade
    ahead = owners_ahead(dice(seed, "ahead"), DISPATCHERS) if remade else {}
    orders += instant_orders(dice(seed, "instants"), start_at, horizon)
    orders += narrowed_orders(dice(seed, "narrowed"), start_at, horizon)
    abroad = zone_orders(dice(seed, "zone"), start_at, horizon)
    orders += abroad
    zone_goes = zone_troubles(dice(seed, "zone goes"), DISPATCHERS[0], horizon) if abroad else []
    dags = dice(seed, "dags")
    of_dags = dag_orders(dags, start_at, horizon, has_side=has_side)
    orders += of_dags
    orders += dag_chain_orders(dice(seed, "dag chains"), horizon, has_side=has_side) if of_dags else []
    sales = draw_sales(dice(seed, "sales"), horizon) if waits_for_sales(orders) else []
    engines = ENGINES[: dags.randint(1, 2)] if of_dags else ()
    return Plan(
        seed=seed,
        start_at=start_at,
        horizon=horizon,
        partitions=rng.choice([1, 2, 2, 4]),
        slots=(*slots, *engines),
        slots_per_slice=rng.choice([32, 128, 256]),
        pace=Pace(
            look_ahead_s=rng.choice(_LOOKS_S),
            grace_s=rng.choice([5.0, 60.0, 60.0]),
            round_records=rng.choice([1, 3, 2_000, 2_000]),
            idle_commit_s=rng.choice([1.0, 5.0]),
            catch_up_share=dice(seed, "share").choice([0.05, 0.25, 0.25]),
            catch_up_per_s=dice(seed, "catch-up").choice(CATCH_UP_PER_S),
            herd_fires=dice(seed, "herds").choice(HERD_FIRES),
            herd_lead_s=_HERD_LEAD_S,
        ),
        lease_s=lease_s,
        worker_slots=2 if races else rng.choice([2, 8, 8]),
        drain_grace_s=rng.choice([0.5, 3.0, 10.0]),
        cancel_grace_s=rng.choice([0.5, 2.0, 10.0]),
        skew_us={slot: _skew(rng) for slot in slots} | {slot: _skew(dags) for slot in engines} | ahead,
        step_us={slot: _step(rng, slot, lease_s, races=races) for slot in slots}
        | {slot: _step(dags, slot, lease_s, races=races) for slot in engines},
        pool_of={"worker-2": "side"} if has_side else {},
        repeat_within_us=pools.choice([24 * 3_600, 24 * 3_600, 15]) * US_PER_S,
        patience=1 if races else dice(seed, "patience").choice([2, 4, 6]),
        busy_us=100_000 if races else dice(seed, "busy").choice([100_000, 250_000, 500_000]),
        orders=tuple(sorted(orders, key=lambda order: order.at)),
        garbage=(*draw_garbage(dice(seed, "garbage"), horizon, US_PER_S), *sales),
        sites=draw_some(dice(seed, "sites"), SITES),
        small=draw_some(dice(seed, "small"), tuple(SMALL)),
        kept_behind=dice(seed, "kept").choice([3, 20, 100_000]),
        api_wait_s=rng.choice([0.3, 1.0, 3.0]),
        troubles=tuple(
            sorted(
                [*troubles(dice(seed, "troubles"), (*slots, *engines), horizon, races=races), *gone, *lost, *zone_goes]
            )
        ),
        heals_anew=dice(seed, "heal").random() < _ANEW_SHARE,
        rows_kept_us=_SHORT_LIFE_US if dice(seed, "rows kept").random() < _SHORT_LIFE_SHARE else DUE_KEPT_US,
        loses_rows=loses_rows,
        looks_s=_LOOKS_S if dice(seed, "looks").random() < _LOOKS_SHARE else (),
    )


def _skew(rng: random.Random) -> int:
    return rng.choice([0, 0, 0, -40_000, 40_000, rng.randrange(-3 * US_PER_S, 3 * US_PER_S)])


def _step(rng: random.Random, slot: str, lease_s: float, *, races: bool) -> int:
    """How long a process rests between two steps. Who beats and who listens for beats is as quick as a lease needs."""
    if races and slot.startswith(("dispatcher", "worker")):
        return 150_000
    usual_ms = {
        "dispatcher": (300, 1_000, 2_000),
        "worker": (200, 500, 1_000),
        "lease-keeper": (300, 600),
        "api": (200, 700),
    }
    step_us = rng.choice(usual_ms.get(slot.rpartition("-")[0], (700, 1_500, 3_000))) * 1_000
    return min(step_us, round(lease_s * US_PER_S / 10)) if slot.startswith("worker") else step_us
