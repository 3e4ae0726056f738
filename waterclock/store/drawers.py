"""History of runs in drawers: which row of ``runs_by_drawer`` a run has, what stands in its cells, and back.

A drawer holds many jobs of one day, so that the recorder's batches fall into few partitions (a row then costs the
server half), and what is only read as a whole is one cell. What must hold, as on-disk format: the drawer of a job, the
names in ``told``, and what a name that is missing means. A name that this release doesn't know is passed over.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import compress
from operator import itemgetter
from typing import Any

import orjson

from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import Instant, murmur2
from waterclock.model.job import Tier

from .cells import Values
from .port import RunRow
from .rows import day_of

DRAWERS = 1_024
"""Of one day. A multiple of the slots, so that a drawer's jobs are of one shard, and so of one recorder's batches."""

_STATUSES = tuple(RunStatus)
_OUTCOMES = tuple(Outcome)
_TIERS = tuple(Tier)
_CELLS = frozenset({"job_id", "fire_at", "series", "status", "result", "wts"})
_TOLD = tuple(name for name in RunRow._fields if name not in _CELLS)
_fields_told = itemgetter(*(RunRow._fields.index(name) for name in _TOLD))
_ABSENT: dict[str, Any] = {name: RunRow._field_defaults.get(name, 0) for name in _TOLD} | dict.fromkeys(
    ("origin", "worker", "error", "reason", "zone", "tzdata"), ""
)


@lru_cache(maxsize=65_536)
def drawer_of(job_id: str) -> int:
    """The drawer (0..1,023) of a job, in every day: ``(murmur2(job id) & 0x7fffffff) % 1024``."""
    return (murmur2(job_id.encode()) & 0x7FFFFFFF) % DRAWERS


def drawer_key(job_id: str, fire_at: Instant, series: int) -> Values:
    """The whole key of a run's row."""
    return (day_of(fire_at), drawer_of(job_id), job_id, fire_at, series)


def drawer_values(run: RunRow) -> Values:
    """A row of ``runs_by_drawer``. Hot: one for every run."""
    told = _fields_told(run)
    # compress: what is 0, "" or False is left out.
    text = orjson.dumps(dict(compress(zip(_TOLD, told, strict=True), told))).decode()
    job_id, fire_at, series = run[:3]
    return (day_of(fire_at), drawer_of(job_id), job_id, fire_at, series, run.status, text, run.result)


def run_in_drawer(values: Values) -> RunRow:
    """A row of ``runs_by_drawer`` as read; its stamp is the WRITETIME of ``told``. Raises UndecodableRecord."""
    job_id, fire_at, series, status, text, result, wts = values
    try:
        told = _ABSENT | {name: value for name, value in orjson.loads(text).items() if name in _ABSENT}
        told["tier"] = _TIERS[told["tier"]]
        told["outcome"] = _OUTCOMES[told["outcome"]]
        told["rerun_from"] = tuple(told["rerun_from"])
        return RunRow(job_id, fire_at, series, status=_STATUSES[status], result=result, wts=wts, **told)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise UndecodableRecord(f"history of {job_id} at {fire_at} cannot be read: {error}") from error
