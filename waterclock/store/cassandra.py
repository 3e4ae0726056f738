"""The Store on Cassandra: prepared statements, batches, and a window of requests under way.

What must hold: one request for one partition where many rows share it (a row then costs a quarter), small unlogged
batches for the rest, never a LOGGED one; at most ``WINDOW`` requests under way, then the caller waits, never longer
than ``ADMISSION_S``. A request ends by itself within the driver's time-out. Callbacks run in the driver's thread and
only count. A batch may be applied in part: whoever sees WriteUnknown repeats it with the same stamps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import BoundedSemaphore, Condition
from types import MappingProxyType
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.cluster import ResponseFuture, Session
from cassandra.query import BatchStatement, BatchType, BoundStatement, PreparedStatement

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown, WriteUnknown

from .batching import Batch, Sized, batches
from .cells import Mutation, Select, Value, Values
from .migrate import wait_for_schema
from .run_history import has_old_runs
from .session import CONNECTION_ERRORS, REQUEST_TIMEOUT_S, connect, translated
from .statements import (
    Packed,
    Packer,
    key_packers,
    packer_key,
    partition_key_packers,
    partition_keys_after_text,
    partition_keys_text,
    select_text,
)
from .tables import Table
from .tabular import TabularStore

WINDOW = 64
"""Write requests under way per process; each is a batch."""

ADMISSION_S = 3 * REQUEST_TIMEOUT_S
"""Longest wait for a place in the window: each request in it ends within one time-out."""


class CassandraWriting:
    """Requests under way: counted down by the driver's thread, awaited by the caller's."""

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self._changed = Condition()
        self._open = 0
        self._error: BaseException | None = None

    def begin(self) -> None:
        """One more request is under way."""
        with self._changed:
            self._open += 1

    def end(self, error: BaseException | None) -> None:
        """One request has ended; the first error is kept."""
        with self._changed:
            self._open -= 1
            if error is not None and self._error is None:
                self._error = error
            if not self._open:
                self._changed.notify_all()

    def wait(self, timeout_s: float) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: not self._open, timeout_s):
                raise WriteUnknown("cassandra", f"{self._operation}: not acknowledged within {timeout_s:g} s")
            if self._error is not None:
                raise translated(self._operation, self._error, writing=True)


class CassandraCells:
    """Sends mutations and selections over one session. The driver has threads of its own.

    A role calls it from one thread, the API from a pool: all that is kept between calls is what was prepared, and two
    threads at once prepare it twice and no more.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._room = BoundedSemaphore(WINDOW)
        self._packers: dict[tuple[str, int], tuple[Packer, PreparedStatement]] = {}
        self._key_pages: dict[tuple[str, bool], PreparedStatement] = {}
        self._selects: dict[Select, tuple[PreparedStatement, tuple[Callable[[Value], Packed], ...]]] = {}

    def write(self, operation: str, mutations: Sequence[Mutation]) -> CassandraWriting:
        writing = CassandraWriting(operation)
        for batch in batches(self._by_partition(operation, mutations)):
            self._send(writing, operation, batch)
        return writing

    def select(self, operation: str, query: Select, keys: Sequence[Values]) -> list[list[Values]]:
        prepared, packers = self._select(operation, query)
        found: list[list[Values]] = []
        waiting: deque[ResponseFuture] = deque()
        try:
            for key in keys:
                bound = BoundStatement(prepared)
                bound.values = [pack(value) for pack, value in zip(packers, key, strict=True)]
                waiting.append(self._session.execute_async(bound))
                if len(waiting) >= query.in_flight:
                    found.append(self._answer(waiting.popleft()))
            while waiting:
                found.append(self._answer(waiting.popleft()))
        except CONNECTION_ERRORS as error:
            raise translated(operation, error, writing=False) from error
        return found

    def partition_keys(self, operation: str, table: Table) -> list[Values]:
        try:
            return self._answer(self._session.execute_async(partition_keys_text(table)))
        except CONNECTION_ERRORS as error:
            raise translated(operation, error, writing=False) from error

    def partition_keys_after(self, operation: str, table: Table, after: Values | None, limit: int) -> list[Values]:
        prepared = self._page_of_keys(operation, table, is_first=after is None)
        bound = BoundStatement(prepared)
        values = (*(after or ()), limit)
        packers = partition_key_packers(table)
        bound.values = [pack(value) for pack, value in zip(packers[-len(values) :], values, strict=True)]
        try:
            return self._answer(self._session.execute_async(bound))
        except CONNECTION_ERRORS as error:
            raise translated(operation, error, writing=False) from error

    def release(self) -> str:
        try:
            row = self._session.execute("SELECT release_version FROM system.local").one()
        except CONNECTION_ERRORS as error:
            raise translated("release", error, writing=False) from error
        return str(row[0])

    def close(self) -> None:
        self._session.cluster.shutdown()

    def _answer(self, future: ResponseFuture) -> list[Values]:
        """All rows of a selection under way.

        Each page is a request of its own: for a next page of the same one the driver sets no time-out, and a node that
        answers everything else would be waited for without end.
        """
        found: list[Values] = []
        while True:  # ends: every page is later in the partition
            page = future.result()
            _let_go(future)
            found += page.current_rows
            if not page.has_more_pages:
                return found
            future = self._session.execute_async(future.query, paging_state=page.paging_state)

    def _by_partition(self, operation: str, mutations: Sequence[Mutation]) -> list[Batch]:
        groups: dict[tuple[str, Values], Batch] = {}
        for mutation in mutations:
            packer, prepared = self._packer(operation, mutation)
            key, packed = packer.pack(mutation)
            place = mutation.table.name, key[: packer.partition_width]
            groups.setdefault(place, []).append(Sized(prepared, packed, packer.size(packed)))
        return list(groups.values())

    def _send(self, writing: CassandraWriting, operation: str, batch: Batch) -> None:
        if not self._room.acquire(timeout=ADMISSION_S):
            raise BackendDown("cassandra", f"{operation}: {WINDOW} requests under way, none ended in {ADMISSION_S:g} s")
        writing.begin()
        try:
            future = self._session.execute_async(_statement(batch))
        except CONNECTION_ERRORS as error:
            self._ended(error, writing, [])
            return
        under_way = [future]
        future.add_callbacks(
            self._landed, self._ended, callback_args=(writing, under_way), errback_args=(writing, under_way)
        )

    def _landed(self, _rows: object, writing: CassandraWriting, under_way: list[ResponseFuture]) -> None:
        self._ended(None, writing, under_way)

    def _ended(self, error: BaseException | None, writing: CassandraWriting, under_way: list[ResponseFuture]) -> None:
        for future in under_way:
            _let_go(future)
        under_way.clear()  # the future holds this list
        self._room.release()
        writing.end(error)

    def _packer(self, operation: str, mutation: Mutation) -> tuple[Packer, PreparedStatement]:
        key = packer_key(mutation)
        known = self._packers.get(key)
        if known is None:
            packer = Packer(mutation)
            known = self._packers[key] = packer, self._prepare(operation, packer.text)
        return known

    def _select(self, operation: str, query: Select) -> tuple[PreparedStatement, tuple[Callable[[Value], Packed], ...]]:
        known = self._selects.get(query)
        if known is None:
            prepared = self._prepare(operation, select_text(query))
            if query.relaxed:
                prepared.consistency_level = ConsistencyLevel.LOCAL_ONE
            known = self._selects[query] = prepared, key_packers(query)
        return known

    def _page_of_keys(self, operation: str, table: Table, *, is_first: bool) -> PreparedStatement:
        key = table.name, is_first
        known = self._key_pages.get(key)
        if known is None:
            text = partition_keys_after_text(table, is_first=is_first)
            known = self._key_pages[key] = self._prepare(operation, text)
        return known

    def _prepare(self, operation: str, text: str) -> PreparedStatement:
        try:
            return self._session.prepare(text)
        except CONNECTION_ERRORS as error:
            raise translated(operation, error, writing=False) from error


