"""``python -m tests.chaos --seed S --minutes M``: one play of real fire (``make chaos``).

A seed's schedule is that of its minutes: the check ``chaos`` plays 63 of them, at 75 runs a second.
"""

from __future__ import annotations

import argparse

from tests.chaos.play import play, size_of
from waterclock.leaving import leave_after


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seed", type=int, help="plays this schedule; none: a new one, which is printed")
    parser.add_argument("--minutes", type=float, default=3.0, help="how long the faults go on (the check: 63)")
    parser.add_argument("--runs-per-s", type=float, default=60.0, help="how many runs are due (the check: 75)")
    asked = parser.parse_args()
    play(asked.seed, size_of(asked.minutes, asked.runs_per_s))


if __name__ == "__main__":
    leave_after(main)
