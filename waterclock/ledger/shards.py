"""The ledger of one shard: its facts from run-events, its jobs' versions from the store, and the verdict.

Order matters. The shard's cursor is asked for first, then the end of run-events: so whatever the cursor has passed lies
below that end, for a round commits both together. Versions are read last, and one counts only if its command was obeyed
by then (it lies below the committed position, or a REVISED speaks of it).

What must hold: nothing is called missing that could not be seen. What retention has taken, what the cursor has not
passed and what cannot be read is told, and not judged. Memory is bounded by ``facts_max`` and a page of jobs: a span
with more is judged in parts, from the oldest hour on, and each part reads the log from its own beginning to the end
(a fire may be decided long after its time).

How it fails: BackendDown; Busy where one hour is over the bound.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from waterclock.log.port import Committed, Isolation, Log, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.cursor_text import read_cursor
from waterclock.model.errors import UndecodableRecord
from waterclock.model.ids import SLOT_COUNT, US_PER_MINUTE, Instant, ordinal, partition_of, slots_of_partition
from waterclock.model.job import JobStatus, JobVersion
from waterclock.model.time_text import format_rfc3339
from waterclock.model.timing import JITTER_US_MAX
from waterclock.model.untellable import schedule_error
from waterclock.model.zones import TZDATA_VERSION
from waterclock.store.in_parts import read_in_parts
from waterclock.store.shelves import ShelfReading
from waterclock.store.tables import PSHARDS
from waterclock.wire.codec import decode_event
from waterclock.wire.names import Names

from .balance import judge_job
from .facts import FACTS_MAX, Facts, JobFacts
from .sums import HourSum, Span, Sums

READ_BEFORE_US = 5 * US_PER_MINUTE
"""Reading begins so long before the span: a fire is decided shortly before its time at most, and clocks differ."""

RETAINED_MARGIN_US = US_PER_MINUTE
"""Fires so close to the first event that is kept may have been decided before it."""

VERSIONS_SEEN = 100
"""As many versions of a job as the store tells at once."""

_PAGE = 500
_PART_RECORDS = 1_000
_JOBS_PAGES_MAX = 1_000_000


class Versions(Protocol):
    """Who knows what jobs were."""

    def versions(self, job_ids: Sequence[str]) -> dict[str, list[JobVersion]]:
        """The newest versions of each job, newest first, at most ``VERSIONS_SEEN``."""
        ...


class Jobs(Versions, ShelfReading, Protocol):
    """Who knows all jobs, and what they were."""


class Asked(NamedTuple):
    """What is to be judged: fires in [``from_at``, ``until_at``), of these jobs (none named: of all)."""

    from_at: Instant
    until_at: Instant
    job_ids: tuple[str, ...] = ()
    names_max: int = 10
    facts_max: int = FACTS_MAX


class Remark(NamedTuple):
    """Something to know about a verdict. ``hides``: a part of the span could not be judged because of it."""

    text: str
    hides: bool


class ShardVerdict(NamedTuple):
    """Judged are the fires in [``proved_from``, ``decided_to``) of the shard that are due before its cursor."""

    shard: int
    hours: Mapping[int, HourSum]
    proved_from: Instant
    decided_to: Instant
    remarks: tuple[Remark, ...]

    @property
    def is_balanced(self) -> bool:
        """Nothing that was judged is missing, doubled or wrong."""
        return all(hour.is_balanced for hour in self.hours.values())

    @property
    def is_whole(self) -> bool:
        """Nothing that is decided was left out."""
        return not any(remark.hides for remark in self.remarks)


class Ledger:
    """Judges shards. ``generation``: that of the topics. Belongs to one thread."""

    def __init__(self, log: Log, names: Names, jobs: Jobs, generation: int) -> None:
        self._log = log
        self._names = names
        self._jobs = jobs
        self._generation = generation
        self._shards = log.partitions(names.run_events)
        self._remarks: list[Remark] = []

    @property
    def shards(self) -> int:
        """How many there are."""
        return self._shards

    def positions(self) -> dict[TopicPartition, Committed]:
        """The dispatchers' committed positions: asked once, for all shards, before any is judged."""
        return self._log.group_positions(self._names.group("dispatcher"))

    def judge(self, shard: int, asked: Asked, positions: Mapping[TopicPartition, Committed]) -> ShardVerdict:
        """The verdict on one shard. Raises BackendDown, Busy."""
        work = self.judging(shard, asked, positions)
        while True:  # ends: so does the log, and the jobs
            try:
                next(work)
            except StopIteration as end:
                verdict: ShardVerdict = end.value
                return verdict

    def judging(
        self, shard: int, asked: Asked, positions: Mapping[TopicPartition, Committed]
    ) -> Generator[None, None, ShardVerdict]:
        """The same in parts of some ten milliseconds, for whoever has to rest in between. One at a time."""
        self._remarks = []
        sums = Sums(asked.names_max)
        committed = positions.get(TopicPartition(self._names.commands, shard))
        told = None if committed is None else read_cursor(committed.metadata)
        if committed is None or told is None:
            self._remark("its cursor is not known: no dispatcher has committed one that this release can read")
            return ShardVerdict(shard, {}, asked.until_at, asked.until_at, tuple(self._remarks))
        place = TopicPartition(self._names.run_events, shard)
        proved_from = min(max(asked.from_at, self._retained_from(place)), asked.until_at)
        cursor_at = told.cursor_at
        decided_to = max(proved_from, min(asked.until_at, cursor_at))
        gaps = tuple((gap.from_at, gap.to_at) for gap in told.gaps)
        for from_at, to_at in gaps:
            if from_at < decided_to and to_at > proved_from:
                span = f"{format_rfc3339(from_at)} to {format_rfc3339(to_at)}"
                self._remark(f"what is due from {span} is still to be caught up")
        obeyed_to = ordinal(self._generation, committed.offset)
        at = proved_from
        while True:  # ends: each part ends behind its first hour, or raises Busy
            facts = yield from self._facts(place, at, decided_to, asked)
            is_last = facts.until_at >= decided_to
            until_at = asked.until_at if is_last else facts.until_at
            part = Span(at, facts.until_at, until_at, cursor_at, gaps)
            yield from self._judge_part(shard, asked, facts, part, sums, obeyed_to)
            if is_last:
                break
            at = facts.until_at
        # Asked again: what retention took while the log was read was not seen either.
        proved_from = min(max(proved_from, self._retained_from(place)), asked.until_at)
        if proved_from > asked.from_at:
            self._remark(
                f"cannot be proved before {format_rfc3339(proved_from)}: run-events does not reach back further"
            )
        return ShardVerdict(shard, sums.hours, proved_from, decided_to, tuple(dict.fromkeys(self._remarks)))

    def _remark(self, text: str, *, hides: bool = True) -> None:
        self._remarks.append(Remark(text, hides))

    # Facts --------------------------------------------------------------------------------------------------------

    def _retained_from(self, place: TopicPartition) -> Instant:
        """From when on all decisions about fires are still kept; 0: nothing was ever removed."""
        low = self._log.low_watermark(place)
        end = self._log.high_watermark(place)
        if low == 0:
            return 0
        for record in read_range(self._log, Isolation.COMMITTED, place, low, end):
            return record.timestamp_us + RETAINED_MARGIN_US
        return 1 << 62

    def _facts(
        self, place: TopicPartition, from_at: Instant, decided_to: Instant, asked: Asked
    ) -> Generator[None, None, Facts]:
        facts = Facts(from_at, decided_to, asked.facts_max)
        end = self._log.high_watermark(place)
        begin = max(self._log.low_watermark(place), self._log.offset_at(place, max(from_at - READ_BEFORE_US, 0)))
        wanted = {job_id.encode() for job_id in asked.job_ids}
        unreadable = 0
        for number, record in enumerate(read_range(self._log, Isolation.COMMITTED, place, begin, end), 1):
            if number % _PART_RECORDS == 0:
                yield
            if wanted and record.key not in wanted:
                continue
            try:
                event = decode_event(record.value or b"")
            except UndecodableRecord:
                unreadable += 1
                continue
            facts.take(event, record.timestamp_us, ordinal(self._generation, record.offset))
        unreadable += facts.unreadable
        if unreadable:
            self._remark(f"{unreadable} run events cannot be read by this release")
        others = sorted(facts.tzdata - {TZDATA_VERSION})
        if others:
            text = f"runs were made with tzdata {', '.join(others)}, judged with {TZDATA_VERSION}: fires may differ"
            self._remark(text, hides=False)
        return facts

    # Jobs ---------------------------------------------------------------------------------------------------------

    def _judge_part(
        self, shard: int, asked: Asked, facts: Facts, span: Span, sums: Sums, obeyed_to: int
    ) -> Iterator[None]:
        for job_ids in self._pages(shard, asked, facts):
            known = self._versions(job_ids)
            for job_id in job_ids:
                found = known.get(job_id, [])
                said = facts.jobs.pop(job_id, None) or JobFacts()
                if found is not None:
                    self._judge_job(job_id, found, said, span, sums, obeyed_to)
            yield

    def _versions(self, job_ids: Sequence[str]) -> dict[str, list[JobVersion] | None]:
        """Of each job; None where this release cannot read one of them."""

        def read(some: Sequence[str]) -> dict[str, list[JobVersion] | None]:
            return dict(self._jobs.versions(some))

        def none(job_id: str, odd: Exception) -> dict[str, list[JobVersion] | None]:
            self._remark(f"{job_id} is not judged: this release cannot read a version of it ({odd})")
            return {job_id: None}

        parts = read_in_parts(job_ids, read, none)
        return {job_id: versions for part in parts for job_id, versions in part.items()}

    def _judge_job(
        self, job_id: str, found: Sequence[JobVersion], said: JobFacts, span: Span, sums: Sums, obeyed_to: int
    ) -> None:
        is_whole = len(found) < VERSIONS_SEEN
        if not is_whole and found[-1].stamp_at >= span.from_at:
            from_at = min(found[-1].stamp_at + 1, span.decided_to)
            text = f"{job_id} cannot be proved before {format_rfc3339(from_at)}: it has over {VERSIONS_SEEN} versions"
            self._remark(text)
            span = span._replace(from_at=from_at)
        if error := _error_in(found, span):
            self._remark(f"{job_id} is not judged: {error}")
            return
        for each in found:
            error = schedule_error(each.spec.schedule)
            if error and any(told.revision == each.revision for told in said.backfills.values()):
                self._remark(f"{job_id}: backfills of its revision {each.revision} are not judged: {error}")
        revised = {fact.revised.revision for fact in said.revised}
        in_force = [each for each in reversed(found) if each.revision < obeyed_to or each.revision in revised]
        judge_job(job_id, in_force, said, span, sums, is_whole=is_whole)

    def _pages(self, shard: int, asked: Asked, facts: Facts) -> Iterator[list[str]]:
        """The jobs that were asked for; else those that stand, and then those that the log alone speaks of."""
        if asked.job_ids:
            mine = [job_id for job_id in asked.job_ids if partition_of(job_id, self._shards) == shard]
            yield from (mine[start : start + _PAGE] for start in range(0, len(mine), _PAGE))
            return
        yield from self._standing(shard)
        while facts.jobs:  # ends: whoever judges a page takes its facts away
            yield [job_id for job_id, _ in zip(facts.jobs, range(_PAGE), strict=False)]

    def _standing(self, shard: int) -> Iterator[list[str]]:
        """The jobs of the shard that are not deleted, each once."""
        pshards = {slot % PSHARDS for slot in slots_of_partition(shard, self._shards)}
        assert SLOT_COUNT % PSHARDS == 0
        for shelf in self._jobs.shelves():
            after: tuple[Instant, str] | None = None
            for _ in range(_JOBS_PAGES_MAX if shelf.pshard in pshards else 0):
                page = self._jobs.on_shelf(shelf, _PAGE, after)
                yield [
                    line.job_id
                    for line in page
                    if line.status is not JobStatus.DELETED and partition_of(line.job_id, self._shards) == shard
                ]
                if len(page) < _PAGE:
                    break
                after = (page[-1].created_at, page[-1].job_id)


def _error_in(versions: Sequence[JobVersion], span: Span) -> str:
    """Why nobody can tell what a job owes in the span; "" where all that it owes can be told.

    ``versions``: newest first. Those that had ended before it owe nothing in it, nor do those that come after it.
    """
    ends_at = span.until_at
    for version in versions:
        if ends_at < span.from_at - JITTER_US_MAX:
            break
        owes = version.status in (JobStatus.ACTIVE, JobStatus.PAUSED) and version.stamp_at < span.until_at
        if owes and (error := schedule_error(version.spec.schedule)):
            return error
        ends_at = version.stamp_at
    return ""
