"""Who is to stop is asked to: attempts whose time is over, and those that a cancel has reached.

Imports nothing of ours. Input: the ledger of what workers had in hand, rows ``{"run_id", "attempt", "token",
"process", "policy", "at", "at_s", "asked_at_s", "asked_turns", "gone_turns"}`` (-1: never), and the turns of each
process, ``(at, at_s)``: by the brokers' clock in microseconds, and in seconds by one that nobody moves. Whoever is
asked in a turn is asked before it is noted, and what is taken in it afterwards: so the numbers of turns tell in which
order things happened within a process.
"""

import bisect
import collections
import json
import typing

from .records import decode
from .runs import is_open, tell_all

NEVER = -1
MASK = (1 << 48) - 1
ASKS = ("CANCEL_REQUESTED", "RUN_EXPIRED")
"""Behind the second a run is open only where it is a node, and the time of its DagRun is over."""

BY_THE_WORKER = "the attempt did not end within"
"""What a worker says of an attempt that it has stopped; user code that gives up by itself says something else."""

HEARD_US = 4_000_000
"""From when on nothing stands before a cancel. Of 130 seeds the slowest was heard after 3.6 s, in small slices."""

AT_ONCE_US = 3_000_000
"""So soon its worker looks up to where it has to read on; who holds readers up from later on does so in vain."""


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


class Heard(typing.NamedTuple):
    """What cancels are held against, beside the log. ``control``: its dump, with ``stable_us``, when readers could come
    to a record; ``held_up``: (partition of run-events, from, to) where a long transaction held readers up;
    ``turns_max``: how many turns a worker may need to read what lies before a cancel."""

    in_hand: list
    turns: dict
    control: list
    held_up: list
    turns_max: int


def unheard(events, ends, heard):
    """(complaints, counts): a cancel reaches the user code of each attempt that it finds running, a DagRun's nodes too.

    ``ends``: {(run, attempt): its accepted end}. Whoever ended, was called lost or was dropped by then needs no asking.
    What waits and what stands still has no turns. So does the end of a DagRun's time, which is a cancel of its nodes.
    """
    complaints, counts = [], collections.Counter()
    rows, said = _by_claim(heard.in_hand), _said(heard.control)
    for told, others in tell_all(events):
        run_id = told.event["run_id"]
        if told.event["kind"] not in ASKS or told.after is None:
            continue
        readable_at = _readable_at(told.record, said[run_id])
        for each, run in {run_id: told.after, **others}.items():
            row = rows.get((each, run["attempt"], run["token"])) if run["nodes"] is None and is_open(run) else None
            if row is None:
                continue  # its worker has died before its code began
            of = "a node" if each != run_id else "a run"
            counts[f"cancels of {of} that was in hand"] += 1
            at = _free_at(max(readable_at, row["at"]), told.record["partition"], heard.held_up)
            mine = [turn[0] for turn in heard.turns[row["process"]]]
            last = max(bisect.bisect_left(mine, at) + heard.turns_max, bisect.bisect_left(mine, at + HEARD_US))
            end = ends.get((each, run["attempt"]))
            if NEVER < row["asked_turns"] <= last:
                counts[f"cancels that reached {of}"] += 1
            elif last < len(mine) and not NEVER < row["gone_turns"] <= last and not (end and end.stamp <= mine[last]):
                why = f"{told.event['kind']} at {told.record['offset']}"
                complaints.append(
                    f"{each} attempt {run['attempt']}: {why}, to be read from {at} on, "
                    f"and not asked to stop by {mine[last]} in the hands of {row['process']}"
                )
    return complaints, counts


def _limit_us(row):
    return json.loads(row["policy"]).get("attempt_timeout_us", 0) if row["policy"] else 0


def _by_claim(in_hand):
    return {(row["run_id"], row["attempt"], row["token"] & MASK): row for row in in_hand}


def _said(control):
    """{run: what control says of cancels of it}."""
    found = collections.defaultdict(list)
    for record in control:
        _, body = decode(record["value"])
        if body["kind"] in ASKS:
            found[body["run_id"]].append(record)
    return found


def _readable_at(record, said):
    """From when on a worker could read the cancel on control, and on run-events."""
    at = record["timestamp_us"]
    stable = [each["stable_us"] for each in said if each["timestamp_us"] <= at]
    return max([at, record.get("readable_us", at), *stable])


def _free_at(at, partition, held_up):
    """When readers were held up no more."""
    for number, begins, ends in held_up:
        if number == partition and begins <= at + AT_ONCE_US:
            at = max(at, ends)
    return at
