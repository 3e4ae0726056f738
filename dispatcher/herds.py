"""So many fires in one instant that to send them takes longer than anybody would wait: they are sent shortly before.

Commit as trigger (design §6, kafka.md 7): the records of a herd stand in an open transaction when its instant comes;
what is left then is to decide, and to commit. Must hold: what is sent early decides nothing. At the instant everything
is decided as ever, and records that were not decided are aborted (``transact.py``). Nothing else leaves this dispatcher
while a herd waits, which is a second at most: all who read these partitions wait as well. Nor does it read meanwhile
what has ended: so between two herds lies a round of all that is not a herd's, or runs that wait for others would wait
for as long as herds follow one another.

How it fails: a rebalance, a command, the end of a run that others wait for, trouble with the producer: its records are
given up, and the herd goes out as any other fire does, after its instant. So does one that is too large to be sent in
that time. A dispatcher that dies while a herd waits leaves its transaction open until its successor's init, or its
time-out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress

import structlog

from waterclock.clock import Clock
from waterclock.model.errors import LostResource, RequestError, RoundAborted, RoundInDoubt
from waterclock.model.ids import US_PER_S, Instant
from waterclock.transact import Rounds
from waterclock.wire.pools import Pools

from .backfill_lanes import may_make
from .emit import Templates
from .pace import Pace
from .pool_check import leave_out_gone
from .ready import READY_MAX, make_ready
from .shard import Shard

HELD_S_MAX = 1.0
LEAD_S_MAX = 0.9
_RECORDS_PER_S = 100_000.0
"""Until it is known: how fast the client takes records. A fire that counts for several counts so here, too."""
_MEASURED_FROM = 1_000
_WEIGHT = 0.3
_MARGIN = 2.0
"""The client takes records faster than the brokers do."""
_RECORDS_OF_A_FIRE = 2
_BESIDE_MAX = 20_000
"""Fires that fall due while a herd waits. Where there are more, it is given up."""
_NEVER = 1 << 60

log_ = structlog.get_logger("dispatcher")


class Herds:
    """Of one dispatcher: encodes what is due soon, and sends the herds among it."""

    def __init__(self, clock: Clock, rounds: Rounds, templates: Templates, pools: Pools, pace: Pace) -> None:
        self._clock = clock
        self._rounds = rounds
        self._templates = templates
        self._pools = pools
        self._least = pace.herd_fires or _NEVER
        self._lead_s = pace.herd_lead_s
        self._records_per_s = _RECORDS_PER_S
        self._due_at: Instant = 0
        """Of the last herd that was sent, or tried to: no herd is sent twice."""
        self._begin_at: Instant = 0
        """When the next one is to be sent; 0: none is known."""
        self._began_at_s = 0.0
        self._was_early = False
        """Whether this step began with a herd that waited: then the next one is not sent in it."""
        self._sent_fires = self._sent_weight = 0
        self.encodes_more = False
        self.sent_count = 0

    def look(self, shards: Collection[Shard], now: Instant) -> bool:
        """Encode a slice of what is due soon, then send a herd whose time it is. True while there is more to encode.

        Raises BackendDown, Fenced.
        """
        least = max(1, self._least // (2 * max(1, len(shards))))
        self.encodes_more = any(make_ready(shard, self._templates, now, least) for shard in shards)
        if not self.encodes_more and not self._rounds.is_early:
            self._begin(shards, now)
        return self.encodes_more

    def is_held(self, shards: Iterable[Shard]) -> bool:
        """Whether a herd waits for its instant. One that may not is given up: its round would have to ask the store, or
        the log, inside the transaction. Raises Fenced.
        """
        self._was_early = self._rounds.is_early
        if not self._was_early:
            return False
        if not all(map(_is_calm, shards)):
            return self.give_up("there is more to do than its fires")
        if self._clock.now() >= self._due_at:
            return False
        if self._clock.monotonic_s() - self._began_at_s > HELD_S_MAX:
            return self.give_up(f"it waited for {HELD_S_MAX} s")
        return True

    def drop(self) -> None:
        """Give up what is held, whatever comes of it: a producer that is fenced says so at its next call again."""
        with suppress(LostResource):
            self._rounds.give_up_early()

    @property
    def room(self) -> int:
        """For how many fires more than usual a shard's round may hold: all that was sent, and what is due before."""
        return self._sent_weight + _BESIDE_MAX if self._rounds.is_early else 0

    def wait_s(self, now: Instant, at_most_s: float) -> float:
        """How long there is nothing to do here, at most so long."""
        wake_at = self._due_at if self._rounds.is_early else self._begin_at
        return min(at_most_s, max(0.0, (wake_at - now) / US_PER_S)) if wake_at else at_most_s

    def give_up(self, cause: str) -> bool:
        """Its fires go out as any others do. Answers False: nothing is held. Raises Fenced."""
        log_.info("herd given up", due_at=self._due_at, fires=self._sent_fires, cause=cause)
        self._rounds.give_up_early()
        return False

    def _begin(self, shards: Collection[Shard], now: Instant) -> None:
        self._begin_at = 0
        crowds: Counter[Instant] = Counter()
        for shard in shards:
            crowds.update({at: len(crowd.chains) for at, crowd in shard.crowds.items() if at > max(now, self._due_at)})
        due_at = min((at for at, count in crowds.items() if count >= self._least), default=0)
        if not due_at:
            return
        weights = [shard.crowds[due_at].weight for shard in shards if due_at in shard.crowds]
        lead_s = max(self._lead_s, self._takes_s(sum(weights)))
        if lead_s > LEAD_S_MAX or max(weights) >= READY_MAX:
            log_.info("herd too large to be sent early", due_at=due_at, fires=crowds[due_at])
            self._due_at = due_at
            return
        self._begin_at = due_at - round(lead_s * US_PER_S)
        if now >= self._begin_at and not self._was_early and all(map(_is_calm, shards)):
            self._begin_at, self._due_at = 0, due_at
            self._send(shards)

    def _takes_s(self, fires: int) -> float:
        return _MARGIN * _RECORDS_OF_A_FIRE * fires / self._records_per_s

    def _send(self, shards: Iterable[Shard]) -> None:
        crowds = [shard.crowds.pop(self._due_at) for shard in shards if self._due_at in shard.crowds]
        chains = [
            chain
            for crowd in crowds
            for chain in crowd.chains
            if chain.ready is not None and chain.due_at == self._due_at and not chain.is_cut
            if chain.ready.fire_at == chain.next_at
        ]
        if len(chains) < self._least:
            return
        made = [message for chain in chains if chain.ready is not None for message in chain.ready.messages]
        messages = leave_out_gone(self._pools, self._templates.names, made)
        self._sent_fires, self._sent_weight = len(chains), sum(chain.weight for chain in chains)
        self._began_at_s = self._clock.monotonic_s()
        try:
            self._rounds.send_early(messages)
        except (RoundAborted, RoundInDoubt, RequestError) as trouble:
            log_.warning("herd not sent early", due_at=self._due_at, cause=str(trouble))
            return
        self.sent_count += 1
        took_s = self._clock.monotonic_s() - self._began_at_s
        log_.debug("herd sent", due_at=self._due_at, fires=len(chains), took_s=round(took_s, 3))
        if len(messages) >= _MEASURED_FROM and took_s > 0:
            counted = len(messages) + _RECORDS_OF_A_FIRE * (self._sent_weight - len(chains))
            self._records_per_s += _WEIGHT * (counted / took_s - self._records_per_s)


def _is_calm(shard: Shard) -> bool:
    """Whether the fires of this shard are all that its next round decides: for anything else it may ask the store."""
    is_waiting = shard.inbox or shard.flow.changed or shard.gaps or shard.jump is not None or may_make(shard)
    return shard.may_decide and shard.flow.ready and not is_waiting
