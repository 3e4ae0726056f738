"""What tables must say of DagRuns: the log's word, node by node."""

from __future__ import annotations

from tests.oracle.records import decode

from .dumps import Counts, Dumps, owed_id

COUNTS_AS = {"SUCCEEDED": "SUCCEEDED", "FAILED": "FAILED", "CANCELLED": "FAILED"}


def rows_of_dags_equal_the_log(dumps: Dumps, counts: Counts) -> list[str]:
    """I10: at rest every node run of a DagRun has one row, which says what the log says, and there are no others."""
    followed, _, _ = dumps.followed
    skipped = _skipped(dumps)
    meant = {}
    for run_id, run in followed.items():
        if "/" in run_id:
            end = skipped.get(run_id, "") if run["status"] == "SKIPPED" else COUNTS_AS.get(run["status"], "")
            meant[run_id] = run["status"], run["outcome"], run["attempt"], end
    names = ("status", "outcome", "attempt", "counts_as")
    found = {row["run_id"]: tuple(row[name] for name in names) for row in dumps.nodes}
    counts["rows of nodes"] += len(found)
    complaints = [
        f"I10 {run_id}: its row says {found.get(run_id)}, the log {meant.get(run_id)}"
        for run_id in sorted(found.keys() | meant.keys(), key=str)
        if found.get(run_id) != meant.get(run_id)
    ]
    dag_runs = _dag_runs(dumps)
    for row in dumps.runs:
        run = followed.get(owed_id(row))
        if run is None or row["status"] == "SKIPPED":
            continue  # the first is another complaint; a fire that makes no run is neither
        said, is_so = (row["is_dag"], row["paused"]), (owed_id(row) in dag_runs, bool(run["paused"]))
        if said != is_so:
            complaints.append(f"I10 {owed_id(row)}: its row says DagRun, paused {said}, the log {is_so}")
    return complaints


_BY_ITSELF = ("SUCCEEDED", "FAILED")
_GIVEN_UP = ("expired", "revision-gone", "rerun-gone")


def pictures_of_dags_are_whole(dumps: Dumps, counts: Counts) -> list[str]:
    """I10: by what people are shown of a DagRun that ended by itself nothing is left to do, and it ended just so."""
    complaints = []
    for seen in dumps.pictures:
        if seen["status"] not in _BY_ITSELF or seen["cancel"] or seen["reason"] in _GIVEN_UP:
            continue
        counts["pictures of DagRuns"] += 1
        said = (seen["known"], seen["owed"], seen["succeeded"])
        if said != (True, [], seen["status"] == "SUCCEEDED"):
            complaints.append(
                f"I10 {seen['run_id']}: {seen['status']}, and its picture (known, owed, well) says {said}"
            )
        if not seen["path"]:
            complaints.append(f"I10 {seen['run_id']}: {seen['status']}, and nothing took longest")
    return complaints


def _dag_runs(dumps: Dumps) -> set[str]:
    """Also those that only waited."""
    events = (decode(record["value"])[1] for record in dumps.events)
    return {event["run_id"] for event in events if event["pending"] and event["pending"]["dag"] is not None}


def _skipped(dumps: Dumps) -> dict[str, str]:
    """By node run that never ran what it counts as: the first word on it, for all others are ignored."""
    found: dict[str, str] = {}
    for record in dumps.events:
        _, event = decode(record["value"])
        if event["kind"] == "NODE_SKIPPED":
            found.setdefault(event["run_id"], event["node_skipped"]["counts_as"])
    return found
