"""A walk through a stranger's Avro bytes that makes nothing of them: are they a record of this schema, to the last one?

Why: fastavro accepts what no writer writes (an enum index below 0, a boolean of 7, bytes left over) and builds whatever
a few bytes ask for. Records of our own are judged by writing them again; those of strangers cannot be, because Avro
leaves a writer some freedom (arrays in several blocks, with or without their size), and other languages use it.

What must hold: what passes decodes to values of the schema and to nothing larger than ``ITEMS_MAX`` array items ask
for; the walk itself makes no value, and stops at the first fault. How it fails: ValueError or IndexError, whatever the
bytes. That texts are UTF-8 is the decoder's to see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from .binary import get_long
from .schemata import Schema

ITEMS_MAX = 1_500
"""Array items of one record, all arrays together: a whole list of dates, and well over what else a record may hold."""

_Step: TypeAlias = Callable[[bytes, int, list[int]], int]
"""From the place of a value to the place after it; the list holds how many array items are left."""


class Walk:
    """The walk of one schema, compiled."""

    def __init__(self, schema: Schema) -> None:
        self._named: dict[str, _Step] = {}
        self._step = self._of(schema.parsed)

    def check(self, data: bytes, at: int) -> None:
        """Whether the bytes from ``at`` on are one record and nothing else. Raises ValueError, IndexError."""
        end = self._step(data, at, [ITEMS_MAX])
        if end != len(data):
            raise ValueError(f"{len(data) - end} bytes are left over" if end < len(data) else "it is cut short")

    def _of(self, node: Any) -> _Step:
        if isinstance(node, list):
            return _union([self._of(branch) for branch in node])
        if isinstance(node, str):
            return _PRIMITIVES.get(node) or self._named[node]
        kind = node["type"]
        if kind == "array":
            return _array(self._of(node["items"]))
        if kind == "enum":
            return self._known(node["name"], _enum(len(node["symbols"])))
        if kind == "record":
            return self._known(node["name"], _record([self._of(field["type"]) for field in node["fields"]]))
        return self._of(kind)

    def _known(self, name: str, step: _Step) -> _Step:
        self._named[name] = step
        return step


def _record(steps: list[_Step]) -> _Step:
    def step(data: bytes, at: int, left: list[int]) -> int:
        for part in steps:
            at = part(data, at, left)
        return at

    return step


def _union(branches: list[_Step]) -> _Step:
    def step(data: bytes, at: int, left: list[int]) -> int:
        index, at = get_long(data, at)
        if not 0 <= index < len(branches):
            raise ValueError(f"a union of {len(branches)} has no branch {index}")
        return branches[index](data, at, left)

    return step


def _enum(count: int) -> _Step:
    def step(data: bytes, at: int, left: list[int]) -> int:  # noqa: ARG001 - the form of a step
        index, at = get_long(data, at)
        if not 0 <= index < count:
            raise ValueError(f"an enum of {count} has no symbol {index}")
        return at

    return step


def _array(item: _Step) -> _Step:
    def step(data: bytes, at: int, left: list[int]) -> int:
        while True:  # ends: every turn takes from what is left, or returns
            count, at = get_long(data, at)
            if count == 0:
                return at
            end = 0
            if count < 0:
                size, at = get_long(data, at)
                count, end = -count, at + size
            if count > left[0]:
                raise ValueError(f"more than {ITEMS_MAX} array items")
            left[0] -= count
            for _ in range(count):
                at = item(data, at, left)
            if end and at != end:
                raise ValueError("a block of an array has another size than it says")

    return step


def _null(data: bytes, at: int, left: list[int]) -> int:  # noqa: ARG001 - the form of a step
    return at


def _boolean(data: bytes, at: int, left: list[int]) -> int:  # noqa: ARG001 - the form of a step
    if data[at] > 1:
        raise ValueError(f"a boolean of {data[at]}")
    return at + 1


def _int(data: bytes, at: int, left: list[int]) -> int:  # noqa: ARG001 - the form of a step
    number, at = get_long(data, at)
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{number} is no int of 32 bits")
    return at


def _long(data: bytes, at: int, left: list[int]) -> int:  # noqa: ARG001 - the form of a step
    return get_long(data, at)[1]


def _bytes(data: bytes, at: int, left: list[int]) -> int:  # noqa: ARG001 - the form of a step
    size, at = get_long(data, at)
    if not 0 <= size <= len(data) - at:
        raise ValueError(f"a length of {size} where {len(data) - at} bytes follow")
    return at + size


_PRIMITIVES: dict[str, _Step] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "bytes": _bytes,
    "string": _bytes,
}
