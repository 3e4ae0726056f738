"""Records that handlers sent through us: each effect once, and only of runs that succeeded. Imports nothing of ours.

Input: ``events`` and ``outputs`` as lists of dumped records of read_committed dumps (outputs with ``headers``, pairs of
name and bytes); ``planned`` says how many records the code of each run emits. Output: complaints and counts.
"""

import collections

from .records import decode
from .runs import MASK, follow


def check(events, outputs, planned):
    """I9: for each accepted success the effect ids <run id>/out/0 and on, each exactly once, and no others at all."""
    runs, _, _ = follow(events)
    said = {}
    for record in sorted(events, key=lambda each: (each["partition"], each["offset"])):
        _, event = decode(record["value"])
        run = runs.get(event["run_id"])
        if event["kind"] == "ATTEMPT_SUCCEEDED" and run and event["token"] & MASK == run["token"]:
            said.setdefault(event["run_id"], event["ended"]["emitted"])
    counts = collections.Counter({"records emitted": len(outputs)})
    seen = collections.Counter(dict(record["headers"])["ce_id"].decode() for record in outputs)
    complaints, wanted = [], set()
    for run_id, run in runs.items():
        if run["status"] != "SUCCEEDED" or run["nodes"] is not None:
            continue
        count = said.get(run_id, -1)
        if count != planned.get(run_id, 0):
            complaints.append(f"{run_id}: its outcome says {count} records, its code emits {planned.get(run_id, 0)}")
        wanted |= {f"{run_id}/out/{number}" for number in range(count)}
    complaints += [f"{effect}: never seen" for effect in sorted(wanted - seen.keys())]
    complaints += [f"{effect}: of no run that succeeded" for effect in sorted(seen.keys() - wanted)]
    complaints += [f"{effect}: seen {times} times" for effect, times in sorted(seen.items()) if times > 1]
    return complaints, counts
