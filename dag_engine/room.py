"""How much one round may still tell: nodes, and bytes, for a transaction of 60 MB would hold up everybody else."""

from __future__ import annotations

from collections.abc import Collection

from waterclock.model.dag_steps import NodeState, Steps

ROUND_BYTES = 8_000_000
"""Payloads of released nodes, results of kept ones; a round ends with the portion, or the rerun, that reaches it."""

_PORTION = 50
_RECORD_BYTES = 500


class Room:
    """What is left. ``nodes``: that may be released, skipped or kept."""

    __slots__ = ("_bytes", "_nodes")

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._bytes = ROUND_BYTES

    @property
    def is_full(self) -> bool:
        """Whatever is left waits for the next round."""
        return self._nodes <= 0 or self._bytes <= 0

    @property
    def portion(self) -> int:
        """Releases to ask for at once: no more than 3 MB of payloads."""
        return min(self._nodes, _PORTION)

    def take(self, steps: Steps) -> None:
        """This goes into the round."""
        self._nodes -= len(steps.releases) + len(steps.skips)
        self._bytes -= sum(len(release.payload) + _RECORD_BYTES for release in steps.releases)

    def take_kept(self, nodes: Collection[NodeState]) -> None:
        """What a rerun keeps goes into the round: all of it, for it is the first that is said of its nodes."""
        self._nodes -= len(nodes)
        self._bytes -= sum(len(node.result or b"") + _RECORD_BYTES for node in nodes)
