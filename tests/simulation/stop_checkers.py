"""Who is to stop is asked to: promises about user code in hand, held against its ledger; see ``checkers.py``."""

from __future__ import annotations

from collections import Counter

from tests.oracle import stops

from .dumps import Dumps


def attempts_stop_when_their_time_is_over(dumps: Dumps, counts: Counter[str]) -> list[str]:
    """I6: an attempt whose time is over is asked to stop, whichever way it began, and no other is said to be."""
    complaints, found = stops.overdue(dumps.in_hand, dumps.turns)
    counts.update(found)
    wrong, found = stops.timed_out(dumps.events, dumps.in_hand)
    counts.update(found)
    return [f"I6 {complaint}" for complaint in complaints + wrong]


def cancels_reach_what_runs(dumps: Dumps, counts: Counter[str]) -> list[str]:
    """I13: a cancel asks the user code of the attempt that runs to stop, and that of a DagRun's nodes."""
    heard = stops.Heard(dumps.in_hand, dumps.turns, dumps.control, dumps.held_up, dumps.hears_within_turns)
    complaints, found = stops.unheard(dumps.events, dumps.chronicle.ends, heard)
    counts.update(found)
    return [f"I13 {complaint}" for complaint in complaints]
