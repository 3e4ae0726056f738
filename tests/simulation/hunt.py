"""Many seeds, on as many cores as there are; the sum of what was provoked; the seeds that broke a promise."""

from __future__ import annotations

import multiprocessing
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from .buggify import SITES, SMALL
from .dumps import KEEPS_RUNS
from .long_plan import draw_long
from .plan import Plan, draw
from .planted import PLANTED
from .planted_hours import PLANTED_IN_HOURS
from .play import Verdict, play_plan
from .senders import GARBAGE_KINDS
from .troubles import LOSERS

_BLOCK = 100
"""Seeds between two looks at the clock, which leave a core without work for a play or two."""

CALLS_MIN, EVENTS_MIN = 2_000, 200
"""The bar: a seed of fewer port calls or run events is not counted."""

_EMPTY = re.compile(r"I\d+ an empty history: ")
"""Where nothing else is said, nobody came as far as a run: the seed falls short of the bar. Many such fail a hunt."""

MUST_HAPPEN = (
    "crash",
    "pause",
    "abort",
    "doubt:UNANSWERED",
    "doubt:LOST",
    "doubt:DELAYED",
    "doubt:DOUBLED",
    "delivered, is refused",
    "healed anew",
    "healed as it was",
    "take-over",
    "herds landed",
    "herds given up",
    "deploy",
    "absence",
    "outage",
    "decided in gaps",
    "revised with open gaps",
    "sleep",
    "jump",
    "skew",
    "away",
    "markers",
    "compact",
    "forget",
    "store:APPLIED",
    "store:LOST",
    "store:HALF",
    "store:LATER",
    "store:read",
    "skipped:coalesced",
    "skipped:misfire",
    "skipped:cap",
    "skipped:expired",
    "made later than its fire time, by jitter",
    "due in one instant with another revision's",
    "skipped behind a late command",
    "held:overlap",
    "held:concurrency",
    "released",
    "dropped:overlap",
    "dropped:overlap max_held",
    "dropped:withdrawn",
    "cancelled while held",
    "asked to end by cancel_other",
    "asked to end by terminate_other",
    "paused after failures",
    "paused after failures with gaps open",
    "ended after its last run",
    "ended with gaps open",
    "counted in a gap",
    "counted beside calendars",
    "counted beside limits",
    "last runs in a gap",
    "skipped:max_runs",
    "skipped:max_runs in a gap",
    "delays: first runs",
    "delays: runs",
    "delays: an end by a clock that is ahead",
    "delays edited in flight",
    *(f"delays counted from {status}" for status in ("SUCCEEDED", "FAILED", "CANCELLED")),
    *(f"delays skipped:{reason}" for reason in ("paused", "deleted", "calendar")),
    "skipped:paused",
    "skipped:deleted",
    "triggered",
    "started by an end",
    "started by a record",
    "runs of windows",
    "runs of windows by records",
    "windows that lapsed",
    "refused",
    "failed",
    "succeeded",
    "cancelled",
    "command applied",
    "command unchanged",
    "command repeated",
    "command refused",
    "answered",
    "work of pool side",
    "records emitted",
    "emit refused",
    "attempt LOST",
    "attempt CANCELLED",
    "attempt TIMED_OUT",
    "attempt DRAINED",
    "attempts timed out by their worker",
    "leases FENCED",
    "retries begun",
    "retries begun after more than 5 s",
    "waited beyond the ladder",
    "work marked to verify",
    "ignored outcomes",
    "expired",
    "given up",
    "hold",
    "stillborn",
    "tear",
    "swallow",
    "repaired",
    "redriven",
    "called at most once",
    "cancel before the claim",
    "cancel after the end",
    "cancel of a claimed run, which ended CANCELLED",
    "cancel of a claimed run, which ended SUCCEEDED",
    "cancels that reached a run",
    "cancels that reached a node",
    "api ok",
    "api fail",
    "api info",
    "api repeated",
    "api replayed",
    "api woken",
    "acknowledged",
    "sent avro",
    "sent json",
    "sent avro commits",
    "sent avro aborts",
    "sent json hangs",
    *(f"garbage {kind}" for kind in GARBAGE_KINDS),
    "storm",
    "drift",
    "zone",
    *(f"zone gone, then {kind}" for kind in ("UPDATE", "DELETE", "PAUSE")),
    *(f"lose {role}" for role in LOSERS),
    *(f"small: {name}" for name in SMALL),
    *(f"buggify: {site}" for site in SITES),
    "backfills done",
    "backfills cancelled",
    "backfills paused",
    "backfilled",
    "backfilled over a skip",
    "backfilled: left out",
    "backfilled: blocked",
    "rejected at the door",
    "taken at the door",
    "chains that were cut",
    "started by the end of a DagRun",
    "ends of DagRuns that were waited for",
    "ends that were waited for until another command",
    "DagRuns started by an end",
    "DagRuns started by a record",
    "DagRuns of windows",
    "results not kept",
    "DagRuns started by others that ended",
    "commands of acme",
    "asked for another tenant's",
    *(f"runs kept by the {role}" for role in KEEPS_RUNS),
)
"""What a batch of seeds must have provoked, or it proves nothing."""

