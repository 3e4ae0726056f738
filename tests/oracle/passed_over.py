"""Does a worker serve every tier that has work for it? Imports nothing of ours.

Input: dumps of ``run-events`` and ``work``. A worker takes of every tier that has work at least its weight's part. So
while work waits that it begins in the end, it begins no great number of other tiers and nothing of that one; whoever
has no free slot begins nothing, and until a partition was given to it (``holders``) what waited there was another's.
How many is too many: twice the turn of nineteen that LOW has. ``for_us``: for so long at least, because an open
transaction may hide the work of one topic and not that of the others. ``starvation.py`` asks the same of all workers
together, in an hour under a steady load.
"""

import bisect
import collections

from .records import decode

OTHERS_MOST = 38
FOR_US = 12_000_000


def check(events, work, healed_at, swallowed=(), holders=(), others_most=OTHERS_MOST, for_us=FOR_US):
    """(complaints, counts) of all that waited after ``healed_at``. ``swallowed``: what a tool has passed over."""
    given = collections.defaultdict(list)
    for topic, partition, worker, given_at in holders:
        given[topic, partition, worker].append(given_at)
    began, by_topic, by_worker = {}, collections.defaultdict(list), collections.defaultdict(list)
    for record in events:
        _, event = decode(record["value"])
        if event["kind"] == "STARTED" and event["started"] is not None:
            claim, worker, at = event["started"], event["worker"], record["timestamp_us"]
            began.setdefault((claim["topic"], claim["partition"], claim["offset"]), (at, worker))
            by_topic[claim["topic"], worker].append(at)
            by_worker[worker].append(at)
    for times in (*by_topic.values(), *by_worker.values()):
        times.sort()
    complaints, counts = [], collections.Counter()
    for record in work:
        topic, partition, offset = record["topic"], record["partition"], record["offset"]
        until, worker = began.get((topic, partition, offset), (0, ""))
        since = max(record["timestamp_us"], healed_at)
        if until <= since or any((topic, partition) == at[:2] and at[2] <= offset < at[3] for at in swallowed):
            continue
        own = by_topic[topic, worker]
        at = bisect.bisect_left(own, until)
        since = max(since, own[at - 1]) if at else since
        since = max([since, *(each for each in given[topic, partition, worker] if each <= until)])
        others = _between(by_worker[worker], since, until)
        counts["work that waited while its worker began other work"] += others > 0
        if others > others_most and until - since > for_us:
            run_id = decode(record["value"])[1]["run_id"]
            complaints.append(
                f"{run_id}: waits on {topic} while {worker} begins {others} of other tiers, none of its own"
            )
    return complaints, counts


def _between(times, since, until):
    """How many lie in between, both ends left out."""
    return max(0, bisect.bisect_left(times, until) - bisect.bisect_right(times, since))
