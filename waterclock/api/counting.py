"""Who counts for the overview: the tally of each tenant that asks, and the lag of the tiers.

Counting costs nothing until somebody asks: the first question of a tenant reads the last hour of run-events back (as
far as ``_RECALLED_MAX`` goes), from then on the tail's batches are counted as they come, until nobody has asked for
two minutes. Lag is Kafka's own count, by tier, over all tenants: the tiers' topics are shared.

What must hold: between what was read back and what the tail brings nothing is lost and nothing counts twice (the tally
passes over offsets that it knows). How it fails: BackendDown while the log does not answer; a lag that cannot be had
is not there. Belongs to the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from waterclock.log.kafka_lag import group_lags
from waterclock.log.port import Isolation, Log, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown, UndecodableRecord
from waterclock.model.fold import FoldFull
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import Tier
from waterclock.settings import Settings
from waterclock.wire.codec import decode_event
from waterclock.wire.names import Names

from .problems import busy
from .services import Services
from .tail import Seen, SeenBatch
from .tally import SPAN_S, Tally

_RECALLED_MAX = 60_000
"""Records that are read back at most, over all partitions: about a second's work."""
_TENANTS_MAX = 32
_IDLE_S = 120.0
_LAG_EVERY_S = 3.0
_HELD_BACK_MAX = 200
"""Batches that may wait while the past is read back."""
_IDLE_POLLS = 30

_log = structlog.get_logger()


@dataclass(slots=True)
class _Counted:
    """One tenant's tally. While ``waiting`` is a list, the past is being read back and batches wait in it.

    ``ends``: up to where it is read, by partition; None: others are read back first, and what comes is past by then.
    """

    tally: Tally
    asked_s: float
    waiting: list[SeenBatch] | None = field(default_factory=list)
    recalled: asyncio.Future[None] | None = None
    ends: Mapping[int, int] | None = None


class Counting:
    """The tallies of one API process, by tenant, and the lags. ``ask_lags`` blocks, and raises BackendDown."""

    def __init__(self, services: Services, ask_lags: Callable[[], Mapping[Tier, int]] | None = None) -> None:
        self._services = services
        self._ask_lags = ask_lags or (lambda: tier_lags(services.settings, services.names))
        self._counted: dict[str, _Counted] = {}
        self._lags: Mapping[Tier, int] = {}
        self._lags_s = float("-inf")
        self._asking_lags = asyncio.Lock()
        services.watchers.listen(self.take, self._counted.clear)
        services.resting.needs.append(self._is_asked)

    def take(self, batch: SeenBatch) -> None:
        """A batch of the tail, for everybody who still asks."""
        self._is_asked()
        for tenant, counted in list(self._counted.items()):
            if counted.ends is None:
                continue
            if counted.waiting is None:
                self._count(tenant, counted.tally, batch)
            elif len(counted.waiting) < _HELD_BACK_MAX:
                counted.waiting.append(batch)
            else:  # the past is read more slowly than the present comes: whoever asks, begins anew
                del self._counted[tenant]

    def _is_asked(self) -> bool:
        """Whether anybody's tally has to go on; those that nobody has asked for lately are gone."""
        now_s = self._services.clock.monotonic_s()
        for tenant, counted in list(self._counted.items()):
            if now_s - counted.asked_s > _IDLE_S:
                del self._counted[tenant]
        return bool(self._counted)

    async def tally(self, tenant: str) -> Tally:
        """The tenant's tally, up to now. Raises BackendDown, and Problem (503) where too many tenants ask."""
        counted = self._counted.get(tenant)
        if counted is None:
            await self._services.follow()
            counted = self._counted.get(tenant) or self._begin(tenant)
        counted.asked_s = self._services.clock.monotonic_s()
        if counted.recalled is not None:
            await asyncio.shield(counted.recalled)
        return counted.tally

    async def lags(self) -> Mapping[Tier, int]:
        """Records of each tier that no worker has claimed, a few seconds old at most; no tier: not known."""
        async with self._asking_lags:
            if self._services.clock.monotonic_s() - self._lags_s >= _LAG_EVERY_S:
                try:
                    self._lags = await self._services.call(self._ask_lags)
                except BackendDown as down:
                    _log.warning("no lag", cause=str(down))
                    self._lags = {}
                self._lags_s = self._services.clock.monotonic_s()
            return self._lags

    def _begin(self, tenant: str) -> _Counted:
        """Read back what was, one tenant at a time, and count what the tail brings from then on."""
        if len(self._counted) >= _TENANTS_MAX:
            raise busy(f"{_TENANTS_MAX} tenants look at their overview", retry_after_s=30)
        services = self._services
        tally = Tally(tenant, generation=services.settings.generation, since=services.clock.now())
        counted = self._counted[tenant] = _Counted(tally, services.clock.monotonic_s())
        counted.recalled = asyncio.ensure_future(self._recall(tenant, counted))
        return counted

    async def _recall(self, tenant: str, counted: _Counted) -> None:
        services = self._services
        topic = services.names.run_events
        try:
            async with services.looking_back:
                counted.ends, now = dict(services.watchers.positions), services.clock.now()
                await services.ask(_read_back, counted.tally, services.log, topic, tenant, counted.ends, now)
        except BaseException:
            if self._counted.get(tenant) is counted:
                del self._counted[tenant]  # whoever asks next begins anew
            raise
        while counted.waiting:
            self._count(tenant, counted.tally, counted.waiting.pop(0))
            await asyncio.sleep(0)  # others have their turn: a batch may take milliseconds
        counted.waiting = counted.recalled = None

    def _count(self, tenant: str, tally: Tally, batch: SeenBatch) -> None:
        try:
            tally.take(batch)
        except FoldFull as full:
            _log.warning("the overview begins anew", tenant=tenant, cause=str(full))
            self._counted.pop(tenant, None)


