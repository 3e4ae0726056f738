"""The tables and selections as CQL text, and values as the bytes that the protocol carries.

Values are packed here and not by the driver, whose bind costs twice as much per run. What must hold: every mutation
names its columns and carries USING TIMESTAMP; no text is ever put together from a value. None in a column of text, blob
or tinyint makes no cell. Any other value that does not fit its column is a bug: struct.error.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, TypeAlias

from cassandra.query import UNSET_VALUE

from .cells import Mutation, Put, Select, Value, Values
from .tables import Table

Packed: TypeAlias = Any
"""bytes, or the driver's UNSET_VALUE."""

_pack_bigint = Struct(">q").pack
_pack_int = Struct(">i").pack
_pack_byte = Struct(">b").pack


def _pack_blob(value: bytes | None) -> Packed:
    return UNSET_VALUE if value is None else value


def _pack_tinyint(value: int | None) -> Packed:
    return UNSET_VALUE if value is None else _pack_byte(value)


def _pack_text(value: str | None) -> Packed:
    return UNSET_VALUE if value is None else value.encode()


_PACK: dict[str, Callable[[Value], Packed]] = {
    "bigint": _pack_bigint,
    "int": _pack_int,
    "smallint": Struct(">h").pack,
    "tinyint": _pack_tinyint,
    "text": _pack_text,
    "blob": _pack_blob,
}

_CELL_OVERHEAD = 20
"""Bytes that the server counts for a cell beside its value (stamp, expiry), when it judges the size of a batch."""


def insert_text(table: Table) -> str:
    """INSERT of a whole row, its stamp, and its TTL where the table's rows have one of their own."""
    names = ", ".join(column.name for column in table.columns)
    marks = ", ".join("?" * len(table.columns))
    life = " AND TTL ?" if table.expiring else ""
    return f"INSERT INTO {table.name} ({names}) VALUES ({marks}) USING TIMESTAMP ?{life}"  # noqa: S608 (names are ours)


def delete_text(table: Table, width: int) -> str:
    """DELETE by the first ``width`` key columns."""
    keys = (table.partition + table.clustering)[:width]
    where = " AND ".join(f"{column.name} = ?" for column in keys)
    return f"DELETE FROM {table.name} USING TIMESTAMP ? WHERE {where}"  # noqa: S608 (names are ours)


def select_text(query: Select) -> str:
    """The SELECT of one partition or a slice of it."""
    table = query.table
    wanted = [column.name for column in table.clustering + table.regular]
    if table.stamped:
        wanted.append(f"WRITETIME({table.stamped})")
    where = [f"{column.name} = ?" for column in table.partition + table.clustering[: query.equal]]
    if query.below:
        names = ", ".join(column.name for column in table.clustering[query.equal : query.equal + query.below])
        where.append(f"({names}) < ({', '.join('?' * query.below)})")
    if query.above:
        names = ", ".join(column.name for column in table.clustering[query.equal : query.equal + query.above])
        where.append(f"({names}) > ({', '.join('?' * query.above)})")
    limit = " LIMIT ?" if query.limited else ""
    return f"SELECT {', '.join(wanted)} FROM {table.name} WHERE {' AND '.join(where)}{limit}"  # noqa: S608 (ours)


def partition_keys_text(table: Table) -> str:
    """The SELECT of the key of every partition."""
    names = ", ".join(column.name for column in table.partition)
    return f"SELECT DISTINCT {names} FROM {table.name}"  # noqa: S608 (names are ours)


def partition_keys_after_text(table: Table, *, is_first: bool) -> str:
    """The SELECT of one page of them, in the order of their tokens."""
    names = ", ".join(column.name for column in table.partition)
    marks = ", ".join("?" * len(table.partition))
    where = "" if is_first else f" WHERE token({names}) > token({marks})"
    return f"SELECT DISTINCT {names} FROM {table.name}{where} LIMIT ?"  # noqa: S608 (names are ours)


def partition_key_packers(table: Table) -> tuple[Callable[[Value], Packed], ...]:
    """What packs the key of a partition, and a row limit."""
    return (*(_PACK[column.type] for column in table.partition), _pack_int)


def key_packers(query: Select) -> tuple[Callable[[Value], Packed], ...]:
    """What packs each value of a key for ``query``."""
    table = query.table
    columns = table.partition + table.clustering[: query.equal + (query.below or query.above)]
    packers = tuple(_PACK[column.type] for column in columns)
    return (*packers, _pack_int) if query.limited else packers


class Packer:
    """Packs the mutations of one prepared statement."""

    def __init__(self, mutation: Mutation) -> None:
        table = mutation.table
        self.partition_width = len(table.partition)
        self.inserts = isinstance(mutation, Put)
        if isinstance(mutation, Put):
            self.text = insert_text(table)
            columns = table.columns
        else:
            width = len(mutation.key)
            self.text = delete_text(table, width)
            columns = (table.partition + table.clustering)[:width]
        self._packers = tuple(_PACK[column.type] for column in columns)
        self._expiring = self.inserts and table.expiring
        self._overhead = _CELL_OVERHEAD * (len(columns) + 2)

    def pack(self, mutation: Mutation) -> tuple[Values, list[Packed]]:
        """What begins with the partition's key, and the mutation's bytes with its stamp.

        Of a row the stamp comes last, and behind it, where bound, its TTL (UNSET: the table's default); of a delete it
        comes first.
        """
        if isinstance(mutation, Put):
            _, values, wts, ttl_s = mutation
            packed = [pack(value) for pack, value in zip(self._packers, values, strict=True)]
            packed.append(_pack_bigint(wts))
            if self._expiring:
                packed.append(UNSET_VALUE if ttl_s is None else _pack_int(ttl_s))
            return values, packed
        packed = [_pack_bigint(mutation.wts)]
        packed += [pack(value) for pack, value in zip(self._packers, mutation.key, strict=True)]
        return mutation.key, packed

    def size(self, packed: list[Packed]) -> int:
        """About what the server counts for this mutation, in bytes."""
        return self._overhead + sum([len(value) for value in packed if value is not UNSET_VALUE])


def packer_key(mutation: Mutation) -> tuple[str, int]:
    """Which packer a mutation needs: -1 for an insert, else the width of the deleted key."""
    return mutation.table.name, -1 if isinstance(mutation, Put) else len(mutation.key)
