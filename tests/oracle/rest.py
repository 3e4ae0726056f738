"""At rest everything adds up: runs, work records, dead letters, history. Imports nothing of ours.

Input: a Chronicle and dumps of what must agree with it, each taken when nothing moved any more.
"""

import collections

from .records import decode
from .runs import FINAL


def conservation(chronicle):
    """(complaints, counts): created = succeeded + failed + cancelled, and skipped apart."""
    counts = chronicle.statuses()
    withdrawn = {run_id for run_id in chronicle.held if chronicle.runs[run_id]["status"] == "CANCELLED"}
    created = len(chronicle.pending.keys() | withdrawn)
    ended = counts["SUCCEEDED"] + counts["FAILED"] + counts["CANCELLED"]
    complaints = [] if created == ended else [f"{created} runs were created, {ended} have ended"]
    complaints += [] if created else ["an empty history: nothing was created"]
    return complaints, counts | {"created": created}


def letters(chronicle, dumped):
    """(complaints, counts): a dead letter for each run that was given up, once, and for no other."""
    found = collections.Counter(decode(record["value"])[1]["run_id"] for record in dumped)
    wanted = set(chronicle.verdicts)
    complaints = [f"{run_id}: given up, and no dead letter" for run_id in sorted(wanted - found.keys())]
    complaints += [f"{run_id}: a dead letter, and not given up" for run_id in sorted(found.keys() - wanted)]
    complaints += [f"{run_id}: {n} dead letters" for run_id, n in sorted(found.items()) if n > 1]
    failed = {run_id for run_id, run in chronicle.runs.items() if run["status"] == "FAILED"}
    complaints += [f"{run_id}: FAILED without a verdict, or the other way" for run_id in sorted(failed ^ wanted)]
    return complaints, collections.Counter(kind for kind, _ in chronicle.verdicts.values())


def history(chronicle, rows):
    """(complaints, counts) of ``rows``, {run id: status} of the projection: the fold's own statuses, one for one."""
    wanted = {run_id: run["status"] for run_id, run in chronicle.runs.items()}
    other = sorted(run_id for run_id in rows.keys() | wanted.keys() if rows.get(run_id) != wanted.get(run_id))
    complaints = [f"{run_id}: {rows.get(run_id)}, the log says {wanted.get(run_id)}" for run_id in other]
    return complaints, collections.Counter(rows.values())


def cancels(chronicle, asked):
    """(complaints, counts) of cancels: who won each, as the log says. ``asked``: run ids that a cancel was sent for."""
    complaints, counts = [], collections.Counter()
    for run_id in asked:
        said = chronicle.cancels.get(run_id, [])
        accepted = [cancel for cancel in said if cancel.accepted]
        if not said:
            complaints.append(f"{run_id}: a cancel was sent, and none stands in the log")
            continue
        if len(accepted) > 1:
            complaints.append(f"{run_id}: {len(accepted)} cancels were accepted")
        run = chronicle.runs.get(run_id)
        if run is None:
            counts["of a run that never was"] += 1
            continue
        counts[_moment(accepted[0] if accepted else said[0], run)] += 1
        if accepted and run["status"] == "FAILED":
            complaints.append(f"{run_id}: cancelled, and FAILED")
        if run["status"] == "CANCELLED" and not accepted and not _asked_with_its_dag(chronicle, run_id):
            complaints.append(f"{run_id}: CANCELLED without an accepted cancel")
    cancelled = [run_id for run_id, run in chronicle.runs.items() if run["status"] == "CANCELLED"]
    unasked = [run_id for run_id in cancelled if run_id not in chronicle.cancels]
    complaints += [f"{run_id}: CANCELLED, and nobody asked" for run_id in unasked
                   if not _asked_with_its_dag(chronicle, run_id)]  # fmt: skip
    return complaints, counts


def _asked_with_its_dag(chronicle, run_id):
    """Whether a node's DagRun was cancelled."""
    return "/" in run_id and any(cancel.accepted for cancel in chronicle.cancels.get(run_id.partition("/")[0], ()))


def _moment(cancel, run):
    """Where in its run's story a cancel stands, by the order of the log."""
    if cancel.status is None:
        return "before the run was decided"
    if cancel.status in FINAL:
        return "after the end"
    if cancel.attempt_open:
        return f"of a claimed run, which ended {run['status']}"
    return "before the claim" if cancel.status == "PENDING" else "between two attempts"
