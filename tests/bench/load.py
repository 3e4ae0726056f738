"""Jobs that fire at a steady beat, and the runs that they owe: what was asked for, apart from what came of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from waterclock.model.ids import US_PER_S, format_instant
from waterclock.model.job import Every, JobSpec, Tier


class Beat(NamedTuple):
    """A job that fires every ``every_us`` from ``start_at`` on."""

    job_id: str
    start_at: int
    every_us: int

    def spec(self, handler: str = "bench.noop", tier: Tier = Tier.MEDIUM) -> JobSpec:
        """As the job is defined."""
        return JobSpec(handler, Every(self.every_us, self.start_at), tier)

    def runs(self, since: int, until: int) -> list[str]:
        """The ids of the runs due in [since, until)."""
        first = max(0, -((self.start_at - since) // self.every_us))
        count = max(0, -((self.start_at + first * self.every_us - until) // self.every_us))
        fires = (self.start_at + (first + number) * self.every_us for number in range(count))
        return [f"{self.job_id}@{format_instant(at)}" for at in fires]


def spread(jobs: int, every_s: int, start_at: int, *, word: str = "job") -> list[Beat]:
    """So many jobs, one after the other within ``every_s``: an even rate."""
    every_us = every_s * US_PER_S
    return [Beat(f"bench:{word}-{number}", start_at + number * every_us // jobs, every_us) for number in range(jobs)]


def together(jobs: int, every_s: int, start_at: int, *, tenants: int = 1, word: str = "job") -> list[Beat]:
    """So many jobs, all in the same instants; of so many tenants."""
    names = ["bench"] if tenants == 1 else [f"bench-{number}" for number in range(tenants)]
    return [Beat(f"{names[number % tenants]}:{word}-{number}", start_at, every_s * US_PER_S) for number in range(jobs)]


def specs(beats: Iterable[Beat], handler: str = "bench.noop", tier: Tier = Tier.MEDIUM) -> dict[str, JobSpec]:
    """The jobs to define."""
    return {beat.job_id: beat.spec(handler, tier) for beat in beats}


def owed(beats: Iterable[Beat], since: int, until: int) -> set[str]:
    """The ids of all runs due in [since, until)."""
    return {run_id for beat in beats for run_id in beat.runs(since, until)}


def wrong(owed_runs: set[str], seen: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """(owed and never seen, seen more than once); ``seen``: how often each run was."""
    return [run for run in owed_runs if not seen.get(run)], [run for run in owed_runs if seen.get(run, 0) > 1]


def times(runs: Iterable[str]) -> Counter[str]:
    """How often each run comes."""
    return Counter(runs)


def whole_second(lead_s: float) -> int:
    """The first whole second at least ``lead_s`` from now, in microseconds."""
    return (int(time.time() + lead_s) + 1) * US_PER_S


def wait_until(at: int, *, least_s: float = 0.0) -> None:
    """Until that instant. Raises RuntimeError where it is less than ``least_s`` away: the load was made too late."""
    left_s = at / US_PER_S - time.time()
    if left_s < least_s:
        raise RuntimeError(f"the jobs stood {left_s:.1f} s before their first instant, wanted {least_s}: too late")
    time.sleep(max(0.0, left_s))
