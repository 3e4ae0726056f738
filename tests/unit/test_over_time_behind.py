"""What is over its time is ended by what is known, also where polls bring less than they could and more is there."""

from __future__ import annotations

from tests.unit import dag_world, router_world
from waterclock.model.dag import Node
from waterclock.model.events import EventKind
from waterclock.model.ids import US_PER_S

OTHER = "acme:other@20260101T000000Z"


def test_a_dag_run_that_has_ended_in_time_is_not_over_its_time_where_polls_bring_a_part_of_what_is_there() -> None:
    """A client hands out what it has fetched by then; how much more the broker has no poll tells."""
    world = dag_world.World(Node("a", "h"), timeout_us=10 * US_PER_S)
    world.turn(engine := world.engine(round_records=100))
    run_id = world.fire()
    world.turn(engine, 40)
    world.cluster.faults.on_poll = lambda asked: min(asked, 7)
    for _ in range(60):
        world.event(EventKind.STARTED, OTHER, 1)
    world.end(f"{run_id}/a")
    world.clock.advance(3 * US_PER_S)
    world.turn(engine)
    assert world.events(EventKind.RUN_EXPIRED) == []
    assert [each.run_id for each in world.events(EventKind.DAG_SUCCEEDED)] == [run_id]


def test_a_run_that_was_claimed_in_time_is_not_told_to_have_expired_where_polls_bring_a_part_of_what_is_there() -> None:
    world = router_world.World()
    world.turn(router := world.router(round_records=100))
    run_id, claim = world.pending(queue_timeout_us=10 * US_PER_S)
    world.turn(router, steps=40)
    world.cluster.faults.on_poll = lambda asked: min(asked, 7)
    for _ in range(60):
        world.event(EventKind.STARTED, OTHER, 1)
    world.started(run_id, claim)
    world.clock.advance(3 * US_PER_S)
    world.turn(router)
    assert world.events(EventKind.RUN_EXPIRED) == []
    assert world.dump(router_world.NAMES.control) == []
