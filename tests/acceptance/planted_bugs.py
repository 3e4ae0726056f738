"""2,000 seeds of the whole system in one process break no promise, and all planted bugs are caught.

Prints one JSON line for the hunt and one for each planted bug. Needs no servers. ``make test`` has a slice of it
(``tests/simulation``), so this module has no short form of its own.
"""

from __future__ import annotations

import json
import os

from tests.simulation.hunt import catch_planted, hunt
from tests.simulation.planted import PLANTED
from tests.simulation.play import play

SHORT_FORM = False
SEEDS = 2_000


def main(short: bool = False) -> None:
    """Raises where a promise was broken, a bug got through, or something was never provoked."""
    first = int(os.environ.get("WATERCLOCK_FIRST_SEED", "0"))
    caught = hunt(range(first, first + (SEEDS // 20 if short else SEEDS)), processes=os.cpu_count() or 1)
    _say(
        what="hunt",
        first_seed=first,
        seeds=caught.seeds,
        seeds_per_s=round(caught.seeds_per_s, 1),
        violations={seed: found[0] for seed, found in caught.violations.items()},
        never_provoked=caught.missing,
        counts=dict(sorted(caught.counts.items())),
    )
    missed = [name for name in PLANTED if not _is_caught(name)]
    assert not caught.violations, f"promises were broken in {sorted(caught.violations)}"
    assert short or not caught.missing, f"never provoked: {caught.missing}"
    assert not missed, f"planted and not caught: {missed}"


def _is_caught(name: str) -> bool:
    found = catch_planted(name, range(SEEDS))
    unjudged = None if found is None else play(found.seed, checkers=(), planted=PLANTED[name])
    _say(
        what="planted",
        bug=name,
        seeds_needed=None if found is None else found.seed + 1,
        complaint=None if found is None else found.complaints[0],
        caught_without_checkers=None if unjudged is None else bool(unjudged.complaints),
    )
    return found is not None and unjudged is not None and not unjudged.complaints


def _say(**figures: object) -> None:
    print(json.dumps(figures), flush=True)
