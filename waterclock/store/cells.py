"""What lies under the Store: mutations and selections of rows, in a form that two back-ends can carry out.

``tabular.py`` speaks the domain and turns it into these; ``cassandra.py`` sends them as prepared statements,
``memory.py`` interprets them. So a rule of the domain exists once, and the conformance suite judges the rest.
What must hold: every mutation carries its stamp; nothing here can name a partition by half its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from .port import Writing
from .tables import Table

Value: TypeAlias = Any
"""int, str or bytes, as the column's type has it; None = leave the cell alone (UNSET)."""

Values: TypeAlias = tuple[Value, ...]


class Put(NamedTuple):
    """Write a whole row. ``ttl_s`` None: the table's default."""

    table: Table
    values: Values
    wts: int
    ttl_s: int | None = None


class Remove(NamedTuple):
    """Delete what is not younger than ``wts`` under ``key``: one row, or with a bare partition key all of it."""

    table: Table
    key: Values
    wts: int


Mutation: TypeAlias = Put | Remove


class Select(NamedTuple):
    """A read of one partition, in the order of its clustering columns.

    A key for it: the partition key, then ``equal`` clustering values that must match, then ``below`` values (a tuple
    slice over the clustering columns that follow, all in one direction) that bound it from above, excluded, or
    ``above`` values that bound it from below; then, if ``limited``, the row limit.
    Rows come as clustering and regular columns, and the WRITETIME where the table is stamped.
    ``relaxed``: any one replica may answer (lists for people).
    """

    table: Table
    equal: int = 0
    below: int = 0
    limited: bool = False
    relaxed: bool = False
    in_flight: int = 32
    above: int = 0


class Cells(Protocol):
    """A place that keeps rows."""

    def write(self, operation: str, mutations: Sequence[Mutation]) -> Writing:
        """Begin to apply ``mutations``, in any order. ``operation``: the port's method, for faults and messages."""
        ...

    def select(self, operation: str, query: Select, keys: Sequence[Values]) -> list[list[Values]]:
        """The rows under each key, in the order of the keys. Raises BackendDown."""
        ...

    def partition_keys(self, operation: str, table: Table) -> list[Values]:
        """The keys of all partitions that hold a row, in any order: a look at the whole table. Raises BackendDown."""
        ...

    def partition_keys_after(self, operation: str, table: Table, after: Values | None, limit: int) -> list[Values]:
        """The same in pages, in an order that is the cells' own: at most ``limit`` behind ``after``. BackendDown."""
        ...

    def release(self) -> str:
        """Version of the server."""
        ...

    def close(self) -> None:
        """Let go of the connection. Writes under way may be lost."""
        ...
