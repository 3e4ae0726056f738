"""Compares, slowly and for ever, what must follow with what did (guarantees 2.5). Its repairs should be 0.

Two things can stay away: the claim of a run that waits (its work was consumed by a round of which the STARTED did not
count, or was not written: a torn claim), and the verdict on an attempt that ended. Each is repaired by doing once more
what should have been done: the work record again, marked for verification, so that whoever claims it reads its STARTED
back before any user code runs; the verdict again, which the reducer ignores if it was there. So a repair that was not
needed changes nothing. Dead letters that are missing do not show here: the letter leaves in the round that reads the
verdict, and nothing cheap can tell afterwards.

A third thing it only asks for: open attempts of a worker of which ``leases`` holds no record would never be judged. A
beat is written in that worker's name, once a look: the keeper whose partition the name hashes to then knows it, hears
nothing more, and fences it. (If it lives, it beats itself, and nothing happens.)

What must hold: ``inspected.py``. A retry is looked for on the delay topics first, by its due time: while one of them
may still hold it, its tier says nothing. How it fails: work that retention has removed ends the run (RUN_EXPIRED,
``work-record-gone``); a backend that is away, and the next look comes half a minute later. A few runs are looked into
at a time: after a disaster with thousands of orphans it takes as many minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import structlog

from waterclock.clock import Clock
from waterclock.log.port import Committed, Isolation, Log, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown, LostResource, NotFound, RequestError
from waterclock.model.events import Heartbeat, Pending, RunStatus, Started, WorkRecord
from waterclock.model.fold import OpenRun
from waterclock.model.ids import US_PER_S
from waterclock.model.known_state import state_to_text
from waterclock.model.reduce import RunState
from waterclock.transact import Round
from waterclock.wire.codec import decode_event, decode_work
from waterclock.wire.messages import heartbeat_message, work_message
from waterclock.wire.names import RUNGS, Names

from .endings import end_waiting
from .inspected import Suspect
from .letters import WORK_GONE
from .rung import group_of
from .shard import Shard
from .trail import Note, trail_of
from .work_records import WorkRecords

_OVERDUE_US = 60 * US_PER_S
_HOP_MARGIN_US = US_PER_S
_SUSPECTS_MAX = 20
_FLUSH_S = 5.0
_LOOKED_AT_MAX = 5_000
_SEARCHED_MAX = 50_000
_MARGIN_US = 10 * US_PER_S

_log = structlog.get_logger()


class Reconciler:
    """Looks at the shards of one router, every ``every_s``. What has waited for less than that is left alone."""

    def __init__(self, log: Log, clock: Clock, names: Names, records: WorkRecords, *, every_s: float = 30.0) -> None:
        self._log = log
        self._records = records
        self._clock = clock
        self._names = names
        self._every_s = every_s
        self._look_at_s = clock.monotonic_s() + every_s

    def look(self, draft: Round, shards: Sequence[Shard]) -> None:
        """Put what is to be repaired into the round. Raises nothing of ours: what cannot be asked waits."""
        try:
            for shard in shards:
                if shard.inspected.ripe and shard.next_offset >= shard.inspected.barrier:
                    self._judge(draft, shard)
            if self._clock.monotonic_s() >= self._look_at_s:
                self._look_at_s = self._clock.monotonic_s() + self._every_s
                self._inspect(shards)
        except (BackendDown, LostResource, NotFound) as trouble:
            _log.info("reconciler waits", trouble=str(trouble))

    # Noticing -----------------------------------------------------------------------------------------------------

    def _inspect(self, shards: Sequence[Shard]) -> None:
        positions = _Positions(self._log)
        for shard in shards:
            self._ripen(shard, positions)
            self._ask_again(shard)
            self._ask_about_unknown_workers(shard)
            waiting = list(self._waiting(shard))
            if waiting:
                self._suspect(shard, waiting, positions)
            shard.inspected.position_before = shard.next_offset

    def _ripen(self, shard: Shard, positions: _Positions) -> None:
        """Whose work was consumed is judged as soon as run-events was read to where it ends now."""
        notes, runs = shard.inspected, shard.fold.open
        for suspect in list(notes.suspects.values()):
            run = runs.get(suspect.run_id)
            if run is None or run.state != suspect.state:
                del notes.suspects[suspect.run_id]
                continue
            group = self._names.worker_group_of(suspect.tier.topic)
            taken_to = positions.of(group).get(suspect.tier)
            if taken_to is not None and taken_to.offset >= suspect.tier_end:
                del notes.suspects[suspect.run_id]
                notes.ripe.append(suspect)
        if notes.ripe:
            notes.barrier = self._log.high_watermark(shard.partition)

    def _ask_again(self, shard: Shard) -> None:
        """An attempt that ended at the last look and has no verdict yet: ask for it once more."""
        before, now = shard.inspected.undecided, dict[str, RunState]()
        for run_id, run in _oldest(shard):
            if not run.state.undecided:
                continue
            if before.get(run_id) == run.state:
                self._repaired(shard, run_id, "no verdict came")
                shard.ask_again(run_id)
            else:
                now[run_id] = run.state
        shard.inspected.undecided = now

    def _ask_about_unknown_workers(self, shard: Shard) -> None:
        """Those of whom nothing stands on ``leases`` at two looks in a row."""
        before, unknown = shard.inspected.unknown_workers, shard.attempts.unknown_workers()
        shard.inspected.unknown_workers = frozenset(unknown)
        asked = [(worker, run_id) for worker, run_id in unknown.items() if worker in before]
        if not asked:
            return
        appender = self._log.appender()
        try:
            for worker, run_id in asked:
                _log.error("worker is not known on leases", worker=worker, run_id=run_id)
                incarnation = shard.fold.open[run_id].state.incarnation
                beat = Heartbeat(worker, incarnation, self._clock.now(), "", 0, 0, slots=0, pool="")
                appender.append(heartbeat_message(self._names, beat))
            appender.flush(_FLUSH_S)
        finally:
            appender.close()

    def _waiting(self, shard: Shard) -> Iterator[tuple[str, OpenRun[Note]]]:
        """Runs that waited before the last look already, the oldest first."""
        before, notes = shard.inspected.position_before, shard.inspected
        # With the ripe ones: noted anew before its repair, a run would be found unclaimed at the old end, and repaired
        # twice.
        known = {*notes.suspects, *(suspect.run_id for suspect in notes.ripe)}
        left = _SUSPECTS_MAX - len(known)
        overdue_at = self._clock.now() - _OVERDUE_US
        for run_id, run in _oldest(shard):
            if left <= 0 or before is None or run.first_offset >= before:
                return
            state = run.state
            if run_id in known or state.held:
                continue
            is_retry = state.status is RunStatus.RETRYING and trail_of(run.note).claimable_at <= overdue_at
            if is_retry or state.status is RunStatus.PENDING:
                left -= 1
                yield run_id, run

    def _suspect(self, shard: Shard, waiting: list[tuple[str, OpenRun[Note]]], positions: _Positions) -> None:
        """Note where the work of these can be claimed, and up to where it must have been."""
        born = self._born(shard, [run for _, run in waiting if run.state.status is RunStatus.PENDING])
        for run_id, run in waiting:
            trail = trail_of(run.note)
            topic = born.get(run.first_offset)
            if run.state.status is RunStatus.RETRYING:
                on_ladder = self._may_be_on_ladder(shard.partition.partition, trail.claimable_at, positions)
                topic = None if on_ladder or trail.work is None else trail.work.topic
            if topic is not None:
                tier = TopicPartition(topic, shard.partition.partition)
                end = self._log.high_watermark(tier)
                shard.inspected.suspects[run_id] = Suspect(run_id, run.state, tier, end)

    def _born(self, shard: Shard, runs: Iterable[OpenRun[Note]]) -> dict[int, str]:
        """The tiers to which the work of these runs went, by the offset of their PENDING."""
        topic, partition = shard.partition
        found = {}
        places = [Started(topic, partition, run.first_offset) for run in runs]
        for place, source in self._records.read(places).items():
            try:
                detail = decode_event(source.value or b"").detail
            except RequestError:
                continue
            if isinstance(detail, Pending):
                found[place.offset] = self._names.runs(detail.tier, detail.pool)
        return found

    def _may_be_on_ladder(self, partition: int, due_at: int, positions: _Positions) -> bool:
        """Whether a delay topic holds something, not moved on yet, that was placed there before this was due."""
        for rung in RUNGS:
            place = TopicPartition(self._names.delay(rung), partition)
            placed_to = self._log.offset_at(place, due_at + _HOP_MARGIN_US)
            at = positions.of(group_of(self._names, rung)).get(place)
            if placed_to > self._log.low_watermark(place) and (at is None or at.offset < placed_to):
                return True
        return False

    # Repairing ----------------------------------------------------------------------------------------------------

    def _judge(self, draft: Round, shard: Shard) -> None:
        """Everything that could speak for these was read: whoever still waits is an orphan."""
        ripe, shard.inspected.ripe = shard.inspected.ripe, []
        for suspect in ripe:
            run = shard.fold.open.get(suspect.run_id)
            if run is not None and run.state == suspect.state:
                self._repair(draft, shard, suspect, run)

    def _repair(self, draft: Round, shard: Shard, suspect: Suspect, run: OpenRun[Note]) -> None:
        """Its work once more, marked; without work its end."""
        found = self._work(shard, suspect, run)
        if found is None:
            self._repaired(shard, suspect.run_id, "its work is gone: it ends")
            end_waiting(draft, self._names, suspect.run_id, suspect.state, WORK_GONE, self._clock.now())
            return
        work, key = found
        self._repaired(shard, suspect.run_id, f"nobody claimed attempt {suspect.state.attempt + 1}")
        marked = work._replace(
            attempt=suspect.state.attempt + 1,
            verify_from=shard.next_offset,
            verify_state=state_to_text(suspect.state),
        )
        draft.append(work_message(self._names, marked)._replace(key=key))

    def _work(self, shard: Shard, suspect: Suspect, run: OpenRun[Note]) -> tuple[WorkRecord, bytes] | None:
        """The work of this run and the key it stands under: of its last claim, or what was made with its PENDING."""
        place = trail_of(run.note).work
        if place is not None:
            records = read_range(
                self._log,
                Isolation.COMMITTED,
                TopicPartition(place.topic, place.partition),
                max(place.offset, self._log.low_watermark(TopicPartition(place.topic, place.partition))),
                place.offset + 1,
            )
        else:
            [pending] = read_range(
                self._log, Isolation.COMMITTED, shard.partition, run.first_offset, run.first_offset + 1
            )
            begin = self._log.offset_at(suspect.tier, pending.timestamp_us - _MARGIN_US)
            end = min(suspect.tier_end, begin + _SEARCHED_MAX)
            records = read_range(self._log, Isolation.COMMITTED, suspect.tier, begin, end)
        return next((found for record in records if (found := _work_of(record, suspect.run_id))), None)

    def _repaired(self, shard: Shard, run_id: str, why: str) -> None:
        shard.repairs += 1
        _log.error("repaired", run_id=run_id, why=why, partition=shard.partition.partition, repairs=shard.repairs)


class _Positions:
    """What groups have committed, each asked once."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[str, dict[TopicPartition, Committed]] = {}

    def of(self, group: str) -> dict[TopicPartition, Committed]:
        """Raises BackendDown."""
        if group not in self._known:
            self._known[group] = self._log.group_positions(group)
        return self._known[group]


def _oldest(shard: Shard) -> Iterator[tuple[str, OpenRun[Note]]]:
    """The open runs in the order of their birth, a bounded number."""
    return islice(shard.fold.open.items(), _LOOKED_AT_MAX)


def _work_of(record: Record, run_id: str) -> tuple[WorkRecord, bytes] | None:
    """The work in a record, if it is this run's."""
    try:
        work = decode_work(record.value or b"")
    except RequestError:
        return None
    return (work, record.key or work.job_id.encode()) if work.run_id == run_id else None