MUST_HAPPEN_IN_HOURS = (
    "crash",
    "take-over",
    "take-over by one that looks less far",
    "absence",
    "sleep",
    "jump",
    "skew",
    "retention",
    "store:LOST",
    "store:LATER",
    "decided in gaps",
    "skipped:paused",
    "skipped:deleted",
    "skipped:coalesced",
    "made later than its fire time, by jitter",
    "ended after its last run",
    "delays: runs",
    "triggered",
    "backfills done",
    "retries begun",
    "attempt LOST",
    "command applied",
    "command unchanged",
    "command refused",
    "healed anew",
    "healed as it was",
)


EVERY_BUG = PLANTED | PLANTED_IN_HOURS


class Seeds(NamedTuple):
    """A kind of seeds: how their plans are drawn, the bar of run events, what a batch must have provoked."""

    draws: Callable[[int], Plan]
    events_min: int
    must_happen: tuple[str, ...]


USUAL = Seeds(draw, EVENTS_MIN, MUST_HAPPEN)
LONG = Seeds(draw_long, 20, MUST_HAPPEN_IN_HOURS)
"""Hours in which little happens."""

_ROTTEN = re.compile(" broke: (TypeError|AttributeError|NameError)")


@dataclass(slots=True)
class Catch:
    """What came of a batch. ``violations``: seed -> complaints; ``wanted``: what it should have provoked."""

    seeds: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    violations: dict[int, tuple[str, ...]] = field(default_factory=dict)
    short: list[int] = field(default_factory=list)
    """Seeds that fell short of the bar: they prove too little to be counted."""
    wanted: tuple[str, ...] = MUST_HAPPEN

    @property
    def missing(self) -> list[str]:
        """What should have been provoked and was not."""
        return [name for name in self.wanted if not self.counts[name]]

    @property
    def seeds_per_s(self) -> float:
        """The rate of the batch."""
        return self.seeds / self.seconds if self.seconds else 0.0


def hunt(
    seeds: range, *, processes: int = 1, goes_on: Callable[[int], bool] = lambda _: True, kind: Seeds = USUAL
) -> Catch:
    """Play ``seeds``, as long as ``goes_on`` after so many; it is asked every hundred."""
    began, caught = time.monotonic(), Catch(wanted=kind.must_happen)
    for verdict in _verdicts(seeds, processes, goes_on, partial(_played, kind.draws)):
        caught.seeds += 1
        caught.counts.update(verdict.counts)
        is_empty = bool(verdict.complaints) and all(map(_EMPTY.match, verdict.complaints))
        if verdict.complaints and not is_empty:
            caught.violations[verdict.seed] = verdict.complaints
        if is_empty or verdict.counts["port calls"] < CALLS_MIN or verdict.counts["run events"] < kind.events_min:
            caught.short.append(verdict.seed)
    caught.seconds = time.monotonic() - began
    return caught


def catch_planted(name: str, seeds: Iterable[int], kind: Seeds = USUAL) -> Verdict | None:
    """The first of ``seeds`` in which the planted bug is caught; None where none does.

    Caught means that promises are named and nothing else is. Raises RuntimeError where the patch itself breaks:
    whatever complains then says nothing about the checkers.
    """
    for seed in seeds:
        verdict = play_plan(kind.draws(seed), planted=EVERY_BUG[name])
        if any(_ROTTEN.search(complaint) for complaint in verdict.complaints):
            raise RuntimeError(f"{name}: the patch does not fit the product any more: {verdict.complaints}")
        if verdict.complaints and all(re.match(r"I\d+ ", complaint) for complaint in verdict.complaints):
            return verdict
    return None


def _verdicts(
    seeds: range, processes: int, goes_on: Callable[[int], bool], played: Callable[[int], Verdict]
) -> Iterator[Verdict]:
    # Spawned, not forked: whoever hunts may have threads of its own.
    pool = ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) if processes > 1 else None
    with pool or nullcontext():
        for first in range(0, len(seeds), _BLOCK):
            if not goes_on(first):
                return
            block = seeds[first : first + _BLOCK]
            some = max(1, min(2, len(block) // (4 * processes)))  # few, or a core rests at the end of each block
            yield from pool.map(played, block, chunksize=some) if pool else map(played, block)


def _played(draws: Callable[[int], Plan], seed: int) -> Verdict:
    try:
        return play_plan(draws(seed))
    except Exception as error:  # noqa: BLE001 - a hunt goes on, and the seed that broke the play is told with the rest
        return Verdict(seed, (f"the play itself broke: {type(error).__name__}: {error}",), Counter(), "")
