"""How far the sweep of one shard is, and what it has found: kept in ``upkeep``, so that the next owner goes on from it.

What must hold: a lap comes to its end however often its shard changes hands, or the jobs of the last shelves would
never be looked at: so its place is told every ``TELL_EVERY_S``. A lap is gone on with only by whoever has the same
slots and the same zone data, for its end says that every job was looked at with that. Repairs count across processes.
How it fails: a place that cannot be read, and lap and counts begin anew; a log line says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from waterclock.model.errors import UndecodableRecord
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.zone_prints import is_stale, year_of, zone_print
from waterclock.model.zones import known_zones
from waterclock.store.shelves import JobPages, Place, Shelf
from waterclock.store.upkeep import DUE_SWEEP, UpkeepKeeping

from .shard import Shard

TELL_EVERY_S = 10.0
_NAMED_MAX = 10
_CLOCKS_APART_US = 60 * US_PER_S

log_ = structlog.get_logger("dispatcher")


@dataclass(slots=True)
class Lap:
    """``named``: the newest repairs. ``told_at``, ``told_s``: when it was told last, by both clocks.

    ``tzdata``: the zone data with which the last whole lap was made, and ``zones_then`` the prints of the zones that it
    met; what is missing of a job in a zone that has changed has moved, and is counted as ``recomputed``. ``zones``:
    those of this lap. ``jobs_whole_count``: how many jobs the last whole one met. ``untellable``: jobs of this
    lap whose fires cannot be told, and why, a few at most; ``untellable_whole``: of the last whole one.
    """

    pages: JobPages
    began_s: float
    told_s: float
    repairs: int = 0
    named: Sequence[Mapping[str, Any]] = ()
    recomputed: int = 0
    tzdata: str = ""
    zones_then: Mapping[str, str] = field(default_factory=dict)
    zones: dict[str, str] = field(default_factory=dict)
    jobs_count: int = 0
    jobs_whole_count: int = 0
    untellable: list[Mapping[str, str]] = field(default_factory=list)
    untellable_whole: Sequence[Mapping[str, str]] = ()
    ended_at: Instant = 0
    told_at: Instant = 0
    is_over: bool = False

    def note_zone(self, zone: str, now: Instant) -> None:
        """One of its jobs goes by this zone. One that is gone has no print: should it come back, it has changed."""
        if zone not in self.zones and zone in known_zones():
            self.zones[zone] = zone_print(zone, year_of(now))

    def note_untellable(self, job_id: str, why: str) -> None:
        """The job does not fire, for its schedule does not compile."""
        if len(self.untellable) < _NAMED_MAX:
            self.untellable = [*self.untellable, {"job_id": job_id, "why": why}]

    def has_moved(self, zone: str, tzdata: str) -> bool:
        """Whether a zone is another now than when the last whole lap was made: nothing was lost then."""
        if self.tzdata in ("", tzdata):
            return False
        return zone not in self.zones_then or is_stale(zone, self.zones_then[zone])

    def count(self, lost: Sequence[Mapping[str, Any]], moved_count: int) -> None:
        """What was found missing."""
        self.repairs += len(lost)
        self.recomputed += moved_count
        self.named = [*self.named, *lost][-_NAMED_MAX:]


def resume(store: UpkeepKeeping, shard: Shard, tzdata: str, now: Instant, now_s: float) -> Lap:
    """The lap that somebody has begun here, or a new one. Raises BackendDown."""
    lap = Lap(JobPages(shard.slots), now_s, now_s)
    try:
        told = store.told(DUE_SWEEP, str(shard.partition))
        if told is None:
            return lap
        parts = told.parts
        lap.told_at = told.at
        lap.repairs, lap.recomputed = int(parts.get("repairs", 0)), int(parts.get("recomputed", 0))
        lap.named = list(parts.get("named", ()))
        lap.tzdata, lap.zones_then = str(parts.get("tzdata", "")), dict(parts.get("zones", {}))
        lap.untellable_whole = list(parts.get("untellable", ()))
        lap.jobs_whole_count, lap.ended_at = int(parts.get("jobs", 0)), int(parts.get("ended_at", 0))
        _go_on(lap, parts.get("lap"), shard, tzdata, now)
    except (UndecodableRecord, ValueError, TypeError, KeyError, AttributeError) as error:
        log_.warning("the sweep begins anew", partition=shard.partition, cause=str(error))
        return Lap(JobPages(shard.slots), now_s, now_s)
    if lap.tzdata not in ("", tzdata):
        log_.warning("zone data has changed: next fires are looked at", partition=shard.partition,
                     before=lap.tzdata, now=tzdata)  # fmt: skip
    return lap


def tell(store: UpkeepKeeping, shard: Shard, lap: Lap, tzdata: str, now: Instant, now_s: float) -> None:
    """Say it, for people and for the next owner. Raises BackendDown, WriteUnknown."""
    # Above what a predecessor has said whose clock is a little ahead; one that is far ahead is wrong, and waited for.
    at = lap.told_at + 1 if now <= lap.told_at < now + _CLOCKS_APART_US else now
    parts = {
        "repairs": lap.repairs,
        "named": list(lap.named),
        "recomputed": lap.recomputed,
        "tzdata": lap.tzdata,
        "zones": dict(lap.zones_then),
        "jobs": lap.jobs_whole_count,
        "ended_at": lap.ended_at,
        "untellable": list(lap.untellable_whole),
        "lap": None if lap.is_over else _place_of(lap, shard, tzdata),
    }
    store.tell(DUE_SWEEP, str(shard.partition), parts, at)
    lap.told_at, lap.told_s = at, now_s


def _place_of(lap: Lap, shard: Shard, tzdata: str) -> Mapping[str, Any]:
    return {
        "place": [part and list(part) for part in lap.pages.place],
        "tzdata": tzdata,
        "zones": sorted(lap.zones),
        "slots": len(shard.slots),
        "jobs": lap.jobs_count,
        "untellable": lap.untellable,
    }


def _go_on(lap: Lap, begun: Mapping[str, Any] | None, shard: Shard, tzdata: str, now: Instant) -> None:
    if begun is None or (begun["tzdata"], begun["slots"]) != (tzdata, len(shard.slots)):
        return
    done, shelf, after = begun["place"]
    place = Place(done and Shelf(*done), shelf and Shelf(*shelf), after and (int(after[0]), str(after[1])))
    lap.pages = JobPages(shard.slots, place)
    lap.jobs_count = int(begun["jobs"])
    lap.untellable = list(begun.get("untellable", ()))
    for zone in begun["zones"]:
        lap.note_zone(zone, now)
