"""What an importer found: drafts of jobs, and remarks about what they do not carry.

Every draft has passed the one door of job documents; what that refuses is left out, with its reason. How it fails:
RequestError where a file holds more than ENTRIES_MAX entries; there is nothing else to refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from waterclock.model.document import spec_from_document
from waterclock.model.errors import RequestError
from waterclock.model.ids import make_job_id
from waterclock.model.job import JobSpec

ENTRIES_MAX = 5_000
"""Entries of one file, made into drafts or left out."""

_WHAT_MAX = 120


class Weight(StrEnum):
    """What a remark means for its entry."""

    LEFT_OUT = "left out"
    """No job is made of it."""

    LOST = "not carried over"
    """The job is made, without this."""

    NOTE = "note"
    """The job is made, and somebody should look at this."""


class Remark(NamedTuple):
    """Something that a draft does not say. ``line`` counts from 1; 0: the whole file. ``hint``: what to do."""

    line: int
    weight: Weight
    what: str
    why: str
    hint: str


class Draft(NamedTuple):
    """A job that would be made. ``document`` is what a person would write, with ``name``; ``spec`` the same, read."""

    line: int
    name: str
    document: Mapping[str, Any]
    spec: JobSpec


class Found(NamedTuple):
    """All of one file, in its order."""

    drafts: tuple[Draft, ...]
    remarks: tuple[Remark, ...]

    @property
    def left_out_count(self) -> int:
        """Entries of which no job is made."""
        return sum(remark.weight is Weight.LEFT_OUT for remark in self.remarks)


class Gathering:
    """Takes what a reader finds. ``more``: parts that go into every document, such as a pool."""

    def __init__(self, tenant: str, more: Mapping[str, Any] | None = None) -> None:
        self._tenant = tenant
        self._more = dict(more or {})
        self._drafts: dict[str, Draft] = {}
        self._remarks: list[Remark] = []
        self._entries_count = 0

    def job(self, line: int, what: str, name: str, document: Mapping[str, Any]) -> bool:
        """A draft, if its document passes and its name is free; else it is left out. Whether it was taken."""
        self._count(line)
        if (other := self._drafts.get(name)) is not None:
            self._remark(line, Weight.LEFT_OUT, what, f"line {other.line} makes a job of the same name, {name}",
                         "Rename one of them")  # fmt: skip
            return False
        whole = {**document, **self._more}
        try:
            spec = spec_from_document(whole, job_id=make_job_id(self._tenant, name))
        except RequestError as error:
            where = f" (at {error.pointer})" if error.pointer else ""
            self._remark(line, Weight.LEFT_OUT, what, f"{error.message}{where}", error.hint)
            return False
        self._drafts[name] = Draft(line, name, {"name": name, **whole}, spec)
        return True

    def left_out(self, line: int, what: str, why: str, hint: str) -> None:
        """An entry of which no job is made."""
        self._count(line)
        self._remark(line, Weight.LEFT_OUT, what, why, hint)

    def lost(self, line: int, what: str, why: str, hint: str) -> None:
        """A part that the draft does not carry."""
        self._remark(line, Weight.LOST, what, why, hint)

    def note(self, line: int, what: str, why: str, hint: str) -> None:
        """Something to look at."""
        self._remark(line, Weight.NOTE, what, why, hint)

    def found(self) -> Found:
        """All of it; remarks in the order of their lines, those of the whole file first."""
        return Found(tuple(self._drafts.values()), tuple(sorted(self._remarks, key=lambda remark: remark.line)))

    def _count(self, line: int) -> None:
        self._entries_count += 1
        if self._entries_count > ENTRIES_MAX:
            raise RequestError(
                f"The file has more than {ENTRIES_MAX} entries, the next one in line {line}",
                hint="Split it, and import one part after the other",
            )

    def _remark(self, line: int, weight: Weight, what: str, why: str, hint: str) -> None:
        what = what.encode(errors="backslashreplace").decode()  # what no terminal can show would end the command
        short = what if len(what) <= _WHAT_MAX else what[: _WHAT_MAX - 3] + "..."
        self._remarks.append(Remark(line, weight, short, why, hint))
