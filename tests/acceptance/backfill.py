"""Backfills run each past fire once, within their bounds, in 1,000 random histories with take-overs between.

A dispatcher and a recorder on the in-memory ports, one history for each seed: ``tests/backfill_history.py``. Judged by
``tests/oracle`` (backfills, books, overlap), which imports nothing of ours. Needs no servers.
"""

from __future__ import annotations

import logging
import os
from collections import Counter

import structlog

from tests.acceptance.evidence import Evidence
from tests.backfill_history import History

HISTORIES, SHORT = 1_000, 40
FIRST_SEED = 1_000
WANTED = (
    "asked without an end",
    "backfilled",
    "backfilled over a skip",
    "backfilled: left out",
    "backfills done",
    "backfills cancelled",
    "take-overs",
    "skipped:paused",
    "skipped:overlap",
    "held:overlap",
)


def main(short: bool = False) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    evidence = Evidence("backfill", None)
    first = int(os.environ.get("WATERCLOCK_FIRST_SEED") or FIRST_SEED)
    counts: Counter[str] = Counter()
    complaints: list[str] = []
    number = SHORT if short else HISTORIES
    for seed in range(first, first + number):
        history = History(seed)
        complaints += [f"seed {seed}: {complaint}" for complaint in history.play()]
        counts.update(history.counts)
        if len(complaints) > 100:
            break
    evidence.figure("histories", number, first_seed=first)
    evidence.figure("provoked", {what: counts[what] for what in sorted(counts)})
    evidence.none_of(complaints, "complaints")
    missing = [what for what in WANTED if not counts[what]]
    evidence.demand(not missing, f"never provoked: {missing}")
    evidence.close()
