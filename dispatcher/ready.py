"""Fires are encoded shortly before their instant, while there is nothing else to do.

A herd of thousands in one instant would else be encoded while all of it is late. What is made ready is a hint and
nothing more: it stays with its chain, which a command may still cut short, and a fire without it is encoded when it is
decided. Those of instants that have many are kept together, for ``herds.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.timetable import is_blocked

from .emit import Templates
from .shard import Shard
from .timeline import Chain, Crowd

AHEAD_US = 2 * US_PER_S
SLICE = 200
"""Fires at a time, about 5 ms: others that become due meanwhile wait behind it."""
READY_MAX = 20_000
"""Of one shard: about 1.5 KB each, and the payload, by which one may count for several. The rest of a larger herd is
encoded at its instant."""
_LOOK_AGAIN_US = US_PER_S
"""A look walks over all that is due soon: five in a second were a fifth of the dispatcher at 6,000 fires a second."""


def make_ready(shard: Shard, templates: Templates, now: Instant, crowd_fires: int = READY_MAX) -> bool:
    """Encode a slice of the fires that are due soon. True while there is more of it.

    ``crowd_fires``: from so many in one instant on they are kept together, in ``Shard.crowds``.
    """
    until_at = min(now + AHEAD_US, shard.horizon_at - 1)
    if not shard.to_encode and until_at >= shard.ready_until_at + _LOOK_AGAIN_US:
        shard.to_encode += _as_many_as_fit(shard.timeline.soon(until_at, READY_MAX), now)
        shard.ready_until_at = until_at
        _look_for_crowds(shard, now, crowd_fires)
    for _ in range(min(SLICE, len(shard.to_encode))):
        chain = shard.to_encode.pop()
        if not _wants(chain, now):
            continue
        if chain.version.spec.is_admitted:
            templates.warm(chain.version)
        else:
            chain.ready = templates.ready(chain.version, chain.next_at, chain.due_at)
            crowd = shard.crowds.get(chain.due_at)
            if crowd is not None:
                crowd.add(chain)
    return bool(shard.to_encode)


def _look_for_crowds(shard: Shard, now: Instant, crowd_fires: int) -> None:
    """Forget those whose instant has passed; what comes to the others at a later look is a part of them."""
    counts = Counter(chain.due_at for chain in shard.to_encode)
    kept = {at: crowd for at, crowd in shard.crowds.items() if at > now}
    shard.crowds = {at: Crowd() for at, count in counts.items() if count >= crowd_fires} | kept


def _as_many_as_fit(chains: Iterable[Chain], now: Instant) -> Iterator[Chain]:
    room = READY_MAX
    for chain in chains:
        if room <= 0:
            return
        if _wants(chain, now):
            room -= chain.weight
            yield chain


def _wants(chain: Chain, now: Instant) -> bool:
    """Its next fire is still to come, and not encoded yet. What is due already is encoded as it is decided.

    One that is blocked will not go out. Nobody knows of a fire that has to be admitted whether it will, and as which:
    of that only the templates are made.
    """
    if chain.is_cut or now >= chain.due_at or is_blocked(chain.version.spec, chain.next_at):
        return False
    return chain.ready is None or chain.ready.fire_at != chain.next_at
