"""The work that was made with a run's PENDING, found by time on the tier to which it went.

A claim names the place of its work; before the first one nothing does. But work and PENDING left in one transaction, so
that the work stands on the tier which PENDING names, near its time. What must hold: what is found is this run's work;
what is not found within a bound is not called gone. How it fails: clocks of the writers of one tier that differ by more
than ``_MARGIN_US`` hide a record from a search that ends by time, never from one that goes on to an offset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from waterclock.log.port import Isolation, Log, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.events import Pending, Started, WorkRecord
from waterclock.model.ids import US_PER_S, Instant, partition_of, work_key
from waterclock.wire.codec import decode_event
from waterclock.wire.fit_work import fit_work
from waterclock.wire.names import Names

from .work_records import WorkRecords

SEARCHED_MAX = 50_000
"""Records that one search reads past: about a second."""

_MARGIN_US = 10 * US_PER_S
_GAP = 300
"""To read past so many records is cheaper than another search, which takes a client of its own: of a thousand runs that
were made a minute apart, and are over together, all others would wait a minute for that."""


class Birth(NamedTuple):
    """A PENDING: the tier to which its work went, and when."""

    tier: TopicPartition
    at: Instant


class NeverClaimed(NamedTuple):
    """A run without a claim, and where its PENDING stands."""

    run_id: str
    partition: TopicPartition
    offset: int


class _Stretch(NamedTuple):
    """A part of a tier in which the work of these runs is searched for; ``own``: offsets of it near one of them."""

    start: int
    end: int
    own: int
    run_ids: set[str]


class MadeWork:
    """Looks into the topics of one Log. All methods raise BackendDown."""

    def __init__(self, log: Log, names: Names, records: WorkRecords) -> None:
        self._log = log
        self._names = names
        self._records = records

    def births(self, partition: TopicPartition, offsets: Iterable[int]) -> dict[int, Birth]:
        """By offset, the PENDINGs that stand there; what is gone or something else is left out."""
        found = {}
        places = [Started(partition.topic, partition.partition, offset) for offset in offsets]
        for record in self._records.records(places).values():
            try:
                event = decode_event(record.value or b"")
            except RequestError:
                continue
            detail = event.detail
            if isinstance(detail, Pending):
                tier = self.place_of(self._names.runs(detail.tier, detail.pool), event.run_id, partition)
                found[record.offset] = Birth(tier, record.timestamp_us)
        return found

    def place_of(self, topic: str, run_id: str, partition: TopicPartition) -> TopicPartition:
        """The partition of ``topic`` on which the work of this run of ``partition`` goes: a node's is its own."""
        return TopicPartition(topic, partition_of(work_key(run_id), self._log.partitions(partition.topic)))

    def begins(self, birth: Birth) -> int:
        """The offset from which this birth's work is to be searched for. Raises NotFound."""
        return self._log.offset_at(birth.tier, birth.at - _MARGIN_US)

    def search(
        self, tier: TopicPartition, run_ids: Collection[str], start: int, end: int
    ) -> tuple[dict[str, Record], int]:
        """The first work of each of these runs in [start, end), and up to where was read: not on once all are found."""
        found: dict[str, Record] = {}
        for record in read_range(self._log, Isolation.COMMITTED, tier, start, end, headers=True):
            work = work_of(record)
            if work is not None and work.run_id in run_ids and work.run_id not in found:
                found[work.run_id] = record
                if len(found) == len(run_ids):
                    return found, record.offset + 1
        return found, end

    def of(self, runs: Sequence[NeverClaimed]) -> dict[str, Record]:
        """The work of these, many at once; a bounded search for each tier."""
        found: dict[str, Record] = {}
        for tier, born in self._by_tier(runs).items():
            left = SEARCHED_MAX
            for start, end, own, run_ids in self._stretches(tier, sorted(born)):
                works, reached = self.search(tier, run_ids, start, end - max(0, own - left))
                found |= works
                left -= min(max(reached - start, 0), own)
                if left <= 0:
                    break
        return found

    def _stretches(self, tier: TopicPartition, born: list[tuple[Instant, str]]) -> list[_Stretch]:
        """Where to search for these, in order; none where the tier is gone."""
        stretches: list[_Stretch] = []
        for near in _neighbours(born):
            try:
                start = self.begins(Birth(tier, near[0][0]))
                end = self._log.offset_at(tier, near[-1][0] + _MARGIN_US)
            except NotFound:  # its pool was taken away
                return []
            run_ids = {run_id for _, run_id in near}
            if stretches and start - stretches[-1].end <= _GAP:
                before = stretches[-1]
                before.run_ids.update(run_ids)
                own = before.own + max(0, end - max(start, before.end))
                stretches[-1] = before._replace(end=max(before.end, end), own=own)
            else:
                stretches.append(_Stretch(start, end, max(0, end - start), run_ids))
        return stretches

    def _by_tier(self, runs: Sequence[NeverClaimed]) -> dict[TopicPartition, list[tuple[Instant, str]]]:
        """By tier, when these were born."""
        found: dict[TopicPartition, list[tuple[Instant, str]]] = {}
        for partition in dict.fromkeys(run.partition for run in runs):
            ours = {run.offset: run.run_id for run in runs if run.partition == partition}
            for offset, birth in self.births(partition, ours).items():
                found.setdefault(birth.tier, []).append((birth.at, ours[offset]))
        return found


def work_of(record: Record) -> WorkRecord | None:
    """The work in a record; None where it is none."""
    try:
        return fit_work(record.value or b"")
    except RequestError:
        return None


def _neighbours(born: list[tuple[Instant, str]]) -> Iterator[list[tuple[Instant, str]]]:
    """Those whose searches would overlap together, in order."""
    near = born[:1]
    for each in born[1:]:
        if each[0] - near[-1][0] > 2 * _MARGIN_US:
            yield near
            near = []
        near.append(each)
    if near:
        yield near
