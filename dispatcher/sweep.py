"""Goes round the jobs of a shard, slowly and for ever, and looks whether the next row of each still stands.

A chain hangs by its next row: where that is lost (a cluster that lost data, a fault of ours), the job never fires
again, and nobody would say so. So each active job is held against its next row in ``due``, or its chain in the loaded
window. A missing one is made again, told and counted. Repairs should be 0. The same look brings jobs to their new times
after an upgrade of tzdata: what is expected then is not what stands; those are counted apart, as recomputed.

What must hold: every job is looked at within a lap, and every lap ends, whatever else goes on: a backlog, commands
that come all the time, a shard that changes hands (``lap.py``), a dispatcher that is never idle. Each look is an errand
(``errands.py``), given up where a command comes between its reads; so what memory, store and log say of a job is one
and the same. What was fired meanwhile is told by looking into memory once more before anything is repaired, which is
done at once, in the owner's own thread. It writes only what
a version that it has applied owes; where somebody else has written a newer one (a zombie that ran ahead, for its
command comes to us yet) it leaves the job alone, and says so. What is missing is looked for a second time, by its whole
minute, before it is called so. How it fails: a store that does not answer, and the slice is taken again. Its limits: a
fire whose time has passed before its row was missed stays lost, and the ledger names it; so does one that an older
version may have decided under another jitter (``expected.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import NamedTuple

import structlog

from waterclock.clock import Clock
from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import Cron, JobStatus, JobVersion
from waterclock.model.untellable import schedule_error
from waterclock.store.listing import JobListing
from waterclock.store.port import DueRow
from waterclock.store.shelves import JobIndex, JobPages

from . import lap as laps
from .errands import AtOnce, Errand, Errands
from .expected import ahead_of, expected, may_be_decided, versions_of
from .lap import Lap
from .lately import read_for_rows
from .legible import versions_of_each
from .pace import Pace
from .rows import Ahead
from .shard import Shard
from .tzdata import ZoneData

SLICE = 25
"""Jobs at a time: two reads for each, about 10 ms together; where they are read at once a fire waits behind them."""

OVERDUE = 3
"""Intervals by which an owner that is never idle sweeps more slowly."""

_READS = 8
_WAITED_US = 1_800 * US_PER_S

log_ = structlog.get_logger("dispatcher")


class Missing(NamedTuple):
    """What does not stand, of one version: the rows to be written, and the chains that are not in the window.

    ``newest``: the revision that was the job's newest when this was found.
    """

    version: JobVersion
    newest: int
    ahead: Ahead


class Sweep:
    """Of all shards of one dispatcher, one slice of one of them at a time."""

    def __init__(
        self, index: JobIndex, clock: Clock, zone_data: ZoneData, pace: Pace, errands: Errands | None = None
    ) -> None:
        self._index = index
        self._errands = errands or Errands(AtOnce())
        self._zone_data = zone_data
        self._clock = clock
        self._pace = pace
        self._grace_us = round(pace.grace_s * US_PER_S)
        self._laps: dict[int, Lap] = {}
        self._look_at_s = clock.monotonic_s() + pace.sweep_every_s
        self._turn = 0

    @property
    def is_overdue(self) -> bool:
        """Its time has passed for long: an owner that is never idle sweeps too."""
        return self._clock.monotonic_s() >= self._look_at_s + OVERDUE * self._pace.sweep_every_s

    def look(self, shards: Sequence[Shard]) -> None:
        """Begin with the next slice, when it is time. Raises BackendDown: nothing in memory has changed then."""
        now_s = self._clock.monotonic_s()
        if not shards or now_s < self._look_at_s:
            return
        owned = {shard.partition for shard in shards}
        for partition in [each for each in self._laps if each not in owned]:
            del self._laps[partition]  # its next owner goes on, and counts on
        shard = shards[(self._turn + 1) % len(shards)]
        if self._errands.has_one(shard):
            return
        self._look_at_s = now_s + self._pace.sweep_every_s
        self._turn += 1
        # By the clock of this moment: the round before may have taken long, or the machine slept in it.
        if _can_tell(shard, self._clock.now()):
            self._errands.begin(shard, self._look_into(shard))
            self._errands.go_on(shard)

    def _look_into(self, shard: Shard) -> Errand[None]:
        lap = yield from self._lap_of(shard)
        if lap is None:
            return
        pages = copy(lap.pages)
        listings: list[JobListing] | None = yield lambda: _read_pages(pages, self._index)
        if listings is None:
            yield from self._end(shard, lap)
            return
        job_ids = [line.job_id for line in listings if line.status is not JobStatus.DELETED]
        known = (yield from versions_of(shard, self._index, job_ids)) if job_ids else []
        suspects = yield from self._missing(shard, known, self._clock.now())
        now = self._clock.now()
        if not _can_tell(shard, now):
            return  # rows may have gone by themselves while we looked
        if suspects and (found := self._still(shard, suspects, known, now)):
            self._repair(shard, lap, found, now)
        for newest in (versions[0] for versions in known):
            schedule = newest.spec.schedule
            if isinstance(schedule, Cron):
                lap.note_zone(schedule.zone, now)
            if why := schedule_error(schedule):
                log_.error("a job's next row cannot be told", job_id=newest.job_id, cause=why)
                lap.note_untellable(newest.job_id, why)
        lap.jobs_count += len(known)
        lap.pages = pages
        if self._clock.monotonic_s() >= lap.told_s + laps.TELL_EVERY_S:
            yield lambda: self._tell(shard, lap)

    def _lap_of(self, shard: Shard) -> Errand[Lap | None]:
        """The lap that goes on, or a new one; None before the least time of the last one is over."""
        now_s, lap = self._clock.monotonic_s(), self._laps.get(shard.partition)
        if lap is None:
            now, tzdata = self._clock.now(), self._zone_data.version
            resumed: Lap = yield lambda: laps.resume(self._index, shard, tzdata, now, now_s)
            lap = self._laps[shard.partition] = resumed
        elif lap.is_over:
            if now_s < lap.began_s + self._pace.sweep_lap_s:
                return None
            lap.pages, lap.began_s, lap.is_over = JobPages(shard.slots), now_s, False
            lap.jobs_count, lap.zones, lap.untellable = 0, {}, []
        return lap

    def _end(self, shard: Shard, lap: Lap) -> Errand[None]:
        """Every job was looked at."""
        ended = copy(lap)
        ended.is_over, ended.ended_at, ended.jobs_whole_count = True, self._clock.now(), lap.jobs_count
        ended.tzdata, ended.zones_then = self._zone_data.version, dict(lap.zones)
        ended.untellable_whole = lap.untellable
        yield lambda: self._tell(shard, ended)
        self._laps[shard.partition] = ended

    def _tell(self, shard: Shard, lap: Lap) -> None:
        laps.tell(self._index, shard, lap, self._zone_data.version, self._clock.now(), self._clock.monotonic_s())

    # What is missing ----------------------------------------------------------------------------------------------

    def _missing(self, shard: Shard, known: Iterable[list[JobVersion]], now: Instant) -> Errand[list[Missing]]:
        wanted = self._all_wanted(shard, known, now)
        rows = [each.ahead.rows[-1] for each in wanted]
        stands: list[bool] = yield lambda: self._index.standing_due(rows)
        suspects = [each for each, stood in zip(wanted, stands, strict=True) if not stood or each.ahead.chains]
        if not suspects:
            return []
        job_ids = [each.version.job_id for each in suspects]
        newest: dict[str, list[JobVersion]] = yield lambda: versions_of_each(self._index, job_ids)
        _tell_of_unknown(shard, job_ids, newest)
        suspects = [each for each in suspects if _newest_of(newest, each.version.job_id) == each.newest]
        alone = [each.ahead.rows[-1] for each in suspects if not each.ahead.chains]
        are_there: list[bool] = yield lambda: [self._is_there(row) for row in alone]
        there = {_key_of(row) for row, is_there in zip(alone, are_there, strict=True) if is_there}
        return [each for each in suspects if each.ahead.chains or _key_of(each.ahead.rows[-1]) not in there]

    def _still(
        self, shard: Shard, suspects: Sequence[Missing], known: Iterable[list[JobVersion]], now: Instant
    ) -> list[Missing]:
        """Of what was missing what is so as of now: fires may have gone out since it was looked for."""
        of_suspects = {each.version.job_id for each in suspects}
        versions = [each for each in known if each[0].job_id in of_suspects]
        rows = {_key_of(each.ahead.rows[-1]) for each in suspects}
        return [each for each in self._all_wanted(shard, versions, now) if _key_of(each.ahead.rows[-1]) in rows]

    def _all_wanted(self, shard: Shard, known: Iterable[list[JobVersion]], now: Instant) -> list[Missing]:
        wanted: list[Missing] = []
        for versions in known:
            try:
                wanted += self._wanted(shard, versions, now)
            except RequestError as error:  # one bad job must not end the sweep; this line names it
                log_.error("a job's next row cannot be told", job_id=versions[0].job_id, cause=str(error))
        return wanted

    def _wanted(self, shard: Shard, versions: list[JobVersion], now: Instant) -> Iterable[Missing]:
        """What must stand: of each version its last row in the store, and the chains that are not loaded.

        A row whose chain is loaded and due needs no longer stand: it may have expired.
        """
        for owed in expected(shard, versions):
            if may_be_decided(owed, versions):
                continue
            rows, chains = ahead_of(shard, owed, now, now - self._grace_us)
            absent = [chain for chain in chains if not shard.timeline.has(owed.version.job_id, *chain.key)]
            if absent or rows[-1].due_at > now or not shard.is_loaded(owed.version.job_id, rows[-1].minute):
                yield Missing(owed.version, versions[0].revision, Ahead(rows, absent))

    def _is_there(self, row: DueRow) -> bool:
        """Whether an earlier fire's row stands for its minute, or its own does after all."""
        return any(
            (found.job_id, found.revision, found.entry) == (row.job_id, row.revision, "") and found.due_at <= row.due_at
            for found in self._index.load_due([row.slot], row.minute)
        )

    def _repair(self, shard: Shard, lap: Lap, found: Sequence[Missing], now: Instant) -> None:
        """Told first: a repair that nobody hears of would hide what goes wrong. What fails is done, and told, again."""
        moved = [each for each in found if self._has_moved(lap, each.version)]
        lost = [
            {"job_id": each.version.job_id, "due_at": each.ahead.rows[-1].due_at, "at": now}
            for each in found
            if each not in moved
        ]
        rows = [row for each in found for row in each.ahead.rows]
        read_for_rows(shard, self._index, rows)
        counted = copy(lap)
        counted.count(lost, len(moved))
        self._tell(shard, counted)
        shard.changes += 1
        self._index.write_due(rows)
        lap.count(lost, len(moved))
        lap.told_at, lap.told_s = counted.told_at, counted.told_s
        for chain in [chain for each in found for chain in each.ahead.chains]:
            shard.timeline.add(chain)
        for named in lost:
            log_.error("repaired: the next row of a job was missing", job_id=named["job_id"], due_at=named["due_at"],
                       partition=shard.partition, repairs=lap.repairs)  # fmt: skip
        for each in moved:
            log_.info("next fire recomputed", job_id=each.version.job_id, due_at=each.ahead.rows[-1].due_at)

    def _has_moved(self, lap: Lap, version: JobVersion) -> bool:
        schedule = version.spec.schedule
        return isinstance(schedule, Cron) and lap.has_moved(schedule.zone, self._zone_data.version)


