"""Every overlap policy and limit decides as a plain model does, in 2,000 random histories with take-overs between.

A dispatcher on the in-memory ports, one history for each seed: jobs with policies and limits fire, are triggered,
redriven, paused, changed and deleted; runs are claimed, tried again, cancelled and end; catch-ups feed many fires at
once; and now and then the dispatcher is killed, or a commit of it stays in doubt. After each of these the decisions in
the log are held against those of ``tests/oracle/overlap.py``, which imports nothing of ours. Needs no servers.
"""

from __future__ import annotations

import logging
import os
from collections import Counter

import structlog

from tests.acceptance.evidence import Evidence
from tests.overlap_history import History

HISTORIES, SHORT = 2_000, 60
FIRST_SEED = 1_000
WANTED = (
    *(f"policy {word}" for word in ("allow", "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other")),
    "policy sequential",
    "with a key",
    "HELD overlap",
    "HELD concurrency",
    "released",
    "SKIPPED overlap",
    "SKIPPED overlap max_held",
    "SKIPPED withdrawn",
    "STOP cancel_other",
    "STOP terminate_other",
    "take-overs",
    "take-overs with runs held",
    "commits in doubt",
    "catch-ups",
    "retries",
    "redrives",
    "cancelled while held",
    "key changed while runs wait",
)


def main(short: bool = False) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    evidence = Evidence("overlap", None)
    first = int(os.environ.get("WATERCLOCK_FIRST_SEED") or FIRST_SEED)
    counts: Counter[str] = Counter()
    differences: list[str] = []
    number = SHORT if short else HISTORIES
    for seed in range(first, first + number):
        history = History(seed)
        differences += [f"seed {seed}: {difference}" for difference in history.play()]
        counts.update(history.counts)
        if len(differences) > 100:
            break
    evidence.figure("histories", number, first_seed=first)
    evidence.figure("decisions compared", counts["decisions"])
    evidence.figure("differences", len(differences))
    evidence.figure("provoked", {what: counts[what] for what in sorted(counts)})
    evidence.none_of(differences, "differences from the plain model")
    missing = [what for what in WANTED if not counts[what]]
    evidence.demand(not missing, f"never provoked: {missing}")
    evidence.close()
