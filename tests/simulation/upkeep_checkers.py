"""What the work that goes on for ever must do, and must not: see ``checkers.py``."""

from __future__ import annotations

from collections import Counter

from .dumps import Dumps


def the_sweep_makes_good_what_was_lost_and_nothing_else(dumps: Dumps, counts: Counter[str]) -> list[str]:
    """I13: a next row that the store lost stands again, once; what was not lost is never repaired."""
    lost, repaired = Counter(dumps.rows_lost), Counter(dumps.rows_repaired)
    counts["rows lost"] += lost.total()
    counts["rows repaired"] += repaired.total()
    complaints = [f"{job_id}: its next row was lost, and stays lost" for job_id in dumps.rows_missing]
    complaints += [f"{job_id}: repaired, and nothing was missing" for job_id in sorted(repaired - lost)]
    return [f"I13 {complaint}" for complaint in complaints]
