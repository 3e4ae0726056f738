"""What the work that goes on for ever must do, and must not: see ``checkers.py``."""

from __future__ import annotations

from collections import Counter

from tests.oracle.runs import FINAL

from .dumps import Dumps


def the_sweep_makes_good_what_was_lost_and_nothing_else(dumps: Dumps, counts: Counter[str]) -> list[str]:
    """I13: a next row that the store lost stands again, once; what was not lost is never repaired."""
    lost, repaired = Counter(dumps.rows_lost), Counter(dumps.rows_repaired)
    counts["rows lost"] += lost.total()
    counts["rows repaired"] += repaired.total()
    complaints = [f"{job_id}: its next row was lost, and stays lost" for job_id in dumps.rows_missing]
    complaints += [f"{job_id}: repaired, and nothing was missing" for job_id in sorted(repaired - lost)]
    return [f"I13 {complaint}" for complaint in complaints]


def what_is_kept_is_open(dumps: Dumps, counts: Counter[str]) -> list[str]:
    """I16: a state topic holds no run that has ended, or it would grow for ever, and each take-over with it."""
    complaints = []
    for role, records in dumps.kept.items():
        latest = {record["key"]: record["value"] for record in records}
        counts[f"runs kept by the {role}"] += len(latest)
        for key in (key for key, value in latest.items() if value is not None):
            run = dumps.chronicle.runs.get(bytes(key).decode())  # type: ignore[call-overload]  # keys are bytes
            if run is not None and run["status"] in FINAL:
                complaints.append(f"I16 {role}: {key!r} has ended, and is kept")
    return complaints


def rows_repeat_themselves(dumps: Dumps, counts: Counter[str]) -> list[str]:
    """I2: every cell of history is what one reader of the whole log would write."""
    counts["rows written anew"] += len(dumps.rows_anew)
    return [
        f"I2 {run_id}: its rows are {rows}, by the whole log {dumps.rows_anew[run_id]}"
        for run_id, rows in dumps.rows.items()
        if rows != dumps.rows_anew[run_id]
    ]
