"""What must hold of the tiers' shares, for any slots, backlogs and histories."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from waterclock.workers.lanes import NO_CREDIT, WEIGHTS, PerTier, fill, share

from waterclock.model.job import Tier

_WEIGHTS = st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20))
_HUNGRY = st.tuples(st.booleans(), st.booleans(), st.booleans())


class _Backlog:
    """Tiers with so much work each; remembers what was taken."""

    def __init__(self, left: list[int]) -> None:
        self.left = left
        self.taken = [0, 0, 0]

    def take(self, tier: Tier, limit: int) -> int:
        count = min(limit, self.left[tier])
        self.left[tier] -= count
        self.taken[tier] += count
        return count


@given(st.lists(st.tuples(st.integers(0, 3_000), _HUNGRY), max_size=30), _WEIGHTS)
def test_shares_add_up_and_only_the_hungry_get_any(
    turns: list[tuple[int, tuple[bool, bool, bool]]], w: PerTier
) -> None:
    credit = NO_CREDIT
    for free, hungry in turns:
        counts, credit = share(free, hungry, credit, w)
        assert sum(counts) == (free if any(hungry) else 0)
        assert all(count == 0 for count, wants in zip(counts, hungry, strict=True) if not wants)
        assert all(count >= 0 for count in counts)


@given(st.integers(0, 500), st.tuples(*[st.integers(0, 200)] * 3), _WEIGHTS)
def test_no_slot_stays_free_while_any_tier_has_work(free: int, left: tuple[int, int, int], w: PerTier) -> None:
    backlog = _Backlog(list(left))
    fill(free, NO_CREDIT, backlog.take, w)
    assert sum(backlog.taken) == min(free, sum(left))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 60), st.integers(0, 60)), min_size=30, max_size=120),
    st.sampled_from(list(Tier)),
    _WEIGHTS,
)
def test_a_tier_with_work_gets_its_part_whatever_the_others_do(
    turns: list[tuple[int, int, int]], steady: Tier, w: PerTier
) -> None:
    """Given one tier that always has work and two that come and go, its part is never short by more than two cycles."""
    backlog = _Backlog([0, 0, 0])
    others = [tier for tier in Tier if tier is not steady]
    credit, slots = NO_CREDIT, 0
    for free, first, second in turns:
        backlog.left[steady] = 10_000
        backlog.left[others[0]] += first
        backlog.left[others[1]] += second
        credit = fill(free, credit, backlog.take, w)
        slots += free
        owed = slots * w[steady] // sum(w)
        assert backlog.taken[steady] >= owed - 2 * sum(w)


@given(st.integers(1, 3))
def test_low_is_served_within_two_cycles_of_single_slots(free: int) -> None:
    backlog = _Backlog([10**6, 10**6, 10**6])
    credit = NO_CREDIT
    for _ in range(2 * sum(WEIGHTS)):
        credit = fill(free, credit, backlog.take)
    assert backlog.taken[Tier.LOW] >= 1
