"""The doctor names runs that should move and do not."""

from __future__ import annotations

from waterclock.clusters.doctor_runs import examine, judge_repairs
from waterclock.clusters.finding import Finding, State
from waterclock.log.port import Committed, TopicPartition
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Tier

from .router_world import NAMES, World


def findings(world: World) -> dict[str, Finding]:
    return {finding.check: finding for finding in examine(world.log, NAMES, world.clock)}


def taken(world: World) -> None:
    place = TopicPartition(NAMES.runs(Tier.HIGH), 0)
    world.cluster.group(NAMES.worker_group(Tier.HIGH)).commit({place: Committed(world.log.high_watermark(place))})


def test_a_run_whose_work_is_gone_from_its_tier_is_named() -> None:
    world = World()
    run_id, _ = world.pending()
    taken(world)
    assert findings(world)["waiting runs"].state is State.OK, "it is young"
    world.clock.advance(90 * US_PER_S)
    found = findings(world)["waiting runs"]
    assert found.state is State.WARN
    assert run_id in found.found


def test_a_run_whose_work_still_stands_there_is_none_of_them() -> None:
    world = World()
    taken(world)
    world.pending()
    world.clock.advance(90 * US_PER_S)
    assert findings(world)["waiting runs"].state is State.OK


def test_a_run_of_a_dead_worker_is_named_where_nobody_calls_it_lost() -> None:
    world = World()
    run_id, _ = world.claimed(incarnation=world.hello())
    world.clock.advance(90 * US_PER_S)
    assert findings(world)["running runs"].state is State.OK
    world.hello()
    found = findings(world)["running runs"]
    assert found.state is State.FAIL
    assert run_id in found.found


def test_repairs_are_a_warning() -> None:
    assert judge_repairs(0).state is State.OK
    assert judge_repairs(3).state is State.WARN
