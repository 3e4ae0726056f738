"""What a reconciler had to do at all, by what it leaves behind: it should be nothing. Imports nothing of ours.

Input: a Chronicle; dumps of all ``work`` and of ``beats``; ``told``, {partition: (offset, text)} of the positions
that the retry router has committed on run-events. Its four deeds: work handed out again, a verdict asked for again, a
run ended because its work is gone, a beat in the name of a worker that ``leases`` does not know.
"""

import collections
import re

from .records import decode

VERDICT_WITHIN_US = 10_000_000
"""From the end of an attempt to its verdict; the reconciler asks again after half a minute."""

WORK_GONE = "work-record-gone"
_TOLD = re.compile(r"fold-from=\d+(?: repairs=(\d+))?")


def check(chronicle, work, beats, told, hidden_us=0):
    """(complaints, counts). ``hidden_us``: for how long a dead worker's open transaction may hide the log's end."""
    counts = collections.Counter()
    complaints = _counted(told, counts)
    for (run_id, attempt), n in handed_out_twice(work).items():
        counts["work handed out again"] += 1
        complaints.append(f"{run_id}: work of attempt {attempt} was handed out {n} times")
    for run_id, (kind, reason) in chronicle.verdicts.items():
        if reason == WORK_GONE:
            counts["ended without work"] += 1
            complaints.append(f"{run_id}: {kind}, {reason}")
    for record in beats:
        beat = decode(record["value"])[1]
        if not beat["transactional_id"]:
            counts["beats in another's name"] += 1
            complaints.append(f"{beat['worker']}: a beat in its name, at {record['partition']}@{record['offset']}")
    for key, took_us in verdict_waits(chronicle).items():
        if took_us > VERDICT_WITHIN_US + hidden_us:
            counts["late verdicts"] += 1
            complaints.append(f"{key[0]}: the verdict on attempt {key[1]} came {took_us} us after its end")
    return complaints, counts


def handed_out_twice(work):
    """{(run, attempt): how often} of work that was handed out more than once: a repair, or a tear."""
    asked = collections.Counter()
    for record in work:
        body = decode(record["value"])[1]
        asked[body["run_id"], body["attempt"]] += 1
    return {key: n for key, n in asked.items() if n > 1}


def verdict_waits(chronicle):
    """{(run, attempt): microseconds from its end to the verdict on it}, of those that needed one."""
    return {key: at - chronicle.ends[key].stamp for key, at in chronicle.judged.items() if key in chronicle.ends}


def _counted(told, counts):
    """What the router has counted itself, which rides with its positions for ever."""
    complaints = []
    for partition, (offset, text) in sorted(told.items()):
        found = _TOLD.fullmatch(text)
        if found:
            counts["positions that tell of repairs"] += 1
            counts["repairs"] += int(found[1] or 0)
        elif offset > 0:
            complaints.append(f"partition {partition}: nothing is told of repairs in {text!r}")
        if found and found[1]:
            complaints.append(f"partition {partition}: {found[1]} repairs")
    if not counts["positions that tell of repairs"]:
        complaints.append("no position tells how much was repaired")
    return complaints
