"""How long a dispatcher may wait for commands before something of its own is to be done."""

from __future__ import annotations

from collections.abc import Iterable

from waterclock.model.ids import US_PER_S, Instant

from . import window
from .errands import Errands
from .gap_lanes import GapLanes
from .pace import Pace
from .shard import Shard

_FOLLOW_S = 0.01
"""While run-events are still to be followed, neither commands nor fires go on."""
_ANSWER_S = 0.005
"""How soon the store's answer to an errand is looked for."""


def until_next_s(
    shards: Iterable[Shard],
    lanes: GapLanes,
    errands: Errands,
    pace: Pace,
    now: Instant,
    at_most_s: float,
    *,
    can_store: bool,
) -> float:
    """Seconds until the next fire, or less: 0 where the window, a jump or a waiting command wants a turn at once."""
    look_ahead_us = round(pace.look_ahead_s * US_PER_S)
    nearest_s = at_most_s
    for shard in shards:
        if not shard.flow.ready:
            nearest_s = min(nearest_s, _FOLLOW_S)
            continue
        due_at = shard.timeline.next_due_at()
        lane_s = lanes.wait_s(shard, can_store=can_store)
        is_waiting = errands.has_one(shard)
        if can_store and (shard.inbox or shard.jump):
            return 0.0
        if can_store and not is_waiting and window.wants_more(shard, now, look_ahead_us):
            return 0.0
        if can_store and is_waiting:
            nearest_s = min(nearest_s, _ANSWER_S)
        if lane_s is not None:
            nearest_s = min(nearest_s, lane_s)
        elif due_at is not None and due_at < shard.horizon_at:
            nearest_s = min(nearest_s, max(0.0, (due_at - now) / US_PER_S))
        delay_at = shard.flow.due.next_at() if shard.may_decide and shard.jump is None else None
        if delay_at is not None:
            nearest_s = min(nearest_s, max(0.0, (delay_at - now) / US_PER_S))
    return nearest_s
