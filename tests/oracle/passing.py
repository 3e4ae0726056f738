"""Where job events went: each into ``commands`` or ``rejects``, once. Imports nothing of ours.

Input: dumps of ``job-events``, ``commands`` and ``rejects``. A command that the intake made of an event without an id
of its own is named after the event's place, ``job-events/<partition>/<offset>``; a reject tells its source.
"""

import collections

from .records import decode


def check(topic, job_events, commands, rejects):
    """(complaints, counts): the places of ``job_events`` are those that went on, one for one."""
    sent = {(record["partition"], record["offset"]) for record in job_events}
    gone, counts = collections.Counter(), collections.Counter()
    for record in commands:
        where, _, offset = decode(record["value"])[1]["command_id"].rpartition("/")
        source, _, partition = where.rpartition("/")
        if source and topic.endswith(f".{source}"):
            gone[int(partition), int(offset)] += 1
            counts["became commands"] += 1
    for record in rejects:
        source = decode(record["value"])[1]["source"]
        if source and source["topic"] == topic:
            gone[source["partition"], source["offset"]] += 1
            counts["were rejected"] += 1
    complaints = [f"job event {place}: went on {n} times" for place, n in sorted(gone.items()) if n > 1]
    complaints += [f"job event {place}: went nowhere" for place in sorted(sent - gone.keys())]
    complaints += [f"job event {place}: went on, and was never sent" for place in sorted(gone.keys() - sent)]
    complaints += [] if sent else ["an empty history: nothing was sent"]
    counts["job events"] = len(sent)
    return complaints, counts