def _read_pages(pages: JobPages, index: JobIndex) -> list[JobListing] | None:
    """The next jobs, about a slice of them; None: all were met."""
    listings: list[JobListing] = []
    for _ in range(_READS):  # many shelves hold few jobs
        page = pages.onward(index, SLICE)
        if page is None:
            return listings or None
        listings += page
        if len(listings) >= SLICE:
            break
    return listings


def _newest_of(versions: Mapping[str, Sequence[JobVersion]], job_id: str) -> int | None:
    found = versions.get(job_id)
    return found[0].revision if found else None


def _tell_of_unknown(shard: Shard, job_ids: Iterable[str], versions: Mapping[str, Sequence[JobVersion]]) -> None:
    """Of jobs left alone: a zombie ran ahead, for a moment, or ``commands`` is a copy that lacks the newest."""
    for job_id in dict.fromkeys(job_ids):
        revision = _newest_of(versions, job_id)
        if revision is not None and revision >= shard.revision_limit:
            log_.error("a job may stand still: its newest version is of a command that is not in the log yet",
                       job_id=job_id, revision=revision, partition=shard.partition,
                       next_offset=shard.next_offset)  # fmt: skip


def _key_of(row: DueRow) -> tuple[str, int, Instant]:
    return row.job_id, row.revision, row.due_at


def _can_tell(shard: Shard, now: Instant) -> bool:
    """Whether memory and rows say the same of what is to come: what stood at the take-over is applied, and the window
    has come to the present. A command that has waited for half an hour is waited for: the deletes that it will bring
    hide what is written up to an hour after its stamp, and no later row of an older version."""
    waits_since = shard.inbox[0].timestamp_us if shard.inbox else now
    return shard.caught_up and shard.horizon_at > now and waits_since > now - _WAITED_US
