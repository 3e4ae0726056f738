"""The envelope in a ``due`` row: all that is needed to fire without a read at the fire time.

A JSON list ``[stamp, anchor, spec]``: the stamp and resolved anchor of the row's version, and its spec. On-disk format:
parts may be appended, never moved.
"""

from __future__ import annotations

from functools import lru_cache

import orjson

from waterclock.model.document import spec_from_json, spec_to_json
from waterclock.model.errors import UndecodableRecord
from waterclock.model.ids import Instant
from waterclock.model.job import JobSpec, JobVersion


@lru_cache(maxsize=16_384)
def _seal(stamp_at: Instant, anchor_at: Instant, spec: JobSpec) -> bytes:
    return orjson.dumps([stamp_at, anchor_at, orjson.Fragment(spec_to_json(spec))])


def seal(version: JobVersion) -> bytes:
    """The envelope of a version's rows."""
    return _seal(version.stamp_at, version.anchor_at, version.spec)


@lru_cache(maxsize=16_384)
def unseal(env: bytes) -> tuple[Instant, Instant, JobSpec]:
    """(stamp, anchor, spec) of an envelope. Raises UndecodableRecord."""
    try:
        stamp_at, anchor_at, document = orjson.loads(env)[:3]
        return stamp_at, anchor_at, spec_from_json(orjson.dumps(document))
    except (ValueError, TypeError, KeyError) as error:
        raise UndecodableRecord(f"an envelope that cannot be read: {error}") from error
