"""The reader of printed lines: run-logs in, the table ``run_logs`` out, beside history and never in its way.

A consumer group, a thread and batches of its own. What must hold: offsets are committed only after every line below
them is acknowledged, and a line repeats itself under any replay: its key is (run, attempt, fencing token, number), its
stamp the earlier of the worker's clock and the record's time. Few requests are under way at once, because the store's
connections are shared.

How it fails. Cassandra away: it keeps the batch, writes it again, reads nothing more and stays in its group; lines come
late, and what ``run-logs`` no longer keeps (7 days) is lost. Trouble with Kafka: it begins again from the committed
positions. Undecodable records are passed over and said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import structlog

from waterclock.clock import Clock
from waterclock.log.following import Position
from waterclock.log.port import Log, Polled, Record, TopicPartition
from waterclock.model.errors import BackendDown, Fenced, LostResource, UndecodableRecord
from waterclock.model.run_log import RunLog
from waterclock.store.port import LineKeeping, LogRow
from waterclock.wire.codec import decode_run_log
from waterclock.wire.names import Names

GROUP = "recorder_logs"

_POLL_RECORDS = 100
_POLL_S = 0.1
_WRITE_LINES = 500
_WRITE_TIMEOUT_S = 20.0
_TROUBLE_WAIT_S = 0.5
_COMMITTED_TIMEOUT_S = 10.0

_log = structlog.get_logger()


class RunLogs:
    """The core; one thread calls it. ``instance`` is the process slot's stable name."""

    def __init__(
        self,
        log: Log,
        store: LineKeeping,
        clock: Clock,
        names: Names,
        instance: str,
        *,
        commit_every_s: float = 0.5,
    ) -> None:
        self._log = log
        self._store = store
        self._clock = clock
        self._commit_every_s = commit_every_s
        self._consumer = log.consumer(names.group(GROUP), [names.run_logs], instance=instance)
        self._positions: dict[TopicPartition, Position] = {}
        self._to_take: set[TopicPartition] = set()
        self._held: list[LogRow] = []
        self._is_troubled = False
        self._has_joined = False
        self._commit_due_s = 0.0

    @property
    def ready(self) -> bool:
        """A member of the group, with a position in every partition that is ours."""
        return self._has_joined and not self._to_take

    def step(self) -> bool:
        """One cycle; see ``waterclock.role``. Raises Fenced."""
        try:
            if self._is_troubled:
                self._notice(self._consumer.poll(0, _TROUBLE_WAIT_S))
                self._is_troubled = False
            if self._held:
                return self._write_again()
            self._take_over()
            polled = self._consumer.poll(_POLL_RECORDS, _POLL_S)
            self._notice(polled)
            self._read(polled.records)
            self._write()
            if not self._held and self._clock.monotonic_s() >= self._commit_due_s:
                self._commit()
            return bool(polled.records or polled.assigned)
        except Fenced:
            raise
        except (LostResource, BackendDown) as trouble:
            _log.warning("lines are read again from the committed positions", trouble=str(trouble))
            self._drop()
            self._is_troubled = True
            return False

    def drain(self) -> bool:
        """Write what was read and commit it. True while Cassandra has not acknowledged it."""
        try:
            self._write()
            if not self._held:
                self._commit()
        except (LostResource, BackendDown) as trouble:
            _log.warning("last positions of lines not committed", trouble=str(trouble))
            return False
        return bool(self._held)

    def close(self) -> None:
        """Give up the membership as a static member does: the slot's next process takes over."""
        self._consumer.close()

    def _notice(self, polled: Polled) -> None:
        if polled.revoked:
            self._drop()
        self._to_take.update(polled.assigned)
        self._has_joined = self._has_joined or self._consumer.has_share

    def _drop(self) -> None:
        """Forget what is held; all that is ours is read again from what is committed."""
        if self._held:
            self._consumer.resume()
        self._held = []
        self._positions.clear()
        self._to_take = set(self._consumer.owned())

    def _take_over(self) -> None:
        """Without a committed position: from the first line that is kept."""
        if not self._to_take:
            return
        committed = self._consumer.committed(sorted(self._to_take), _COMMITTED_TIMEOUT_S)
        starts = {}
        for place, position in committed.items():
            low = self._log.low_watermark(place)
            starts[place] = low if position is None else max(low, position.offset)
        self._consumer.start(starts)
        self._positions |= {place: Position(place, start_at) for place, start_at in starts.items()}
        self._to_take.clear()

    def _read(self, records: Sequence[Record]) -> None:
        for record in records:
            position = self._positions.get(TopicPartition(record.topic, record.partition))
            if position is None:
                continue
            position.has_begun = True
            try:
                self._held += _rows(decode_run_log(record.value or b""), record)
            except UndecodableRecord as error:
                _log.warning("record passed over", topic=record.topic, partition=record.partition,
                             offset=record.offset, reason=error.message)  # fmt: skip
        if not records:
            for position in self._positions.values():
                position.has_begun = True

    def _write(self) -> None:
        """Write what is held, some lines at a time. Without an answer it is kept, and nothing more is read."""
        while self._held:  # ends: each turn writes some of it, or returns
            some = self._held[:_WRITE_LINES]
            try:
                self._store.keep_lines(some).wait(_WRITE_TIMEOUT_S)
            except BackendDown as trouble:
                _log.warning("lines are not written: they are kept", lines=len(self._held), trouble=str(trouble))
                self._consumer.pause()
                return
            del self._held[: len(some)]

    def _write_again(self) -> bool:
        """The polls keep us in the group and take nothing."""
        self._notice(self._consumer.poll(0, _TROUBLE_WAIT_S))
        if not self._held:
            return True  # a rebalance took everything from us meanwhile
        self._write()
        if self._held:
            return False
        self._consumer.resume()
        return True

    def _commit(self) -> None:
        self._commit_due_s = self._clock.monotonic_s() + self._commit_every_s
        due = {}
        for place, position in self._positions.items():
            position.move(self._consumer)
            if committed := position.to_commit():
                due[place] = committed
        if not due:
            return
        self._consumer.commit(due)
        for place, committed in due.items():
            self._positions[place].committed = committed


def _rows(log: RunLog, record: Record) -> Iterable[LogRow]:
    """The lines as rows. The stamp is no later than when the record came: a worker's clock may be years ahead."""
    run_id, attempt, token = log.run_id, log.attempt, log.token
    for seq, at, stream, text in log.lines:
        stamp = max(1, min(at, record.timestamp_us))
        yield LogRow(run_id, attempt, token, seq, at, stream, text, stamp)
