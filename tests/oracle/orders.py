"""Cancels and expiries: told to control before run-events, each command obeyed once. Imports nothing of ours.

Input: dumped ``commands``, ``events`` and ``control``. What a cancel came to, the reducer says; here is what had to be
put out, and in which order. Two topics have no common order but time: the records' times, in microseconds, must be of
one clock, the brokers', as in memory and where a check creates both topics with LogAppendTime. The product itself
leaves them CreateTime: then this judge sees in which order a dispatcher wrote, not in which its records arrived.
"""

import collections

from . import owed
from .records import decode


def check(commands, events, control, rules=owed.Rules()):  # noqa: B008  # a value
    """(complaints, counts): every CANCEL_REQUESTED and RUN_EXPIRED has its control record, which stood there first."""
    complaints, counts = [], collections.Counter()
    told = collections.defaultdict(list)
    for record in control:
        _, body = decode(record["value"])
        told[body["kind"], body["run_id"]].append(record["timestamp_us"])
    said, by_policy = collections.defaultdict(list), collections.Counter()
    for record in events:
        _, event = decode(record["value"])
        if event["kind"] in ("CANCEL_REQUESTED", "RUN_EXPIRED"):
            said[event["kind"], event["run_id"]].append(record["timestamp_us"])
            by_policy[event["run_id"]] += event["reason"] in ("cancel_other", "terminate_other")
    for key, times in said.items():
        counts[key[0]] += len(times)
        first = sorted(told[key])
        if len(first) != len(times) or any(ahead > at for ahead, at in zip(first, sorted(times), strict=False)):
            complaints.append(f"{key[1]}: {key[0]} at {times}, told to control at {first}")
    complaints += [f"{run_id}: {kind} on control alone" for kind, run_id in told if (kind, run_id) not in said]
    asked = _asked(commands, rules)
    for run_id in asked.keys() | {run_id for kind, run_id in said if kind == "CANCEL_REQUESTED"}:
        found = len(said["CANCEL_REQUESTED", run_id]) - by_policy[run_id]
        if found != asked[run_id]:
            complaints.append(f"{run_id}: {asked[run_id]} cancels were sent, {found} were passed on")
    return complaints, counts


def _asked(commands, rules):
    """How many cancels of each run had to be passed on: all but repeats and what is refused."""
    asked = collections.Counter()
    for given in owed.by_job(commands).values():
        verdicts = owed.versions(given, {}, rules).verdicts
        for command in given:
            record = command["record"]
            asked[record["run_id"]] += record["kind"] == "CANCEL" and verdicts[command["offset"]].word == "applied"
    return +asked
