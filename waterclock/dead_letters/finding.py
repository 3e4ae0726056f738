"""Finding dead letters: by name or by filter in history, newest first; and their bytes in the topic.

What must hold: a bound on what is looked through, and who reaches it is told (``is_whole``) and can go on behind it
(``next_at``). How it fails: BackendDown; a letter whose record retention has removed has no bytes any more. History
lags by about a second, so a letter of this moment may not be there yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from waterclock.log.port import Isolation, Log, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown, NotFound, UndecodableRecord
from waterclock.model.events import Answered, CommandVerdict, DeadLetter, RunStatus
from waterclock.model.ids import US_PER_S, Instant, RunId, parse_run_id, partition_of
from waterclock.store.port import FailureRow, Reading
from waterclock.store.run_rows import run_or_node
from waterclock.wire.codec import decode_dead_letter
from waterclock.wire.names import Names

from .choosing import Choice, Letter

LOOKED_THROUGH_MAX = 20_000
"""Failures that one search of a request looks through: some seconds."""

PATIENT_MAX = 1_000_000
"""The same, of somebody who can wait for minutes."""

_PAGE = 1_000
_SEARCHED_MAX = 200_000
"""Records of one partition of the topic that one search reads."""
_STRETCH = 20_000
"""Of them at once: then the search goes on where the next letter may stand."""
_EARLIER_US = 60 * US_PER_S
"""Clocks of routers and brokers differ: the search begins so long before the run was given up."""
_LATER_US = 3_600 * US_PER_S
"""A router that was away writes the letter of a run late: after so much more it is none any more."""


class Mark(NamedTuple):
    """Where a page ended: the next one goes on behind this failure."""

    ended_at: Instant
    run_id: str

    @property
    def place(self) -> tuple[Instant, RunId]:
        """The same, as the store has it. Raises RequestError where the text is no run id."""
        return self.ended_at, parse_run_id(self.run_id)


class Found(NamedTuple):
    """Letters, newest first. ``next_at``: where to go on, None at the end; ``is_whole``: nothing was left out."""

    letters: list[Letter]
    next_at: Mark | None
    is_whole: bool


def find(
    store: Reading,
    tenant: str,
    choice: Choice,
    limit: int,
    after: Mark | None = None,
    looked_through_max: int = LOOKED_THROUGH_MAX,
) -> Found:
    """The newest letters that ``choice`` means, behind ``after``, at most ``limit``. Raises BackendDown."""
    found: list[Letter] = []
    looked_through = 0
    for page in _named(store, choice, after) if choice.run_ids else _pages(store, tenant, choice.since, after):
        looked_through += len(page)
        wanted = [row for row in page if choice.wants_failure(row)]
        done = store.letter_rows([Letter(row, None).run for row in wanted]) if wanted else []
        letters = [Letter(row, each) for row, each in zip(wanted, done, strict=True)]
        found += [letter for letter in letters if choice.wants(letter)]
        if len(found) > limit:
            return Found(found[:limit], mark_of(found[limit - 1]), is_whole=False)
        if looked_through >= looked_through_max:
            return Found(found, mark_of(Letter(page[-1], None)), is_whole=False)
    return Found(found, None, is_whole=True)


def mark_of(letter: Letter) -> Mark:
    """Behind this letter."""
    return Mark(letter.failure.ended_at, letter.run_id)


def mark_of_run(store: Reading, run_id: str) -> Mark:
    """Behind the letter of this run, or node of a DagRun. Raises NotFound, RequestError, BackendDown."""
    run = parse_run_id(run_id)
    row = run_or_node(store, run)
    if row is None or row.status is not RunStatus.FAILED or row.is_dag:
        raise NotFound(f"There is no dead letter of {run_id}", hint="Give the run that the command before named")
    return Mark(row.ended_at, str(run))


def dropped_before(store: Reading, answers: Sequence[Answered | None]) -> dict[int, str]:
    """By place the runs with which a repeated redrive was answered, and that their jobs' limits have dropped.

    History may not have them yet, or be away: then they count as made, until the next try.
    """
    found: dict[int, str] = {}
    try:
        for place, answer in enumerate(answers):
            if answer is not None and answer.verdict == CommandVerdict.REPEATED and answer.run_id:
                row = run_or_node(store, parse_run_id(answer.run_id))
                if row is not None and row.status is RunStatus.SKIPPED:
                    found[place] = answer.run_id
    except BackendDown:
        return {}
    return found


def _pages(store: Reading, tenant: str, since: Instant | None, after: Mark | None) -> Iterator[list[FailureRow]]:
    """Failures, newest first, page by page; those of one instant in the order of their runs."""
    while True:  # ends: each page reaches further back
        rows = store.failures(tenant, _PAGE, since, None if after is None else after.place)
        if rows:
            yield rows
        if len(rows) < _PAGE:
            return
        after = mark_of(Letter(rows[-1], None))


def _named(store: Reading, choice: Choice, after: Mark | None) -> Iterator[list[FailureRow]]:
    """The failures of the runs that ``choice`` names, by their keys: however many others there are."""
    places: list[tuple[Instant, RunId]] = []
    for run in map(parse_run_id, choice.run_ids):
        row = run_or_node(store, run)
        if row is not None and row.status is RunStatus.FAILED:
            places.append((row.ended_at, run))
    places.sort(key=_order)
    behind = [place for place in places if after is None or _order(place) > _order(after.place)]
    rows = [row for row in store.failure_rows(behind) if row is not None] if behind else []
    yield [row for row in rows if choice.since is None or row.ended_at > choice.since]


def _order(place: tuple[Instant, RunId]) -> tuple[Instant, RunId]:
    """Newest first, then as the store has them."""
    return -place[0], place[1]


Read: TypeAlias = dict[str, DeadLetter | None]
"""Letters by run id. None: the search ended before it was reached, for it reads no more than ``_SEARCHED_MAX``."""


def read_letters(log: Log, names: Names, letters: Sequence[Letter]) -> Read:
    """The letters themselves, from the topic; what is no longer there is left out. Raises BackendDown."""
    found: Read = {}
    for some in read_in_stretches(log, names, letters):
        found |= some
    return found


def read_in_stretches(log: Log, names: Names, letters: Sequence[Letter]) -> Iterator[Read]:
    """The same, as they are found: each step reads one stretch of the topic at most. Raises BackendDown."""
    wanted: dict[int, dict[str, Instant]] = {}
    partitions = log.partitions(names.dlq)
    for letter in letters:
        of_partition = wanted.setdefault(partition_of(letter.failure.job_id, partitions), {})
        # When the verdict was recorded: when the attempt ended says the worker's clock, which may be any.
        of_partition[letter.run_id] = letter.failure.wts
    for partition, runs in sorted(wanted.items()):
        yield from _read(log, TopicPartition(names.dlq, partition), runs)


def _read(log: Log, place: TopicPartition, runs: dict[str, Instant]) -> Iterator[Read]:
    """``runs``: when each was given up. A flood of letters between two of them is passed over, also behind one that the
    topic no longer has."""
    start, last = log.low_watermark(place), log.high_watermark(place)
    left, read_to_at = dict(runs), 0
    for _ in range(_SEARCHED_MAX // _STRETCH):
        if not left or start >= last:
            return
        ahead = _ahead(left, read_to_at) or left
        start = max(start, log.offset_at(place, min(ahead.values()) - _EARLIER_US))
        end = min(last, start + _STRETCH)
        found, read_to_at = _read_stretch(log, place, start, end, left)
        for run_id in found:
            del left[run_id]
        yield found
        start = end
    if start < last:
        yield dict.fromkeys(_ahead(left, read_to_at))


def _ahead(left: dict[str, Instant], read_to_at: Instant) -> dict[str, Instant]:
    """Those that stand behind what was read, or may."""
    return {run_id: at for run_id, at in left.items() if at + _LATER_US >= read_to_at}


def _read_stretch(
    log: Log, place: TopicPartition, start: int, end: int, wanted: Collection[str]
) -> tuple[Read, Instant]:
    """What is wanted of it, and up to when it was read."""
    found: Read = {}
    read_to_at = 0
    for record in read_range(log, Isolation.COMMITTED, place, start, end, idle_polls=10):
        read_to_at = record.timestamp_us
        try:
            letter = decode_dead_letter(record.value or b"")
        except UndecodableRecord:
            continue  # only roles write there; whoever shows the topic says so
        if letter.run_id in wanted:
            found[letter.run_id] = letter
            if len(found) == len(wanted):
                break
    return found, read_to_at
