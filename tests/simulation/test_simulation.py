"""The system keeps its promises in every seed, and the simulation would see it if it did not.

Seeds are fresh in every session (``WATERCLOCK_FIRST_SEED`` repeats a session); a failing one is in the message, and
``python -m tests.simulation --seed S`` tells its story.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from .hunt import catch_planted, hunt
from .planted import FIRST_SEEDS, PLANTED
from .play import play

ROOT = Path(__file__).resolve().parents[2]
FIRST_SEED = int(os.environ.get("WATERCLOCK_FIRST_SEED") or secrets.randbits(40))
SLICE = 120
CAUGHT_WITHIN = 2_000
ALMOST_SURE_IN_A_SLICE = (
    "crash",
    "pause",
    "abort",
    "doubt:UNANSWERED",
    "doubt:LOST",
    "doubt:DELAYED",
    "doubt:DOUBLED",
    "take-over",
    "absence",
    "store:LOST",
    "skipped:coalesced",
    "skipped:paused",
    "failed",
    "triggered",
    "attempt LOST",
    "leases FENCED",
    "retries begun",
    "cancel before the claim",
    "cancel of a claimed run, which ended CANCELLED",
    "records emitted",
)


def test_no_promise_is_broken_in_a_slice_of_fresh_seeds() -> None:
    caught = hunt(range(FIRST_SEED, FIRST_SEED + SLICE), processes=2)
    print(f"{caught.seeds} seeds from {FIRST_SEED}, {caught.seeds_per_s:.1f} seeds/s")
    assert caught.violations == {}
    assert caught.seeds == SLICE
    assert [name for name in ALMOST_SURE_IN_A_SLICE if not caught.counts[name]] == [], "nothing was provoked"


def test_a_seed_replays_exactly_whatever_the_hash_seed() -> None:
    told = {_told(FIRST_SEED, hash_seed) for hash_seed in ("0", "1", "4711")}
    again = play(FIRST_SEED)
    assert told == {f"seed {FIRST_SEED} digest {again.digest}: {len(again.complaints)} complaints"}


def test_seeds_differ() -> None:
    assert len({play(seed, checkers=()).digest for seed in range(FIRST_SEED, FIRST_SEED + 5)}) == 5


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught_by_the_checkers_and_by_nothing_else(name: str) -> None:
    first = FIRST_SEEDS.get(name, 0)
    found = catch_planted(name, range(first, first + CAUGHT_WITHIN))
    assert found is not None, f"{name}: not caught within {CAUGHT_WITHIN} seeds"
    print(f"{name}: caught by seed {found.seed}: {found.complaints[0]}")
    unjudged = play(found.seed, checkers=(), planted=PLANTED[name])
    assert unjudged.complaints == ()
    assert unjudged.digest == found.digest
    assert play(found.seed).complaints == (), "without the bug the seed is clean"


def _told(seed: int, hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--quiet"]
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout.strip().splitlines()[-1] if done.stdout else done.stderr
