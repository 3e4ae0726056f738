"""Who is to stop is asked to: attempts whose time is over.

Imports nothing of ours. Input: the ledger of what workers had in hand, rows ``{"run_id", "attempt", "token",
"process", "policy", "at", "at_s", "asked_at_s", "asked_turns", "gone_turns"}`` (-1: never), and the turns of each
process, ``(at, at_s)``: by the brokers' clock in microseconds, and in seconds by one that nobody moves. Whoever is
asked in a turn is asked before it is noted, and what is taken in it afterwards: so the numbers of turns tell in which
order things happened within a process.
"""

import bisect
import collections
import json

from .records import decode

NEVER = -1
MASK = (1 << 48) - 1
BY_THE_WORKER = "the attempt did not end within"
"""What a worker says of an attempt that it has stopped; user code that gives up by itself says something else."""


def overdue(in_hand, turns):
    """(complaints, counts): no attempt goes on over its time without being asked to stop.

    The second turn behind that instant is the last in which it may be asked: a step takes some time, too.
    """
    complaints, counts = [], collections.Counter()
    for row in in_hand:
        limit_us = _limit_us(row)
        mine = turns[row["process"]]
        last = 1 + bisect.bisect_left([at_s for _, at_s in mine], row["at_s"] + limit_us / 1_000_000)
        if not limit_us or last >= len(mine) or NEVER < row["gone_turns"] <= last:
            continue
        counts["attempts over their time"] += 1
        if not NEVER < row["asked_turns"] <= last:
            over_s = mine[last][1] - row["at_s"]
            complaints.append(
                f"{row['run_id']} attempt {row['attempt']}: {over_s:.3f} s in the hands of {row['process']}, of "
                f"{limit_us / 1_000_000:g} s that it may have, and not asked to stop"
            )
    return complaints, counts


def timed_out(events, in_hand):
    """(complaints, counts): who is said to have been stopped for its time had a limit, and as long as that."""
    complaints, counts = [], collections.Counter()
    rows = _by_claim(in_hand)
    for record in events:
        _, event = decode(record["value"])
        if event["kind"] != "ATTEMPT_TIMED_OUT" or not event["ended"]["error_message"].startswith(BY_THE_WORKER):
            continue
        counts["attempts timed out by their worker"] += 1
        row = rows.get((event["run_id"], event["attempt"], event["token"] & MASK))
        limit_us = _limit_us(row) if row else 0
        took_s = row["asked_at_s"] - row["at_s"] if row and row["asked_turns"] != NEVER else 0.0
        if not limit_us or took_s * 1_000_000 < limit_us - 1:
            complaints.append(
                f"{event['run_id']} attempt {event['attempt']}: timed out at {record['offset']} after {took_s:.3f} s, "
                f"it may have {limit_us / 1_000_000:g} s (0: any)"
            )
    return complaints, counts


def _limit_us(row):
    return json.loads(row["policy"]).get("attempt_timeout_us", 0) if row["policy"] else 0


def _by_claim(in_hand):
    return {(row["run_id"], row["attempt"], row["token"] & MASK): row for row in in_hand}
