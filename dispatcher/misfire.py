"""Fires whose time has passed (time.md §10). Pure.

The policy so far is ``latest``: once a fire of a job is later than the grace, the job's owed fires up to now are
decided together: only the newest runs, also when it is within grace, and all the others are SKIPPED(coalesced),
naming that run. Without a misfire every fire runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waterclock.model.ids import Instant
from waterclock.model.job import JobVersion
from waterclock.model.schedule import count_fires, last_fire, next_fire

from .owed import Stretch

COALESCED = "coalesced"
PAUSED = "paused"
DELETED = "deleted"


class SkipRange(NamedTuple):
    """Fires of one version that make no run: from ``from_at`` to ``to_at``, both included."""

    version: JobVersion
    from_at: Instant
    to_at: Instant
    fire_count: int


class Latest(NamedTuple):
    """The decision: the one fire that runs, and what is skipped in its favour. ``run`` None: nothing was owed."""

    run: tuple[JobVersion, Instant] | None
    skipped: tuple[SkipRange, ...]


def latest(owed: Sequence[Stretch]) -> Latest:
    """Keep the newest owed fire; skip all before it."""
    run: tuple[JobVersion, Instant] | None = None
    skipped: list[SkipRange] = []
    for stretch in reversed(owed):
        until = stretch.until
        if run is None:
            newest = last_fire(stretch.version.spec.schedule, stretch.version.anchor_at, stretch.after, until)
            if newest is None:
                continue
            run = (stretch.version, newest)
            until = newest - 1
        rest = skip_all(Stretch(stretch.version, stretch.after, until))
        if rest is not None:
            skipped.append(rest)
    return Latest(run, tuple(reversed(skipped)))


def skip_all(stretch: Stretch) -> SkipRange | None:
    """All fires of a stretch as one range; None where it has none. Counts by arithmetic, never fire by fire."""
    schedule, anchor_at = stretch.version.spec.schedule, stretch.version.anchor_at
    first = next_fire(schedule, anchor_at, stretch.after)
    if first is None or first > stretch.until:
        return None
    newest = last_fire(schedule, anchor_at, stretch.after, stretch.until)
    assert newest is not None  # `first` lies in the stretch
    return SkipRange(stretch.version, first, newest, count_fires(schedule, anchor_at, stretch.after, stretch.until))
