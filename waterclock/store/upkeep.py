"""What the work that goes on for ever (upkeep) tells of itself, for whoever comes after it and for people.

A line for each work and place (mostly a shard), overwritten as the work goes on. What must hold: the newer word wins,
by the clock of who said it, so a zombie's word is soon replaced; nothing but what people are told, and where a
work goes on, may depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import orjson

from waterclock.model.errors import UndecodableRecord
from waterclock.model.ids import Instant

from .cells import Cells, Put, Select
from .tables import UPKEEP

_ONE = Select(UPKEEP, equal=1)
_ALL = Select(UPKEEP, limited=True)
_WAIT_S = 30.0
DUE_SWEEP = "due-sweep"
"""The dispatchers' sweep for missing rows of ``due``; by shard. ``repairs`` since the installation began, ``named``:
the newest of them, ``jobs`` of the last whole lap, ``ended_at``: when it ended; ``lap``: how far the next one is."""

LEDGER = "ledger"
"""The recorders' running check of the books; by shard. ``verified_to``: every hour before it was judged, from
``since`` on. ``missing``, ``doubled``, ``wrong``, ``unproved_hours``: how many of each; ``named``: the newest ones."""

OVERDUE = "overdue"
"""The recorders' look for jobs that should have succeeded by now; by shard. ``count``: how many there are, ``named``:
some of them, ``watched``: how many jobs say ``expect_within``, ``ended_at``: when a lap ended last."""

DAG_ENGINE = "dag-engine"
"""What the DAG engine counts, since it took the partition over; by partition. ``open`` DagRuns, nodes ``released`` and
``skipped``, ``latency_counts`` (not cumulative, by ``RELEASE_BUCKETS_S``, the last: longer) and ``latency_sum_s``."""

RELEASE_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the buckets of ``latency_counts``."""

STUCK_DAGS = "stuck-dags"
"""The recorders' look for stuck nodes; by partition. ``by_reason``: how many, ``named``: some of them, ``looked_at``:
how many open DagRuns there were, ``ended_at``: when a lap ended last."""

TZDATA = "tzdata"
"""Versions of zone data that a dispatcher has announced; by version. ``withdrawn``: it counts no more."""

INSTALLATION = "installation"
"""Whose keyspace this is. ``prefix``: with what the topics begin in which the commands of its jobs stand."""

PLACES_MAX = 1_000
"""Places of one work that are read at once: there are 256 shards at most, and a few hundred zones."""


class Told(NamedTuple):
    """What a work told last of one place. ``at``: when."""

    place: str
    parts: Mapping[str, Any]
    at: Instant


class UpkeepKeeping(Protocol):
    """Where works tell of themselves. Raises BackendDown, and on writing WriteUnknown."""

    def tell(self, what: str, place: str, parts: Mapping[str, Any], at: Instant) -> None:
        """Overwrite what was told of this place. ``parts``: what JSON can hold."""
        ...

    def told(self, what: str, place: str) -> Told | None:
        """What was told last of one place. Raises UndecodableRecord."""
        ...

    def told_of_all(self, what: str) -> list[Told]:
        """The same of every place, in their order. Raises UndecodableRecord."""
        ...


class TabularUpkeep:
    """The same over any cells."""

    _cells: Cells

    def tell(self, what: str, place: str, parts: Mapping[str, Any], at: Instant) -> None:
        values = (what, place, orjson.dumps(parts, option=orjson.OPT_SORT_KEYS).decode(), at)
        self._cells.write("tell", [Put(UPKEEP, values, at)]).wait(_WAIT_S)

    def told(self, what: str, place: str) -> Told | None:
        (found,) = self._cells.select("told", _ONE, [(what, place)])
        return _told(*found[0]) if found else None

    def told_of_all(self, what: str) -> list[Told]:
        (found,) = self._cells.select("told_of_all", _ALL, [(what, PLACES_MAX)])
        return [_told(*values) for values in found]


def _told(place: str, text: str, at: Instant) -> Told:
    try:
        parts = orjson.loads(text)
    except ValueError as error:
        raise UndecodableRecord(f"what was told of {place[:80]!r} cannot be read: {error}") from error
    return Told(place, parts if isinstance(parts, dict) else {}, at)
