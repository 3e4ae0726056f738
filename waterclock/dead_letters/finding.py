"""Finding dead letters: by filter in history, newest first; and their bytes in the topic.

What must hold: a bound on what is looked through, and who reaches it is told (``is_whole``). How it fails: BackendDown;
a letter whose record retention has removed has no bytes any more. History lags by about a second, so a letter of this
moment may not be there yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from waterclock.log.port import Isolation, Log, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import DeadLetter
from waterclock.model.ids import US_PER_S, Instant, partition_of
from waterclock.store.port import FailureRow, Reading
from waterclock.wire.codec import decode_dead_letter
from waterclock.wire.names import Names

from .choosing import Choice, Letter

LOOKED_THROUGH_MAX = 20_000
"""Failures that one search looks through."""

_PAGE = 1_000
_SEARCHED_MAX = 200_000
"""Records of one partition of the topic that one search reads."""
_EARLIER_US = 60 * US_PER_S
"""Clocks of workers, routers and brokers differ: the search begins so long before the run was given up."""


class Mark(NamedTuple):
    """Where a page ended: the next one goes on behind this failure."""

    ended_at: Instant
    run_id: str


class Found(NamedTuple):
    """Letters, newest first. ``next_at``: where to go on, None at the end; ``is_whole``: nothing was left out."""

    letters: list[Letter]
    next_at: Mark | None
    is_whole: bool


def find(store: Reading, tenant: str, choice: Choice, limit: int, after: Mark | None = None) -> Found:
    """The newest letters that ``choice`` means, behind ``after``, at most ``limit``. Raises BackendDown."""
    found: list[Letter] = []
    looked_through = 0
    for page in _pages(store, tenant, choice.since, after):
        looked_through += len(page)
        wanted = [row for row in page if choice.wants_failure(row)]
        done = store.letter_rows([(row.job_id, row.fire_at, row.series) for row in wanted]) if wanted else []
        letters = [Letter(row, each) for row, each in zip(wanted, done, strict=True)]
        found += [letter for letter in letters if choice.wants(letter)]
        if len(found) > limit:
            last = found[limit - 1]
            return Found(found[:limit], Mark(last.failure.ended_at, last.run_id), is_whole=False)
        if looked_through >= LOOKED_THROUGH_MAX:
            row = page[-1]
            return Found(found, Mark(row.ended_at, Letter(row, None).run_id), is_whole=False)
    return Found(found, None, is_whole=True)


def _pages(store: Reading, tenant: str, since: Instant | None, after: Mark | None) -> Iterator[list[FailureRow]]:
    """Failures, newest first, page by page; those of one instant in the order of their run ids."""
    while True:  # ends: each page reaches further back
        until = None if after is None else after.ended_at
        rows = store.failures(tenant, _PAGE, since, until)
        full = len(rows) == _PAGE
        if after is not None:
            rows = [row for row in rows if (-row.ended_at, Letter(row, None).run_id) > (-after.ended_at, after.run_id)]
        if not rows:
            return
        rows.sort(key=lambda row: (-row.ended_at, Letter(row, None).run_id))
        yield rows
        if not full:
            return
        after = Mark(rows[-1].ended_at, Letter(rows[-1], None).run_id)


def read_letters(log: Log, names: Names, letters: Sequence[Letter]) -> dict[str, DeadLetter]:
    """The letters themselves, by run id, from the topic; what is no longer there is left out. Raises BackendDown."""
    wanted: dict[int, dict[str, Instant]] = {}
    partitions = log.partitions(names.dlq)
    for letter in letters:
        of_partition = wanted.setdefault(partition_of(letter.failure.job_id, partitions), {})
        of_partition[letter.run_id] = letter.failure.ended_at
    found: dict[str, DeadLetter] = {}
    for partition, runs in sorted(wanted.items()):
        found |= _read(log, TopicPartition(names.dlq, partition), runs)
    return found


def _read(log: Log, place: TopicPartition, runs: dict[str, Instant]) -> dict[str, DeadLetter]:
    start = max(log.low_watermark(place), log.offset_at(place, min(runs.values()) - _EARLIER_US))
    end = min(log.high_watermark(place), start + _SEARCHED_MAX)
    found: dict[str, DeadLetter] = {}
    for record in read_range(log, Isolation.COMMITTED, place, start, end, idle_polls=10):
        try:
            letter = decode_dead_letter(record.value or b"")
        except UndecodableRecord:
            continue  # only roles write there; whoever shows the topic says so
        if letter.run_id in runs:
            found[letter.run_id] = letter
            if len(found) == len(runs):
                break
    return found
