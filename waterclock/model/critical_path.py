"""Which chain of nodes made a DagRun last as long as it did: the one to shorten if it is to end sooner. Pure.

It ends with the node that ended last (or has not ended yet), and goes back from each node to the one that it waited for
last. A node that never ran takes no time, but others may have waited until that was decided: it is part of the way.
Times are those of several clocks; a difference between them may choose another of two ends that are as close together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .dag import Node, TriggerRule
from .ids import Instant

_NOT_FOR_ALL = frozenset(
    {
        TriggerRule.ALWAYS,
        TriggerRule.ONE_SUCCESS,
        TriggerRule.ONE_FAILED,
        TriggerRule.ONE_DONE,
    }
)
"""Rules that may start a node while some parent has not ended."""


class Span(NamedTuple):
    """From when a node was released (or passed over) to its end; ``ended_at`` 0: it has not ended."""

    began_at: Instant
    ended_at: Instant


def critical_path(nodes: Sequence[Node], spans: Mapping[str, Span]) -> tuple[str, ...]:
    """The names on it, in the order of time. ``spans``: of the nodes that are known; () where none is."""
    by_name = {node.name: node for node in nodes}
    known = [node for node in nodes if node.name in spans]
    if not known:
        return ()
    last = max(enumerate(known), key=lambda each: (*_end(spans[each[1].name]), each[0]))[1]
    path = [last.name]
    before = _waited_for(last, spans)
    while before:  # ends: a Dag has no cycles
        path.append(before)
        before = _waited_for(by_name[before], spans)
    return tuple(reversed(path))


def _waited_for(node: Node, spans: Mapping[str, Span]) -> str:
    """The node whose end let this one begin; "" where it waited for none."""
    needs = [*node.inputs, *([node.map_over.of] if node.map_over and node.map_over.of else [])]
    ended = [name for name in dict.fromkeys([*node.after, *needs]) if name in spans and spans[name].ended_at]
    began_at = spans[node.name].began_at
    in_time = [name for name in ended if spans[name].ended_at <= began_at]
    if not in_time and node.trigger_rule not in _NOT_FOR_ALL:
        in_time = ended  # the clocks differ: it did wait for them
    return max(in_time, key=lambda name: spans[name].ended_at, default="")


def _end(span: Span) -> tuple[bool, Instant]:
    """By which the last is found: of those that have not ended the one that began first; of equals the later node."""
    return (False, span.ended_at) if span.ended_at else (True, -span.began_at)
