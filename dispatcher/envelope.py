"""The envelope in a ``due`` row: all that is needed to fire without a read at the fire time.

A JSON list ``[stamp, anchor, spec]``: the stamp and resolved anchor of the row's version, and its spec. On-disk format:
parts may be appended, never moved.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import orjson

from waterclock.model.dag import outline
from waterclock.model.document import spec_from_json, spec_to_json
from waterclock.model.errors import UndecodableRecord
from waterclock.model.executor import executor_to_json
from waterclock.model.ids import Instant
from waterclock.model.job import JobSpec, JobVersion

_KEPT_MAX_BYTES = 4_096
"""Envelopes (and payloads) up to this size are kept for the next row of the job: 16,384 large ones were gigabytes."""


def _seal(stamp_at: Instant, anchor_at: Instant, spec: JobSpec) -> bytes:
    return orjson.dumps([stamp_at, anchor_at, orjson.Fragment(spec_to_json(spec))])


_seal_kept = lru_cache(maxsize=16_384)(_seal)


def seal(version: JobVersion) -> bytes:
    """The envelope of a version's rows."""
    spec = version.spec
    if spec.dag is not None:
        spec = replace(spec, dag=outline(spec.dag))  # what fires is a DagRun; its nodes are read from its version
    make = _seal_kept if size_of(spec) <= _KEPT_MAX_BYTES else _seal
    return make(version.stamp_at, version.anchor_at, spec)


def unseal(env: bytes) -> tuple[Instant, Instant, JobSpec]:
    """(stamp, anchor, spec) of an envelope. Raises UndecodableRecord."""
    return (_unseal_kept if len(env) <= _KEPT_MAX_BYTES else _unseal)(env)


def size_of(spec: JobSpec) -> int:
    """About how many bytes of a spec depend on what people wrote: its payload and its executor."""
    return len(spec.payload) + (len(executor_to_json(spec.executor)) if spec.executor else 0)


def kept_count() -> int:
    """How many envelopes and specs are kept."""
    return _seal_kept.cache_info().currsize + _unseal_kept.cache_info().currsize


def _unseal(env: bytes) -> tuple[Instant, Instant, JobSpec]:
    try:
        stamp_at, anchor_at, document = orjson.loads(env)[:3]
        return stamp_at, anchor_at, spec_from_json(orjson.dumps(document))
    except (ValueError, TypeError, KeyError) as error:
        raise UndecodableRecord(f"an envelope that cannot be read: {error}") from error


_unseal_kept = lru_cache(maxsize=16_384)(_unseal)
