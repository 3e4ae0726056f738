"""Waits between attempts, and before first ones: never early, and how late. Imports nothing of ours.

Input: a Chronicle. A retry's wait ends with its STARTED, by its worker's clock, which here is everybody's.
"""

import typing


class Wait(typing.NamedTuple):
    """One retry: which attempt, how long it was to wait, how late it began (negative: early), all in microseconds."""

    run_id: str
    attempt: int
    delay_us: int
    late_us: int


def retries(chronicle):
    """(waits, complaints): every accepted RETRYING and the claim that followed it; one without a claim is told."""
    waits, complaints = [], []
    for (run_id, attempt), retry in chronicle.retries.items():
        claim = chronicle.claims.get((run_id, attempt))
        if claim is None:
            if chronicle.runs[run_id]["status"] not in ("CANCELLED", "FAILED"):
                complaints.append(f"{run_id}: attempt {attempt} was promised and never began")
            continue
        waits.append(Wait(run_id, attempt, retry["delay_us"], claim.at - retry["due_at"]))
        if claim.at < retry["due_at"]:
            complaints.append(f"{run_id}: attempt {attempt} began {retry['due_at'] - claim.at} us early")
    return waits, complaints


def earliest(chronicle, wait_us_of):
    """{(run, attempt): instant} before which it must not begin: the end of the one before, and the wait of its job.

    ``wait_us_of`` a job: what its policy asks for. What the router made of it plays no part.
    """
    return {
        (run_id, attempt + 1): end.stamp + wait_us_of(chronicle.runs[run_id]["job_id"])
        for (run_id, attempt), end in chronicle.ends.items()
        if end.kind != "ATTEMPT_SUCCEEDED"
    }


def after(chronicle, earliest_at):
    """(late, complaints): {(run, attempt): by how many microseconds its claim came later}; those that came before."""
    late = {key: claim.at - earliest_at[key] for key, claim in chronicle.claims.items() if key in earliest_at}
    complaints = [f"{run_id}: attempt {n} began {-us} us too soon" for (run_id, n), us in late.items() if us < 0]
    return late, complaints


def first_attempts(chronicle, since=0, until=1 << 62):
    """{run id: microseconds from due to the first STARTED} of runs due in [since, until) by the timeline."""
    return {
        run_id: chronicle.claims[run_id, 1].at - due
        for run_id, due in chronicle.due.items()
        if due is not None and since <= due < until and (run_id, 1) in chronicle.claims
    }
