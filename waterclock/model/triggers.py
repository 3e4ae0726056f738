"""What starts a job beside its schedule, or instead of one: ends of other jobs' runs, and records on topics.

Values and their stored form: compact JSON, which stands in job rows, commands and the topic ``triggers``, so it is
on-disk format: keys may be added, none may change meaning. ``since``, by condition from when on it has stood, is the
shard owner's to say and no part of what a job *is*: two specs that differ in nothing else are one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

import orjson

from .events import RunStatus
from .ids import Instant

CONDITIONS_MAX = 16
"""Conditions of one job."""

HEADERS_MAX, HEADER_MAX = 8, 200
"""Headers that a condition names, and characters of each name and text."""

HEADERS_LENGTH_MAX = 8_000
"""Characters of all of them together, of one job: they go into a command beside a payload."""

HOPS_MAX = 16
"""Runs in a row of which each was started by the end of the one before: the longest chain, so that a ring ends."""


class Ended(StrEnum):
    """Which ends of a run count. ANY: whatever its final status, but for a fire that was skipped."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ANY = "any"

    def counts(self, status: RunStatus) -> bool:
        """Whether a run that ended so counts."""
        if self is Ended.ANY:
            return status in (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED)
        return status is (RunStatus.SUCCEEDED if self is Ended.SUCCEEDED else RunStatus.FAILED)


WITHIN_US_MIN, WITHIN_US_MAX = 1_000_000, 31 * 86_400 * 1_000_000
"""How long a window may be open: longer than people wait for something to come, and ``commands`` keeps 30 days."""


class RunEnds(NamedTuple):
    """A run of ``job`` (the name of one of the same tenant) ends so. A DagRun counts by its own end, nodes do not."""

    job: str
    ended: Ended = Ended.SUCCEEDED


class RecordComes(NamedTuple):
    """A record is appended to ``topic``, with each of these headers (the last one of its name, as UTF-8 text)."""

    topic: str
    headers: tuple[tuple[str, str], ...] = ()

    def passes(self, headers: Mapping[str, bytes]) -> bool:
        """Whether a record with these headers counts."""
        return all(headers.get(name) == text.encode() for name, text in self.headers)


Condition: TypeAlias = RunEnds | RecordComes


def name_of(condition: Condition) -> str:
    """What it waits for, in few words: two conditions on one topic differ by their headers alone."""
    if isinstance(condition, RunEnds):
        return condition.job
    return f"{condition.topic}{''.join(f' {name}={text}' for name, text in condition.headers)}"


@dataclass(frozen=True, slots=True)
class Triggers:
    """The conditions: each end, and each record, that meets any of them makes one run.

    ``within_us`` not 0: they are gathered, and of those in one window one run is made: once all conditions were met
    (``wants_all``), or else when the window that the first one has opened is over. ``since``: by condition, of an end
    before it nothing follows; () where no shard owner has said it yet.
    """

    conditions: tuple[Condition, ...]
    since: tuple[Instant, ...] = field(default=(), compare=False)
    within_us: int = 0
    wants_all: bool = False

    def standing_since(self, stamp_at: Instant, before: Triggers | None) -> Triggers:
        """As they stand from ``stamp_at`` on; a condition that stood in ``before`` goes on."""
        known = dict(zip(before.conditions, before.since, strict=False)) if before is not None else {}
        return replace(self, since=tuple(known.get(each, stamp_at) for each in self.conditions))

    def met_by(self, job: str, status: RunStatus, at: Instant) -> bool:
        """Whether a run of ``job`` that ended so, at ``at``, counts."""
        return bool(self.places_met_by(job, status, at))

    def places_met_by(self, job: str, status: RunStatus, at: Instant) -> tuple[int, ...]:
        """The places of the conditions that it meets."""
        stood = enumerate(zip(self.conditions, self.since, strict=False))
        return tuple(
            place
            for place, (each, since) in stood
            if isinstance(each, RunEnds) and each.job == job and at > since and each.ended.counts(status)
        )

    def places_passed_by(self, topic: str, headers: Mapping[str, bytes]) -> tuple[int, ...]:
        """The places of the conditions that a record of ``topic`` with these headers meets.

        Since when they have stood is for whoever reads the topic: a record's own instant is its sender's to say.
        """
        return tuple(
            place
            for place, each in enumerate(self.conditions)
            if isinstance(each, RecordComes) and each.topic == topic and each.passes(headers)
        )


class JobTriggers(NamedTuple):
    """A record of the topic ``triggers`` under a job's id: what starts it, as of the command of this ``revision``."""

    job_id: str
    revision: int
    stamp_at: Instant
    on: Triggers


def triggers_to_json(triggers: Triggers | None) -> str:
    """The stored form; "" for none. Exact inverse: :func:`triggers_from_json`."""
    if triggers is None:
        return ""
    word = "all" if triggers.wants_all else "any"
    stored: dict[str, object] = {word: [_stored(each) for each in triggers.conditions]}
    if triggers.within_us:
        stored["within"] = triggers.within_us
    if triggers.since:
        stored["since"] = triggers.since
    return orjson.dumps(stored).decode()


def triggers_from_json(stored: str) -> Triggers | None:
    """What a stored form says; what its values may be is for ``check_triggers``.

    Anybody may have written it, into a command: ValueError where a part is of another type, for arithmetic with it
    would stop who reads it.
    """
    if not stored:
        return None
    parts = orjson.loads(stored)
    wants_all = "all" in parts
    conditions = tuple(map(_condition, parts["all" if wants_all else "any"]))
    since = tuple(_whole(at) for at in parts.get("since", ()))
    if len(since) not in (0, len(conditions)):
        raise ValueError("since is not of each condition")
    return Triggers(conditions, since, _whole(parts.get("within", 0)), wants_all)


def _stored(condition: Condition) -> object:
    if isinstance(condition, RunEnds):
        return [condition.job, condition.ended.value]
    return {"topic": condition.topic, "headers": [list(each) for each in condition.headers]}


def _condition(stored: Any) -> Condition:
    if isinstance(stored, dict):
        return RecordComes(
            _text(stored["topic"]), tuple((_text(name), _text(text)) for name, text in stored["headers"])
        )
    job, ended = stored
    return RunEnds(_text(job), Ended(ended))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a name is not text")  # noqa: TRY004 - the one error of a stored form
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise ValueError("a number is not whole, or out of range")
    return value
