"""Goes round the jobs of a shard, slowly and for ever, and looks whether the next row of each still stands.

A chain hangs by its next row: where that is lost (a cluster that lost data, a fault of ours), the job never fires
again, and nobody would say so. So each active job is held against its next row in ``due``, or its chain in the loaded
window. A missing one is made again, told and counted. Repairs should be 0. The same look brings jobs to their new times
after an upgrade of tzdata: what is expected then is not what stands; those are counted apart, as recomputed.

What must hold: the owner looks, in its own thread, between two rounds, with no command waiting; so what memory, store
and log say of a job is one and the same. It writes only what the newest version that it has applied owes; where
somebody else has written a newer one (a zombie that ran ahead, for its command comes to us yet) it leaves the job
alone. What is missing is looked for a second time, by its whole minute, before it is called so. How it fails: a store
that does not answer, and the slice is taken again. Its limits: a fire whose time has passed before its row was missed
stays lost, and the ledger names it; and a shard that has a backlog is left alone until it is on time again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import structlog

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown, RequestError, UndecodableRecord
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import Cron, JobStatus, JobVersion
from waterclock.model.zone_prints import is_stale, year_of, zone_print
from waterclock.store.listing import JobListing
from waterclock.store.port import DueRow
from waterclock.store.shelves import JobIndex, JobPages
from waterclock.store.upkeep import DUE_SWEEP

from .expected import ahead_of, expected, is_settled, versions_of
from .rows import Ahead
from .shard import Shard
from .tzdata import ZoneData

SLICE = 25
"""Jobs at a time: two reads for each, about 10 ms together, and a fire waits behind them."""

_OVERDUE = 19
_READS = 8
_NAMED_MAX = 10
_TELL_US = 60 * US_PER_S
_BEHIND_US = 5 * US_PER_S
"""A shard whose cursor is further back has a backlog: its rows are in motion."""

log_ = structlog.get_logger("dispatcher")


class Missing(NamedTuple):
    """What does not stand, of one version: the rows to be written, and the chains that are not in the window."""

    version: JobVersion
    ahead: Ahead


@dataclass(slots=True)
class _Lap:
    """Where the sweep of one shard is. ``told_at``: when it was told last; ``named``: the newest repairs.

    ``tzdata``: the zone data with which the last whole lap was made, and ``zones_then`` the prints of the zones that it
    met; what is missing of a job in a zone that has changed has moved, and is counted as ``recomputed``. ``zones``:
    those of this lap.
    """

    pages: JobPages
    began_s: float
    repairs: int = 0
    named: list[Mapping[str, Any]] = field(default_factory=list)
    recomputed: int = 0
    tzdata: str = ""
    zones_then: Mapping[str, str] = field(default_factory=dict)
    zones: dict[str, str] = field(default_factory=dict)
    jobs_count: int = 0
    ended_at: Instant = 0
    told_at: Instant = 0


class Sweep:
    """Of all shards of one dispatcher, one slice of one of them at a time."""

    def __init__(self, index: JobIndex, clock: Clock, zone_data: ZoneData, *, every_s: float, lap_s: float) -> None:
        self._index = index
        self._zone_data = zone_data
        self._clock = clock
        self._every_s = every_s
        self._lap_s = lap_s
        self._laps: dict[int, _Lap] = {}
        self._look_at_s = clock.monotonic_s() + every_s
        self._turn = 0

    @property
    def is_overdue(self) -> bool:
        """Its time has passed for long: an owner that is never idle sweeps too, twenty times as slowly."""
        return self._clock.monotonic_s() >= self._look_at_s + _OVERDUE * self._every_s

    def look(self, shards: Sequence[Shard], now: Instant) -> None:
        """The next slice, when it is time. Raises BackendDown, WriteUnknown: nothing in memory has changed then."""
        now_s = self._clock.monotonic_s()
        if not shards or now_s < self._look_at_s:
            return
        self._look_at_s = now_s + self._every_s
        owned = {shard.partition for shard in shards}
        for partition in [each for each in self._laps if each not in owned]:
            del self._laps[partition]  # its next owner counts on
        self._turn += 1
        shard = shards[self._turn % len(shards)]
        if _is_calm(shard, now):
            self._look_into(shard, now)

    def _look_into(self, shard: Shard, now: Instant) -> None:
        lap = self._laps.get(shard.partition)
        if lap is None:
            lap = self._laps[shard.partition] = self._begin(shard)
        pages = copy(lap.pages)
        listings: list[JobListing] = []
        for _ in range(_READS):  # many shelves hold few jobs
            page = pages.onward(self._index, SLICE)
            if page is None:
                if listings:
                    break
                self._end(shard, lap, now)
                return
            listings += page
            if len(listings) >= SLICE:
                break
        job_ids = [line.job_id for line in listings if line.status is not JobStatus.DELETED]
        known = versions_of(shard, self._index, job_ids) if job_ids else []
        for schedule in (versions[0].spec.schedule for versions in known):
            if isinstance(schedule, Cron) and schedule.zone not in lap.zones:
                lap.zones[schedule.zone] = zone_print(schedule.zone, year_of(now))
        found = self._missing(shard, known, now)
        if found:
            self._repair(shard, lap, found, now)
        lap.jobs_count += len(known)
        lap.pages = pages

    def _begin(self, shard: Shard) -> _Lap:
        lap = _Lap(JobPages(shard.slots), self._clock.monotonic_s())
        try:
            told = self._index.told(DUE_SWEEP, str(shard.partition))
        except UndecodableRecord as error:
            log_.warning("the sweep counts from 0", partition=shard.partition, cause=str(error))
            told = None
        if told is not None:
            lap.repairs = int(told.parts.get("repairs", 0))
            lap.named = list(told.parts.get("named", ()))
            lap.recomputed = int(told.parts.get("recomputed", 0))
            lap.tzdata = str(told.parts.get("tzdata", ""))
            lap.zones_then = dict(told.parts.get("zones", {}))
            if lap.tzdata not in ("", self._zone_data.version):
                log_.warning("zone data has changed: next fires are looked at", partition=shard.partition,
                             before=lap.tzdata, now=self._zone_data.version)  # fmt: skip
        return lap

    def _end(self, shard: Shard, lap: _Lap, now: Instant) -> None:
        """A lap is over; the next one begins when the least time of a lap is over."""
        is_news = lap.tzdata != self._zone_data.version
        if not lap.ended_at or is_news or lap.told_at < now - _TELL_US:
            lap.ended_at = lap.told_at = now
            lap.tzdata, lap.zones_then = self._zone_data.version, dict(lap.zones)
            self._tell(shard, lap, now)
        if self._clock.monotonic_s() >= lap.began_s + self._lap_s:
            lap.pages, lap.began_s, lap.jobs_count = JobPages(shard.slots), self._clock.monotonic_s(), 0
            lap.zones = {}

    def _tell(self, shard: Shard, lap: _Lap, now: Instant) -> None:
        parts = {
            "repairs": lap.repairs,
            "named": lap.named,
            "recomputed": lap.recomputed,
            "tzdata": lap.tzdata,
            "zones": lap.zones_then,
            "jobs": lap.jobs_count,
            "ended_at": lap.ended_at,
        }
        self._index.tell(DUE_SWEEP, str(shard.partition), parts, now)

    # What is missing ----------------------------------------------------------------------------------------------

    def _missing(self, shard: Shard, known: Iterable[list[JobVersion]], now: Instant) -> list[Missing]:
        wanted: list[Missing] = []
        for versions in known:
            try:
                wanted += self._wanted(shard, versions, now)
            except RequestError as error:  # one bad job must not end the sweep; this line names it
                log_.error("a job's next row cannot be told", job_id=versions[0].job_id, cause=str(error))
        stands = self._index.standing_due([each.ahead.rows[-1] for each in wanted])
        suspects = [each for each, stood in zip(wanted, stands, strict=True) if not stood or each.ahead.chains]
        if not suspects:
            return []
        newest = self._index.versions([each.version.job_id for each in suspects])
        return [
            each
            for each in suspects
            if newest[each.version.job_id][0].revision == each.version.revision
            and (each.ahead.chains or not self._is_there(each.ahead.rows[-1]))
        ]

    def _wanted(self, shard: Shard, versions: list[JobVersion], now: Instant) -> Iterable[Missing]:
        """What must stand of the newest version: its last row in the store, and the chains that are not loaded."""
        for owed in expected(shard, versions):
            if owed.version is versions[0] and is_settled(shard, owed.version):
                rows, chains = ahead_of(shard, owed, now)
                absent = [chain for chain in chains if not shard.timeline.has(versions[0].job_id, *chain.key)]
                yield Missing(owed.version, Ahead(rows, absent))

    def _is_there(self, row: DueRow) -> bool:
        """Whether an earlier fire's row stands for its minute, or its own does after all."""
        return any(
            (found.job_id, found.revision, found.entry) == (row.job_id, row.revision, "") and found.due_at <= row.due_at
            for found in self._index.load_due([row.slot], row.minute)
        )

    def _repair(self, shard: Shard, lap: _Lap, found: Sequence[Missing], now: Instant) -> None:
        """Told first: a repair that nobody hears of would hide what goes wrong. What fails is done, and told, again."""
        moved = [each for each in found if self._has_moved(lap, each.version)]
        lost = [each for each in found if each not in moved]
        before = lap.repairs, lap.recomputed, lap.named
        lap.repairs += len(lost)
        lap.recomputed += len(moved)
        named = [{"job_id": each.version.job_id, "due_at": each.ahead.rows[-1].due_at, "at": now} for each in lost]
        lap.named = [*lap.named, *named][-_NAMED_MAX:]
        try:
            self._tell(shard, lap, now)
            self._index.write_due([row for _, ahead in found for row in ahead.rows])
        except BackendDown:
            lap.repairs, lap.recomputed, lap.named = before
            raise
        for chain in [chain for _, ahead in found for chain in ahead.chains]:
            shard.timeline.add(chain)
        for each in named:
            log_.error("repaired: the next row of a job was missing", job_id=each["job_id"], due_at=each["due_at"],
                       partition=shard.partition, repairs=lap.repairs)  # fmt: skip
        for version, ahead in moved:
            log_.info("next fire recomputed", job_id=version.job_id, due_at=ahead.rows[-1].due_at)

    def _has_moved(self, lap: _Lap, version: JobVersion) -> bool:
        """Whether its zone is another than when the last lap was made: then nothing was lost."""
        schedule = version.spec.schedule
        if not isinstance(schedule, Cron) or lap.tzdata in ("", self._zone_data.version):
            return False
        return schedule.zone not in lap.zones_then or is_stale(schedule.zone, lap.zones_then[schedule.zone])


def _is_calm(shard: Shard, now: Instant) -> bool:
    """Everything polled is applied, and what is due is decided: rows, memory and log say the same."""
    is_on_time = shard.cursor.due_at > now - _BEHIND_US or (shard.timeline.next_due_at() or now) >= now
    return shard.caught_up and not shard.inbox and shard.horizon_at > now and is_on_time
