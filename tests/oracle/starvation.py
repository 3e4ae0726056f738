"""Is the lowest tier served while others are? Imports nothing of ours.

Input: dumped records of run-events, whose times must be of one clock. Looked at are stretches of a minute, one
every ten seconds: where work of LOW waits all through one and the pool's other tiers are served all through it, some of
LOW is served as well. Where nobody is served, nobody is favoured: a broker that is away for most of a minute leaves
each tier's group, which joins by itself, a few seconds. Where little waits, it may stand with a worker that has died.
"""

import bisect
import collections
import typing

from .records import decode

_S = 1_000_000


class Bounds(typing.NamedTuple):
    """``waiting``: runs of LOW that wait all through a stretch; ``served``: claims of other tiers in it; at least.

    ``parts``: in each of so many parts of a stretch others are served, else it is not looked at.
    """

    stretch_us: int = 60 * _S
    step_us: int = 10 * _S
    waiting: int = 20
    served: int = 100
    parts: int = 3


def check(events, bounds=Bounds()):  # noqa: B008  # a value
    """(complaints, counts): the stretches in which LOW waited, others were served, and nothing of LOW was."""
    waits, claims = _told(events)
    complaints, counts = [], collections.Counter()
    for (pool, start), waiting in sorted(_waiting_through(waits, bounds).items()):
        low, others = (_between(claims[pool, of_low], start, start + bounds.stretch_us) for of_low in (True, False))
        if waiting < bounds.waiting or others < bounds.served or not _all_through(claims[pool, False], start, bounds):
            continue
        counts["stretches in which LOW waited and others were served"] += 1
        if not low:
            complaints.append(f"{pool}: {waiting} of LOW wait at {start}, {others} of the others are served before one")
    return complaints, counts


def _told(events):
    """({(pool, since, until)} of each wait of LOW, {(pool, is LOW): sorted times of first claims})."""
    made, ended, claims, now = {}, {}, collections.defaultdict(list), 0
    for record in events:
        _, event = decode(record["value"])
        kind, run_id, stamp = event["kind"], event["run_id"], record["timestamp_us"]
        now = max(now, stamp)
        if kind == "PENDING":
            made.setdefault(run_id, (event["pending"]["pool"], event["pending"]["tier"] == "LOW", stamp))
        elif run_id in made and run_id not in ended and kind in ("STARTED", "CANCEL_REQUESTED", "RUN_EXPIRED"):
            ended[run_id] = stamp
            if kind == "STARTED":
                claims[made[run_id][:2]].append(stamp)
    for times in claims.values():
        times.sort()
    waits = [(pool, stamp, ended.get(run, now)) for run, (pool, is_low, stamp) in made.items() if is_low]
    return waits, claims


def _waiting_through(waits, bounds):
    """{(pool, start of a stretch): how many waited all through it}."""
    through = collections.Counter()
    for pool, since, until in waits:
        first = -(-since // bounds.step_us) * bounds.step_us
        for start in range(first, until - bounds.stretch_us + 1, bounds.step_us):
            through[pool, start] += 1
    return through


def _all_through(times, start, bounds):
    part_us = bounds.stretch_us // bounds.parts
    return all(_between(times, start + at * part_us, start + (at + 1) * part_us) for at in range(bounds.parts))


def _between(times, start, end):
    return bisect.bisect_left(times, end) - bisect.bisect_left(times, start)
