"""Delays of an even or a sudden load, from outside: due to STARTED committed, and due to the handler's first line.

What was owed is worked out from the jobs; a run that never started, or twice, is no figure but an error.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.acceptance.real_stack import wait_for
from tests.bench import load
from tests.bench.figures import quantiles
from tests.bench.rig import Rig
from tests.bench.sight import STARTED, US, Glimpse, Sight, fire_at

_SEEN_WITHIN_S = 60.0


class Span(NamedTuple):
    """Runs due in [since, until) count."""

    since: int
    until: int


def look(rig: Rig, start_at: int) -> Sight:
    """Begin to look 2 s before the first instant."""
    load.wait_until(start_at - 2 * US)
    return Sight(rig.stack.bootstrap, rig.stack.names.run_events, (STARTED,))


def all_seen(sight: Sight, count: int) -> None:
    """Until so many were seen; who says which is missing is ``judged``."""
    until = time.monotonic() + _SEEN_WITHIN_S
    while sight.count() < count and time.monotonic() < until:
        time.sleep(0.2)


def judged(beats: Sequence[load.Beat], seen: Iterable[Glimpse], span: Span) -> dict[str, float]:
    """Quantiles of due to STARTED seen, in ms. Raises RuntimeError where a run is missing or began twice."""
    glimpses = [glimpse for glimpse in seen if glimpse.kind == STARTED]
    owed = load.owed(beats, span.since, span.until)
    missing, doubled = load.wrong(owed, load.times(glimpse.run_id for glimpse in glimpses))
    if missing or doubled:
        raise RuntimeError(
            f"of {len(owed)} runs {len(missing)} never began, {len(doubled)} twice: {(missing + doubled)[:3]}"
        )
    return quantiles([(each.seen_at - fire_at(each.run_id)) / 1_000 for each in glimpses if each.run_id in owed])


def handled(rig: Rig, beats: Sequence[load.Beat], span: Span) -> dict[str, float]:
    """The same to the handler's first line, which it wrote down itself; the workers end with this."""
    for worker in rig.of("workers"):
        worker.stop()  # their notes are flushed when they end
    wait_for(rig.sink.exists, "the handler's notes", 10.0)
    notes = (line.split() for line in rig.sink.read_text().splitlines())
    at = {run_id: int(when) for when, run_id in notes}
    owed = load.owed(beats, span.since, span.until)
    missing = owed - at.keys()
    if missing:
        raise RuntimeError(f"of {len(owed)} runs {len(missing)} never reached the handler: {sorted(missing)[:3]}")
    return quantiles([(at[run_id] - fire_at(run_id)) / 1_000 for run_id in owed])
