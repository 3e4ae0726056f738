"""What differs between two specs, field by field, in the words of the job document. Pure.

A field is named by its JSON pointer (RFC 6901) into the document, and ``calendar_versions`` beside it; objects are
gone into, lists are compared whole, because a shifted list would differ everywhere. What must hold: no changes means
equal specs. At most ``CHANGES_MAX`` are told, and who asks learns that there are more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import orjson

from .document import spec_to_document
from .job import JobSpec

CHANGES_MAX = 200
DEPTH_MAX = 8
"""Deeper objects are compared whole: a payload may be anything."""

_ABSENT = object()


class Change(NamedTuple):
    """One field that differs. ``before``, ``after``: its values, None where it is absent; ``kind`` tells which."""

    field: str
    kind: str
    before: Any
    after: Any


class Differences(NamedTuple):
    """The fields that differ, in the order of their names; ``is_whole``: there are no more."""

    changes: tuple[Change, ...]
    is_whole: bool


def spec_diff(before: JobSpec, after: JobSpec) -> Differences:
    """What ``after`` says otherwise than ``before``."""
    found = list(islice(_changes("", _told(before), _told(after), DEPTH_MAX), CHANGES_MAX + 1))
    return Differences(tuple(found[:CHANGES_MAX]), len(found) <= CHANGES_MAX)


def _told(spec: JobSpec) -> dict[str, Any]:
    """The document, which names calendars, and which version of each: as the API shows a job."""
    uses = spec.timing.calendars
    return spec_to_document(spec) | ({"calendar_versions": {use.name: use.version for use in uses}} if uses else {})


def _changes(where: str, before: Mapping[str, Any], after: Mapping[str, Any], depth: int) -> Iterator[Change]:
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key, _ABSENT), after.get(key, _ABSENT)
        field = f"{where}/{_escaped(key)}"
        if isinstance(old, Mapping) and isinstance(new, Mapping) and depth:
            yield from _changes(field, old, new, depth - 1)
        elif old is _ABSENT:
            yield Change(field, "added", None, new)
        elif new is _ABSENT:
            yield Change(field, "removed", old, None)
        elif orjson.dumps(old) != orjson.dumps(new):  # as text: 1 == True in Python, and not in JSON
            yield Change(field, "changed", old, new)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
