"""What a fold knows of the nodes of one open DagRun: which are open, which have ended, and how many of them run.

Nodes that ended are remembered for as long as their DagRun is open, so that nothing makes a node begin twice.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from .run_state import RunState

Run = TypeVar("Run")


class DagNodes(Generic[Run]):
    """By run id, in the order of the log. ``run`` is the DagRun itself; ``running``: nodes with an open attempt."""

    __slots__ = ("ended", "open", "run", "run_id", "running")

    def __init__(self, run_id: str, run: Run) -> None:
        self.run_id = run_id
        self.run = run
        self.open: dict[str, Run] = {}
        self.ended: dict[str, RunState] = {}
        self.running = 0

    def begin(self, node_id: str, node: Run, *, running: bool) -> None:
        """A node becomes known."""
        self.open[node_id] = node
        self.running += running

    def move(self, node_id: str, state: RunState, *, was_running: bool) -> None:
        """A node is in this state now."""
        self.running += state.attempt_open - was_running
        if state.final:
            del self.open[node_id]
            self.ended[node_id] = state
