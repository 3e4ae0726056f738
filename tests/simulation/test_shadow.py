"""What a successor would know after any round is what its owner knows; and bugs that the shadow must see at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any
from unittest import mock

import pytest
from waterclock.dispatcher import emit, loop

from tests.simulation.play import play
from tests.simulation.shadow import Shadows, shadowed
from tests.simulation.shadow_folds import folds_shadowed
from waterclock.store.memory import MemoryStore
from waterclock.store.port import JobChange

apply = MemoryStore.apply
FIRST = 12_000
SEEDS = 6
SEEDS_MAX = 20
"""Within which a planted bug must be seen."""
ENOUGH = 20
"""Successors compared, of each kind."""


def test_a_successor_would_know_after_any_round_what_the_owner_knows() -> None:
    met: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + SEEDS):
        shadows = Shadows(every=2)
        verdict = play(seed, planted=partial(shadowed, shadows))
        assert (verdict.complaints, shadows.odd) == ((), []), seed
        met.update(shadows.met)
    assert min(met[what] for what in ("decided", "keys", "jobs", "backfills", "chains")) > 20, met


def test_a_successor_of_whoever_folds_would_know_after_any_round_what_that_one_knows() -> None:
    met = Counter({f"{role}{kept}": 0 for role in ("RetryRouter", "DagEngine") for kept in ("", " kept")})
    wanted = tuple(met)
    for seed in range(FIRST, FIRST + SEEDS_MAX):  # how often a seed meets each follows from whatever else it plays
        shadows = Shadows(every=2)
        verdict = play(seed, planted=partial(folds_shadowed, shadows))
        assert (verdict.complaints, shadows.odd) == ((), []), seed
        met.update(shadows.met)
        if seed >= FIRST + SEEDS - 1 and min(met[each] for each in wanted) > ENOUGH:
            return
    raise AssertionError(f"not enough was met: {met}")


def nothing(*_: Any, **__: Any) -> None:
    """What is not done."""


PLANTED = {
    "counts are not kept": lambda: mock.patch.object(loop.releasing, "keep_counts", nothing),
    "a run that is held is not kept": lambda: mock.patch.object(emit.Emitter, "run_flow", nothing),
    "what has ended is not forgotten": lambda: mock.patch.object(emit.Emitter, "state_forgotten", nothing),
    "edges are not kept": lambda: mock.patch.object(emit.Emitter, "job_decided", nothing),
    "rows of changed jobs are not written": lambda: mock.patch.object(MemoryStore, "apply", without_rows),
}


def without_rows(self: MemoryStore, changes: Sequence[JobChange]) -> None:
    """All but the rows that carry their chains."""
    apply(self, [change._replace(due_writes=()) for change in changes])


@contextmanager
def both(planted: AbstractContextManager[Any], shadows: Shadows) -> Iterator[None]:
    with planted, shadowed(shadows):
        yield


@pytest.mark.parametrize("bug", PLANTED)
def test_the_shadow_sees_it_at_once_where(bug: str) -> None:
    for seed in range(FIRST, FIRST + SEEDS_MAX):
        shadows = Shadows(every=1)
        play(seed, planted=lambda shadows=shadows: both(PLANTED[bug](), shadows))
        if shadows.odd:
            return
    pytest.fail(f"{SEEDS_MAX} seeds, and nobody has seen it")
