"""How rows are cut into requests: many rows of one partition together, few rows of many partitions together.

What must hold: a request over one partition is one mutation for the server (atomic, a quarter of the price a row); one
over several stays below what the server refuses and may be applied in part. Order inside a request means nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from cassandra.query import PreparedStatement

from .statements import Packed

OWN_BATCH_ROWS = 8
"""From here on the rows of one partition get a batch of their own."""

PARTITION_ROWS_MAX = 100
PARTITION_BYTES_MAX = 512 * 1024
"""Bounds of a single-partition batch (the server's: half a commit-log segment, which is 8 MiB in our stack)."""

MIXED_ROWS_MAX = 30
MIXED_BYTES_MAX = 40 * 1024
"""Bounds of a batch over several partitions: the server refuses 50 KiB."""


class Sized(NamedTuple):
    """A mutation ready to be sent: its statement, its packed values, and about how large the server takes it to be."""

    prepared: PreparedStatement
    values: list[Packed]
    size: int


Batch: TypeAlias = list[Sized]


def batches(groups: Sequence[Batch]) -> Iterator[Batch]:
    """Cut what goes to each partition into requests: large groups alone, small ones together."""
    mixed: Batch = []
    size = 0
    for group in groups:
        if len(group) >= OWN_BATCH_ROWS:
            yield from _cut(group)
            continue
        for each in group:
            if mixed and (len(mixed) >= MIXED_ROWS_MAX or size + each.size > MIXED_BYTES_MAX):
                yield mixed
                mixed, size = [], 0
            mixed.append(each)
            size += each.size
    if mixed:
        yield mixed


def _cut(group: Batch) -> Iterator[Batch]:
    part: Batch = []
    size = 0
    for each in group:
        if part and (len(part) >= PARTITION_ROWS_MAX or size + each.size > PARTITION_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(each)
        size += each.size
    yield part
