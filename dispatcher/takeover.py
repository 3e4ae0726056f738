"""Taking a shard over, so that a successor continues exactly where the committed work ends (design §5.5, §6).

The order matters. Committed position and cursor first: asking for them waits for pending rounds. Then the high
watermark of the state topic, open transactions included, and everything up to there: atomic is not simultaneous,
markers land one by one. Only then is anything decided, and no fire before the commands up to the high watermark.

Where the metadata is lost (an expired group, a foreign tool's commit), cursor, gaps and position are rebuilt from the
copy in the state topic plus the due positions in run-events after it, never from "now". A gap is in the copy from the
round on that opened it, and out of it with the round that closed it: events tell a gap's position, never a gap. Where
there is none of all this, the shard has never been owned: it owes nothing before its first command.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import structlog

from waterclock.log.port import Committed, Isolation, Log, Record, TopicPartition
from waterclock.log.reading import newest_by_key, read_range
from waterclock.model.backfill import Backfilled
from waterclock.model.errors import RequestError, UndecodableRecord
from waterclock.model.events import Answered, CommandVerdict, EventKind, Pending, Revised, RunEvent, Skipped
from waterclock.model.ids import US_PER_S, Instant, offset_of, parse_run_id
from waterclock.model.job_state import JobState
from waterclock.model.role_state import ShardState
from waterclock.model.timing import JITTER_US_MAX
from waterclock.wire import codec
from waterclock.wire.command_glance import new_job_at_a_glance
from waterclock.wire.messages import BACKFILL_PREFIX, CURSOR_KEY, FLOW_PREFIX, GATHER_PREFIX
from waterclock.wire.names import Names

from .gaps import Gap, Progress, decode_progress
from .keys import Keys, is_key_of_state
from .position import Position
from .shard import Decided, Shard

log_ = structlog.get_logger("dispatcher")

_LATELY_US = 3_600 * US_PER_S
_MADE = frozenset({EventKind.PENDING, EventKind.HELD, EventKind.SKIPPED})


class Kept(NamedTuple):
    """What the state topic keeps for a shard: the copy of the cursor, jobs decided ahead of it, intentions served."""

    copy: ShardState | None
    jobs: dict[str, JobState]
    keys: Keys
    flow: dict[str, bytes]
    """Runs that wait for one another, and their jobs, not decoded yet; oldest first."""
    backfills: dict[str, bytes]
    """The same of backfills."""
    gatherings: dict[str, bytes]
    """The same of open windows."""


class Start(NamedTuple):
    """From where a shard goes on."""

    progress: Progress
    next_offset: int


def take_over(
    log: Log,
    names: Names,
    partition: int,
    partitions: int,
    generation: int,
    committed: Committed | None,
    now: Instant,
) -> Shard:
    """Build the shard of ``partition`` from what is committed. Raises BackendDown."""
    commands = TopicPartition(names.commands, partition)
    kept = _read_state(log, TopicPartition(names.state("dispatcher"), partition))
    if committed is not None and committed.metadata.rstrip("\0"):
        start = Start(decode_progress(committed.metadata), committed.offset)
    else:
        start = _rebuild(log, names, partition, kept, committed, now)
    start = _within(log, commands, start)
    progress = start.progress
    shard = Shard(partition, partitions, generation, progress.cursor, start.next_offset, progress.gaps)
    for job_id, state in kept.jobs.items():
        shard.decide_ahead(job_id, Decided(*state[1:]))
    shard.keys = kept.keys
    # In the order of their commands, and not in that in which their records were written last.
    for key in shard.backfills.restore(sorted(kept.backfills.items(), key=lambda item: _number_of(item[0]))):
        log_.error("a record of a backfill cannot be read: upgrade the dispatcher", key=key)
    for key in shard.gatherings.restore(kept.gatherings.items()):
        log_.error("a record of an open window cannot be read: upgrade the dispatcher", key=key)
    _restore_flow(log, shard, TopicPartition(names.run_events, partition), kept.flow)
    begins_at = min(now, progress.begins_at)
    # As far back as any fire reaches that may be undecided: to the widest jitter before the oldest gap.
    shard.unread_back_to = begins_at - JITTER_US_MAX
    _note_revised(log, shard, commands, begins_at - _LATELY_US)
    shard.caught_up_at = log.high_watermark(commands)
    return shard


def _number_of(key: str) -> int:
    number = key.rpartition("~")[2]
    return int(number) if number.isdecimal() else 0


def _within(log: Log, commands: TopicPartition, start: Start) -> Start:
    """``start``, or the first command that is still there: one that retention took cannot be applied by anybody."""
    first = log.low_watermark(commands)
    if start.next_offset >= first:
        return start
    log_.error(
        "commands were deleted before they were applied: raise the topic's retention, and send them again",
        topic=commands.topic,
        partition=commands.partition,
        from_offset=start.next_offset,
        to_offset=first,
    )
    return start._replace(next_offset=first)


def _read_state(log: Log, partition: TopicPartition) -> Kept:
    copy: ShardState | None = None
    jobs: dict[str, JobState] = {}
    keys, flow = Keys(), dict[str, bytes]()
    backfills, gatherings = dict[str, bytes](), dict[str, bytes]()
    for key, value in newest_by_key(log, partition).items():
        if is_key_of_state(key):
            keys.keep(key, value)  # not decoded: there may be a hundred thousand, and hardly one is ever looked at
        elif key.startswith(FLOW_PREFIX):
            flow[key] = value
        elif key.startswith(BACKFILL_PREFIX):
            backfills[key] = value
        elif key.startswith(GATHER_PREFIX):
            gatherings[key] = value
        elif key == CURSOR_KEY:
            copy = codec.decode_shard_state(value)
        else:
            jobs[key] = codec.decode_job_state(value)
    return Kept(copy, jobs, keys, flow, backfills, gatherings)


def _restore_flow(log: Log, shard: Shard, events: TopicPartition, kept: dict[str, bytes]) -> None:
    """Runs that wait for one another. The end of run-events is asked for after the state was read: what stands in the
    one stands below the end of the other. It is read later (``event_tail.py``): so a round of a dead worker that is
    still open holds up this shard alone."""
    end, low = log.high_watermark(events), log.low_watermark(events)
    shard.events_end = end
    strange = shard.flow.restore(kept.items(), end, low)
    for key in strange:
        log_.error("a record of a waiting run cannot be read: upgrade the dispatcher", key=key)
    if any(run.kept.folded_to < low for job in shard.flow.followed.values() for run in job.open.values()):
        log_.error(
            "run events were deleted before they were read: a run that others wait for may have ended; if it stays "
            "open, cancel it: waterclock run cancel", partition=shard.partition, from_offset=low,
        )  # fmt: skip
    if shard.flow.followed and shard.flow.position < end:
        log_.info("open runs are followed", partition=shard.partition, from_offset=shard.flow.position, to_offset=end)


def _whole(log: Log, partition: TopicPartition, start: int) -> Iterable[Record]:
    return read_range(log, Isolation.COMMITTED, partition, start, log.high_watermark(partition))


def _rebuild(log: Log, names: Names, partition: int, kept: Kept, committed: Committed | None, now: Instant) -> Start:
    """Cursor and position from the copy, and from what run-events say was decided after it.

    The edge of a REVISED is the cursor's, unless the job's own record still says that it was decided ahead. So the
    cursor had come as far, also where nothing was due: the new version's fires up to there are owed by nobody.
    """
    copy = kept.copy
    events = TopicPartition(names.run_events, partition)
    commands = TopicPartition(names.commands, partition)
    found = decode_progress(copy.cursor) if copy else Progress(Position(0))
    cursor, gaps = (found.cursor if copy else None), list(found.gaps)
    offset = copy.commands_offset if copy else log.low_watermark(commands)
    for record in _whole(log, events, _events_from(log, events, copy)):
        event = _event(record)
        if event is None:
            continue
        position, gap_to_at = _due_position(event)
        if position is not None and gap_to_at:
            gaps = [_passed(gap, position) if gap.to_at == gap_to_at else gap for gap in gaps]
        elif position is not None and (cursor is None or position > cursor):
            cursor = position
        if isinstance(event.detail, Revised) and not _is_ahead(kept.jobs.get(event.job_id), event.detail.edge_at):
            cursor = max(cursor or Position(0), Position(event.detail.edge_at))
        offset = max(offset, _command_offset(event) + 1)
    if cursor is None:
        cursor = Position(_first_owed(log, commands, now))
    return Start(Progress(cursor, tuple(gaps)), max(offset, committed.offset) if committed else offset)


def _events_from(log: Log, events: TopicPartition, copy: ShardState | None) -> int:
    """Where what was decided after the copy begins, as far as it is still there."""
    first = log.low_watermark(events)
    if copy is not None and copy.events_offset < first:
        log_.error(
            "run events were deleted that tell what was decided last: fires may be decided again",
            topic=events.topic, partition=events.partition, from_offset=copy.events_offset, to_offset=first,
        )  # fmt: skip
    return max(first, copy.events_offset if copy else first)


def _passed(gap: Gap, position: Position) -> Gap:
    """The gap after what was decided at ``position``."""
    if position <= gap.position:
        return gap
    return gap._replace(position=position, row_count=max(0, gap.row_count - 1))


def _is_ahead(state: JobState | None, edge_at: Instant) -> bool:
    return state is not None and state.decided_at >= edge_at


def _event(record: Record) -> RunEvent | None:
    try:
        return codec.decode_event(record.value or b"")
    except UndecodableRecord:
        return None  # the recorder forwards it to rejects; here it only cannot tell a position


def _due_position(event: RunEvent) -> tuple[Position | None, Instant]:
    """The due position that an event says was passed, and the end of the gap in which that lies (0: the cursor's).

    Fires decided ahead of the order name no position.
    """
    detail = event.detail
    if isinstance(detail, Pending) and detail.due_at is not None:
        return Position(detail.due_at, detail.tier, event.job_id, detail.entry), detail.gap_to_at
    if isinstance(detail, Skipped) and detail.due_at:
        return Position(detail.due_at, detail.tier, event.job_id), detail.gap_to_at
    return None, 0


def _command_offset(event: RunEvent) -> int:
    """The command that an event proves to be applied: -1 where it proves none."""
    if isinstance(event.detail, Revised):
        return offset_of(event.detail.revision)
    if isinstance(event.detail, Answered) and event.detail.verdict != CommandVerdict.REFUSED:
        return event.detail.offset  # a refusal may speak of a command that lies in a partition where it does not belong
    if isinstance(event.detail, Backfilled):
        return offset_of(event.detail.number)
    if event.kind in _MADE:
        try:
            series = parse_run_id(event.run_id).series
        except RequestError:
            return -1  # none of ours wrote it; the retry router forwards it to rejects
        return offset_of(series) if series else -1
    return -1


def _first_owed(log: Log, commands: TopicPartition, now: Instant) -> Instant:
    """A shard that was never owned owes nothing before its first command."""
    start = log.low_watermark(commands)
    for record in read_range(log, Isolation.COMMITTED, commands, start, log.high_watermark(commands)):
        return min(now, record.timestamp_us)
    return now


def _note_revised(log: Log, shard: Shard, commands: TopicPartition, since: Instant) -> None:
    """The jobs revised lately, by the keys of their commands. Their versions are read once a row of theirs is met.

    Not those that were only made since then, on the condition that no such job stood: nothing older of them is about.
    After a bulk load they are nearly all there is.
    """
    start = max(log.offset_at(commands, since), log.low_watermark(commands))
    made: set[str] = set()
    for record in read_range(log, Isolation.COMMITTED, commands, start, shard.next_offset):
        new_job = new_job_at_a_glance(record.value or b"")
        if new_job is not None and new_job not in made:
            made.add(new_job)
        else:  # whatever else it is, it was applied to the job of its key, or refused
            shard.unread[(record.key or b"").decode(errors="replace")] = record.timestamp_us
