"""Identities: text that a person can read in ``kcat``, in a log line or in a URL.

* job id: ``<tenant>:<name>``;
* run id: ``<job id>@<fire time, UTC, basic ISO>[~<series>][/<node>]``;
* event id: ``<run id>/<attempt>/<kind>`` (parse it from the right);
* effect id: ``<run id>/out/<number>``.

All of it is on-disk format (Kafka keys, Cassandra keys, idempotency keys at the receivers): golden tests hold it.
Instants are int microseconds since the epoch, UTC. There is nothing here that reads a clock.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple, TypeAlias

from .errors import RequestError

Instant: TypeAlias = int
"""Microseconds since 1970-01-01T00:00:00Z."""

US_PER_S = 1_000_000
US_PER_MINUTE = 60 * US_PER_S

SLOT_COUNT = 256
"""Fixed slices of the job space. Never changes: it is in every key of the time index."""

NAME_MAX = 128
TENANT_MAX = 63
NODE_MAX = 63

_OFFSET_BITS = 48
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
_WHOLE = re.compile(r"[0-9]{8}T[0-9]{6}")
_SERIES_MAX = 2**63 - 1
_RUN_ID = re.compile(
    r"(?P<job>[a-z0-9][a-z0-9._-]{0,62}:[a-z0-9][a-z0-9._-]{0,127})"
    r"@(?P<fire>\d{8}T\d{6}(?:\.\d{6})?Z)"
    r"(?:~(?P<series>[1-9]\d{0,18}))?"
    r"(?:/(?P<node>[a-z0-9][a-z0-9._-]{0,62}))?\Z"
)


def murmur2(data: bytes) -> int:
    """Kafka's Java murmur2 of ``data``, as the unsigned 32-bit number (golden vectors in the tests)."""
    length = len(data)
    h = (0x9747B28C ^ length) & 0xFFFFFFFF
    for i in range(0, length & ~3, 4):
        k = int.from_bytes(data[i : i + 4], "little") * 0x5BD1E995 & 0xFFFFFFFF
        k = (k ^ k >> 24) * 0x5BD1E995 & 0xFFFFFFFF
        h = h * 0x5BD1E995 & 0xFFFFFFFF ^ k
    rest = data[length & ~3 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * 0x5BD1E995 & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0x5BD1E995 & 0xFFFFFFFF
    return h ^ h >> 15


@lru_cache(maxsize=65_536)
def slot_of(key: str) -> int:
    """The slot (0..255) of a Kafka key: ``(murmur2(key) & 0x7fffffff) % 256``."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % SLOT_COUNT


def partition_of(key: str, partitions: int) -> int:
    """The partition of a key among ``partitions``, a power of two that divides 256; agrees with ``murmur2_random``."""
    return slot_of(key) % partitions


def slots_of_partition(partition: int, partitions: int) -> range:
    """The slots that one partition carries: its shard."""
    return range(partition, SLOT_COUNT, partitions)


def _checked(word: str, what: str, limit: int) -> str:
    if len(word) > limit or not _NAME.match(word):
        raise RequestError(
            f"{what} {word[:200]!r} is not allowed",
            pointer=f"/{what}",
            hint=f"Use 1 to {limit} of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit",
        )
    return word


def make_job_id(tenant: str, name: str) -> str:
    """``<tenant>:<name>``; raises RequestError where either breaks the alphabet or the length limit."""
    return f"{_checked(tenant, 'tenant', TENANT_MAX)}:{_checked(name, 'name', NAME_MAX)}"


def generated_name(tenant: str, key: str) -> str:
    """The name of a job that was given none: by tenant and idempotency key, so that a repeat makes one job."""
    return "job-" + blake2b(f"{tenant}\n{key}".encode(), digest_size=10).hexdigest()


def job_id_beside(job_id: str, name: str) -> str:
    """The id of the job of that name in the tenant of ``job_id``."""
    return f"{job_id.partition(':')[0]}:{name}"


def split_job_id(job_id: str) -> tuple[str, str]:
    """(tenant, name) of a job id; raises RequestError where it is none."""
    tenant, colon, name = job_id.partition(":")
    if not colon:
        raise RequestError(f"{job_id[:200]!r} is not a job id", pointer="/job_id", hint="Write <tenant>:<name>")
    return _checked(tenant, "tenant", TENANT_MAX), _checked(name, "name", NAME_MAX)


def tenant_of_job(job_id: str) -> str:
    """The tenant inside a job id (no check: of ids that were checked, or that we made ourselves)."""
    return job_id.partition(":")[0]


@lru_cache(maxsize=4_096)
def _second_text(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).strftime("%Y%m%dT%H%M%S")


def format_instant(at: Instant) -> str:
    """Basic ISO in UTC: ``20261121T090000Z``, with ``.250000`` where there is a fraction of a second."""
    second, fraction = divmod(at, US_PER_S)
    return f"{_second_text(second)}.{fraction:06d}Z" if fraction else f"{_second_text(second)}Z"


def parse_instant(text: str) -> Instant:
    """The inverse of :func:`format_instant`; raises RequestError."""
    try:
        if not _WHOLE.fullmatch(text[:15]):
            raise ValueError(text)
        # fromisoformat, which takes other forms too: strptime costs ten times as much, for every run that is recorded.
        whole = datetime.fromisoformat(text[:15]).replace(tzinfo=UTC)
        fraction = text[15:].removesuffix("Z")
        if not text.endswith("Z") or (fraction and not re.fullmatch(r"\.\d{6}", fraction)):
            raise ValueError(text)
    except ValueError:
        raise RequestError(
            f"{text[:40]!r} is not an instant", hint="Write UTC basic ISO, such as 20261121T090000Z"
        ) from None
    return (whole - _EPOCH) // timedelta(microseconds=1) + (int(fraction[1:]) if fraction else 0)


class RunId(NamedTuple):
    """The parts of a run id. ``series`` is 0, or the revision number of the command that made the run."""

    job_id: str
    fire_at: Instant
    series: int = 0
    node: str = ""

    def __str__(self) -> str:
        return make_run_id(self.job_id, self.fire_at, self.series, self.node)


def make_run_id(job_id: str, fire_at: Instant, series: int = 0, node: str = "") -> str:
    """The text of a run id. Deterministic: any dispatcher computes the same one for the same fire."""
    text = f"{job_id}@{format_instant(fire_at)}"
    if series:
        text = f"{text}~{series}"
    return f"{text}/{node}" if node else text


def parse_run_id(text: str) -> RunId:
    """The parts of a run id; raises RequestError where the text is none."""
    match = _RUN_ID.match(text)
    if match is None or int(match["series"] or 0) > _SERIES_MAX:
        raise RequestError(
            f"{text[:300]!r} is not a run id",
            pointer="/run_id",
            hint="Write <tenant>:<name>@<fire time>, such as acme:nightly@20261121T090000Z",
        )
    return RunId(match["job"], parse_instant(match["fire"]), int(match["series"] or 0), match["node"] or "")


def job_of_run(run_id: str) -> str:
    """The job id inside a run id (no check: for text that we wrote ourselves)."""
    return run_id.partition("@")[0]


def work_key(run_id: str) -> str:
    """The key of a run's work: the job id, and for a node the rest behind it, so that a Dag spreads over workers."""
    node = run_id.partition("/")[2]
    return f"{job_of_run(run_id)}/{node}" if node else job_of_run(run_id)


def event_id(run_id: str, attempt: int, kind: str) -> str:
    """``<run id>/<attempt>/<kind>``, the CloudEvents id by which consumers of run-events drop repeats."""
    return f"{run_id}/{attempt}/{kind}"


def effect_id(run_id: str, number: int) -> str:
    """``<run id>/out/<number>``: a record that a handler sends through us, counted from 0. No attempt is in it."""
    return f"{run_id}/out/{number}"


def ordinal(generation: int, offset: int) -> int:
    """``generation * 2^48 + offset``: revisions and fencing tokens. Compare, never subtract (offsets have gaps)."""
    return generation << _OFFSET_BITS | offset


def offset_of(number: int) -> int:
    """The offset inside a revision or a fencing token."""
    return number & ((1 << _OFFSET_BITS) - 1)


def minute_of(at: Instant) -> int:
    """The bucket of an instant: minutes since the epoch."""
    return at // US_PER_MINUTE
