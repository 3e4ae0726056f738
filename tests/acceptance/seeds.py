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
from tests.simulation.play import play

SHORT_FORM = False
SEEDS = 5_000


def main(short: bool = False) -> None:
    """Raises where a promise was broken, something was never provoked, or seeds are missing in the ledger.

    A seed that broke a promise by the word of other judges than the present ones is played again.
    """
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
    digest, judges, known = ledger.cores_digest(), ledger.judges_digest(), ledger.batches()
    before = ledger.counted(known, digest)
    total = before + caught.seeds - len(caught.short)
    broken, blank = ledger.violations(known, digest, judges), ledger.never_provoked(known, digest)
    settled = ledger.settled(known, digest, judges)
    again = {seed: found[:1] for seed in settled if (found := play(seed).complaints)}
    unkept = ledger.without_a_regression(settled)
    mine = ledger.counted_by(known, digest, judges)
    _say(
        what="ledger",
        cores=digest,
        seeds_before=before,
        by_the_present_judges=mine,
        seeds=total,
        missing=max(0, ledger.WANTED - total),
        violations=broken,
        settled=settled,
        broken_again=again,
        never_provoked=blank,
    )
    for line in kept(caught.violations):
        _say(what="kept", plan=line)
    assert not broken, f"on these very cores promises were broken before, in {broken}"
    assert not again, f"what other judges called broken is so still: {again}"
    assert not unkept, f"no regression names {unkept}"
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
