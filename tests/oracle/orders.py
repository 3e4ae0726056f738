"""Cancels and expiries: told to control before run-events, each command obeyed once. Imports nothing of ours.

Input: dumped ``commands``, ``events`` and ``control``. What a cancel came to, the reducer says; here is what had to be
put out, and in which order. Two topics have no common order but time: the records' times, in microseconds, must be of
one clock, the brokers', as in memory and where a check creates both topics with LogAppendTime. The product itself
leaves them CreateTime: then this judge sees in which order a dispatcher wrote, not in which its records arrived.
"""

import collections

from . import owed
from .records import decode

TURNS = {"DAG_PAUSED": "PAUSE_RUN", "DAG_RESUMED": "RESUME_RUN"}
"""By event: the command that asks for it."""


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
    passed, asked = _given(commands, rules), collections.Counter()
    complaints += _turns(events, passed, counts)
    for kind, run_id in passed:
        asked[run_id] += passed[kind, run_id] if kind == "CANCEL" else 0
    for run_id in asked.keys() | {run_id for kind, run_id in said if kind == "CANCEL_REQUESTED"}:
        found = len(said["CANCEL_REQUESTED", run_id]) - by_policy[run_id]
        if found != asked[run_id]:
            complaints.append(f"{run_id}: {asked[run_id]} cancels were sent, {found} were passed on")
    return complaints, counts


def _turns(events, passed, counts):
    """Each pause of a DagRun, and each end of one, is passed on once, and nobody else says so."""
    said = collections.Counter()
    for record in events:
        _, event = decode(record["value"])
        if event["kind"] in TURNS:
            said[TURNS[event["kind"]], event["run_id"]] += 1
    counts["turns of DagRuns passed on"] += said.total()
    for kind, run_id in sorted(said.keys() | {key for key in passed if key[0] in TURNS.values()}):
        if said[kind, run_id] != passed[kind, run_id]:
            yield f"{run_id}: {passed[kind, run_id]} times {kind} was sent, {said[kind, run_id]} were passed on"


def _given(commands, rules):
    """{(kind, run): how many commands had to be passed on}: all but repeats and what is refused."""
    found = collections.Counter()
    for given in owed.by_job(commands).values():
        verdicts = owed.versions(given, {}, rules).verdicts
        for command in given:
            record = command["record"]
            is_meant = record["kind"] in ("CANCEL", *TURNS.values())
            if is_meant and verdicts[command["offset"]].word == "applied":
                found[record["kind"], record["run_id"]] += 1
    return found
