"""What people read: rows of jobs, orders, letters and backfills, answers, headers, rejects. See ``checkers.py``."""

from __future__ import annotations

from collections import Counter

from tests.oracle import answers, envelopes, jobs, kept_rows, owed, projections, rejects

from .dumps import Dumps

_VERSIONS_MAX = 100
"""So many of a job are read at once."""


def tables_say_what_was_ordered(dumps: Dumps, counts: Counter[str]) -> list[str]:
    """I3: every version, order, letter and backfill stands in its table as the log has it, and nothing else does."""
    found = jobs.read(dumps.commands, dumps.events, dumps.rules)
    complaints = kept_rows.versions(found, dumps.version_rows, _VERSIONS_MAX)
    complaints += kept_rows.standing(found, dumps.jobs, dumps.listing)
    complaints += kept_rows.audit(dumps.commands, dumps.audit)
    complaints += kept_rows.backfills(dumps.events, dumps.backfills)
    complaints += kept_rows.letters(found, dumps.events, dumps.told_letters)
    rows = {"versions": dumps.version_rows, "orders": dumps.audit, "backfills": dumps.backfills}
    counts.update({f"rows of {what}": len(those) for what, those in rows.items()})
    counts.update(f"letters {row['action']}" for row in dumps.told_letters)
    return [f"I3 {complaint}" for complaint in complaints]


def history_equals_the_log(dumps: Dumps, _counts: Counter[str]) -> list[str]:
    """I2: at rest the row of every run is what the log says, and there are no others."""
    followed, _, _ = dumps.followed
    runs = {run_id: run for run_id, run in followed.items() if "/" not in run_id}
    rows = {owed.run_id(row["job_id"], row["fire_at"], row["series"]): row for row in dumps.runs}
    complaints = [f"I2 {run_id}: a row of a run that the log does not know" for run_id in sorted(rows.keys() - runs)]
    for run_id, run in runs.items():
        row = rows.get(run_id)
        said = row and tuple(row[name] for name in ("status", "outcome", "attempt", "skipped_count"))
        meant = tuple(run[name] for name in ("status", "outcome", "attempt", "skipped_count"))
        if said != meant:
            complaints.append(f"I2 {run_id}: the log says {meant}, its row {said}")
    return complaints


def lists_equal_the_log(dumps: Dumps, _counts: Counter[str]) -> list[str]:
    """I2: the attempts of a run that was tried again, and the runs that were given up, as people see them listed."""
    tried = [((row["run_id"], row["attempt"]), (row["outcome"], row["worker"], row["token"])) for row in dumps.attempts]
    given_up = [(row["run_id"], (row["reason"], row["error_class"], row["attempts"])) for row in dumps.failures]
    complaints = projections.differ("attempt", projections.attempts(dumps.chronicle), tried)
    complaints += projections.differ("failure", projections.failures(dumps.chronicle), given_up)
    return [f"I2 {complaint}" for complaint in complaints]


def jobs_are_what_their_commands_made(dumps: Dumps, _counts: Counter[str]) -> list[str]:
    """I3: the row of every job is what its last command made of it."""
    rows = {row["job_id"]: (row["status"], int(str(row["revision"])) & owed.MASK) for row in dumps.jobs}
    complaints = []
    for job_id, given in sorted(owed.by_job(dumps.commands).items()):
        made = owed.versions(given, {}, dumps.rules).made
        meant = (made[-1].status, made[-1].offset) if made else None
        if rows.get(job_id) != meant:
            complaints.append(f"I3 {job_id}: its commands made {meant}, its row says {rows.get(job_id)}")
    return complaints


def answers_name_what_was_made(dumps: Dumps, counts: Counter[str]) -> list[str]:
    """I3: whoever asked is told which run came of it, and why that waits or was dropped, as the log has it."""
    complaints = answers.check(jobs.read(dumps.commands, dumps.events, dumps.rules), counts)
    return [f"I3 {complaint}" for complaint in complaints]


def records_say_whose_they_are(dumps: Dumps, counts: Counter[str]) -> list[str]:
    """I2: every record lies under its key, in its partition, with headers that say so; no two facts share an id."""
    of_work = dumps.work, dumps.waiting
    complaints, found = envelopes.check(dumps.told, dumps.events, *of_work, dumps.commands, dumps.control, dumps.shards)
    counts.update(found)
    return [f"I2 {complaint}" for complaint in complaints]


def rejects_are_whole(dumps: Dumps, counts: Counter[str]) -> list[str]:
    """I11: whatever role refuses a record keeps its key and its bytes, and says why."""
    complaints, found = rejects.check(dumps.rejects, dumps.commands, dumps.job_events, dumps.sold, dumps.with_forged)
    counts.update(found)
    return [f"I11 {complaint}" for complaint in complaints]
