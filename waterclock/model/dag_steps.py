"""What a DagRun's engine is told to do: release these, skip those, and whether the DagRun is over. Values."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from .dag import WHOLE, node_key
from .dag_events import NodeEnd

FAILED_NAMED_MAX = 10
"""Leaves that the end of a DagRun names."""


class SkipReason(StrEnum):
    """Why a node never runs: the ``reason`` of its NODE_SKIPPED."""

    RULE = "trigger-rule"
    """How its parents ended rules it out."""

    NOT_FOLLOWED = "not-followed"
    """A branch above it follows others."""

    UPSTREAM_FAILED = "upstream-failed"
    """Something that it needs has failed."""

    MAP_EMPTY = "map-empty"
    """There is nothing in the list that it is mapped over, or the node that was to make the list was skipped."""

    MAP_INVALID = "map-invalid"
    """The result that it is mapped over is no JSON list."""

    MAP_TOO_LONG = "map-too-long"
    """There are more items than it may have, or the list was not kept."""

    INPUTS_TOO_LARGE = "inputs-too-large"
    """With what it is given from upstream its payload would be over the limit, or some of that was not kept."""

    KEPT = "kept"
    """A rerun keeps it as it was."""


class NodeState(NamedTuple):
    """What is known of a node run. ``end`` None: it was released and is under way.

    ``result``: JSON, and only where somebody asks for it (``Graph.needs_result``), or NOT_KEPT.
    """

    end: NodeEnd | None = None
    result: bytes | None = None


class Release(NamedTuple):
    """A node run that is to begin, with what it is given. ``map_index``: of the item, -1 where it is no mapped one."""

    node: str
    map_index: int
    payload: bytes

    @property
    def key(self) -> str:
        """What stands behind the slash of its run id."""
        return node_key(self.node, self.map_index)


class Skip(NamedTuple):
    """A node that never runs, and what it counts as."""

    node: str
    reason: SkipReason
    counts_as: NodeEnd

    @property
    def key(self) -> str:
        """What stands behind the slash of its run id."""
        return node_key(self.node, WHOLE)


class DagEnd(NamedTuple):
    """Every node has ended. It failed where a leaf (a node without children) did; ``failed``: the first ten of them."""

    succeeded: bool
    failed: tuple[str, ...] = ()


class Steps(NamedTuple):
    """What follows, in the order of the Dag's nodes. ``end``: told once."""

    releases: tuple[Release, ...] = ()
    skips: tuple[Skip, ...] = ()
    end: DagEnd | None = None
