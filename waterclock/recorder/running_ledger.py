"""The running ledger: every closed hour of every shard is verified by itself, slowly, once.

It runs beside the recorder, on a thread of its own: that role has the store and the log, nobody waits for it (it yields
the processor to all others), and its group gives every partition of run-events one owner. So a shard has one verifier,
and where two meet for a moment, at a rebalance, they find the same and write it twice.

An hour is closed once it ended five minutes ago, the shard's cursor and every gap have passed it, and all of it is due
(with jitter, up to half an hour later). What must hold: an hour is judged whole or is told as unproved, and no hour is
passed over; how far it is stands in ``upkeep`` together with what was found, so a restart counts nothing twice. How it
works: an hour's events are read and judged part by part, and between two parts it rests so long that it takes ``SHARE``
of a processor at most. Where it is behind (a recorder that was away) it judges several hours at once, for each look
reads the log to its end.
How it fails: a backend that is away, and the hours are judged later; an hour of more facts than fit into memory is
unproved, and the finding names the command that looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import structlog

from waterclock.clock import Clock
from waterclock.ledger.facts import FACTS_MAX, HOUR_US
from waterclock.ledger.shards import Asked, Jobs, Ledger, ShardVerdict
from waterclock.log.port import Log, TopicPartition
from waterclock.model.cursor_text import undecided_from
from waterclock.model.errors import BackendDown, Busy, LostResource, NotFound, UndecodableRecord
from waterclock.model.ids import US_PER_MINUTE, Instant
from waterclock.model.time_text import format_rfc3339
from waterclock.store.upkeep import LEDGER, UpkeepKeeping
from waterclock.wire.names import Names

from .share import REST_MAX_S, Share

SHARE = 0.2
"""Of one processor, at most."""

SETTLED_US = 5 * US_PER_MINUTE
FIRST_US = 24 * HOUR_US
"""An installation that was never verified is from this long ago on: more would be read again and again at the start."""

_SPAN_US = 6 * HOUR_US
_NAMED_MAX = 20
_AGAIN_S = 60.0
_JITTER_AGAIN_S = 300.0
"""An hour of which something is still to come is read again after so long: half an hour later all of it is due."""

_log = structlog.get_logger()


class Books(Jobs, UpkeepKeeping, Protocol):
    """What it reads jobs from, and tells where it is."""


@dataclass(slots=True)
class _Shard:
    """How far one is, and what was found since ``since``."""

    verified_to: Instant
    since: Instant
    missing: int = 0
    doubled: int = 0
    wrong: int = 0
    unproved_hours: int = 0
    named: list[Mapping[str, Any]] = field(default_factory=list)


class RunningLedger:
    """The core; one thread calls it. ``owned``: the shards that are ours at this moment."""

    ready = True

    def __init__(
        self,
        log: Log,
        store: Books,
        clock: Clock,
        names: Names,
        owned: Callable[[], Collection[int]],
        *,
        generation: int = 1,
        share: float = SHARE,
        facts_max: int = FACTS_MAX,
    ) -> None:
        self._ledger = Ledger(log, names, store, generation)
        self._names = names
        self._store = store
        self._clock = clock
        self._owned = owned
        self._share = Share(clock, share)
        self._facts_max = facts_max
        self._shards: dict[int, _Shard] = {}
        self._hour_by_hour: set[int] = set()
        self._not_before_s: dict[int, float] = {}
        self._work: tuple[int, Asked, Generator[None, None, ShardVerdict]] | None = None

    def step(self) -> bool:
        """One part of one look. Always False: it rests after each."""
        if not self._share.begin():
            return False
        try:
            self._go_on()
        except (BackendDown, LostResource, NotFound) as trouble:
            self._put_off()
            _log.info("the running ledger waits", trouble=str(trouble))
            self._share.rest(REST_MAX_S)
        except Exception:  # a bug, said by whoever calls
            self._put_off()
            raise
        else:
            self._share.end()
        return False

    def _put_off(self) -> None:
        """It may be this shard's own trouble: the others have their turn first."""
        if self._work is not None:
            self._not_before_s[self._work[0]] = self._clock.monotonic_s() + _AGAIN_S
            self._work = None

    def drain(self) -> bool:
        """What is not verified its next owner verifies."""
        return False

    def close(self) -> None:
        self._work = None

    # What to look at ----------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        self._adopt()
        if self._work is None:
            self._begin()
            return
        number, asked, work = self._work
        if number not in self._shards:
            self._work = None
            return
        try:
            next(work)
        except StopIteration as end:
            self._work = None
            self._take(number, asked, end.value)
        except Busy as busy:
            self._work = None
            self._cannot_prove(number, asked, str(busy))

    def _adopt(self) -> None:
        owned = set(self._owned())
        for number in self._shards.keys() - owned:
            del self._shards[number]
            self._not_before_s.pop(number, None)
        for number in sorted(owned - self._shards.keys()):
            self._shards[number] = self._told(number)

    def _told(self, number: int) -> _Shard:
        try:
            told = self._store.told(LEDGER, str(number))
            if told is not None:
                known = {name: told.parts[name] for name in _Shard.__slots__ if name in told.parts}
                return _Shard(**known)
        except (UndecodableRecord, TypeError) as error:
            _log.warning("the running ledger begins anew", shard=number, cause=str(error))
        first = (self._clock.now() - FIRST_US) // HOUR_US * HOUR_US
        return _Shard(first, first)

    def _begin(self) -> None:
        """The shard that is furthest behind, and may be looked at."""
        now_s, closed_at = self._clock.monotonic_s(), (self._clock.now() - SETTLED_US) // HOUR_US * HOUR_US
        waiting = [
            (shard.verified_to, number)
            for number, shard in self._shards.items()
            if shard.verified_to < closed_at and now_s >= self._not_before_s.get(number, 0.0)
        ]
        if not waiting:
            return
        from_at, number = min(waiting)
        span_us = HOUR_US if number in self._hour_by_hour else _SPAN_US
        positions = self._ledger.positions()
        cursor = positions.get(TopicPartition(self._names.commands, number))
        cursor_at = None if cursor is None else undecided_from(cursor.metadata)
        if cursor_at is None or cursor_at < from_at + HOUR_US:
            # Its dispatcher is behind, or away: an hour is judged when it is decided.
            self._not_before_s[number] = now_s + _AGAIN_S
            return
        until_at = min(from_at + span_us, closed_at, cursor_at // HOUR_US * HOUR_US)
        asked = Asked(from_at, until_at, names_max=_NAMED_MAX, facts_max=self._facts_max)
        self._work = number, asked, self._ledger.judging(number, asked, positions)

    # What was found -----------------------------------------------------------------------------------------------

    def _take(self, number: int, asked: Asked, verdict: ShardVerdict) -> None:
        waiting = (hour * HOUR_US for hour, summed in verdict.hours.items() if summed.not_yet)
        decided_to = min([verdict.decided_to // HOUR_US * HOUR_US, *waiting])
        if decided_to <= asked.from_at:
            self._not_before_s[number] = self._clock.monotonic_s() + _JITTER_AGAIN_S
            return
        shard = self._shards[number]
        for hour, summed in sorted(verdict.hours.items()):
            if hour * HOUR_US >= decided_to:
                continue
            for kind, count in summed.faults.items():
                setattr(shard, kind.value, getattr(shard, kind.value) + count)
            for fault in summed.named:
                at = format_rfc3339(hour * HOUR_US)
                named = {"kind": fault.kind.value, "run_id": fault.run_id, "why": fault.why, "hour": at}
                shard.named = [*shard.named, named][-_NAMED_MAX:]
                _log.error("the books do not balance", shard=number, **named)
        hidden = [remark.text for remark in verdict.remarks if remark.hides]
        if hidden:
            # Of what retention took it is known where it ends; whatever else was left out may be in any of these hours.
            is_by_retention = len(hidden) == 1 and verdict.proved_from > asked.from_at
            unseen_to = min(verdict.proved_from, decided_to) if is_by_retention else decided_to
            shard.unproved_hours += max(1, -(-(unseen_to - asked.from_at) // HOUR_US))
            _log.warning("hours that cannot be proved whole", shard=number, why=hidden[:3])
        shard.verified_to = decided_to
        self._tell(number, shard)

    def _cannot_prove(self, number: int, asked: Asked, why: str) -> None:
        """Hour by hour from now on; one that does not fit by itself is passed over, and said."""
        if number not in self._hour_by_hour:
            self._hour_by_hour.add(number)
            return
        shard = self._shards[number]
        shard.unproved_hours += 1
        shard.verified_to = asked.until_at
        _log.warning("an hour that cannot be proved", shard=number, hour=format_rfc3339(asked.from_at), why=why)
        self._tell(number, shard)

    def _tell(self, number: int, shard: _Shard) -> None:
        self._store.tell(LEDGER, str(number), asdict(shard), self._clock.now())
