"""Fires are encoded shortly before their instant, while there is nothing else to do.

A herd of thousands in one instant would else be encoded while all of it is late. What is made ready is a hint and
nothing more: it stays with its chain, which a command may still cut short, and a fire without it is encoded when it is
decided.
"""

from __future__ import annotations

from waterclock.model.ids import US_PER_S, Instant

from .emit import Templates
from .shard import Shard

AHEAD_US = 2 * US_PER_S
SLICE = 200
"""Fires at a time, about 5 ms: others that become due meanwhile wait behind it."""
READY_MAX = 20_000
"""Of one shard: about 1.5 KB each, and the payload. The rest of a larger herd is encoded at its instant."""
_LOOK_AGAIN_US = US_PER_S // 5


def make_ready(shard: Shard, templates: Templates, now: Instant) -> bool:
    """Encode a slice of the fires that are due soon. True while there is more of it."""
    until_at = min(now + AHEAD_US, shard.horizon_at - 1)
    if until_at < shard.ready_until_at + _LOOK_AGAIN_US:
        return False
    made = 0
    for chain in shard.timeline.soon(until_at, READY_MAX):
        if chain.ready is not None and chain.ready.fire_at == chain.next_at:
            continue
        if made >= SLICE:
            return True
        chain.ready = templates.ready(chain.version, chain.next_at)
        made += 1
    shard.ready_until_at = until_at
    return False
