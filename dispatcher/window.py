"""The look-ahead: buckets of the time index become chains before their minute comes (design §6).

Minute by minute, a few slots at a time, so that loading never stands in front of a fire for long. While a minute waits
in the window, the next row of each of its recurring jobs is already written: rows first, commit second. So at the
fire time nothing touches Cassandra. Nothing is changed in memory before the store has acknowledged, so a failed slice
is simply taken again.

Where fires wait for a slice, as after a take-over, the rows that it would write stand already, mostly: a predecessor
was further. They are looked for then, and only what does not stand is written.
"""

from __future__ import annotations

from collections import Counter

import structlog

from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_MINUTE, US_PER_S, Instant, minute_of
from waterclock.model.job import JobVersion
from waterclock.model.timetable import due_of, fire_edge, next_of
from waterclock.store.port import DueRow, TimeIndex
from waterclock.wire.names import Names

from .errands import Errand, Errands, do_at_once
from .lately import read_beside
from .position import Position
from .rows import advance_wts, due_row, following
from .run_orders import deferred_of
from .shard import Shard
from .timeline import Chain
from .trusted import is_stale, trusted_rows, version_of

log_ = structlog.get_logger("dispatcher")

SLICE_ROWS = 100
"""What one slice should carry at most: its rows and the next ones cost about 25 ms; read at once, fires wait for it."""
SLOTS_PER_SLICE = 8
"""At most; fewer where slots are full."""
URGENT_TIMES = 8
"""So many slices at once where the shard's fires wait for them anyway. A shard that was just taken over has two minutes
to load; by the slice that took 32 rounds and more, each with its commit."""
LOOKED_FOR_FROM = 100
"""Rows of the next minute; fewer are written without a look."""
CROWD_TIMES = 4
"""By so much a slot of the next minute may hold more rows than were to be written, else reading costs more than that.
One slot tells for all: jobs are dealt out among them by a hash."""
_HOUR_US = 3_600 * US_PER_S
_DISPOSE_MARGIN_MINUTES = 61


def wants_more(shard: Shard, now: Instant, look_ahead_us: int) -> bool:
    """Whether the window ends too soon."""
    return shard.horizon_at <= now + look_ahead_us


def is_urgent(shard: Shard, now: Instant, look_ahead_us: int) -> bool:
    """Whether so little is left of the window that fires wait for the next slice, and not it for a quiet moment."""
    return shard.horizon_at <= now + look_ahead_us // 2


def go_on(shard: Shard, errands: Errands, index: TimeIndex, names: Names, now: Instant, look_ahead_us: int) -> bool:
    """The next slice, or the end of a consumed minute. True where fires wait for one more. Raises BackendDown."""
    if errands.go_on(shard):
        return False
    if not wants_more(shard, now, look_ahead_us):
        errands.begin(shard, dispose_slice(shard, index, now))
        errands.go_on(shard)
        return False
    if is_urgent(shard, now, look_ahead_us):
        do_at_once(load_slice(shard, index, names, shard.urgent_slots, was_ahead=True))
    else:
        errands.begin(shard, load_slice(shard, index, names, shard.slice_slots))
    return not errands.go_on(shard) and wants_more(shard, now, look_ahead_us)


def load_slice(
    shard: Shard, index: TimeIndex, names: Names, slot_count: int, *, was_ahead: bool = False
) -> Errand[None]:
    """Load the next few slots of the next minute. Where a call of the store fails nothing has changed.

    ``was_ahead``: an owner before us may have written the next rows already.
    """
    minute = shard.loaded_minute
    slots = shard.slots[shard.loaded_slots : shard.loaded_slots + slot_count]
    found: list[DueRow] = yield lambda: index.load_due(slots, minute)
    yield from read_beside(shard, index, found)
    deferred = [row for row in found if row.entry]
    ahead: list[DueRow] = []
    chains: list[Chain] = []
    for row in trusted_rows(shard, index, found):
        try:
            version = version_of(row, index)
            ends_at = shard.ends_at(row.job_id, row.revision)
            chain = _chain(shard, version, row, ends_at)
            following_row = _following_row(shard, version, row, ends_at)
        except RequestError as error:
            # One bad row must not stop the shard; this line names the job whose fires are missing.
            log_.error("due row cannot be served", job_id=row.job_id, due_at=row.due_at, cause=str(error))
            continue
        if chain is not None:
            chains.append(chain)
        if following_row is not None:
            ahead.append(following_row)
    if was_ahead:
        ahead = yield from _missing(index, minute + 1, ahead)
    if ahead:
        yield lambda: index.write_due(ahead)
    for chain in chains:
        shard.timeline.add(chain)
    for row in deferred:
        _take_deferred(shard, names, row)
    shard.loaded_slots += len(slots)
    shard.slice_slots = _slots_for(len(found) / len(slots))
    shard.urgent_slots = _slots_for(len(found) / len(slots), URGENT_TIMES)
    if shard.loaded_slots >= len(shard.slots):
        shard.loaded_minute, shard.loaded_slots = minute + 1, 0
        shard.slice_slots = shard.urgent_slots = 1  # the next minute may be fuller


