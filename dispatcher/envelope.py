"""The envelope in a ``due`` row: all that is needed to fire without a read at the fire time.

A JSON list ``[stamp, anchor, spec, print]``: the stamp and resolved anchor of the row's version, its spec, and the
print of its zone (``zone_prints.py``; "" where it has none). On-disk format: parts may be appended, never moved.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import orjson

from waterclock.model.dag import outline
from waterclock.model.errors import UndecodableRecord
from waterclock.model.executor import executor_to_json
from waterclock.model.ids import Instant
from waterclock.model.job import Cron, JobSpec, JobVersion
from waterclock.model.stored_spec import spec_from_json, spec_to_json
from waterclock.model.zone_prints import is_stale, year_of, zone_print

_KEPT_MAX_BYTES = 4_096
"""Envelopes (and payloads) up to this size are kept for the next row of the job: 16,384 large ones were gigabytes."""

FIRE_BYTES = 2_048
"""A round is bounded in fires. One whose work is larger than this counts for as many as would have been as large: 2,000
of 64 KiB were a transaction of 128 MB, for whose commit every shard's fires wait."""


class Envelope(NamedTuple):
    """What an envelope holds."""

    stamp_at: Instant
    anchor_at: Instant
    spec: JobSpec
    zone_print: str = ""

    @property
    def is_stale(self) -> bool:
        """Whether its zone's transitions have changed since it was made."""
        schedule = self.spec.schedule
        return bool(self.zone_print) and isinstance(schedule, Cron) and is_stale(schedule.zone, self.zone_print)


def _seal(stamp_at: Instant, anchor_at: Instant, spec: JobSpec, printed: str) -> bytes:
    return orjson.dumps([stamp_at, anchor_at, orjson.Fragment(spec_to_json(spec)), printed])


_seal_kept = lru_cache(maxsize=16_384)(_seal)


def seal(version: JobVersion, fire_at: Instant) -> bytes:
    """The envelope of a version's row for this fire."""
    spec = version.spec
    if spec.dag is not None:
        spec = replace(spec, dag=outline(spec.dag))  # what fires is a DagRun; its nodes are read from its version
    make = _seal_kept if size_of(spec) <= _KEPT_MAX_BYTES else _seal
    schedule = spec.schedule
    printed = zone_print(schedule.zone, year_of(fire_at)) if isinstance(schedule, Cron) else ""
    return make(version.stamp_at, version.anchor_at, spec, printed)


def unseal(env: bytes) -> Envelope:
    """What it holds. Raises UndecodableRecord."""
    return (_unseal_kept if len(env) <= _KEPT_MAX_BYTES else _unseal)(env)


def size_of(spec: JobSpec) -> int:
    """About how many bytes of a spec depend on what people wrote: its payload and its executor."""
    return len(spec.payload) + (len(executor_to_json(spec.executor)) if spec.executor else 0)


def weight_of(spec: JobSpec) -> int:
    """For how many fires one of such a job counts in a round; a DagRun's records have none of its payload."""
    return 1 if spec.dag is not None else 1 + size_of(spec) // FIRE_BYTES


def kept_count() -> int:
    """How many envelopes and specs are kept."""
    return _seal_kept.cache_info().currsize + _unseal_kept.cache_info().currsize


def _unseal(env: bytes) -> Envelope:
    try:
        stamp_at, anchor_at, document, *more = orjson.loads(env)
        return Envelope(stamp_at, anchor_at, spec_from_json(orjson.dumps(document)), *more[:1])
    except (ValueError, TypeError, KeyError) as error:
        raise UndecodableRecord(f"an envelope that cannot be read: {error}") from error


_unseal_kept = lru_cache(maxsize=16_384)(_unseal)
