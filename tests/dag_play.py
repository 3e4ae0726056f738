"""One DagRun played through a log: a small engine on the product's fold and release, workers, a router, and trouble.

The log is a list of encoded run events. The engine reads it, and what it decides lands whole, with its position and
its records of node runs, or not at all. Trouble, by the dice: a round that is lost, a take-over (everything is built
anew from what was committed), an event that is written once more, a verdict or an outcome that comes twice, an end of
the DagRun that somebody claims too early.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, NamedTuple

from tests.random_dags import random_end
from waterclock.model.dag import DagSpec, Node, split_node_key
from waterclock.model.dag_events import DagStart, NodeEnd, NodeSkipped
from waterclock.model.dag_graph import Graph
from waterclock.model.dag_release import rebuild
from waterclock.model.dag_steps import NodeState, Steps
from waterclock.model.dag_work import (
    DagRun,
    end_event,
    end_of,
    pending_event,
    skipped_event,
    split_node_run_id,
    work_record,
)
from waterclock.model.events import Ended, EventKind, Origin, Pending, RunEvent, Started, WorkRecord
from waterclock.model.fold import Fold
from waterclock.model.ids import make_run_id
from waterclock.model.job import JobSpec, Once, Tier
from waterclock.wire.codec import decode_event, encode_event

JOB = "acme:nightly"
PAYLOAD = b'{"of":"the run"}'
ROUNDS_MAX = 20_000
_CLAIMED = (EventKind.DAG_SUCCEEDED, EventKind.DAG_FAILED)
_OK, _FAILED = EventKind.ATTEMPT_SUCCEEDED, EventKind.ATTEMPT_FAILED


class Committed(NamedTuple):
    """What the engine has committed: how far it has read, from where it folds, and its records of the node runs."""

    position: int
    fold_from: int
    nodes: dict[str, NodeState]


class DagPlay:
    """``play`` goes on until nothing moves any more; then ``log`` and ``work`` tell what happened."""

    def __init__(self, dag: DagSpec, dice: Random) -> None:
        self.dag = dag
        self.dice = dice
        self.graph = Graph(dag)
        self.log: list[bytes] = []
        self._events: list[RunEvent] = []  # the same, as they are read
        self.work: list[WorkRecord] = []
        self.troubles: Counter[str] = Counter()
        spec = JobSpec("", Once(1), payload=PAYLOAD, dag=dag)
        self.run = DagRun(make_run_id(JOB, 1_000_000), 7, spec, 1_000_000, 0)
        self._well = dice.choice([0.7, 0.9, 0.98])  # how often an attempt succeeds
        self._by_name = {node.name: node for node in dag.nodes}
        self._committed = Committed(0, 0, {})
        self._world: Fold[None] = Fold()  # what workers and router know
        self._read = 0
        start = Pending(7, 1_000_000, None, Tier.HIGH, Origin.SCHEDULE, dag=DagStart())
        self._append(RunEvent(EventKind.PENDING, JOB, self.run.run_id, 1, detail=start))
        self._take_over()

    def play(self) -> None:
        """Until nobody has anything to do. Raises AssertionError where that does not come."""
        for _ in range(ROUNDS_MAX):
            engine, others = self._engine_round(), self._one_moves()
            if not engine and not others and self._committed.position == len(self.log):
                return
        raise AssertionError("it never comes to rest")

    # The engine ------------------------------------------------------------------------------------------------------

    def _take_over(self) -> None:
        self._fold: Fold[None] = Fold(window=1)
        position, fold_from, nodes = self._committed
        for offset in range(fold_from, position):
            self._fold.apply(self._events[offset], offset)
        self._state = rebuild(self.graph, nodes, PAYLOAD)
        self._at = position

    def _engine_round(self) -> bool:
        """Read a few events, decide, and commit; whether anything was done."""
        end = min(len(self.log), self._at + self.dice.randint(1, 8))
        nodes = dict(self._committed.nodes)
        out: list[RunEvent] = []
        work: list[WorkRecord] = []
        for offset in range(self._at, end):
            event = self._events[offset]
            self._follow(event, offset, nodes, out, work)
        if self._at == end:
            return False
        if self.dice.random() < 0.08:
            self.troubles["round lost"] += 1
            self._take_over()
            return True
        for event in out:
            self._append(event)
        self.work += work
        self._at = end
        self._committed = Committed(end, self._fold.fold_from(), nodes)
        if self.dice.random() < 0.08:
            self.troubles["take-over"] += 1
            self._take_over()
        return True

    def _follow(
        self,
        event: RunEvent,
        offset: int,
        nodes: dict[str, NodeState],
        out: list[RunEvent],
        work: list[WorkRecord],
    ) -> None:
        verdict = self._fold.apply(event, offset)
        if not verdict.accepted or verdict.state is None:
            return
        _, key = split_node_run_id(event.run_id)
        end, result = end_of(verdict.state.status), None
        if event.kind is EventKind.PENDING and not key:
            steps = self._state.decide()
        elif key and isinstance(event.detail, NodeSkipped):
            return  # told by ourselves
        elif key and end is not None:
            if isinstance(event.detail, Ended) and self.graph.needs_result(split_node_key(key)[0]):
                result = event.detail.result
            nodes[key] = NodeState(end, result)
            steps = self._state.ended(key, end, result)
        else:
            return
        self._tell(steps, nodes, out, work)

    def _tell(self, steps: Steps, nodes: dict[str, NodeState], out: list[RunEvent], work: list[WorkRecord]) -> None:
        for skip in steps.skips:
            out.append(skipped_event(self.run.run_id, skip, 1))
            nodes[skip.key] = NodeState(skip.counts_as)
        for release in steps.releases:
            node = self._by_name[release.node]
            out.append(pending_event(self.run, node, release, 1))
            work.append(work_record(self.run, node, release, 1))
            nodes[release.key] = NodeState()
        if steps.end is not None:
            out.append(end_event(self.run.run_id, steps.end, 1))

    # Workers, the router, and trouble --------------------------------------------------------------------------------

    def _append(self, event: RunEvent) -> None:
        self.log.append(encode_event(event))
        self._events.append(decode_event(self.log[-1]))

    def _one_moves(self) -> bool:
        """One run goes on, as its worker or the router would have it; whether there was one."""
        for offset in range(self._read, len(self.log)):
            self._world.apply(self._events[offset], offset)
        self._read = len(self.log)
        self._trouble()
        open_runs = [run_id for run_id, run in self._world.open.items() if not run.state.is_dag]
        if not open_runs:
            return False
        run_id = self.dice.choice(open_runs)
        state = self._world.open[run_id].state
        event = RunEvent(EventKind.STARTED, JOB, run_id, 1, state.attempt + 1, "w-1", 3, detail=Started("t", 0, 0))
        if state.undecided:
            again = state.attempt < 3 and self.dice.random() < 0.6
            kind = EventKind.RETRYING if again else EventKind.RUN_FAILED
            event = RunEvent(kind, JOB, run_id, 1, state.attempt + again)
        elif state.attempt_open:
            end, result = random_end(self.dice, self.dag, self._node_of(run_id), self._well)
            detail = Ended(1, result=result if end is NodeEnd.SUCCEEDED else None)
            kind = _OK if end is NodeEnd.SUCCEEDED else self.dice.choice([_FAILED, EventKind.ATTEMPT_LOST])
            event = RunEvent(kind, JOB, run_id, 1, state.attempt, "w-1", 3, state.token, detail=detail)
        self._append(event)
        if self.dice.random() < 0.1:
            self.troubles["said twice"] += 1
            self._append(event)
        return True

    def _trouble(self) -> None:
        dice = self.dice.random()
        if dice < 0.05:
            event = self.dice.choice(self._events)
            if event.kind not in _CLAIMED:  # one that was claimed too early may be true by now
                self.troubles["event repeated"] += 1
                self._append(event)
        elif dice < 0.07:
            open_nodes = [run_id for run_id, run in self._world.open.items() if not run.state.is_dag]
            if open_nodes and dice < 0.06:
                self.troubles["end claimed too early"] += 1
                self._append(RunEvent(EventKind.DAG_SUCCEEDED, JOB, self.run.run_id, 1))
            elif open_nodes:
                self.troubles["node cancelled"] += 1
                self._append(RunEvent(EventKind.CANCEL_REQUESTED, JOB, self.dice.choice(open_nodes), 1))

    def _node_of(self, run_id: str) -> Node:
        return self._by_name[split_node_key(split_node_run_id(run_id)[1])[0]]

    def dump(self) -> list[dict[str, Any]]:
        """The log as the judges read it."""
        return [
            {"partition": 0, "offset": offset, "timestamp_us": 0, "key": JOB.encode(), "value": value}
            for offset, value in enumerate(self.log)
        ]
