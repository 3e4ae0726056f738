"""Clocks and zone data of the machines that take part: brokers, workers, this one. Reads topics, writes nothing.

A broker tells its time only in what it appended, so of a broker we can show that its clock is *ahead* (a command was
appended after our now) and never that it is behind. A worker's beat carries the worker's clock and its zone data: beats
that arrive while we look compare it with ours, to the time that a record takes. Zone data decides when a cron fires:
two versions in one installation fire differently after a change of a zone's rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from waterclock.clock import Clock
from waterclock.log.port import Isolation, Log, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown, NotFound, UndecodableRecord
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.zones import TZDATA_VERSION
from waterclock.wire.codec import decode_heartbeat
from waterclock.wire.names import Names

from .finding import Finding, State, ok, unless

AHEAD_S = 1.0
WATCH_S = 4.0
"""Longer than the pause between two beats of a worker."""

_NEWEST = 20
_BATCH = 500
_POLL_S = 0.2


class Beat(NamedTuple):
    """A worker that beat while we looked; ``behind_us``: what its clock lacks, at most (the beat's way is in it)."""

    worker: str
    tzdata: str
    behind_us: int


def examine(log: Log, names: Names, clock: Clock) -> Iterator[Finding]:
    """Every finding about clocks and zone data; nothing where the topics are missing or nobody answers."""
    try:
        yield judge_broker(_newest_append(log, names), clock.now())
        yield from judge_workers(_beats(log, names, clock))
    except NotFound:
        return
    except BackendDown as down:
        yield Finding("clocks", State.WARN, str(down), "They cannot be compared now")


def judge_broker(newest: Instant | None, now: Instant) -> Finding:
    """``newest``: append time of the newest command."""
    if newest is None:
        return ok("broker clock", "no command has been appended yet: it does not show")
    ahead_s = (newest - now) / US_PER_S
    if ahead_s <= 0:
        return ok("broker clock", f"not seen ahead of ours (newest command {-ahead_s:.0f} s ago)")
    return unless(
        ahead_s < AHEAD_S,
        "broker clock",
        f"at least {ahead_s:.3g} s ahead of ours",
        "Run chrony or ntpd on both: a command counts from its append time",
        State.WARN,
    )


def judge_workers(beats: list[Beat]) -> Iterator[Finding]:
    """Each worker's clock and zone data against ours."""
    if not beats:
        yield Finding("workers", State.WARN, f"no beat within {WATCH_S:g} s", "waterclock worker starts one")
        return
    apart = [beat for beat in beats if abs(beat.behind_us) >= AHEAD_S * US_PER_S]
    for beat in apart:
        word = "behind" if beat.behind_us > 0 else "ahead of"
        found = f"{beat.worker} is {abs(beat.behind_us) / US_PER_S:.3g} s {word} ours"
        yield Finding("worker clocks", State.WARN, found, "Run chrony or ntpd there")
    if not apart:
        yield ok("worker clocks", f"{len(beats)} workers beat, within {AHEAD_S:g} s of ours")
    others = sorted({beat.tzdata for beat in beats} - {TZDATA_VERSION})
    yield unless(
        not others,
        "zone data",
        f"{TZDATA_VERSION} here" + (f", {', '.join(others)} at workers" if others else " and at every worker"),
        "Run one release everywhere: cron jobs in a zone whose rules changed fire differently",
        State.WARN,
    )


def _newest_append(log: Log, names: Names) -> Instant | None:
    newest: Instant | None = None
    for number in range(log.partitions(names.commands)):
        place = TopicPartition(names.commands, number)
        end = log.high_watermark(place)
        start = max(log.low_watermark(place), end - _NEWEST)
        for record in read_range(log, Isolation.UNCOMMITTED, place, start, end):
            newest = record.timestamp_us if newest is None else max(newest, record.timestamp_us)
    return newest


def _beats(log: Log, names: Names, clock: Clock) -> list[Beat]:
    """Of each worker that beats from now on the beat that came fastest: a slow way makes a clock look late."""
    places = [TopicPartition(names.heartbeats, number) for number in range(log.partitions(names.heartbeats))]
    reader = log.reader(Isolation.COMMITTED)
    found: dict[str, Beat] = {}
    try:
        reader.assign({place: log.high_watermark(place) for place in places})
        until = clock.monotonic_s() + WATCH_S
        while clock.monotonic_s() < until:
            for record in reader.poll(_BATCH, _POLL_S):
                beat = _beat(record, clock.now())
                if beat is not None:
                    found[beat.worker] = min(beat, found.get(beat.worker, beat), key=lambda each: each.behind_us)
    finally:
        reader.close()
    return sorted(found.values())


def _beat(record: Record, now: Instant) -> Beat | None:
    try:
        beat = decode_heartbeat(record.value or b"")
    except UndecodableRecord:
        return None
    return Beat(beat.worker, beat.tzdata, now - beat.at)
