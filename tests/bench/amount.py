"""How much is measured: five rounds of whole length, unless the environment asks for a quick look.

``WATERCLOCK_BENCH_ROUNDS``: how many rounds. ``WATERCLOCK_BENCH_PART``: which part of a long measurement's length or of
its kills (0.1: a tenth). A quick look says so, and never passes for the whole.
"""

from __future__ import annotations

import os

WHOLE_ROUNDS = 5
ROUNDS, PART = "WATERCLOCK_BENCH_ROUNDS", "WATERCLOCK_BENCH_PART"


def rounds(whole: int = WHOLE_ROUNDS) -> int:
    """How many rounds to make."""
    return max(1, int(os.environ.get(ROUNDS, whole)))


def part(whole: int, least: int = 1) -> int:
    """So much of ``whole``, at least ``least``."""
    return max(least, round(whole * min(1.0, float(os.environ.get(PART, "1")))))


def is_whole(whole_rounds: int = WHOLE_ROUNDS) -> bool:
    """Whether nothing was left out."""
    return rounds(whole_rounds) >= whole_rounds and float(os.environ.get(PART, "1")) >= 1.0
