"""Five times what the slots can serve, for a minute: what it does to the tier that fits, and to the lowest.

Before it, the same tier alone: its delays without a load beside it.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.bench import load, raw_produce, watched
from tests.bench.rig import Rig
from tests.bench.sight import STARTED, US, Sight
from tests.bench.slow_app import TAKES_S
from waterclock.model.job import Tier

_RAW_S = 5.0
_SETTLE_S = 3
_PART_OF_HIGH = 0.25
TIMES = 5


class Size(NamedTuple):
    """Slots; seconds to warm up, of HIGH alone, and of the overload."""

    slots: int
    warm_up_s: int
    alone_s: int
    loaded_s: int
    lead_s: float


WHOLE = Size(4, 20, 60, 60, 30.0)
SHORT = Size(4, 3, 5, 5, 15.0)


class Overload(NamedTuple):
    """HIGH's quantiles in ms, alone and loaded; what began of each tier during the overload, and what was asked for."""

    alone: dict[str, float]
    loaded: dict[str, float]
    begun: dict[str, int]
    asked_per_s: dict[str, int]
    seconds: int
    raw_runs_per_s: float


def asked(slots: int) -> dict[Tier, int]:
    """Runs a second of each tier: five times what so many slots can serve, HIGH a quarter of what they can."""
    served = slots / TAKES_S
    high = served * _PART_OF_HIGH
    rest = (served * TIMES - high) / 2
    return {Tier.HIGH: round(high), Tier.MEDIUM: round(rest), Tier.LOW: round(rest)}


def measure(size: Size) -> Overload:
    """One round."""
    rates = asked(size.slots)
    with Rig(slots=size.slots, env={"WATERCLOCK_WORKER__APP": "tests.bench.slow_app:app"}) as rig:
        start_at = load.whole_second(size.lead_s)
        alone = watched.Span(start_at + size.warm_up_s * US, start_at + (size.warm_up_s + size.alone_s) * US)
        over_from = alone.until + _SETTLE_S * US
        high = load.spread(rates[Tier.HIGH], 1, start_at, word="high")
        others = {tier: load.spread(rates[tier], 1, over_from, word=tier.word) for tier in (Tier.MEDIUM, Tier.LOW)}
        specs = load.specs(high, "bench.slow", Tier.HIGH)
        for tier, beats in others.items():
            specs |= load.specs(beats, "bench.slow", tier)
        rig.create(specs)
        load.wait_until(start_at - 2 * US, least_s=0.0)
        sight = Sight(rig.stack.bootstrap, rig.stack.names.run_events, (STARTED,))
        loaded = watched.Span(over_from + _SETTLE_S * US, over_from + (_SETTLE_S + size.loaded_s) * US)
        load.wait_until(loaded.until + _SETTLE_S * US)
        seen = sight.stop()
        rig.rest()
        raw = raw_produce.measure(rig.stack.bootstrap, rig.stack.partitions, _RAW_S)
    tier_of = {beat.job_id: tier.word for tier, beats in ((Tier.HIGH, high), *others.items()) for beat in beats}
    begun = load.times(
        tier_of[each.run_id.partition("@")[0]] for each in seen if loaded.since <= each.seen_at < loaded.until
    )
    late = [watched.judged(high, seen, span) for span in (alone, loaded)]
    words = {tier.word: rate for tier, rate in rates.items()}
    return Overload(late[0], late[1], {word: begun[word] for word in words}, words, size.loaded_s, raw)
