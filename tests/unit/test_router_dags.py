"""DagRuns and nodes in the retry router's hands: a node is a run like any other, a DagRun has nothing to retry."""

from __future__ import annotations

from waterclock.dispatcher.keys import intention_of
from waterclock.retry_router.made_work import MadeWork
from waterclock.retry_router.work_records import WorkRecords

from tests.unit.router_world import JOB, NAMES, World
from waterclock.log.port import Committed, TopicPartition
from waterclock.model.dag_events import DagStart
from waterclock.model.document import KEY_MAX
from waterclock.model.events import EventKind, Origin, Pending, Started, WorkRecord
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Command, Tier
from waterclock.wire.messages import work_message


def dag_run(world: World) -> tuple[str, int]:
    """A DagRun that went out; its id and where it begins."""
    fire_at = world.clock.now() - 3_600 * US_PER_S
    run_id = make_run_id(JOB, fire_at)
    detail = Pending(1, fire_at, fire_at, Tier.HIGH, Origin.SCHEDULE, dag=DagStart())
    return run_id, world.event(EventKind.PENDING, run_id, detail=detail)


def node(world: World, dag: tuple[str, int], name: str, **limits: int) -> tuple[str, Started]:
    """A node that was released; its run id and the place of its work."""
    dag_run_id, begins = dag
    run_id, fire_at = f"{dag_run_id}/{name}", world.clock.now() - 3_600 * US_PER_S
    detail = Pending(1, fire_at, None, Tier.HIGH, Origin.RELEASE)._replace(**limits)
    world.event(EventKind.PENDING, run_id, detail=detail)
    head = (run_id, fire_at, world.clock.now(), 1, JOB, 1, Tier.HIGH, "default", "h", b"")
    message = work_message(NAMES, WorkRecord(*head, policy=world.policy, dag_from=begins))
    place = world.cluster.place_of(message)
    return run_id, Started(place.topic, place.partition, world.append(message))


def test_a_node_that_is_given_up_has_a_letter_and_a_dag_run_over_its_time_has_none() -> None:
    world = World()
    run_id, claim = node(world, dag := dag_run(world), "load")
    token = world.started(run_id, claim)
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(router := world.router())
    assert world.verdicts() == {run_id: 1}
    node(world, dag, "waits")
    world.event(EventKind.RUN_EXPIRED, dag[0], reason="expired")
    world.turn(router)
    (letter,) = world.letters()
    assert letter.run_id == run_id
    assert letter.work is not None
    assert (world.lag(), router._shards[0].fold.open) == (0, {})


def test_a_cancel_of_a_dag_run_takes_its_waiting_nodes_along_without_a_verdict() -> None:
    world = World()
    run_id, claim = node(world, dag := dag_run(world), "load")
    token = world.started(run_id, claim)
    world.turn(router := world.router(kept_behind=0))
    world.event(EventKind.CANCEL_REQUESTED, dag[0])
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(router)
    assert (world.verdicts(), world.letters(), router._shards[0].fold.open) == ({}, [], {})


def test_the_times_of_a_node_count_from_its_release() -> None:
    world = World()
    node(world, dag_run(world), "load", run_timeout_us=60 * US_PER_S)
    world.turn(router := world.router())
    assert world.events(EventKind.RUN_EXPIRED) == []
    world.clock.advance(60 * US_PER_S)
    world.turn(router)
    assert len(world.events(EventKind.RUN_EXPIRED)) == 1


def test_the_cancel_of_a_run_over_its_time_is_taken_however_long_its_id_is() -> None:
    """Given the longest names; two routers say the same of the same run."""
    world = World()
    dag_run_id = make_run_id(f"{'t' * 63}:{'j' * 128}", world.clock.now() + 1, series=10**18)
    detail = Pending(1, world.clock.now(), None, Tier.HIGH, Origin.REDRIVE, dag=DagStart())
    begins = world.event(EventKind.PENDING, dag_run_id, detail=detail)
    run_id, claim = node(world, (dag_run_id, begins), "n" * 63, run_timeout_us=60 * US_PER_S)
    assert len(run_id) == KEY_MAX
    world.started(run_id, claim)
    world.turn(world.router())
    world.cluster.kill("retry-router-1")
    world.clock.advance(60 * US_PER_S)
    world.turn(world.router())
    world.cluster.kill("retry-router-1")
    world.turn(world.router())
    commands = [each for each in world.dump(NAMES.commands) if isinstance(each, Command)]
    assert [each.run_id for each in commands] == [run_id] * 2
    assert {intention_of(each) for each in commands} == {intention_of(commands[0])}


def test_a_nodes_work_is_looked_for_where_its_own_key_leads() -> None:
    world = World(partitions=4)
    made = MadeWork(world.log, NAMES, WorkRecords(world.log))
    dag = dag_run(world)
    spread = set()
    for number in range(12):
        run_id, claim = node(world, dag, f"n{number}")
        found = made.place_of(claim.topic, run_id, TopicPartition(NAMES.run_events, 0))
        assert found == TopicPartition(claim.topic, claim.partition)
        spread.add(claim.partition)
    assert len(spread) > 1


def test_the_reconciler_leaves_a_dag_run_alone_that_has_no_node_yet() -> None:
    world = World()
    dag_run(world)
    tier = TopicPartition(NAMES.runs(Tier.HIGH), 0)
    world.cluster.group(NAMES.worker_group(Tier.HIGH)).commit({tier: Committed(0)})  # all that there was is taken
    world.turn(router := world.router(reconcile_every_s=1.0), steps=100)
    assert router._shards[0].repairs == 0
    assert world.events(EventKind.RUN_EXPIRED) == []
