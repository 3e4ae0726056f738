"""The Store in memory: Cassandra's cell rules, as far as the port can show them, under a clock that tests move.

Last write wins for each cell (expiring beats plain, later expiry beats earlier, then the larger bytes); a delete hides
everything not younger than itself, also what arrives later; TTL in whole seconds; what does not fit its column is a
bug. ``MemoryTables`` is the cluster, each ``MemoryStore`` a client of it. Deterministic: same calls, same clock, same
rows in the same order. ``MemoryTables.on_call`` lets the simulation fail any call; see :class:`WriteFault`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown, WriteUnknown
from waterclock.model.ids import US_PER_S

from .cells import Mutation, Put, Select, Value, Values
from .tables import RUNS, Table
from .tabular import TabularStore


class WriteFault(Enum):
    """What an unknown write did. The caller sees WriteUnknown in every case (a read: BackendDown).

    HALF: half of the partitions, in the order of the call, got their rows. LATER: the rows land when
    ``MemoryTables.land()`` is called, as those of a zombie do.
    """

    APPLIED = "applied"
    LOST = "lost"
    HALF = "half"
    LATER = "later"


Faults: TypeAlias = Callable[[str, str], WriteFault | None]
"""(client, operation) -> what goes wrong, if anything; may raise instead, and then nothing is done.

Operations are the port's method names; ``apply`` has one for each stage: ``apply:versions``, ``apply:due``,
``apply:listing``, ``apply:jobs``; ``write_due:anew`` writes rows that may have expired.
"""

_WIDTHS = {"bigint": 8, "int": 4, "smallint": 2, "tinyint": 1}
_LIMITS = {cql_type: 1 << 8 * width - 1 for cql_type, width in _WIDTHS.items()}
_KEY_BYTES_MAX = 65_535
_bounds: dict[str, list[tuple[str, int]]] = {}
"""By table: the name of each column and its least number that is too great; 0 where it holds none."""


class _Cell(NamedTuple):
    """``expires_s`` is 0 for a plain cell: plain loses to expiring, and earlier to later, by the number alone."""

    wts: int
    expires_s: int
    value: Value


class _Row:
    __slots__ = ("cells", "removed_at")

    def __init__(self) -> None:
        self.removed_at = 0
        self.cells: dict[int, _Cell] = {}


class _Partition:
    __slots__ = ("removed_at", "rows")

    def __init__(self) -> None:
        self.removed_at = 0
        self.rows: dict[Values, _Row] = {}


_MARKER = -1
"""Number of the row marker among a row's cells: an INSERT makes the row exist apart from its columns."""


