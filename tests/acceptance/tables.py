"""The readable projection against the log: runs, attempts, failures, jobs, row for row.

Numbers of statuses and outcomes are on-disk format, and written down here once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tests.acceptance.taken import Record, Row
from tests.oracle import jobs, projections
from tests.oracle import owed as judge
from tests.oracle.chronicle import Chronicle

MASK = judge.MASK
_STATUS = ("PENDING", "RUNNING", "RETRYING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED")
_OUTCOME = ("NONE", "SUCCEEDED", "FAILED", "TIMED_OUT", "LOST", "CANCELLED")
_JOB = ("ACTIVE", "PAUSED", "DELETED")

Found: TypeAlias = list[tuple[Any, Any]]
"""Key and content of every row, repeats and all."""


def runs_differ(chronicle: Chronicle, rows: Sequence[Row]) -> list[str]:
    """Complaints: ``runs`` holds one row for each run of the log, with its status, attempt, outcome and skips."""
    wanted = {
        run_id: (run["status"], run["attempt"], run["outcome"], run["skipped_count"])
        for run_id, run in chronicle.runs.items()
    }
    found = [
        (
            _run_id(row),
            (_STATUS[row["status"]], row["attempt"] or 0, _OUTCOME[row["outcome"] or 0], row["skipped_count"] or 0),
        )
        for row in rows
    ]
    return _other("run", wanted, found)


def attempts_differ(chronicle: Chronicle, rows: Sequence[Row]) -> list[str]:
    """Complaints: ``attempts`` holds every attempt that another one was promised after: how it ended, whose it was."""
    found = [
        ((_run_id(row), row["attempt"]), (_OUTCOME[row["outcome"]], row["worker"], row["fence"] & MASK)) for row in rows
    ]
    return _other("attempt", projections.attempts(chronicle), found)


def failures_differ(chronicle: Chronicle, rows: Sequence[Row]) -> list[str]:
    """Complaints: ``failures`` holds every run that was given up: why, by which error, after how many attempts."""
    found = [(_run_id(row), (row["reason"], row["error_class"], row["attempts"] or 0)) for row in rows]
    return _other("failure", projections.failures(chronicle), found)


def jobs_differ(commands: Sequence[Record], events: Sequence[Record], rows: Sequence[Row]) -> list[str]:
    """Complaints: ``jobs`` shows the newest version that the log of commands makes of each."""
    made = {job_id: job.judged.made for job_id, job in jobs.read(commands, events).items()}
    # Where there is none, all of it was refused, or spoke of runs alone.
    wanted = {job_id: (versions[-1].offset, versions[-1].status) for job_id, versions in made.items() if versions}
    found = [(row["job_id"], (row["revision"] & MASK, _JOB[row["status"]])) for row in rows]
    return _other("job", wanted, found)


def nodes_differ(chronicle: Chronicle, rows: Sequence[Row]) -> list[str]:
    """Complaints: ``dag_nodes`` holds one row for each node run of the log, with its status, attempt and outcome."""
    wanted = {
        run_id: (run["status"], run["attempt"], run["outcome"])
        for run_id, run in chronicle.runs.items()
        if "/" in run_id
    }
    found = [
        (
            f"{_run_id(row)}/{row['node']}",
            (_STATUS[row["status"]], row["attempt"] or 0, _OUTCOME[row["outcome"] or 0]),
        )
        for row in rows
    ]
    return _other("node", wanted, found)


def statuses(rows: Sequence[Row]) -> Counter[str]:
    """How many rows of ``jobs`` stand how."""
    return Counter(_JOB[row["status"]] for row in rows)


def _run_id(row: Row) -> str:
    return str(judge.run_id(row["job_id"], row["fire_at"], row["series"]))


def _other(what: str, wanted: Mapping[Any, Any], found: Found) -> list[str]:
    return list(projections.differ(what, wanted, found))
