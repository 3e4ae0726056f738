"""200 fresh seeds of hours in which little happens break no promise, and bugs that only hours show are caught in such.

What a usual play of half a minute never meets: rows that stand an hour ahead, owners that look further than the next
one, processes that are gone for half an hour (``tests/simulation/long_plan.py``). One JSON line for the hunt and one
for each bug. Needs no servers. ``make test`` has a slice of it (``tests/simulation/test_hours.py``), so this module has
no short form of its own. ``WATERCLOCK_FIRST_SEED`` repeats a hunt.
"""

from __future__ import annotations

import json
import os

from tests.simulation import ledger
from tests.simulation.hunt import CALLS_MIN, LONG, catch_planted, hunt
from tests.simulation.keeping import kept
from tests.simulation.planted_hours import PLANTED_IN_HOURS

SHORT_FORM = False
SEEDS = 200
CAUGHT_WITHIN = 100


def main(short: bool = False) -> None:
    """Raises where a promise was broken, something was never provoked, or a bug was not caught."""
    first = int(os.environ.get("WATERCLOCK_FIRST_SEED") or ledger.fresh_seed())
    seeds = range(first, first + (SEEDS // 50 if short else SEEDS))
    caught = hunt(seeds, processes=os.cpu_count() or 1, kind=LONG)
    _say(
        what="hunt",
        first_seed=first,
        seeds=caught.seeds,
        too_short=len(caught.short),
        bar={"port_calls": CALLS_MIN, "run_events": LONG.events_min},
        seeds_per_s=round(caught.seeds_per_s, 2),
        violations={seed: found[0] for seed, found in caught.violations.items()},
        never_provoked=caught.missing,
        counts=dict(sorted(caught.counts.items())),
    )
    for line in kept(caught.violations, draws=LONG.draws):
        _say(what="kept", plan=line)
    assert not caught.violations, f"promises were broken in {sorted(caught.violations)}"
    assert short or not caught.missing, f"never provoked: {caught.missing}"
    assert len(caught.short) * 20 <= caught.seeds, f"{len(caught.short)} of {caught.seeds} seeds fell short of the bar"
    for name in PLANTED_IN_HOURS:
        found = catch_planted(name, range(first, first + CAUGHT_WITHIN), LONG)
        _say(what="planted", bug=name, seeds=found.seed - first + 1 if found else None,
             complaint=found.complaints[0] if found else "")  # fmt: skip
        assert found is not None, f"{name}: not caught within {CAUGHT_WITHIN} seeds from {first}"


def _say(**figures: object) -> None:
    print(json.dumps(figures), flush=True)
