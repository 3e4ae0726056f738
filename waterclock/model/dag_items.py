"""What a mapped node is mapped over, once that is known. Pure."""

from __future__ import annotations

from typing import TypeAlias

import orjson

from .dag import MapOver
from .dag_events import NOT_KEPT, NodeEnd
from .dag_steps import SkipReason

Never: TypeAlias = tuple[SkipReason, NodeEnd]
"""Why a node never runs, and what it counts as."""

TOO_LARGE: Never = (SkipReason.INPUTS_TOO_LARGE, NodeEnd.FAILED)

_NO_SOURCE: dict[NodeEnd | None, Never] = {
    NodeEnd.FAILED: (SkipReason.UPSTREAM_FAILED, NodeEnd.UPSTREAM_FAILED),
    NodeEnd.UPSTREAM_FAILED: (SkipReason.UPSTREAM_FAILED, NodeEnd.UPSTREAM_FAILED),
    NodeEnd.SKIPPED: (SkipReason.MAP_EMPTY, NodeEnd.SKIPPED),
}


def static_items(over: MapOver) -> tuple[bytes, ...]:
    """The items that the Dag itself says, each as JSON."""
    items = orjson.loads(over.items) if over.items else range(over.count)
    return tuple(map(orjson.dumps, items))


def items_of_result(over: MapOver, end: NodeEnd | None, result: bytes | None) -> tuple[bytes, ...] | Never:
    """The items in the result of the node that it is mapped over, which has ended so; or why there are none."""
    if end in _NO_SOURCE:
        return _NO_SOURCE[end]
    if result == NOT_KEPT:
        return SkipReason.MAP_TOO_LONG, NodeEnd.FAILED
    try:
        items = orjson.loads(result or b"null")
    except ValueError:
        items = None
    if not isinstance(items, list):
        return SkipReason.MAP_INVALID, NodeEnd.FAILED
    if not items:
        return SkipReason.MAP_EMPTY, NodeEnd.SKIPPED
    if len(items) > over.max_items:
        return SkipReason.MAP_TOO_LONG, NodeEnd.FAILED
    return tuple(map(orjson.dumps, items))


def is_never(found: tuple[bytes, ...] | Never) -> bool:
    """Whether it says why there are no items."""
    return isinstance(found[0], SkipReason)
