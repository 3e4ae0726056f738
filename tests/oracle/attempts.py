"""Attempts of every run: 1, 2, 3 without a hole, one at a time, no more than allowed. Imports nothing of ours.

Input: a Chronicle, and how many attempts a run of each job may have. An attempt that was handed back (class
``drained``) has its number, and costs none of them.
"""

import collections

from .runs import FINAL


def check(chronicle, limit_of=lambda job_id: 4):  # noqa: ARG005
    """(complaints, counts): I2 and I6 at rest, for runs in the chronicle."""
    complaints = list(chronicle.complaints)
    counts = collections.Counter()
    attempts = collections.defaultdict(list)
    for run_id, attempt in chronicle.claims:
        attempts[run_id].append(attempt)
    if not chronicle.runs:
        complaints.append("an empty history: no run was made")
    for run_id, run in chronicle.runs.items():
        if run["status"] not in FINAL:
            complaints.append(f"{run_id}: {run['status']} at rest, attempt {run['attempt']}, outcome {run['outcome']}")
        numbers = sorted(attempts[run_id])
        if numbers != list(range(1, len(numbers) + 1)):
            complaints.append(f"{run_id}: attempts {numbers}")
        ends = [chronicle.ends.get((run_id, attempt)) for attempt in numbers]
        complaints += [f"{run_id}: attempt {n} has no end" for n, end in enumerate(ends, 1) if end is None]
        spent = sum(1 for end in ends if end is not None and end.error_class != "drained")
        allowed = limit_of(run["job_id"])
        if spent > allowed:
            complaints.append(f"{run_id}: {spent} attempts, {allowed} are allowed")
        counts[f"runs of {len(numbers)} attempts"] += 1
        complaints += _order(chronicle, run_id, numbers)
    return complaints, counts


def _order(chronicle, run_id, numbers):
    """Each attempt begins after the end of the one before, and under a higher token."""
    wrong = []
    for attempt in numbers[1:]:
        before = chronicle.ends.get((run_id, attempt - 1))
        if before is None or before.offset >= chronicle.claims[run_id, attempt].token:
            wrong.append(f"{run_id}: attempt {attempt} began before the end of the one before")
    return wrong
