"""Is nobody called lost who may still speak, and does nobody speak after that? Imports nothing of ours.

Input: dumped ``events`` of run-events and ``leases``. An incarnation is the offset of its HELLO; a newer HELLO or
FENCED of its worker kills it. Times are those of the records, in microseconds, and must be of one clock: the brokers',
as in memory and where a check creates both topics with LogAppendTime. The product itself leaves them CreateTime: then
writers' clocks that differ make this judge err.
"""

import collections

from .records import decode
from .runs import OUTCOMES, tell

_BEHIND_THE_LOOK = ("init", "begin", "append", "flush", "commit", "commit landed")


def check(events, leases):
    """(complaints, counts): LOST comes once and after the death, who is dead says nothing more.

    It finds the attempt open, or ended by an outcome that stood hidden behind somebody's open transaction: counted.
    HELLO and FENCED stand behind the init that fences the older ones, so nothing of those can be younger.
    """
    complaints, counts = [], collections.Counter()
    marks = collections.defaultdict(list)
    for record in leases:
        _, lease = decode(record["value"])
        marks[lease["worker"]].append((record["offset"], record["timestamp_us"], lease["kind"]))
        counts[f"leases {lease['kind']}"] += 1
    silenced, found_open = {}, set()
    for record, event, before, after in tell(events):
        kind, worker, life = event["kind"], event["worker"], event["incarnation"]
        where = f"{event['run_id']} attempt {event['attempt']}"
        if kind == "ATTEMPT_LOST":
            counts["lost"] += 1
            deaths = [at for offset, at, _ in marks[worker] if offset > life]
            if not deaths or min(deaths) > record["timestamp_us"]:
                complaints.append(f"{where}: called lost, and incarnation {life} of {worker} was not dead")
            is_over = before is not None and (before["attempt"] > event["attempt"] or before["outcome"] != "NONE")
            if after is None and (where in found_open or not is_over):
                complaints.append(f"{where}: called lost, but it was {before and before['status']} by then")
            elif after is None:
                counts["lost that had ended unseen"] += 1
            found_open.add(where)
            silenced.setdefault((record["partition"], worker, life), record["offset"])
        elif kind == "STARTED" or kind in OUTCOMES:
            died_at = min((at for offset, at, _ in marks[worker] if offset > life), default=record["timestamp_us"])
            if died_at < record["timestamp_us"]:
                complaints.append(f"{where}: {kind} by incarnation {life} of {worker}, dead since {died_at}")
            said_at = silenced.get((record["partition"], worker, life))
            if said_at is not None:
                complaints.append(f"{where}: {kind} by incarnation {life} of {worker}, called lost at {said_at}")
    return complaints, counts


def innocents(leases, beats, lease_us, stood):
    """Complaints: workers that were fenced although their newest incarnation had beaten within its lease.

    ``stood``: (who, from, to, before which call) of keepers that stood still. What one does in the very instant in
    which it goes on was judged before, and is passed over, where it stood behind its last look: in the init that
    fences, or in the round that says so. A keeper that stood in a look reads on first. Records know milliseconds.
    """
    heard = collections.defaultdict(list)
    for record in beats:
        _, beat = decode(record["value"])
        heard[beat["worker"]].append((record["timestamp_us"], beat["incarnation"]))
    complaints, newest = [], collections.defaultdict(int)
    for record in sorted(leases, key=lambda each: (each["partition"], each["offset"])):
        _, lease = decode(record["value"])
        if lease["kind"] == "HELLO":
            newest[lease["worker"]] = record["offset"]
        at, by = record["timestamp_us"], lease["by"].rpartition(" ")[2]
        went_on = (call for who, _, to, call in stood if who == by and to // 1_000 == at // 1_000)
        judged_before = any(call in _BEHIND_THE_LOOK for call in went_on)
        if lease["kind"] != "FENCED" or judged_before:
            continue
        life = newest[lease["worker"]]
        # One of the very same instant may stand behind the fencing.
        last = max((beaten for beaten, of in heard[lease["worker"]] if beaten < at and of >= life), default=None)
        if last is not None and at - last < lease_us:
            complaints.append(f"{lease['worker']} was fenced at {at}, {at - last} us after a beat of it")
    return complaints
