"""An open DagRun of a job with limits, as its dispatcher follows it: when it has ended, only its nodes can say.

One fold for one DagRun. What must hold: it is read from its PENDING on, or from where its record in the state topic
says, with the nodes that were open there. How it fails: one that is to end, or of which too many nodes are open, gets
no newer record, and a successor reads it again from where its last one stands.
"""

from __future__ import annotations

from waterclock.model.events import RunEvent
from waterclock.model.fold import Fold
from waterclock.model.known_state import state_from_text, state_to_text
from waterclock.model.run_state import RunState

NODES_KEPT_MAX = 1_000
"""Open nodes that a record may name: about 60 bytes each."""


class DagFlow:
    """The fold of one DagRun and its nodes."""

    def __init__(self, run_id: str, generation: int) -> None:
        self._run_id = run_id
        self._fold: Fold[None] = Fold(generation=generation, window=1)

    def apply(self, event: RunEvent, offset: int) -> RunState | None:
        """The DagRun after an event of it or of one of its nodes; None where nothing is known of it.

        Raises RequestError where the event names no run.
        """
        self._fold.apply(event, offset)
        return self._fold.state(self._run_id)

    @property
    def open_nodes(self) -> tuple[tuple[str, str], ...] | None:
        """The nodes that are open, each with its state as text; None where no record can say it."""
        run = self._fold.open.get(self._run_id)
        if run is None or run.dag is None or run.state.ending or len(run.dag.open) > NODES_KEPT_MAX:
            return None
        return tuple((node_id, state_to_text(node.state)) for node_id, node in run.dag.open.items())

    def restore(self, state: RunState, nodes: tuple[tuple[str, str], ...]) -> None:
        """Begin with what a record says."""
        self._fold.restore(self._run_id, state, 0, None)
        for node_id, text in nodes:
            node = state_from_text(text)
            if node is not None:
                self._fold.restore(node_id, node, 0, None)
