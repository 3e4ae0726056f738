"""The recorder's story: own, read, fold, write, commit.

It projects run-events and commands to Cassandra, for people to read. What must hold: offsets are committed only after
every row below them is acknowledged, and a row repeats itself under any replay (see ``projection.py``), so a crash
writes the same cells again and loses none. The next batch is decoded while the last ones are written. Behind, the rows
of runs that are still open are left to the next batch (``batch.py``), and so are the positions. What is kept of runs
that stay open for long (``open_runs.py``) goes with the positions at which it was so, in one round.

How it fails. Cassandra away: it keeps the batch, repeats it with the same stamps, reads nothing more, and polls to stay
in its group; history lags and says so. A rebalance or trouble with Kafka: it drops what it holds and begins again from
the committed positions; fenced by a twin it stops, and the message names the id. It writes no topic but its state:
undecodable records are counted here, and rejected by the roles that own them (run-events: the retry router; commands:
the dispatcher).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence

import structlog

from waterclock.abandoned import Abandoned
from waterclock.clock import Clock
from waterclock.log.following import HELD_BY_ROLE, Beginning, Position, beginning
from waterclock.log.port import Committed, Log, Outgoing, Polled, Record, TopicPartition
from waterclock.model.errors import BackendDown, Fenced, LostResource, RequestError, UndecodableRecord
from waterclock.model.events import EventKind, Pending, RunEvent
from waterclock.model.fold import OPEN_MAX, WINDOW, Fold
from waterclock.store.port import Histories, History
from waterclock.taking_over import TakingOver
from waterclock.transact import Rounds
from waterclock.wire.codec import decode_command, decode_event
from waterclock.wire.names import Names

from .batch import Batch
from .open_runs import KEPT_BEHIND, kept_runs
from .projection import Known
from .recorded import RecordedPositions
from .shard import Shard
from .writes import NO_PROGRESS, Progress, Writes

ROLE = "recorder"

_POLL_RECORDS = 2_000
_POLL_S = 0.05
_TROUBLE_WAIT_S = 0.5
_FEW_RECORDS = 100
"""A batch of no more goes out as soon as nothing comes: whoever looks for his one run need not wait for it."""
_DAG_ENDS = frozenset({EventKind.DAG_SUCCEEDED, EventKind.DAG_FAILED})

_log = structlog.get_logger()


class Recorder:
    """The core. ``instance`` is the process slot's stable name, ``generation`` that of the topics.

    ``kept_behind``: a run that makes a successor re-read so many offsets is kept in the state topic. ``window``: that
    of its folds. ``open_runs_max``: open runs of one partition; at one more it ends, at every start.
    """

    def __init__(
        self,
        log: Log,
        store: Histories,
        clock: Clock,
        names: Names,
        instance: str,
        *,
        generation: int = 1,
        batch_records: int = 100_000,
        batch_s: float = 0.5,
        batch_s_behind: float = 5.0,
        writes_in_flight: int = 2,
        commit_every_s: float = 0.5,
        kept_behind: int = KEPT_BEHIND,
        window: int = WINDOW,
        open_runs_max: int = OPEN_MAX,
    ) -> None:
        self._log = log
        self._clock = clock
        self._names = names
        self._generation = generation
        self._batch_records = batch_records
        self._poll_records = min(_POLL_RECORDS, batch_records)
        self._batch_s = batch_s
        self._batch_s_behind = batch_s_behind
        self._commit_every_s = commit_every_s
        self._kept_behind = kept_behind
        self._window = window
        self._open_runs_max = open_runs_max
        self._consumer = log.consumer(names.group(ROLE), [names.commands, names.run_events], instance=instance)
        abandoned = Abandoned(log, names, ROLE, instance)
        self._rounds = Rounds(log, names.transactional_id(ROLE, instance), abandoned=abandoned)
        self._shards: dict[int, Shard] = {}
        self._orders: dict[int, Position] = {}
        self._taking_over = TakingOver(clock, self._take_all)
        self._is_troubled = False
        self._has_joined = False
        self._batch = Batch(0.0)
        self._writes = Writes(store, writes_in_flight)
        self._after_next = NO_PROGRESS
        """Where the last batch ended that left rows out: it may be committed once the next one is written."""
        self._commit_due_s = 0.0
        self._recorded = RecordedPositions(generation)
        self._ignored: Counter[str] = Counter()
        self._dag_runs: dict[str, int] = {}

    @property
    def ready(self) -> bool:
        """A member of the group, and every partition that is ours has caught up."""
        return self._has_joined and not self._taking_over.places and all(shard.live for shard in self._shards.values())

    @property
    def shards(self) -> tuple[int, ...]:
        """The partitions of run-events that are ours. Any thread may ask."""
        return tuple(self._shards)

    def open_dag_runs(self) -> dict[str, int]:
        """By run id the partition of DagRuns that may be open. Any thread may ask."""
        return self._dag_runs.copy()

    def close_dag_run(self, run_id: str) -> None:
        """Whoever looked found that it has ended. Any thread may say so."""
        self._dag_runs.pop(run_id, None)

    def step(self) -> bool:
        """One cycle; see ``waterclock.role``. Raises Fenced, and FoldFull at the bound of open runs."""
        try:
            if self._is_troubled:
                self._notice(self._rounds.poll(self._consumer, 0, _TROUBLE_WAIT_S))
                self._is_troubled = False
            if self._writes.is_stuck:
                return self._write_again()
            self._taking_over.go_on()
            room = 0 if self._taking_over.is_under_way else self._poll_records
            polled = self._rounds.poll(self._consumer, room, _POLL_S)
            self._notice(polled)
            if room:
                self._read(polled.records)
            is_behind = bool(polled.records) and len(polled.records) >= self._poll_records // 2
            is_quiet = not polled.records and self._batch.record_count <= _FEW_RECORDS
            if is_quiet or self._is_batch_due(is_behind=is_behind):
                self._hand_over(is_behind=is_behind)
            return bool(polled.records or polled.assigned) or self._taking_over.is_under_way
        except Fenced:
            raise
        except (LostResource, BackendDown) as trouble:
            self._start_over(trouble)
            return False

    def drain(self) -> bool:
        """Write what was read and commit it. True while Cassandra has not acknowledged it."""
        try:
            if self._writes.is_stuck:
                self._write_again()
                return True
            self._hand_over(is_behind=False)
            while self._writes and not self._writes.is_stuck:  # ends: each turn takes one write off, or sticks
                self._settle()
            self._commit()
        except (LostResource, BackendDown) as trouble:
            _log.warning("last positions not committed", trouble=str(trouble))
            return False
        else:
            return self._writes.is_stuck

    def close(self) -> None:
        """Give up the producer, and the membership as a static member does: the slot's next process takes over."""
        self._rounds.close()
        self._consumer.close()

    def _notice(self, polled: Polled) -> None:
        """Membership. A batch mixes partitions, so whatever is taken from us, all is dropped and begun again."""
        if polled.revoked:
            self._drop()
        self._taking_over.note(polled)
        self._has_joined = self._has_joined or self._consumer.has_share

    def _drop(self) -> None:
        """Forget what is held. Rows under way may still land: they are the ones that will be written again."""
        self._shards.clear()
        self._orders.clear()
        self._dag_runs.clear()
        if self._writes.is_stuck:
            self._consumer.resume()
        self._writes.clear()
        self._after_next = NO_PROGRESS
        self._recorded = RecordedPositions(self._generation)  # what was said last may never have been written
        self._batch = Batch(self._clock.monotonic_s())
        self._taking_over.begin_again(self._consumer.owned())

    def _start_over(self, trouble: Exception) -> None:
        _log.warning("begins again from the committed positions", trouble=str(trouble))
        self._drop()
        self._is_troubled = True

    def _take_all(self) -> Iterator[None]:
        """Start new partitions: run-events where the fold begins, commands where the last audit row stands."""
        committed = self._rounds.positions(self._consumer, sorted(self._taking_over.places))
        starts = {place: self._beginning(place, position) for place, position in committed.items()}
        shards: list[Shard] = []
        for place, start in starts.items():
            if place.topic == self._names.run_events:
                shards.append((yield from self._taken(place, start)))
                yield
        self._consumer.start({place: start.start_at for place, start in starts.items()})
        for shard in shards:
            place, position = shard.partition, committed[shard.partition]
            self._dag_runs.update(dict.fromkeys(shard.dag_runs(), place.partition))
            self._shards[place.partition] = shard  # then: another thread asks whose DagRuns are known
            if position is not None:
                self._recorded.reached(place.partition, position.offset)
        for place, start in starts.items():
            if place.topic != self._names.run_events:
                self._orders[place.partition] = Position(place, start.start_at)
            _log.info("partition taken over", topic=place.topic, partition=place.partition, **start._asdict())

    def _taken(self, place: TopicPartition, start: Beginning) -> Generator[None, None, Shard]:
        """A partition of run-events as its last owner left it: what the state topic keeps, the rest to be read.

        What is read again from its beginning is not taken from the state topic: so rows that were lost are written,
        and a DagRun is seen to begin with its node, of which more may be kept than of the DagRun.
        """
        kept = kept_runs(self._names, ROLE, place.partition, behind=self._kept_behind)
        bound = self._open_runs_max
        fold: Fold[Known] = Fold(generation=self._generation, window=self._window, open_max=bound, held_by=HELD_BY_ROLE)
        shard = Shard(place, start, fold, kept)
        restored = yield from kept.restoring(self._log, shard.fold, read_from=start.start_at)
        for run_id, folded_to in restored.items():
            # Positions were lost, or set back: what is known and not read again is written once more.
            if start.is_first or folded_to > start.act_from:
                self._batch.note_run(run_id, shard.fold.open[run_id])
        return shard

    def _beginning(self, place: TopicPartition, committed: Committed | None) -> Beginning:
        """Rows repeat themselves, so where nothing was committed everything kept is written."""
        start = beginning(self._log, place, committed)
        if place.topic == self._names.run_events and not start.is_first:
            return start
        start_at = start.start_at if committed is None else max(committed.offset, self._log.low_watermark(place))
        return Beginning(start_at, start_at, start.is_first)

    def _read(self, records: Sequence[Record]) -> None:
        """Fold the records into the batch."""
        batch, shards, run_events = self._batch, self._shards, self._names.run_events
        if batch.empty:
            batch.began_s = self._clock.monotonic_s()
        take = batch.take
        for record in records:
            if record.topic != run_events:
                self._audit(record)
                continue
            shard = shards.get(record.partition)
            if shard is None:
                continue
            shard.has_begun = True
            if record.offset >= shard.act_from:
                shard.live = True
            try:
                event = decode_event(record.value or b"")
                take(shard, event, record)
                self._note_dag_run(event, record.partition)
            except RequestError as error:  # undecodable, or it names no run
                self._cannot_read(record, error)
        batch.record_count += len(records)
        if not records:
            for place in self._places():
                place.has_begun = True

    def _note_dag_run(self, event: RunEvent, partition: int) -> None:
        detail = event.detail
        if isinstance(detail, Pending):
            if detail.dag is not None:
                self._dag_runs[event.run_id] = partition
        elif event.kind in _DAG_ENDS:  # those that end otherwise are found by whoever looks
            self._dag_runs.pop(event.run_id, None)

    def _audit(self, record: Record) -> None:
        order = self._orders.get(record.partition)
        if order is None:
            return
        order.has_begun = True
        try:
            command = decode_command(record.value or b"")
        except UndecodableRecord as error:
            self._cannot_read(record, error)
            return
        self._batch.obey(command, record)

    def _cannot_read(self, record: Record, error: RequestError) -> None:
        self._ignored["undecodable"] += 1
        _log.warning("record passed over", topic=record.topic, partition=record.partition, offset=record.offset,
                     reason=error.message)  # fmt: skip

    def _is_batch_due(self, *, is_behind: bool) -> bool:
        """Full, or old enough; and while we are behind it may grow older.

        The more of a run's events fall into one batch, the fewer rows are written for it: a herd's PENDING and its
        outcomes lie tens of thousands of records apart.
        """
        batch = self._batch
        if batch.record_count >= self._batch_records:
            return True
        limit_s = self._batch_s_behind if is_behind else self._batch_s
        return self._clock.monotonic_s() - batch.began_s >= limit_s

    def _hand_over(self, *, is_behind: bool) -> None:
        """Begin to write the batch, as soon as there is room beside the writes under way; commit what is safe."""
        while self._writes and (self._batch.empty or self._writes.full):  # ends: one less each turn, or stuck
            self._settle()
            if self._writes.is_stuck:
                return
        if not self._batch.empty:
            self._begin_write(is_behind=is_behind)
        elif word := self._recorded.word(self._clock.now(), self._clock.monotonic_s()):
            self._writes.begin(History(recorded=word), self._progress())
        else:
            self._writes.pass_by(self._progress())
        if self._clock.monotonic_s() >= self._commit_due_s:
            self._commit()

    def _begin_write(self, *, is_behind: bool) -> None:
        batch, now_s = self._batch, self._clock.monotonic_s()
        self._batch = batch.leave_open(now_s) if is_behind else Batch(now_s)
        self._ignored.update(batch.ignored)
        word = self._recorded.word(self._clock.now(), now_s)
        # What was left to this batch it writes; what it leaves stands below its own positions.
        before, whole = self._after_next, self._progress()
        due, self._after_next = (before, whole) if self._batch.left else (before.then(whole), NO_PROGRESS)
        self._writes.begin(batch.history()._replace(recorded=word), due)

    def _progress(self) -> Progress:
        """Where every partition stands: all that was delivered is in this batch, or in an earlier one."""
        due: dict[Position, Committed] = {}
        kept: list[Outgoing] = []
        for shard in self._shards.values():
            shard.catch_up(self._consumer)
            kept += shard.keep(self._clock.monotonic_s())  # first: what is kept need not be read again from there
        for order in self._orders.values():
            order.move(self._consumer)
        for place in self._places():
            committed = place.to_commit()
            if committed is not None:
                due[place] = committed
        return Progress(due, kept)

    def _places(self) -> tuple[Position, ...]:
        return (*self._shards.values(), *self._orders.values())

    def _settle(self) -> None:
        """Wait for the oldest write; while the store is away nothing more is read."""
        self._writes.settle()
        if self._writes.is_stuck:
            self._consumer.pause()

    def _write_again(self) -> bool:
        """Repeat what the store did not acknowledge; the polls keep us in the group and take nothing."""
        self._notice(self._rounds.poll(self._consumer, 0, _TROUBLE_WAIT_S))
        if not self._writes.is_stuck:
            return True  # a rebalance took everything from us meanwhile
        if not self._writes.repeat():
            return False
        self._consumer.resume()
        return True

    def _commit(self) -> None:
        """Commit what is acknowledged, with the offset from which a successor folds. Raises LostResource."""
        self._commit_due_s = self._clock.monotonic_s() + self._commit_every_s
        if self._ignored:
            _log.info("events ignored", **self._ignored)
            self._ignored.clear()
        positions, kept = self._writes.acknowledged
        draft = self._rounds.draft()
        draft.extend(kept)
        for place, due in positions.items():
            draft.advance(self._consumer, place.partition, due.offset, due.metadata)
        self._rounds.commit(draft)
        for place, due in positions.items():
            place.committed = due
            if place.partition.topic == self._names.run_events:
                self._recorded.reached(place.partition.partition, due.offset)
        self._writes.committed()
