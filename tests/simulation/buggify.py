"""Small unkindness that nobody plans in time: sites where a call goes badly now and then, and constants made small.

In each seed a quarter of the sites is on, and each of these fires at a quarter of its calls. Must hold: what a site
does is allowed by the port (a poll may bring fewer records than asked for, an answer may be late or lost), and what a
small constant changes is how much is done at a time or remembered, never what is promised.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import NamedTuple
from unittest import mock

from waterclock.dag_engine import kept as kept_dags
from waterclock.dispatcher import (
    applying,
    backfill_lanes,
    backfill_reading,
    deciding,
    emit,
    event_tail,
    inbox,
    pauses,
    releasing,
    window,
)
from waterclock.retry_router import deaths, keeper, open_attempts, reconciler, work_records
from waterclock.workers import barrier, control, read_back

from waterclock import kept_runs, taking_over
from waterclock.api import tail
from waterclock.intake import loop as taking_in
from waterclock.log import reading
from waterclock.recorder import loop as recording
from waterclock.store import tabular

SHORT_POLL, NO_ANSWER, SLOW_STORE, SLOW_COMMIT = "short poll", "no answer", "slow store", "slow commit"
LATE_ERRAND = "late errand"
SITES = (SHORT_POLL, NO_ANSWER, SLOW_STORE, SLOW_COMMIT, LATE_ERRAND)
SHARE = 0.25
SLOW_US = (100_000, 300_000, 1_200_000)
ASKS = frozenset(
    {
        "committed",
        "partitions",
        "low_watermark",
        "high_watermark",
        "offset_at",
        "group_positions",
        "members",
        "open_from",
    }
)
"""Calls that the site ``no answer`` may strike: questions, which can be asked again."""


class Small(NamedTuple):
    """A constant of the product, and how small it may become."""

    module: ModuleType
    name: str
    value: int


# Not how much may stand on a rung, nor how far is moved on ahead of its oldest record: small, they keep what is due
# behind one that waits for an hour, which is late beyond every promise (seed 20006).
SMALL = {
    "commands applied at a time": Small(applying, "BATCH", 1),
    "commands polled at a time": Small(inbox, "_POLL_MAX", 3),
    "templates kept": Small(emit, "_TEMPLATES_MAX", 1),
    "runs released at a time": Small(releasing, "RELEASES_MAX", 1),
    "versions of held runs at a time": Small(releasing, "VERSIONS_MAX", 1),
    "offsets of an open run's record": Small(releasing, "KEPT_BEHIND", 3),
    "events of open runs at a time": Small(event_tail, "_BATCH", 2),
    "followed when nothing is open": Small(event_tail, "_QUIET_S", 0),
    "barrier's marks": Small(barrier, "MARKS_MAX", 1),
    "runs remembered of control": Small(control, "KNOWN_MAX", 1),
    "records of control at a time": Small(control, "_BATCH", 2),
    "records read back at a time": Small(read_back, "_SLICE_RECORDS", 50),
    "deaths read at a time": Small(deaths, "_BATCH", 1),
    "fencings at a time": Small(keeper, "FENCINGS_MAX", 1),
    "batches of suspects": Small(open_attempts, "_BATCHES_MAX", 1),
    "runs looked at by the reconciler": Small(reconciler, "_LOOKED_AT_MAX", 3),
    "work records at a time": Small(work_records, "_BATCH", 1),
    "bytes of an intake's round": Small(taking_in, "ROUND_BYTES", 100),
    "records of the tail at a time": Small(tail, "_POLL_RECORDS", 30),
    "records of a stretch at a time": Small(reading, "_BATCH", 5),
    "fires of a backfill at a time": Small(backfill_lanes, "LOOKS_MAX", 1),
    "events of a backfill's reading": Small(backfill_reading, "_EVENTS", 20),
    "records of history at a time": Small(recording, "_POLL_RECORDS", 20),  # it is behind then, and leaves rows
    "versions of a job at a time": Small(tabular, "VERSIONS_PAGE", 1),
    "rows looked for before they are written": Small(window, "LOOKED_FOR_FROM", 1),
    "decisions forgotten at a time": Small(deciding, "FORGOTTEN_MAX", 1),
    "runs that end with their jobs in a round": Small(inbox, "WITHDRAWN_MAX", 1),
    "pauses that are no crowd": Small(pauses, "_FEW", -10_000),  # each is asked to end as early as any may be
    "seconds of a step that takes over": Small(taking_over, "STEP_S", 0),
    "runs put in at a time": Small(kept_runs, "PART", 5),
    "DagRuns and nodes put in at a time": Small(kept_dags, "PART", 5),
    "DagRuns and nodes kept at a time": Small(kept_dags, "KEPT_PER_ROUND", 1),
    "nodes forgotten at a time": Small(kept_dags, "FORGOTTEN_PER_ROUND", 1),
}


def draw_some(rng: random.Random, names: Sequence[str]) -> tuple[str, ...]:
    """A quarter of these, on average."""
    return tuple(name for name in names if rng.random() < SHARE)


@contextmanager
def made_small(names: Sequence[str]) -> Iterator[None]:
    """The product with these constants."""
    with ExitStack() as patches:
        for name in names:
            module, attribute, value = SMALL[name]
            patches.enter_context(mock.patch.object(module, attribute, value))
        yield


class Buggify:
    """The sites of one play."""

    def __init__(self, sites: Sequence[str], rng: random.Random) -> None:
        self._on = frozenset(sites)
        self._rng = rng

    def fires(self, site: str) -> bool:
        """Whether it goes badly here and now."""
        return site in self._on and self._rng.random() < SHARE

    def fewer(self, asked: int) -> int:
        """How many records a poll brings at most."""
        return min(asked, self._rng.choice((0, 1, 2))) if asked and self.fires(SHORT_POLL) else asked

    def slow_us(self) -> int:
        """How long a slow answer takes."""
        return self._rng.choice(SLOW_US)

    def end(self) -> None:
        """Nothing goes wrong any more."""
        self._on = frozenset()
