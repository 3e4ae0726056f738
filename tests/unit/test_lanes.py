"""The shares of the tiers, by example. The properties are in tests/property/test_lanes_properties.py."""

from __future__ import annotations

from waterclock.workers.lanes import NO_CREDIT, fill, share

from waterclock.model.job import Tier

ALL = (True, True, True)


def test_full_cycles_are_dealt_by_weight() -> None:
    assert share(95, ALL, NO_CREDIT) == ((70, 20, 5), NO_CREDIT)


def test_single_slots_come_round_to_every_tier() -> None:
    credit, dealt = NO_CREDIT, [0, 0, 0]
    for _ in range(38):
        one, credit = share(1, ALL, credit)
        dealt = [had + got for had, got in zip(dealt, one, strict=True)]
    assert dealt == [28, 8, 2]


def test_an_idle_tier_gets_nothing_and_saves_nothing_up() -> None:
    counts, credit = share(10, (False, True, False), (9, -3, 4))
    assert counts == (0, 10, 0)
    assert (credit[0], credit[2]) == (0, 0)


def test_nothing_is_dealt_when_nobody_wants() -> None:
    assert share(10, (False, False, False), (1, 2, -3)) == (NO_CREDIT, NO_CREDIT)


def test_an_unused_share_flows_on_in_the_same_turn() -> None:
    taken = dict.fromkeys(Tier, 0)
    backlog = {Tier.HIGH: 0, Tier.MEDIUM: 5, Tier.LOW: 1_000}

    def take(tier: Tier, limit: int) -> int:
        count = min(limit, backlog[tier] - taken[tier])
        taken[tier] += count
        return count

    fill(100, NO_CREDIT, take)
    assert taken == {Tier.HIGH: 0, Tier.MEDIUM: 5, Tier.LOW: 95}


def test_an_idle_turn_asks_each_tier_at_most_once() -> None:
    asked: list[Tier] = []

    def nothing(tier: Tier, _: int) -> int:
        asked.append(tier)
        return 0

    fill(32, NO_CREDIT, nothing)
    assert asked == [Tier.HIGH, Tier.MEDIUM, Tier.LOW]