class MemoryTables:
    """The rows themselves. Several clients share one; ``clock`` is the server's."""

    def __init__(self, clock: Clock, on_call: Faults | None = None) -> None:
        self.on_call = on_call
        self._clock = clock
        self._tables: dict[str, dict[Values, _Partition]] = {}
        self._late: list[Sequence[Mutation]] = []

    def apply(self, mutations: Sequence[Mutation]) -> None:
        """Merge ``mutations`` into the cells; their order is of no importance."""
        now_s = self._clock.now() // US_PER_S
        for mutation in mutations:
            if isinstance(mutation, Put):
                self._put(mutation, now_s)
            else:
                self._remove(mutation.table, mutation.key, mutation.wts)

    def postpone(self, mutations: Sequence[Mutation]) -> None:
        """Keep ``mutations`` under way until :meth:`land`."""
        self._late.append(mutations)

    def land(self) -> None:
        """What was postponed arrives now."""
        late, self._late = self._late, []
        for mutations in late:
            self.apply(mutations)

    def read(self, query: Select, key: Values) -> list[Values]:
        """The live rows of one partition that ``query`` asks for."""
        table = query.table
        width = len(table.partition)
        partition = self._tables.get(table.name, {}).get(key[:width])
        if partition is None:
            return []
        equal = key[width : width + query.equal]
        first, below_end, above_end = query.equal, query.equal + query.below, query.equal + query.above
        below, above = key[width + first : width + below_end], key[width + first : width + above_end]
        chosen = [
            each
            for each in partition.rows
            if each[:first] == equal
            and (not below or each[first:below_end] < below)
            and (not above or each[first:above_end] > above)
        ]
        for column in range(len(table.clustering) - 1, -1, -1):
            chosen.sort(key=lambda each: each[column], reverse=table.descending[column])
        now_s = self._clock.now() // US_PER_S
        found = [
            values
            for each in chosen
            if (values := _visible(table, each, partition.rows[each], partition.removed_at, now_s)) is not None
        ]
        return found[: key[-1]] if query.limited else found

    def partition_keys(self, table: Table) -> list[Values]:
        """The keys of the partitions that hold a live row."""
        return [key for key in self._tables.get(table.name, {}) if self.read(Select(table), key)]

    def partition_keys_after(self, table: Table, after: Values | None, limit: int) -> list[Values]:
        """One page of them. Any order would do that stays the same; here it is that of the keys."""
        return [key for key in sorted(self.partition_keys(table)) if after is None or key > after][:limit]

    def keys_of(self, table: Table) -> list[Values]:
        """The keys of all partitions that were ever written, in no order. For tests and the simulation."""
        return list(self._tables.get(table.name, {}))

    def forget_row(self, table: Table, key: Values) -> bool:
        """Lose one row without a trace, as no client can: what a cluster does that loses data. False: it was not there.

        For tests and the simulation.
        """
        width = len(table.partition)
        partition = self._tables.get(table.name, {}).get(key[:width])
        return partition is not None and partition.rows.pop(key[width:], None) is not None

    def _put(self, put: Put, now_s: int) -> None:
        table = put.table
        width = len(table.partition)
        first = width + len(table.clustering)
        partition = self._partition(table, put.values[:width])
        row = partition.rows.get(put.values[width:first])
        if row is None:
            row = partition.rows[put.values[width:first]] = _Row()
        ttl_s = table.ttl_s if put.ttl_s is None else put.ttl_s
        expires_s = now_s + ttl_s if ttl_s else 0
        cells = row.cells
        _merge(cells, _MARKER, _Cell(put.wts, expires_s, None), "blob")
        for number, value in enumerate(put.values[first:]):
            if value is None and table.regular[number].type != "blob":
                raise TypeError(f"{table.name}.{table.regular[number].name}: only a blob may be left out")
            if value is not None:
                _merge(cells, number, _Cell(put.wts, expires_s, value), table.regular[number].type)

    def _remove(self, table: Table, key: Values, wts: int) -> None:
        width = len(table.partition)
        partition = self._partition(table, key[:width])
        if len(key) == width:
            partition.removed_at = max(partition.removed_at, wts)
        else:
            row = partition.rows.setdefault(key[width:], _Row())
            row.removed_at = max(row.removed_at, wts)

    def _partition(self, table: Table, key: Values) -> _Partition:
        partitions = self._tables.setdefault(table.name, {})
        partition = partitions.get(key)
        if partition is None:
            partition = partitions[key] = _Partition()
        return partition


def _merge(cells: dict[int, _Cell], number: int, new: _Cell, cql_type: str) -> None:
    old = cells.get(number)
    if old is None or new.wts > old.wts:
        cells[number] = new
    elif new.wts == old.wts:
        cells[number] = max(old, new, key=lambda cell: (cell.expires_s, _as_bytes(cell.value, cql_type)))


def _as_bytes(value: Value, cql_type: str) -> bytes:
    """The bytes on disk, which decide a tie (so -1 beats 1)."""
    if isinstance(value, int):
        return value.to_bytes(_WIDTHS[cql_type], "big", signed=True)
    return value.encode() if isinstance(value, str) else bytes(value or b"")


def _visible(table: Table, clustering: Values, row: _Row, removed_at: int, now_s: int) -> Values | None:
    hidden = max(removed_at, row.removed_at)
    live = {
        number: cell
        for number, cell in row.cells.items()
        if cell.wts > hidden and (not cell.expires_s or cell.expires_s > now_s)
    }
    if not live:
        return None
    values = [live[number].value if number in live else None for number in range(len(table.regular))]
    if table.stamped:
        stamp = next(number for number, column in enumerate(table.regular) if column.name == table.stamped)
        values.append(live[stamp].wts if stamp in live else None)
    return (*clustering, *values)


class MemoryWriting:
    """A write that is over before anybody waits for it; what went wrong is told at the wait."""

    def __init__(self, trouble: WriteUnknown | None = None) -> None:
        self._trouble = trouble

    def wait(self, timeout_s: float) -> None:  # noqa: ARG002 (nothing is ever under way)
        if self._trouble is not None:
            raise self._trouble


