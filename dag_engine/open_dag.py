"""One open DagRun in the engine's hands: what was read of its nodes, and once its version is known, what follows."""

from __future__ import annotations

import structlog

from waterclock.model.dag import split_node_key
from waterclock.model.dag_events import DagStart
from waterclock.model.dag_release import DagRunState, rebuild
from waterclock.model.dag_state import KeptDagRun
from waterclock.model.dag_steps import NodeState
from waterclock.model.dag_work import DagRun
from waterclock.model.events import Pending, RunEvent
from waterclock.model.fold import OpenRun
from waterclock.model.ids import Instant, job_of_run

from .specs import Made

_log = structlog.get_logger()


class OpenDag:
    """A DagRun that has not ended. ``run``: it, as the fold knows it.

    ``heard_at``: when the last event of it was recorded. ``known``: its node runs by key, until its version is there;
    from then on ``state`` knows them. ``is_over_time``, ``waits_for_pool``: this was said in this life of the engine.
    ``has_deadline``: its time-out is watched. ``is_strange``: a node of it is on the log that its Dag does not have; it
    cannot be gone on with.
    """

    __slots__ = (
        "began_at",
        "fire_at",
        "first_offset",
        "has_deadline",
        "heard_at",
        "is_over_time",
        "is_strange",
        "job_id",
        "known",
        "linked_run",
        "made",
        "revision",
        "run",
        "run_id",
        "start",
        "state",
        "waits_for_pool",
    )

    def __init__(self, run_id: str, run: OpenRun[None], revision: int, fire_at: Instant) -> None:
        self.run_id = run_id
        self.job_id = job_of_run(run_id)
        self.run = run
        self.revision = revision
        self.fire_at = fire_at
        self.first_offset = run.first_offset
        self.began_at: Instant = 0
        self.start = DagStart()
        self.linked_run = ""
        self.known: dict[str, NodeState] = {}
        self.made: Made | None = None
        self.state: DagRunState | None = None
        self.heard_at: Instant = 0
        self.has_deadline = False
        self.is_over_time = False
        self.is_strange = False
        self.waits_for_pool = False

    @property
    def is_going(self) -> bool:
        """It went out, and is neither over nor to end."""
        state = self.run.state
        return not (state.final or state.ending or state.held)

    @property
    def has_ended(self) -> bool:
        """Its end was decided in this life: that may not be read back yet."""
        return self.state is not None and self.state.is_over

    @property
    def can_release(self) -> bool:
        """Nodes may begin."""
        return self.is_going and not self.run.state.paused

    @property
    def wants_earlier(self) -> bool:
        """It runs another one again, and it was not said yet what of that is kept: that is the first said of nodes.

        A whole rerun with a payload of its own needs nothing of it.
        """
        nodes = self.run.dag
        asks = bool(self.linked_run) and bool(self.start.rerun_from or self.start.payload is None)
        return asks and (nodes is None or not (nodes.open or nodes.ended))

    def told(self, event: RunEvent, pending: Pending, offset: int) -> None:
        """Its HELD or its PENDING, which says the rest."""
        self.revision, self.fire_at = pending.revision, pending.fire_at
        self.first_offset, self.began_at = offset, event.at
        self.start, self.linked_run = pending.dag or DagStart(), pending.linked_run

    def know(self, key: str, node: NodeState) -> None:
        """A node run became known, or has ended."""
        if self.state is None:
            self.known[key] = node
            return
        try:
            self.state.know(key, node)
        except (KeyError, ValueError) as error:  # no role of ours writes such an event
            _log.error("a node that the Dag does not have", run_id=self.run_id, node=key, reason=str(error))
            self.is_strange = True

    def wants_result(self, key: str) -> bool:
        """Whether some node asks for the result of this one; while its version is not known, perhaps."""
        if self.made is None:
            return True
        try:
            return self.made.graph.needs_result(split_node_key(key)[0])
        except (KeyError, ValueError):
            return False

    def begin(self, made: Made) -> bool:
        """Its version is here: go on from what is known. False where that is not of this Dag."""
        payload = made.spec.payload if self.start.payload is None else self.start.payload
        try:
            self.state = rebuild(made.graph, self.known, payload)
        except (KeyError, ValueError) as error:  # no role of ours writes such events
            _log.error("nodes that the Dag does not have", run_id=self.run_id, reason=str(error))
            return False
        self.made, self.known = made, {}
        return True

    def dag_run(self) -> DagRun:
        """As its nodes' records need it. Only once its version is here."""
        assert self.made is not None
        return DagRun(self.run_id, self.revision, self.made.spec, self.fire_at, self.first_offset)

    @classmethod
    def restored(cls, kept: KeptDagRun, run: OpenRun[None]) -> OpenDag:
        """As the state topic holds it."""
        dag = cls(kept.run_id, run, kept.revision, kept.fire_at)
        dag.first_offset, dag.began_at, dag.linked_run = kept.first_offset, kept.began_at, kept.linked_run
        dag.start = DagStart(kept.payload, kept.rerun_from)
        return dag
