"""Hunts with shadows: ``python -m tests.simulation.shadow_hunt FIRST COUNT [PROCESSES]``. Exits with 1 on a difference.

Slower than a plain hunt by half or more, and of more use for each seed: every round of a play is a take-over.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial

from .play import play
from .shadow import Shadows, shadowed
from .shadow_folds import folds_shadowed


def main(first: int, count: int, processes: int = 2) -> int:
    """Play the seeds; answers the exit code."""
    met: Counter[str] = Counter()
    wrong = 0
    with ProcessPoolExecutor(processes) as pool:
        for seed, found, odd in pool.map(look, range(first, first + count)):
            met.update(found)
            wrong += bool(odd)
            for each in odd[:2]:
                print(f"seed {seed}: {each[:1_500]}", flush=True)
    print(f"{count} seeds from {first}, {wrong} with differences; looked at: {dict(met)}")
    return 1 if wrong or not met else 0


def look(seed: int) -> tuple[int, Counter[str], list[str]]:
    """One seed: what was compared, and what differed or broke a promise."""
    shadows = Shadows(every=1)
    verdict = play(seed, planted=partial(_all_shadowed, shadows))
    return seed, shadows.met, [*shadows.odd, *verdict.complaints]


@contextmanager
def _all_shadowed(shadows: Shadows) -> Iterator[None]:
    with shadowed(shadows), folds_shadowed(shadows):
        yield


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
