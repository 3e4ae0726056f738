"""Outages of all dispatchers, and what people ask for meanwhile: what opens gaps, and what meets them half worked off.

Several in a row: the next one often comes while gaps of the earlier ones are still open, and there are seeds with more
of them than a shard may have gaps. An outage goes by in slices, so that commands are given within it. Drawn by dice of
their own: seeds without them stay what they were.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import CommandKind

from .people import Order, spec_of
from .troubles import Trouble

SLICES = 3
SLICE_TICKS = 700_000
"""Of the schedule; the clock goes on by a third of the outage in each."""

BACK_US = 300_000
"""Of the schedule, for each of an outage's ``calls``."""
_SHARE = 0.35
_LOST_SHARE = 0.3
_MANY = 10
_SECONDS = (75, 90, 150, 240, 420, 600)
_KINDS = (
    CommandKind.UPDATE,
    CommandKind.UPDATE,
    CommandKind.PAUSE,
    CommandKind.PAUSE,
    CommandKind.RESUME,
    CommandKind.DELETE,
    CommandKind.CREATE,
    CommandKind.TRIGGER,
)


def how_many(rng: random.Random) -> int:
    """In a third of the seeds one to three, and now and then ten: more than a shard may have gaps."""
    return rng.choice([1, 2, 2, 2, 3, 3, _MANY]) if rng.random() < _SHARE else 0


def horizon_for(count: int, horizon: int) -> int:
    """Of many outages, so that there is time between two of them for the edge to jump."""
    return max(horizon, (6 + 8 * count) * US_PER_S) if count == _MANY else horizon


def outages(rng: random.Random, count: int, slot: str, horizon: int) -> list[Trouble]:
    """So many outages, one soon after the other."""
    step = (horizon - 6 * US_PER_S) // max(1, count)
    return [
        Trouble(
            5 * US_PER_S + number * step + rng.randrange(max(1, step // 3)),
            "outage",
            slot,
            us=rng.choice(_SECONDS) * US_PER_S,
            # How long after it until somebody starts: soon, or so late that the schedule's next troubles come first.
            calls=rng.choice([1, 1, 2, 5]),
        )
        for number in range(count)
    ]


def losses_after(rng: random.Random, drawn: Sequence[Trouble], horizon: int) -> list[Trouble]:
    """After some outages the cursors are lost while the dispatchers that are back make up for it, half of the time with
    the positions in ``commands``: then the last copies are old, and much was decided since that follows from them."""
    found: list[Trouble] = []
    for outage in drawn:
        back_at = outage.at + SLICES * SLICE_TICKS + outage.calls * BACK_US
        at = back_at + rng.randrange(3 * US_PER_S)
        if rng.random() < _LOST_SHARE and at < horizon:
            found.append(Trouble(at, rng.choice(["forget", "lose"]), outage.slot))
    return found


def orders_around(
    rng: random.Random, drawn: Sequence[Trouble], job_ids: Sequence[str], start_at: Instant, horizon: int
) -> list[Order]:
    """Edits, pauses, resumes, deletes: during outages, and in the seconds after them, while gaps are worked off."""
    found: list[Order] = []
    for number, outage in enumerate(drawn):
        for each in range(rng.choice([0, 2, 4])):
            at = min(outage.at + rng.randrange(6 * US_PER_S), horizon - 1)
            kind, job_id = rng.choice(_KINDS), rng.choice(list(job_ids))
            has_spec = kind in (CommandKind.UPDATE, CommandKind.CREATE)
            spec = spec_of(rng, start_at + at) if has_spec else None
            found.append(Order(at, kind, job_id, spec, f"o{number}.{each}", wants_answer=rng.random() < 0.3))
    return found