def _read_back(tally: Tally, log: Log, topic: str, tenant: str, ends: Mapping[int, int], now: Instant) -> None:
    """The past into the tally: off the event loop, for it takes up to some seconds."""
    tally.since, past = recall(log, topic, tenant, ends, now)
    tally.take(past)


def recall(
    log: Log, topic: str, tenant: str, ends: Mapping[int, int], now: Instant, records_max: int = _RECALLED_MAX
) -> tuple[Instant, list[Seen]]:
    """The tenant's events of the last hour before ``ends`` (offsets by partition), and from when on they are whole.

    Where there are more than ``records_max`` records (of all tenants), the older ones are left out. Blocks; raises
    BackendDown.
    """
    from_at = since = now - SPAN_S * US_PER_S
    prefix = f"{tenant}:".encode()
    found: list[Seen] = []
    share = max(1, records_max // max(1, len(ends)))
    for partition, end in sorted(ends.items()):
        place = TopicPartition(topic, partition)
        begin = log.offset_at(place, from_at)
        start = max(begin, end - share, log.low_watermark(place))
        first_at: Instant | None = None
        for record in read_range(log, Isolation.COMMITTED, place, start, end, idle_polls=_IDLE_POLLS):
            first_at = first_at or record.timestamp_us
            if not (record.key or b"").startswith(prefix):
                continue
            try:
                event = decode_event(record.value or b"")
            except UndecodableRecord:  # whoever acts on run-events says so
                continue
            found.append(Seen(partition, record.offset, record.timestamp_us, event))
        if start > begin and first_at is not None:
            since = max(since, first_at)
    return since, found


def tier_lags(settings: Settings, names: Names) -> Mapping[Tier, int]:
    """As Kafka counts them, transaction markers included; over all pools. Raises BackendDown."""
    kafka = settings.kafka
    groups = {names.worker_group(tier, pool): tier for pool in settings.pools for tier in Tier}
    lags: dict[Tier, int] = {}
    for each in group_lags(kafka.bootstrap, kafka.prefix, list(groups), extra=kafka.properties):
        tier = groups[each.group]
        lags[tier] = lags.get(tier, 0) + each.lag
    return lags
