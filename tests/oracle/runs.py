"""What became of every run: a second reducer of run-events, by the table of the design. Imports nothing of ours.

``events``: the dumped records ``{"partition", "offset", "timestamp_us", "key", "value"}`` of a read_committed dump.
"""

import collections
import typing

from .records import decode

MASK = (1 << 48) - 1
FINAL = ("SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED")
OUTCOMES = {
    "ATTEMPT_SUCCEEDED": "SUCCEEDED",
    "ATTEMPT_FAILED": "FAILED",
    "ATTEMPT_TIMED_OUT": "TIMED_OUT",
    "ATTEMPT_CANCELLED": "CANCELLED",
    "ATTEMPT_LOST": "LOST",
}
OF_NO_RUN = ("REVISED", "ANSWERED", "BACKFILL")
ONCE = ("STARTED", *OUTCOMES, "RETRYING", "RUN_FAILED", "RUN_EXPIRED")


class Told(typing.NamedTuple):
    """One event in its place: its record, what it says, and its run before and after it (after is None: ignored)."""

    record: dict
    event: dict
    before: dict | None
    after: dict | None


def tell(events):
    """Every event that speaks of a run, partition by partition and in the order of the log."""
    runs, told = {}, []
    for record in sorted(events, key=lambda each: (each["partition"], each["offset"])):
        _, event = decode(record["value"])
        if event["kind"] in OF_NO_RUN:
            continue
        before = runs.get(event["run_id"])
        after = step(before, event, record["offset"])
        if after:
            runs[event["run_id"]] = after | {"job_id": event["job_id"]}
        told.append(Told(record, event, before, after))
    return told


def follow(events):
    """(runs, complaints, counts). A run: status, attempt, outcome, worker, incarnation, token (an offset), reason."""
    runs, complaints, counts = {}, [], collections.Counter()
    ended, said = collections.Counter(), collections.Counter()
    for _, event, before, after in tell(events):
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
        runs[run_id] = after
    complaints += [f"{run} attempt {attempt}: {n} accepted outcomes" for (run, attempt), n in ended.items() if n > 1]
    complaints += [f"{run} attempt {attempt}: {n} times {kind}" for (run, attempt, kind, _), n in said.items() if n > 1]
    return runs, complaints, counts


def step(run, event, offset):
    """The run after the event; None where the event is ignored."""
    kind = event["kind"]
    if run is not None and run["status"] in FINAL and not gives_way(run, event):
        return None
    if kind in ("PENDING", "HELD", "SKIPPED"):
        return _decided(run, event)
    if run is None:
        return None
    if kind in OUTCOMES:
        return _outcome(run, event, OUTCOMES[kind])
    change = _CHANGES.get(kind, lambda *_: None)(run, event, offset)
    return None if change is None else {**run, **change}


def is_of_backfill(event):
    """Whether it makes a run of a past fire, because somebody asked."""
    return event["kind"] == "PENDING" and (event["pending"] or {}).get("origin") == "BACKFILL"


def gives_way(run, event):
    """The one final status that changes: a backfill runs a fire that was skipped."""
    return run["status"] == "SKIPPED" and is_of_backfill(event)


def is_open(run):
    """An attempt of it has begun and not ended."""
    return run["status"] == "RUNNING" and run["outcome"] == "NONE"


def _waits(run):
    return run["status"] in ("PENDING", "RETRYING")


def _started(run, event, offset):
    if not _waits(run) or run["held"] or event["attempt"] != run["attempt"] + 1:
        return None
    claim = {name: event[name] for name in ("attempt", "worker", "incarnation")}
    return {**claim, "token": offset, "status": "RUNNING", "outcome": "NONE"}


def _verdict(run, event, _):
    again = event["kind"] == "RETRYING"
    undecided = run["status"] == "RUNNING" and run["outcome"] != "NONE"
    if not undecided or event["attempt"] != run["attempt"] + again:
        return None
    return {"status": "RETRYING"} if again else {"status": "FAILED", "reason": event["reason"]}


def _expired(run, event, _):
    return {"status": "FAILED", "held": False, "reason": event["reason"]} if _waits(run) else None


def _cancel(run, _event, _):
    if is_open(run):
        return None if run["cancel"] else {"cancel": True}
    return {"cancel": True, "held": False, "status": "CANCELLED"}


_CHANGES = {
    "STARTED": _started,
    "RETRYING": _verdict,
    "RUN_FAILED": _verdict,
    "RUN_EXPIRED": _expired,
    "CANCEL_REQUESTED": _cancel,
}


def _decided(run, event):
    if run is not None and not gives_way(run, event) and (not run["held"] or event["kind"] == "HELD"):
        return None
    skipped = event["kind"] == "SKIPPED"
    return {
        "status": "SKIPPED" if skipped else "PENDING",
        "held": event["kind"] == "HELD",
        "cancel": False,
        "attempt": 0,
        "outcome": "NONE",
        "worker": "",
        "incarnation": 0,
        "token": -1,
        "reason": event["reason"],
        "skipped_count": event["skipped"]["fire_count"] if skipped else 0,
    }


def _outcome(run, event, outcome):
    owner = event["worker"] == run["worker"] and event["token"] & MASK == run["token"]
    if not is_open(run) or event["attempt"] != run["attempt"] or not owner:
        return None
    if outcome == "SUCCEEDED":
        return {**run, "outcome": outcome, "status": "SUCCEEDED"}
    return {**run, "outcome": outcome, "status": "CANCELLED" if run["cancel"] else "RUNNING"}
