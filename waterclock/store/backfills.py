"""Backfills over any cells. Their form in a row is JSON by name: fields may be added, none may change its meaning."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from waterclock.model.backfill import Backfilled, BackfillStatus
from waterclock.model.ids import tenant_of_job
from waterclock.model.job import Tier

from .backfill_port import BackfillRow
from .cells import Cells, Select, Values
from .tables import BACKFILLS

_ONE = Select(BACKFILLS, equal=2)
_OF_JOB = Select(BACKFILLS, equal=1, limited=True, relaxed=True)
_FIRST = Select(BACKFILLS, limited=True, relaxed=True)
_NEXT = Select(BACKFILLS, below=2, limited=True, relaxed=True)


class TabularBackfills:
    """What shows them."""

    _cells: Cells

    def backfill(self, job_id: str, number: int) -> BackfillRow | None:
        (found,) = self._cells.select("backfill", _ONE, [(tenant_of_job(job_id), job_id, number)])
        return _row(found[0]) if found else None

    def backfills_of_job(self, job_id: str, limit: int) -> Sequence[BackfillRow]:
        (found,) = self._cells.select("backfills_of_job", _OF_JOB, [(tenant_of_job(job_id), job_id, limit)])
        return [_row(values) for values in found]

    def backfills(self, tenant: str, limit: int, after: tuple[str, int] | None = None) -> Sequence[BackfillRow]:
        key = (tenant, *(after or ()), limit)
        (found,) = self._cells.select("backfills", _NEXT if after else _FIRST, [key])
        return [_row(values) for values in found]


def backfill_values(row: BackfillRow) -> Values:
    """A row of ``backfills``."""
    told = orjson.dumps(row.told._asdict()).decode()
    return (tenant_of_job(row.job_id), row.job_id, row.told.number, told, row.at)


def _row(values: Values) -> BackfillRow:
    job_id, _number, text, at = values
    found = {name: part for name, part in orjson.loads(text).items() if name in Backfilled._fields}
    told = Backfilled(**found | {"status": BackfillStatus(found["status"]), "tier": Tier(found["tier"])})
    return BackfillRow(job_id, told, at)
