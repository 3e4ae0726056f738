"""Work that was emitted already, run as fast as it goes, its history kept.

The servers are warmed up first, as for a burst; so the workers have committed positions when what is measured begins.
Two ends are told: the last outcome in the log, and the last row in Cassandra. Both begin with the first STARTED, by the
broker's own stamps.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from tests.acceptance import dumps
from tests.acceptance.real_stack import wait_for
from tests.bench import burst, load
from tests.bench.rig import DISPATCHER, DOORS, SETTLING, Rig, several
from tests.bench.sight import STARTED, SUCCEEDED, US

WORKERS = 2
_READ_WITHIN_S = 120.0


class Drain(NamedTuple):
    """Runs a second until the last outcome stood in the log, and until the last row stood in Cassandra."""

    runs: int
    in_log_per_s: float
    with_history_per_s: float
    cpu_us: dict[str, float]


def measure(size: burst.Size, *, workers: int = WORKERS) -> Drain:
    """One round."""
    with Rig(roles=(DISPATCHER, *SETTLING, *DOORS)) as rig:
        _warm_up(rig, workers)
        start_at = load.whole_second(size.lead_s)
        beats = load.together(size.jobs, 1, start_at)
        rig.create(load.specs(beats))
        load.wait_until(start_at, least_s=2.0)
        rig.end_load(start_at + (size.fires - 1) * US)
        _all_read(rig)
        before, began_at_s = rig.cpu_s(), time.time()
        rig.begin(several("workers", workers))
        burst.in_cassandra(rig, beats, size.fires)
        rows_at_s = time.time()
        spent = {name: after - before.get(name, 0.0) for name, after in rig.cpu_s().items()}
        # The dispatcher may have gone a little beyond the last fire that is counted: those runs are drained as well.
        wait_for(lambda: _lag(rig) == 0, "the rest was read", _READ_WITHIN_S, 0.5)
        burst.counted(rig, start_at, start_at + (size.fires - 1) * US, size.jobs * size.fires)
        all_stamps = stamps(rig.stack.bootstrap, rig.stack.names.run_events)
    started, ended = ([at for at in each if at >= began_at_s] for each in all_stamps)
    runs = size.jobs * size.fires
    in_log = len(ended) / (max(ended) - min(started))
    return Drain(runs, in_log, runs / (rows_at_s - min(started)), {name: s / runs * US for name, s in spent.items()})


def _warm_up(rig: Rig, workers: int) -> None:
    """With the workers, who then go: so there is work that is emitted already."""
    there = several("workers", workers)
    rig.begin(there)
    rig.warm_up()
    for _, name in there:
        rig.stack.roles.pop(name).stop()


def stamps(bootstrap: str, topic: str) -> tuple[list[float], list[float]]:
    """When each STARTED and each SUCCEEDED was appended, in seconds."""
    found: dict[bytes, list[float]] = {STARTED: [], SUCCEEDED: []}
    for message in dumps.messages(bootstrap, topic, committed=True):
        kind = message.headers()[0][1]
        if kind in found:
            found[kind].append(message.timestamp()[1] / 1_000)
    return found[STARTED], found[SUCCEEDED]


def _lag(rig: Rig) -> int:
    names = rig.stack.names
    groups = [names.group("recorder"), names.group("retry-router")]
    return sum(dumps.unread(rig.stack.bootstrap, group, [names.run_events]) for group in groups)


def _all_read(rig: Rig) -> None:
    """Nobody has anything left to do but the workers, which are not there yet."""
    wait_for(lambda: _lag(rig) == 0, "everything that was emitted is read", _READ_WITHIN_S, 0.5)
