"""Is nobody called lost who may still speak, and does nobody speak after that? Imports nothing of ours.

Input: dumped ``events`` of run-events and ``leases``. An incarnation is the offset of its HELLO; a newer HELLO or
FENCED of its worker kills it. Times are the brokers' own, of one clock, in microseconds.
"""

import collections

from .records import decode
from .runs import OUTCOMES, tell


def check(events, leases):
    """(complaints, counts): LOST comes after the death, finds the attempt open, and ends the incarnation's say here."""
    complaints, counts = [], collections.Counter()
    marks = collections.defaultdict(list)
    for record in leases:
        _, lease = decode(record["value"])
        marks[lease["worker"]].append((record["offset"], record["timestamp_us"], lease["kind"]))
        counts[f"leases {lease['kind']}"] += 1
    silenced = {}
    for record, event, before, after in tell(events):
        kind, worker, life = event["kind"], event["worker"], event["incarnation"]
        where = f"{event['run_id']} attempt {event['attempt']}"
        if kind == "ATTEMPT_LOST":
            counts["lost"] += 1
            deaths = [at for offset, at, _ in marks[worker] if offset > life]
            if not deaths or min(deaths) > record["timestamp_us"]:
                complaints.append(f"{where}: called lost, and incarnation {life} of {worker} was not dead")
            if after is None:
                complaints.append(f"{where}: called lost, but it was {before and before['status']} by then")
            silenced.setdefault((record["partition"], worker, life), record["offset"])
        elif kind == "STARTED" or kind in OUTCOMES:
            said_at = silenced.get((record["partition"], worker, life))
            if said_at is not None:
                complaints.append(f"{where}: {kind} by incarnation {life} of {worker}, called lost at {said_at}")
    return complaints, counts
