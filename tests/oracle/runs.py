"""What became of every run, by a reducer of our own (``reducer.py``). Imports nothing of ours.

``events``: the dumped records ``{"partition", "offset", "timestamp_us", "key", "value"}`` of a read_committed dump.
"""

import collections
import typing

from .records import decode
from .reducer import (
    DAG_ENDS,
    FINAL,
    MASK,
    OF_NO_RUN,
    OUTCOMES,
    changes,
    gives_way,
    is_of_backfill,
    is_open,
)

__all__ = [
    "FINAL",
    "MASK",
    "OF_NO_RUN",
    "OUTCOMES",
    "Told",
    "follow",
    "gives_way",
    "is_of_backfill",
    "is_open",
    "tell",
    "tell_all",
]

ONCE = ("STARTED", *OUTCOMES, "RETRYING", "RUN_FAILED", "RUN_EXPIRED", *DAG_ENDS, "NODE_SKIPPED")


class Told(typing.NamedTuple):
    """One event in its place: its record, what it says, and its run before and after it (after is None: ignored)."""

    record: dict
    event: dict
    before: dict | None
    after: dict | None


def tell(events):
    """Every event that speaks of a run, partition by partition and in the order of the log."""
    return [told for told, _ in tell_all(events)]


def tell_all(events):
    """The same, each with what it made of other runs, by run id: of a DagRun's nodes, or of a node's DagRun.

    The last reading is kept: judges ask one after the other, and none of them changes it.
    """
    if not _LAST or _LAST[0] is not events or _LAST[1] != len(events):
        _LAST[:] = [events, len(events), _tell_all(events)]
    return _LAST[2]


_LAST = []


def _tell_all(events):
    runs, told = {}, []
    for record in sorted(events, key=lambda each: (each["partition"], each["offset"])):
        _, event = decode(record["value"])
        if event["kind"] in OF_NO_RUN:
            continue
        before = runs.get(event["run_id"])
        found = {
            run_id: run | {"job_id": event["job_id"]} for run_id, run in changes(runs, event, record["offset"]).items()
        }
        runs |= found
        after = found.pop(event["run_id"], None)
        told.append((Told(record, event, before, after), found))
    return told


def follow(events):
    """(runs, complaints, counts). A run: status, attempt, outcome, worker, incarnation, token (an offset), reason."""
    runs, complaints, counts = {}, [], collections.Counter()
    ended, said = collections.Counter(), collections.Counter()
    for (_, event, before, after), others in tell_all(events):
        kind, run_id = event["kind"], event["run_id"]
        counts["accepted" if after else "ignored"] += 1
        if kind in ONCE:
            said[run_id, event["attempt"], kind, event["token"]] += 1
        if not after:
            continue
        if (
            before
            and before["status"] in FINAL
            and after["status"] != before["status"]
            and not gives_way(before, event)
        ):
            complaints.append(f"{run_id}: {before['status']} became {after['status']}")
        if kind in OUTCOMES:
            ended[run_id, event["attempt"]] += 1
        runs |= {run_id: after, **others}
    complaints += [f"{run} attempt {attempt}: {n} accepted outcomes" for (run, attempt), n in ended.items() if n > 1]
    complaints += [f"{run} attempt {attempt}: {n} times {kind}" for (run, attempt, kind, _), n in said.items() if n > 1]
    return runs, complaints, counts
