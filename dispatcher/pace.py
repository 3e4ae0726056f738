"""How a dispatcher paces itself, and when it is behind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from waterclock.model.ids import US_PER_S, Instant

from .shard import Shard


@dataclass(frozen=True, slots=True)
class Pace:
    """How a dispatcher paces itself. Seconds, records; ``catch_up_per_s`` 0: no bound.

    ``herd_fires``: from so many in one instant on it is a herd, sent ``herd_lead_s`` before, or sooner if it is large;
    0: never.
    ``sweep_every_s``: between two slices of the sweep for missing rows; ``sweep_lap_s``: a lap takes at least so long.
    """

    look_ahead_s: float = 90.0
    grace_s: float = 60.0
    round_records: int = 2_000
    round_interval_s: float = 0.010
    herd_fires: int = 1_000
    herd_lead_s: float = 0.05
    idle_commit_s: float = 5.0
    store_retry_s: float = 1.0
    store_retry_max_s: float = 30.0
    catch_up_share: float = 0.25
    catch_up_per_s: float = 1_000.0
    sweep_every_s: float = 0.25
    sweep_lap_s: float = 60.0


def is_behind(shards: Iterable[Shard], pace: Pace, now: Instant) -> bool:
    """Whether something that is loaded has been due for several rounds."""
    late_us = round(pace.round_interval_s * US_PER_S) * 5
    for shard in shards:
        due_at = shard.timeline.next_due_at() if shard.flow.ready and shard.jump is None else None
        if due_at is not None and due_at < min(now - late_us, shard.horizon_at):
            return True
    return False