def _statement(batch: Batch) -> BoundStatement | BatchStatement:
    bound = BoundStatement(batch[0].prepared)
    if len(batch) == 1:
        bound.values = batch[0].values
        return bound
    statement = BatchStatement(BatchType.UNLOGGED)
    for prepared, values, _ in batch:  # one object for all: a batch keeps what it is told, and not who told it
        bound.prepared_statement, bound.values = prepared, values
        statement.add(bound)
    return statement


def _let_go(future: ResponseFuture) -> None:
    """Untie a future that has ended from its timer: the two hold each other, and all rows that were sent or found.

    Else the garbage collector has to find them: it stopped dispatchers and recorders for 120 to 560 ms at a time.
    """
    future._timer = None


class CassandraStore(TabularStore):
    """The Store port on a real cluster. Raises BackendDown when none answers within ``deadline_s``.

    Refuses a keyspace whose schema is not exactly the one of this release: Conflict. Make it with ``migrate``.
    ``options``: see ``access.driver_options``.
    """

    def __init__(
        self,
        contact_points: Sequence[str],
        port: int,
        keyspace: str,
        clock: Clock,
        *,
        local_dc: str = "datacenter1",
        deadline_s: float = 60.0,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        until = clock.monotonic_s() + deadline_s
        session = connect(
            contact_points, port, clock, keyspace=keyspace, local_dc=local_dc, deadline_s=deadline_s, options=options
        )
        try:
            wait_for_schema(session, clock, until)
        except Exception:
            session.cluster.shutdown()
            raise
        cells = CassandraCells(session)
        super().__init__(clock, cells, has_old_runs=has_old_runs(cells))
