"""A hundred thousand runs in flight at once: what one costs in memory, and that none is lost or taken for dead."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.acceptance.real_stack import RoleProcess, wait_for
from tests.bench import load
from tests.bench.rig import ALL_ROLES, WORKER, Rig, several
from tests.bench.sight import LOST, STARTED, SUCCEEDED, US, Sight
from waterclock.model.job import JobSpec, Once

_EVERY_S = 5
_STARTED_WITHIN_S = 300.0
_ENDED_WITHIN_S = 300.0


class Size(NamedTuple):
    """Jobs, each due so many times; workers with so many slots, a partition each; how long all are held in flight.

    ``passed``: runs that end at once, before: what a process allots with its first ones is no part of those in flight.
    """

    jobs: int
    fires: int
    workers: int
    slots: int
    passed: int
    held_s: float
    lead_s: float


WHOLE = Size(12_500, 8, 16, 7_000, 4_800, 60.0, 100.0)
SHORT = Size(100, 2, 2, 200, 20, 3.0, 20.0)


class InFlight(NamedTuple):
    """``bytes_each``: grown resident memory of the workers for a run in flight; ``everybody``: of all other roles.

    ``lost``: attempts taken for dead. ``early``: runs that ended while they were held.
    """

    runs: int
    in_flight: int
    bytes_each: float
    bytes_everybody: float
    lost: int
    early: int
    never_ended: int
    doubled: int


def measure(size: Size) -> InFlight:
    """One round."""
    place = Path(tempfile.mkdtemp(prefix="waterclock-bench-release-"))
    release = place / "release"
    env = {"WATERCLOCK_WORKER__APP": "tests.bench.held_app:app", "WATERCLOCK_BENCH_RELEASE": str(release)}
    roles = [role for role in ALL_ROLES if role != WORKER] + several("workers", size.workers)
    with Rig(roles=roles, slots=size.slots, env=env, partitions=size.workers) as rig:
        start_at = load.whole_second(size.lead_s)
        beats = load.together(size.jobs, _EVERY_S, start_at)
        last = start_at + (size.fires - 1) * _EVERY_S * US
        owed = load.owed(beats, start_at, last + 1)
        once = Once(start_at - round(size.lead_s / 5) * US)
        passing = {f"bench:passed-{number}": JobSpec("bench.passed", once) for number in range(size.passed)}
        passed = Sight(rig.stack.bootstrap, rig.stack.names.run_events, (SUCCEEDED,))
        rig.create(passing | load.specs(beats, "bench.held"))
        wait_for(lambda: passed.count() >= size.passed, "the first runs have ended", size.lead_s, 0.5)
        passed.stop()
        load.wait_until(start_at - 2 * US, least_s=0.0)
        sight = Sight(rig.stack.bootstrap, rig.stack.names.run_events, (STARTED, SUCCEEDED, LOST))
        workers = rig.of("workers")
        others = [role for role in rig.stack.roles.values() if role.role not in ("workers", "dispatcher")]
        before, others_before = resident(workers), resident(others)
        rig.end_load(last)
        wait_for(lambda: sight.count() >= len(owed), "all runs are in flight", _STARTED_WITHIN_S, 0.5)
        time.sleep(size.held_s)  # several leases: whoever is taken for dead is lost by then
        held = load.times(glimpse.kind.decode() for glimpse in sight.since(0))
        in_flight = held[STARTED.decode()] - held[SUCCEEDED.decode()]
        grown, others_grown = resident(workers) - before, resident(others) - others_before
        release.touch()
        wait_for(lambda: sight.count() >= 2 * in_flight, "all runs ended", _ENDED_WITHIN_S, 0.5)
        seen = sight.stop()
    shutil.rmtree(place)
    never, _ = load.wrong(owed, load.times(each.run_id for each in seen if each.kind == SUCCEEDED))
    _, doubled = load.wrong(owed, load.times(each.run_id for each in seen if each.kind == STARTED))
    lost = sum(each.kind == LOST for each in seen)
    early = held[SUCCEEDED.decode()]
    each = grown / in_flight, others_grown / in_flight
    return InFlight(len(owed), in_flight, *each, lost, early, len(never), len(doubled))


def resident(processes: Iterable[RoleProcess]) -> int:
    """Bytes of memory that these hold, added up."""
    return sum(psutil.Process(process.pid).memory_info().rss for process in processes)
