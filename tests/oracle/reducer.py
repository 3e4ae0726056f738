"""What an event makes of runs: a second reducer of run-events, by the table of the design. Imports nothing of ours.

A run is a dict. A DagRun's ``nodes`` are the ids of its nodes, in the order of the log; of any other run it is None.
"""

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
BIRTHS = ("PENDING", "HELD", "SKIPPED", "NODE_SKIPPED")
PAUSES = {"DAG_PAUSED": True, "DAG_RESUMED": False}
DAG_ENDS = {"DAG_SUCCEEDED": "SUCCEEDED", "DAG_FAILED": "FAILED"}


def changes(runs, event, offset):
    """By run id the runs that the event changes, as they are after it; nothing where it is ignored."""
    run_id, kind = event["run_id"], event["kind"]
    dag_id, _, node = run_id.partition("/")
    run, dag = runs.get(run_id), runs.get(dag_id) if node else None
    if run and run["nodes"] is not None:
        return _dag_run_changes(runs, run_id, run, event)
    if node and kind in BIRTHS:
        is_wanted = run is None and dag and dag["nodes"] is not None and dag["status"] not in FINAL
        is_wanted = is_wanted and not _ending(dag) and kind in ("PENDING", "NODE_SKIPPED")
        after = _born(event) if is_wanted else None
    else:
        after = _step(run, event, offset)
    if not after:
        return {}
    found = {run_id: after}
    if dag and dag["nodes"] is not None:
        dag["nodes"][run_id] = True
        if dag["status"] not in FINAL:
            found[dag_id] = {**dag, "status": "RUNNING"}
            if _ending(dag) and not any(is_open(found.get(each) or runs[each]) for each in dag["nodes"]):
                found[dag_id] = {**dag, "status": _fate(dag)}
    return found


def is_of_backfill(event):
    """Whether it makes a run of a past fire, because somebody asked."""
    return event["kind"] == "PENDING" and (event["pending"] or {}).get("origin") == "BACKFILL"


def gives_way(run, event):
    """The one final status that changes: a backfill runs a fire that was skipped."""
    return run["status"] == "SKIPPED" and is_of_backfill(event)


def is_open(run):
    """An attempt of it has begun and not ended."""
    return run["status"] == "RUNNING" and run["outcome"] == "NONE" and run["nodes"] is None


def _dag_run_changes(runs, run_id, run, event):
    kind, nodes = event["kind"], {each: runs[each] for each in run["nodes"]}
    if run["status"] in FINAL:
        return {}
    if kind in DAG_ENDS:
        is_over = not _ending(run) and all(node["status"] in FINAL for node in nodes.values())
        return {run_id: {**run, "status": DAG_ENDS[kind], "reason": event["reason"]}} if is_over else {}
    if kind == "CANCEL_REQUESTED" and not _ending(run):
        word, fate, run = "cancel", "CANCELLED", {**run, "cancel": True}
    elif kind == "RUN_EXPIRED" and not _ending(run):
        word, fate, run = "expired", "FAILED", {**run, "expired": True, "reason": event["reason"]}
    elif kind in PAUSES and run["paused"] != PAUSES[kind] and not _ending(run):
        return {run_id: {**run, "paused": PAUSES[kind]}}
    else:
        return {}
    if not any(map(is_open, nodes.values())):
        run = {**run, "status": _fate(run)}
    going = {each: node for each, node in nodes.items() if node["status"] not in FINAL}
    return {run_id: run} | {
        each: {**node, word: True, "status": "RUNNING" if is_open(node) else fate} for each, node in going.items()
    }


def _ending(run):
    return run["cancel"] or run["expired"]


def _fate(run):
    return "FAILED" if run["expired"] else "CANCELLED"


def _step(run, event, offset):
    kind = event["kind"]
    if run is not None and gives_way(run, event):
        return _born(event)
    if run is not None and run["status"] in FINAL:
        return None
    if kind in ("PENDING", "HELD", "SKIPPED"):
        return _born(event) if run is None or (run["held"] and kind != "HELD") else None
    if run is None:
        return None
    if kind in OUTCOMES:
        return _outcome(run, event, OUTCOMES[kind])
    change = _CHANGES.get(kind, lambda *_: None)(run, event, offset)
    return None if change is None else {**run, **change}


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


_CHANGES = {"STARTED": _started, "RETRYING": _verdict, "RUN_FAILED": _verdict, "RUN_EXPIRED": _expired,
            "CANCEL_REQUESTED": _cancel}  # fmt: skip


def _born(event):
    detail = event["pending"] if event["kind"] == "PENDING" and "/" not in event["run_id"] else None
    is_dag = detail is not None and detail["dag"] is not None
    return {
        "status": "SKIPPED" if event["kind"] in ("SKIPPED", "NODE_SKIPPED") else "PENDING",
        "held": event["kind"] == "HELD",
        **dict.fromkeys(("cancel", "expired", "paused"), False),
        **dict.fromkeys(("attempt", "incarnation"), 0),
        "outcome": "NONE",
        "worker": "",
        "token": -1,
        "reason": event["reason"],
        "skipped_count": event["skipped"]["fire_count"] if event["kind"] == "SKIPPED" else 0,
        "nodes": {} if is_dag else None,
    }


def _outcome(run, event, outcome):
    owner = event["worker"] == run["worker"] and event["token"] & MASK == run["token"]
    if not is_open(run) or event["attempt"] != run["attempt"] or not owner:
        return None
    if outcome == "SUCCEEDED":
        return {**run, "outcome": outcome, "status": "SUCCEEDED"}
    ending = "CANCELLED" if run["cancel"] else "FAILED" if run["expired"] else "RUNNING"
    return {**run, "outcome": outcome, "status": ending}
