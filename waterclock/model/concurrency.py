"""What a job says of runs beside one another: its overlap policy, its limits, and the key that parts its runs.

Values and their stored form: compact JSON with what differs from the defaults ("" where nothing does). It stands in job
rows, due rows and commands, so it is on-disk format: keys may be added, none may change meaning. Trusted: only what
``concurrency_document.py`` has checked is stored. What becomes of a fire, ``dispatcher/admission.py`` decides.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b

import orjson

HELD_DEFAULT = 100
"""Runs of one job that may be HELD where it does not say otherwise."""

HELD_MAX = 1_000
"""The most it can say, and what ``sequential`` has."""

CONCURRENT_MAX = 1_000
"""The widest limit, per job and per key."""

POINTER_MAX = 200
_VALUE_MAX = 120
_PAYLOAD_KEPT_MAX = 4_096


class Overlap(StrEnum):
    """What becomes of a fire that finds no room: the six policies of Temporal's schedules, and ``sequential``."""

    ALLOW = "allow"
    """Runs beside the others; over a limit it is HELD."""

    SKIP = "skip"
    """SKIPPED(overlap)."""

    BUFFER_ONE = "buffer_one"
    """HELD, unless another is HELD already: then SKIPPED(overlap)."""

    BUFFER_ALL = "buffer_all"
    """HELD, up to ``max_held``."""

    CANCEL_OTHER = "cancel_other"
    """The other is asked to stop, and gets its time for that; the newest fire is HELD until it has ended."""

    TERMINATE_OTHER = "terminate_other"
    """As ``cancel_other``, and the other gets no time: it is stopped by force at once."""

    SEQUENTIAL = "sequential"
    """One after the other in the order of the fires, each waits for the final status of the one before."""


STOPS = frozenset({Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER})
HOLDS = frozenset({Overlap.ALLOW, Overlap.BUFFER_ALL, Overlap.SEQUENTIAL})
"""Policies that hold as many as there may be."""


@dataclass(frozen=True, slots=True)
class Concurrency:
    """A job's policy and limits. Numbers of 0 were not given. ``key``: a JSON pointer into the payload, "": none."""

    overlap: Overlap = Overlap.ALLOW
    max_concurrent: int = 0
    key: str = ""
    max_per_key: int = 0
    max_held: int = 0

    @property
    def is_free(self) -> bool:
        """Nothing is limited: its runs are not followed, and cost nothing."""
        return self.overlap is Overlap.ALLOW and not (self.max_concurrent or self.key)

    @property
    def job_limit(self) -> int:
        """How many runs of the job may be open; 0: any number. A policy alone means one, and with a key one per key."""
        return self.max_concurrent or int(self.overlap is not Overlap.ALLOW and not self.key)

    @property
    def key_limit(self) -> int:
        """How many with the same key may be open; 0: any number."""
        return (self.max_per_key or 1) if self.key else 0

    @property
    def held_limit(self) -> int:
        """How many may be HELD."""
        if self.overlap is Overlap.SEQUENTIAL:
            return HELD_MAX
        return (self.max_held or HELD_DEFAULT) if self.overlap in HOLDS else HELD_MAX

    def group(self, payload: bytes) -> str:
        """The group of a run with this payload: pointer and value, "" where the job has no key.

        All payloads without a value there, or that are no JSON, are of one group. Long values go by their hash.
        """
        if not self.key:
            return ""
        return (_group_kept if len(payload) <= _PAYLOAD_KEPT_MAX else _group)(self.key, payload)


_WORDS = {word.value: word for word in Overlap}

FREE = Concurrency()
"""No policy, no limit."""


def _group(pointer: str, payload: bytes) -> str:
    try:
        text = orjson.dumps(_at(orjson.loads(payload), pointer), option=orjson.OPT_SORT_KEYS).decode()
    except (ValueError, TypeError, RecursionError):
        text = "null"
    if len(text) > _VALUE_MAX:
        text = "#" + blake2b(text.encode(), digest_size=16).hexdigest()
    return f"{pointer}={text}"


_group_kept = lru_cache(maxsize=4_096)(_group)


def _at(value: object, pointer: str) -> object:
    """What an RFC 6901 pointer finds; None where it finds nothing."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and (name == "0" or name[0] != "0"):
            value = value[int(name)] if int(name) < len(value) else None
        else:
            return None
    return value


def concurrency_to_json(concurrency: Concurrency) -> str:
    """The stored form; "" for the free one. Exact inverse: :func:`concurrency_from_json`."""
    if concurrency == FREE:
        return ""
    kept = {field.name: getattr(concurrency, field.name) for field in fields(concurrency)}
    return orjson.dumps({name: part for name, part in kept.items() if part != getattr(FREE, name)}).decode()


def concurrency_from_json(stored: str) -> Concurrency:
    """What a stored form says. Trusted input. Keys and words of a later release are dropped."""
    return FREE if not stored else _from_json(stored)


@lru_cache(maxsize=4_096)
def _from_json(stored: str) -> Concurrency:
    names = {field.name for field in fields(Concurrency)}
    parts = {name: part for name, part in orjson.loads(stored).items() if name in names}
    word = parts.pop("overlap", Overlap.ALLOW)
    numbers = {name: int(part) for name, part in parts.items() if name != "key"}
    return Concurrency(_WORDS.get(word, Overlap.ALLOW), key=str(parts.get("key", "")), **numbers)