def _missing(index: TimeIndex, minute: int, ahead: list[DueRow]) -> Errand[list[DueRow]]:
    """Which of these rows are to be written: those that do not stand in ``minute``, and those of later ones.

    A row stands that says the same, whenever it was written. It stands on a quorum then, as a written one does: rows
    are read at a quorum, and Cassandra repairs what replicas disagree on before it answers (``read_repair``, which is
    left as it is by default).
    """
    near = Counter(row.slot for row in ahead if row.minute == minute)
    if near.total() < LOOKED_FOR_FROM:
        return ahead
    first, *others = near
    read: list[DueRow] = yield lambda: index.load_due([first], minute)
    if len(read) > CROWD_TIMES * near[first]:
        return ahead
    if others:
        read += yield lambda: index.load_due(others, minute)
    standing = {_said(row) for row in read}
    return [row for row in ahead if _said(row) not in standing]


def _said(row: DueRow) -> tuple[object, ...]:
    """All but the stamp, which is the last field."""
    return row[:-1]


def _take_deferred(shard: Shard, names: Names, row: DueRow) -> None:
    """A deferred attempt beyond the cursor. One whose command is still before us comes with that command."""
    if row.revision >= shard.revision_limit or Position(row.due_at, row.tier, row.job_id, row.entry) <= shard.cursor:
        return
    try:
        shard.timeline.add_deferred(deferred_of(names, row))
    except RequestError as error:
        log_.error("deferred work cannot be read", entry=row.entry, due_at=row.due_at, cause=str(error))


def _slots_for(rows_per_slot: float, times: int = 1) -> int:
    """How many slots ``times`` slices take, if they are as full as these were: at least one."""
    return max(1, min(times * SLOTS_PER_SLICE, int(times * SLICE_ROWS / max(1.0, rows_per_slot))))


def dispose_slice(shard: Shard, index: TimeIndex, now: Instant) -> Errand[None]:
    """Delete one consumed minute, if there is one: an hour after its end, below cursor and gaps."""
    minute, progress = shard.disposed_minute, shard.progress
    if minute + _DISPOSE_MARGIN_MINUTES > min(minute_of(now), minute_of(shard.cursor.due_at) + 60):
        return
    if minute >= minute_of(progress.undecided_from):
        return
    is_disposed = yield lambda: index.dispose_due(shard.slots, minute)
    if not is_disposed:
        return  # the clock has stepped back since ``now``
    shard.disposed_minute = minute + 1
    shard.forget_before(min(now, progress.begins_at) - _HOUR_US)


def _chain(shard: Shard, version: JobVersion, row: DueRow, ends_at: Instant | None) -> Chain | None:
    """The row's fires beyond the job's edge; a row behind the edge still anchors the later fires of its minute."""
    edge_at = fire_edge(version, shard.edge_of(version))
    edge_at = max(edge_at, shard.fires_decided_to(row.job_id), shard.begins_after(version))
    first_at: Instant | None = row.fire_at
    if row.fire_at <= edge_at:
        first_at = next_of(version, edge_at)
    elif is_stale(row):
        first_at = next_of(version, row.fire_at - 1)
    minute_end = (row.minute + 1) * US_PER_MINUTE
    if first_at is None or due_of(version, first_at) >= minute_end or (ends_at is not None and first_at > ends_at):
        return None
    chain = Chain(version, row, first_at)
    if ends_at is not None:
        chain.until_at = min(chain.until_at, ends_at)
    return chain


def _following_row(shard: Shard, version: JobVersion, row: DueRow, ends_at: Instant | None) -> DueRow | None:
    """The row for the next minute in which the job fires; none where a newer version takes over before it.

    Where a catch-up has decided beyond this whole minute, it wrote the row beyond its own edge itself.
    """
    decided = shard.decided.get(row.job_id)
    if decided is not None and decided.at >= (row.minute + 1) * US_PER_MINUTE:
        return None
    fire_at = following(version, row.minute)
    if fire_at is None or (ends_at is not None and fire_at > ends_at):
        return None
    return due_row(version, fire_at, advance_wts(row.fire_at, version))
