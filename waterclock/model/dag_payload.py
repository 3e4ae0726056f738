"""What a node is given: its payload, and what the nodes upstream have made of theirs. Bytes and sizes, no rule.

A node without ``inputs`` and ``map`` gets its payload as it is. Otherwise it is given one JSON object: ``payload`` (or
``payload_base64``, where the bytes are no JSON), ``upstream`` (by node its result, null where it has none), and for an
item of a mapped node ``item`` and ``index``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable

import orjson

from .dag_events import NOT_KEPT

GIVEN_MAX = 65_536
"""Bytes of what a node run is given in all: 64 KiB, as for any payload."""

_INDEX_MAX = len(',"item":,"index":10000}')


def open_given(payload: bytes, upstream: Iterable[tuple[str, bytes | None]]) -> bytes:
    """The object without its end: for all items of a mapped node alike. ``upstream``: names with results as JSON."""
    results = b",".join(orjson.dumps(name) + b":" + (result or b"null") for name, result in upstream)
    return b'{%b,"upstream":{%b}' % (_payload_part(payload), results)


def closed_given(opened: bytes, item: bytes | None = None, index: int = 0) -> bytes:
    """The whole object. ``item``: as JSON; None for a node that is not mapped."""
    return opened + b"}" if item is None else b'%b,"item":%b,"index":%d}' % (opened, item, index)


def fits(opened: bytes, longest_item: int = 0) -> bool:
    """Whether it stays within the limit with an item of that many bytes."""
    return len(opened) + longest_item + _INDEX_MAX <= GIVEN_MAX


def gathered(results: dict[int, bytes], count: int) -> bytes:
    """The result of a mapped node: the list of its items' results, null for one that has none.

    Only where ``gathered_size`` says that it can be made.
    """
    return b"[%b]" % b",".join(results.get(index) or b"null" for index in range(count))


def gathered_size(result: bytes | None) -> int:
    """What one item's result adds to that: over any limit where it was not kept, for then the list cannot be made."""
    return GIVEN_MAX + 1 if result == NOT_KEPT else len(result or b"null") + 1


def followed_in(result: bytes | None) -> tuple[str, ...] | None:
    """The names in a branch's result: a text, a list of texts, or null for none.

    None where it is something else, or was not kept: then nobody knows what it names.
    """
    try:
        named = orjson.loads(b"null" if result is None else result)
    except ValueError:
        return None
    names = [] if named is None else [named] if isinstance(named, str) else named
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def _payload_part(payload: bytes) -> bytes:
    if not payload:
        return b'"payload":null'
    try:
        orjson.loads(payload)
    except ValueError:
        return b'"payload_base64":"%b"' % base64.b64encode(payload)
    return b'"payload":' + payload
