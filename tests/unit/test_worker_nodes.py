"""Nodes at the worker: a claim that is read back is judged with its DagRun, however long before that began."""

from __future__ import annotations

import pytest

from tests.unit.worker_world import START, World
from waterclock.log.port import TopicPartition
from waterclock.model.dag_events import DagStart
from waterclock.model.events import EventKind, Origin, Pending, RunEvent, RunStatus, WorkRecord
from waterclock.model.ids import US_PER_S, make_run_id, partition_of
from waterclock.model.job import Tier
from waterclock.model.known_state import state_to_text
from waterclock.model.reduce import RunState
from waterclock.wire.messages import event_message, work_message

JOB = "acme:nightly"
DAG_RUN = make_run_id(JOB, START)
NODE = make_run_id(JOB, START, node="load.3")


def _put(world: World, kind: EventKind, run_id: str, dag: DagStart | None = None) -> int:
    pending = Pending(1, START, START, Tier.HIGH, Origin.RELEASE, dag=dag) if kind is EventKind.PENDING else None
    return world.put(event_message(world.names, RunEvent(kind, JOB, run_id, world.clock.now(), detail=pending)))


def _work(world: World, dag_from: int, *, once: bool = False, verify_from: int = -1, state: str = "") -> None:
    work = WorkRecord(NODE, START, START, 1, JOB, 1, Tier.HIGH, "default", "load", b"", at_most_once=once)
    world.put(work_message(world.names, work._replace(dag_from=dag_from, verify_from=verify_from, verify_state=state)))


def _forget_run_events(world: World) -> int:
    """Retention removes all that there is; returns the end of the job's partition."""
    for number in range(world.outside.partitions(world.names.run_events)):
        partition = world.cluster.partition(TopicPartition(world.names.run_events, number))
        partition.delete_before(partition.high)
    place = partition_of(JOB, world.outside.partitions(world.names.run_events))
    return world.outside.high_watermark(TopicPartition(world.names.run_events, place))


@pytest.mark.parametrize("asked_by", ["at most once", "its maker", "a maker who knew the state"])
@pytest.mark.parametrize("cancelled", [False, True])
def test_a_node_is_verified_from_the_beginning_of_its_dag_run(asked_by: str, cancelled: bool) -> None:
    world = World()
    begun_at = _put(world, EventKind.PENDING, DAG_RUN, DagStart())
    world.clock.advance(3_600 * US_PER_S)
    known_at = _put(world, EventKind.PENDING, NODE)
    if cancelled:
        _put(world, EventKind.CANCEL_REQUESTED, DAG_RUN)
    worker, executors = world.worker()
    told = state_to_text(RunState(RunStatus.PENDING)) if "knew" in asked_by else ""
    _work(
        world,
        begun_at,
        once=asked_by == "at most once",
        verify_from=known_at if "maker" in asked_by else -1,
        state=told,
    )
    world.settle(worker, 10)
    assert len(world.events(EventKind.STARTED)) == 1, "it was claimed, or this proves nothing"
    assert [attempt.work.run_id for attempt in executors.submitted] == ([] if cancelled else [NODE])


@pytest.mark.parametrize("asked_by", ["at most once", "a maker who knew the state"])
@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("node_is_gone", [False, True])
def test_a_node_of_a_dag_run_that_retention_has_removed_runs(
    asked_by: str, cancelled: bool, node_is_gone: bool
) -> None:
    world = World()
    begun_at = _put(world, EventKind.PENDING, DAG_RUN, DagStart())
    _put(world, EventKind.DAG_PAUSED, DAG_RUN)
    knew = asked_by != "at most once"
    if node_is_gone:
        _put(world, EventKind.PENDING, NODE)
    known_at = _forget_run_events(world)
    _put(world, EventKind.DAG_RESUMED, DAG_RUN)
    if not node_is_gone:
        known_at = _put(world, EventKind.PENDING, NODE)
    if cancelled:
        _put(world, EventKind.CANCEL_REQUESTED, DAG_RUN)
    worker, executors = world.worker()
    told = state_to_text(RunState(RunStatus.PENDING)) if knew else ""
    _work(world, begun_at, once=not knew, verify_from=known_at if knew else -1, state=told)
    world.settle(worker, 10)
    assert len(world.events(EventKind.STARTED)) == 1, "it was claimed, or this proves nothing"
    assert [attempt.work.run_id for attempt in executors.submitted] == ([] if cancelled else [NODE])


@pytest.mark.parametrize("kind", [EventKind.CANCEL_REQUESTED, EventKind.RUN_EXPIRED])
def test_a_cancel_of_its_dag_run_and_the_end_of_its_time_ask_a_node_that_runs_to_stop(kind: EventKind) -> None:
    """What runs is asked to stop (docs/dags.md, Cancel)."""
    world = World()
    begun_at = _put(world, EventKind.PENDING, DAG_RUN, DagStart())
    _put(world, EventKind.PENDING, NODE)
    worker, executors = world.worker()
    _work(world, begun_at)
    world.settle(worker, 10)
    (attempt,) = executors.running
    world.cancel(make_run_id("acme:nightly", START + 1))
    world.settle(worker, 10)
    assert executors.asked == []
    world.cancel(DAG_RUN, kind)
    world.settle(worker, 10)
    assert executors.asked == [attempt]


def test_the_work_of_a_dags_nodes_spreads_by_node() -> None:
    world = World()
    work = WorkRecord(NODE, START, START, 1, JOB, 1, Tier.HIGH, "default", "load", b"")
    assert work_message(world.names, work).key == b"acme:nightly/load.3"
    assert work_message(world.names, work._replace(run_id=DAG_RUN)).key == b"acme:nightly"
