"""Rows of the tables that people read of jobs, orders and letters, as they stand at the end of a play: plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import orjson

from waterclock.model.job import JobVersion, Pause
from waterclock.store.cells import Select
from waterclock.store.memory import MemoryStore, MemoryTables
from waterclock.store.port import JobRow
from waterclock.store.rows import letter_row
from waterclock.store.tables import AUDIT, LETTERS, Table
from waterclock.wire.records import _spec_to_record

Row: TypeAlias = dict[str, object]
_ROWS_MAX = 100_000


def audit_rows(tables: MemoryTables) -> list[Row]:
    """Every row of ``audit``, by the names of its columns; ``detail`` read."""
    rows = list(_all(tables, AUDIT))
    return [row | {"detail": orjson.loads(str(row["detail"]))} for row in rows]


def letter_rows(tables: MemoryTables) -> list[Row]:
    """Every row of ``letters``."""
    found = []
    for key in sorted(tables.keys_of(LETTERS)):
        rows = (letter_row(str(key[0]), values) for values in tables.read(Select(LETTERS), key))
        found += [{**row._asdict(), "action": row.action.value} for row in rows]
    return found


def backfill_rows(store: MemoryStore, tenants: Sequence[str]) -> list[Row]:
    """Every row of ``backfills``; ``told`` as its event tells it."""
    found = []
    for row in (row for tenant in tenants for row in store.backfills(tenant, _ROWS_MAX)):
        told = row.told._asdict() | {"status": row.told.status.value, "tier": row.told.tier.name}
        found.append({"job_id": row.job_id, "told": told, "at": row.at})
    return found


def job_row(job: JobRow) -> Row:
    """A row of ``jobs``, without what only its writer reads."""
    parts = {"updated_at": job.updated_at, "status": job.status.name, "revision": job.revision}
    return {"job_id": job.job_id, **parts, **_definition(job), "created_at": job.created_at}


def version_row(version: JobVersion) -> Row:
    """A row of ``job_versions``."""
    told = {name: getattr(version, name) for name in ("stamp_at", "actor", "action", "note", "from_revision")}
    stands = {"revision": version.revision, "status": version.status.name, "created_at": version.created_at}
    return {"job_id": version.job_id, **stands, **_definition(version), **told}


def _definition(of: JobRow | JobVersion) -> Row:
    return {
        "spec": _spec_to_record(of.spec),
        "spec_revision": of.spec_revision,
        "anchor_at": of.anchor_at,
        "pause": _pause(of.pause),
    }


def _pause(pause: Pause | None) -> tuple[object, ...] | None:
    return None if pause is None else tuple(pause)


def listing_rows(store: MemoryStore, tenants: Sequence[str]) -> list[Row]:
    """What the lists of these tenants' jobs show."""
    listed = (line for tenant in tenants for line in store.jobs(tenant, _ROWS_MAX))
    return [{**line._asdict(), "status": line.status.name} for line in listed]


def _all(tables: MemoryTables, table: Table) -> Iterator[Row]:
    names = [column.name for column in (*table.partition, *table.clustering, *table.regular)]
    for key in sorted(tables.keys_of(table)):
        for values in tables.read(Select(table), key):
            yield dict(zip(names, (*key, *values), strict=False))