class MemoryCells:
    """One client's way to the tables, with its faults."""

    def __init__(self, tables: MemoryTables, client: str) -> None:
        self._tables = tables
        self._client = client

    def write(self, operation: str, mutations: Sequence[Mutation]) -> MemoryWriting:
        for mutation in mutations:
            values = mutation.values if isinstance(mutation, Put) else mutation.key
            _check_numbers(mutation.table, values)
            _check_texts(mutation.table, values)
        fault = self._fault(operation)
        if fault is None:
            self._tables.apply(mutations)
            return MemoryWriting()
        if fault is WriteFault.APPLIED:
            self._tables.apply(mutations)
        elif fault is WriteFault.HALF:
            self._tables.apply(_half(mutations))
        elif fault is WriteFault.LATER:
            self._tables.postpone(tuple(mutations))
        return MemoryWriting(WriteUnknown("cassandra", f"{operation}: no acknowledgement"))

    def select(self, operation: str, query: Select, keys: Sequence[Values]) -> list[list[Values]]:
        for key in keys:
            _check_numbers(query.table, key[:-1] if query.limited else key)
            _check_texts(query.table, key)
            if query.limited:
                _check_limit(key[-1])
        if self._fault(operation) is not None:
            raise BackendDown("cassandra", f"{operation}: no answer")
        return [self._tables.read(query, key) for key in keys]

    def partition_keys(self, operation: str, table: Table) -> list[Values]:
        if self._fault(operation) is not None:
            raise BackendDown("cassandra", f"{operation}: no answer")
        return self._tables.partition_keys(table)

    def partition_keys_after(self, operation: str, table: Table, after: Values | None, limit: int) -> list[Values]:
        _check_limit(limit)
        if self._fault(operation) is not None:
            raise BackendDown("cassandra", f"{operation}: no answer")
        return self._tables.partition_keys_after(table, after, limit)

    def release(self) -> str:
        return "memory"

    def close(self) -> None:
        """Nothing to let go of."""

    def _fault(self, operation: str) -> WriteFault | None:
        on_call = self._tables.on_call
        return on_call(self._client, operation) if on_call is not None else None


def _half(mutations: Sequence[Mutation]) -> list[Mutation]:
    """All mutations of half of the partitions (rounded down): a partition's part of a batch is one mutation."""
    order: dict[tuple[str, Values], int] = {}
    for mutation in mutations:
        order.setdefault(_place(mutation), len(order))
    return [mutation for mutation in mutations if order[_place(mutation)] < len(order) // 2]


def _check_numbers(table: Table, values: Values) -> None:
    """Refuse a number that does not fit its column, with the error of the packing (``statements.py``)."""
    bounds = _bounds.get(table.name)
    if bounds is None:
        bounds = _bounds[table.name] = [(each.name, _LIMITS.get(each.type, 0)) for each in table.columns]
    for (name, limit), value in zip(bounds, values, strict=False):
        if limit and value is not None and not -limit <= value < limit:
            raise struct.error(f"{table.name}.{name}: {value} does not fit the column")


def _check_texts(table: Table, values: Values) -> None:
    """Refuse a text that is no UTF-8 (UnicodeEncodeError), and a partition's key that is empty or too long."""
    for number, value in enumerate(values):
        if isinstance(value, str) and (number < len(table.partition) or not value.isascii()):
            size = len(value.encode())
            if number < len(table.partition) and size > _KEY_BYTES_MAX:
                raise ValueError(f"{table.name}: Key length of {size} is longer than maximum of {_KEY_BYTES_MAX}")
    if len(table.partition) == 1 and values[0] == "":
        raise ValueError(f"{table.name}: Key may not be empty")


def _check_limit(limit: int) -> None:
    if not 0 < limit < _LIMITS["int"]:
        raise ValueError(f"LIMIT must be strictly positive, and an int: {limit}")


def _place(mutation: Mutation) -> tuple[str, Values]:
    values = mutation.values if isinstance(mutation, Put) else mutation.key
    return mutation.table.name, values[: len(mutation.table.partition)]


class MemoryStore(TabularStore):
    """The Store port in memory. Without ``tables`` it has a cluster of its own."""

    def __init__(self, clock: Clock, tables: MemoryTables | None = None, client: str = "client") -> None:
        self.tables = tables or MemoryTables(clock)
        super().__init__(clock, MemoryCells(self.tables, client), has_old_runs=bool(self.tables.keys_of(RUNS)))
