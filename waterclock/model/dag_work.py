"""From a release to what the log is told: the PENDING and the work record of a node run, and the NODE_SKIPPED. Pure.

Nothing of it depends on who says it or when: a replay of the same release makes the same records.
"""

from __future__ import annotations

from typing import NamedTuple

from .dag import Node
from .dag_events import NodeEnd, NodeSkipped
from .dag_graph import Graph
from .dag_steps import DagEnd, NodeState, Release, Skip, SkipReason
from .events import EventKind, Origin, Pending, RunEvent, RunStatus, WorkRecord
from .executor import executor_to_json
from .failure_policy import FailurePolicy, policy_to_json
from .ids import Instant, job_of_run
from .job import JobSpec, Tier

NODES_FAILED = "nodes-failed"
"""The reason of a DAG_FAILED."""

_ENDS = {
    RunStatus.SUCCEEDED: NodeEnd.SUCCEEDED,
    RunStatus.FAILED: NodeEnd.FAILED,
    RunStatus.CANCELLED: NodeEnd.FAILED,
}


class DagRun(NamedTuple):
    """A DagRun, as far as its nodes' records depend on it: its id, the revision and spec of its job, its fire time.

    ``first_offset``: of its PENDING on run-events.
    """

    run_id: str
    revision: int
    spec: JobSpec
    fire_at: Instant
    first_offset: int


def node_run_id(dag_run_id: str, key: str) -> str:
    """The run id of a node: ``<run id of the DagRun>/<name>[.<index>]``."""
    return f"{dag_run_id}/{key}"


def split_node_run_id(run_id: str) -> tuple[str, str]:
    """(run id of the DagRun, key) of a node's run id; the key is "" for any other run."""
    dag_run_id, _, key = run_id.partition("/")
    return dag_run_id, key


def end_of(status: RunStatus) -> NodeEnd | None:
    """What a node run that came to this status counts as; None: it is under way, or its NODE_SKIPPED says it."""
    return _ENDS.get(status)


def policy_of(spec: JobSpec, node: Node) -> FailurePolicy:
    """The node's failure policy, or else its job's."""
    return spec.policy if node.policy is None else node.policy


def topics_of(spec: JobSpec) -> tuple[tuple[Tier, str], ...]:
    """The tiers and pools to whose topics a job's work goes, each once: of a Dag those of its nodes."""
    if spec.dag is None:
        return ((spec.tier, spec.pool),)
    return tuple(dict.fromkeys(_lane(spec, node) for node in spec.dag.nodes))


def pending_event(dag_run: DagRun, node: Node, release: Release, at: Instant) -> RunEvent:
    """PENDING of a released node. ``at``: when, for display."""
    tier, pool = _lane(dag_run.spec, node)
    policy = policy_of(dag_run.spec, node)
    pending = Pending(
        revision=dag_run.revision,
        fire_at=dag_run.fire_at,
        due_at=None,
        tier=tier,
        origin=Origin.RELEASE,
        pool=pool,
        handler=node.label,
        queue_timeout_us=policy.queue_timeout_us,
        run_timeout_us=policy.run_timeout_us,
    )
    return RunEvent(EventKind.PENDING, job_of_run(dag_run.run_id), _run_id(dag_run, release), at, detail=pending)


def work_record(dag_run: DagRun, node: Node, release: Release, due_at: Instant) -> WorkRecord:
    """The work of a released node's first attempt. ``due_at``: the instant of its release."""
    tier, pool = _lane(dag_run.spec, node)
    return WorkRecord(
        run_id=_run_id(dag_run, release),
        fire_at=dag_run.fire_at,
        due_at=due_at,
        attempt=1,
        job_id=job_of_run(dag_run.run_id),
        revision=dag_run.revision,
        tier=tier,
        pool=pool,
        handler=node.handler,
        payload=release.payload,
        executor=executor_to_json(node.executor) if node.executor else "",
        at_most_once=node.at_most_once,
        policy=policy_to_json(policy_of(dag_run.spec, node)),
        dag_from=dag_run.first_offset,
    )


def skipped_event(dag_run_id: str, skip: Skip, at: Instant, result: bytes | None = None) -> RunEvent:
    """NODE_SKIPPED of a node. ``result``: of one that a rerun keeps."""
    run_id = node_run_id(dag_run_id, skip.key)
    detail = NodeSkipped(skip.counts_as, result)
    return RunEvent(EventKind.NODE_SKIPPED, job_of_run(run_id), run_id, at, reason=skip.reason.value, detail=detail)


def end_event(dag_run_id: str, end: DagEnd, at: Instant) -> RunEvent:
    """DAG_SUCCEEDED, or DAG_FAILED with the reason ``nodes-failed: <leaves that failed>``."""
    if end.succeeded:
        return RunEvent(EventKind.DAG_SUCCEEDED, job_of_run(dag_run_id), dag_run_id, at)
    reason = f"{NODES_FAILED}: {', '.join(end.failed)}"
    return RunEvent(EventKind.DAG_FAILED, job_of_run(dag_run_id), dag_run_id, at, reason=reason)


def kept_nodes(graph: Graph, before: dict[str, NodeState], rerun_from: tuple[str, ...]) -> dict[str, NodeState]:
    """By name the nodes that a rerun keeps: all that had ended and do not come after those that it begins with.

    ``before``: how the nodes of the earlier DagRun ended, by name (``DagRunState.whole_nodes``); with no names to begin
    with it begins anew. Raises KeyError for a name that the Dag does not have.
    """
    if not rerun_from:
        return {}
    again = {graph.place[name] for name in rerun_from}
    for place in graph.order:
        if place in again:
            again.update(graph.children[place])
    names = (node.name for place, node in enumerate(graph.nodes) if place not in again)
    return {name: before[name] for name in names if name in before and before[name].end is not None}


def kept_skip(name: str, kept: NodeState) -> Skip:
    """The skip that announces a kept node."""
    assert kept.end is not None  # only what has ended is kept
    return Skip(name, SkipReason.KEPT, kept.end)


def _lane(spec: JobSpec, node: Node) -> tuple[Tier, str]:
    return spec.tier if node.tier is None else node.tier, node.pool or spec.pool


def _run_id(dag_run: DagRun, release: Release) -> str:
    return node_run_id(dag_run.run_id, release.key)
