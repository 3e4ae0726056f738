"""5,000 fresh seeds of the whole system break no promise, and 100,000 since the last change of a core have not either.

Prints one JSON line for the hunt and one for the ledger (``tests/simulation/seeds.jsonl``; ``python -m tests.simulation
--ledger --seeds N`` adds to it). Needs no servers. ``make test`` has a slice of it (``tests/simulation``), so this
module has no short form of its own. ``WATERCLOCK_FIRST_SEED`` repeats a hunt.
"""

from __future__ import annotations

import json
import os

from tests.simulation import ledger
from tests.simulation.hunt import CALLS_MIN, EVENTS_MIN, hunt
from tests.simulation.keeping import kept

SHORT_FORM = False
SEEDS = 5_000


def main(short: bool = False) -> None:
    """Raises where a promise was broken, something was never provoked, or seeds are missing in the ledger."""
    first = int(os.environ.get("WATERCLOCK_FIRST_SEED") or ledger.fresh_seed())
    caught = hunt(range(first, first + (SEEDS // 50 if short else SEEDS)), processes=os.cpu_count() or 1)
    _say(
        what="hunt",
        first_seed=first,
        seeds=caught.seeds,
        too_short=len(caught.short),
        bar={"port_calls": CALLS_MIN, "run_events": EVENTS_MIN},
        seeds_per_s=round(caught.seeds_per_s, 1),
        violations={seed: found[0] for seed, found in caught.violations.items()},
        never_provoked=caught.missing,
        counts=dict(sorted(caught.counts.items())),
    )
    digest = ledger.cores_digest()
    before = ledger.counted(ledger.batches(), digest)
    total = before + caught.seeds - len(caught.short)
    broken, blank = ledger.violations(ledger.batches(), digest), ledger.never_provoked(ledger.batches(), digest)
    _say(what="ledger", cores=digest, seeds_before=before, seeds=total, missing=max(0, ledger.WANTED - total),
         violations=broken, never_provoked=blank)  # fmt: skip
    for line in kept(caught.violations):
        _say(what="kept", plan=line)
    assert not broken, f"on these very cores promises were broken before, in {broken}"
    assert not blank, f"no batch of the ledger has provoked {blank}"
    assert not caught.violations, f"promises were broken in {sorted(caught.violations)}"
    assert short or not caught.missing, f"never provoked: {caught.missing}"
    assert len(caught.short) * 20 <= caught.seeds, f"{len(caught.short)} of {caught.seeds} seeds fell short of the bar"
    assert short or total >= ledger.WANTED, (
        f"{total} clean seeds on these cores, {ledger.WANTED - total} are missing: "
        f"python -m tests.simulation --ledger --seeds {ledger.WANTED - total}"
    )


def _say(**figures: object) -> None:
    print(json.dumps(figures), flush=True)
