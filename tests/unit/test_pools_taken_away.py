"""A pool whose topics are deleted while jobs still name it costs nobody else anything."""

from __future__ import annotations

import pytest
from waterclock.dispatcher.pace import Pace

from tests.unit.dispatcher_world import NAMES, START, World, every
from waterclock.log.memory import MemoryLog
from waterclock.model.errors import NotFound
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, JobSpec, Once, Tier
from waterclock.transact import Round

SIDE = NAMES.runs(Tier.MEDIUM, "side")


def _make_pool(world: World) -> None:
    for tier in Tier:
        world.cluster.create_topic(NAMES.runs(tier, "side"), world.partitions)


def _take_pool_away(world: World) -> None:
    for tier in Tier:
        world.cluster.delete_topic(NAMES.runs(tier, "side"))


def _world() -> World:
    """A job of the pool and another fire every five seconds; then the pool is taken away."""
    world = World(partitions=1)
    _make_pool(world)
    world.run(1)
    world.command(CommandKind.CREATE, "t:side", every(5, pool="side"))
    world.command(CommandKind.CREATE, "t:other", every(5))
    world.run(12)
    assert (len(world.runs("t:side")), len(world.runs("t:other"))) == (2, 2)
    _take_pool_away(world)
    return world


def test_a_pool_that_is_taken_away_holds_up_no_other_job() -> None:
    """Its own job's runs are made all the same, and wait, as those do whose work went with the topic."""
    world = _world()
    world.run(30)
    assert len(world.runs("t:other")) == 8
    assert len(world.runs("t:side")) == 8


def test_a_pool_that_comes_back_has_its_work_again() -> None:
    world = _world()
    world.run(20)
    _make_pool(world)
    world.run(30)
    assert 3 <= len(world.records(SIDE)) <= 6, "it is asked for again every ten seconds"


def test_a_round_that_the_client_refuses_for_a_pool_that_is_gone_is_made_again() -> None:
    """Given a client that has heard of its end: it takes no record for it, in place of waiting for an answer."""
    world = _world()
    commit = world.dispatcher._rounds.commit

    def refuse(draft: Round) -> None:
        if any(message.topic == SIDE for message in draft.messages):
            raise NotFound("UNKNOWN_TOPIC")
        commit(draft)

    world.dispatcher._rounds.commit = refuse  # type: ignore[method-assign]
    world.run(30)
    assert len(world.runs("t:other")) == 8


def test_a_herd_is_sent_early_without_the_work_for_a_pool_that_is_gone() -> None:
    due_at = START + 30 * US_PER_S
    world = World(pace=Pace(herd_fires=100, herd_lead_s=0.5))
    _make_pool(world)
    world.run(1)
    for number in range(200):
        spec = JobSpec("demo.noop", Once(due_at), pool="side" if number % 2 else "default")
        world.command(CommandKind.CREATE, f"t:once-{number}", spec)
    world.run(12)
    _take_pool_away(world)
    world.dispatcher._pools.forget()
    world.run(30, step_s=0.02)
    assert world.dispatcher._rounds.early_count == 1
    assert len(world.runs("t:once")) == 200
    assert len(world.work()) == 100


def test_no_pool_is_asked_for_while_a_herd_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may take seconds to answer, in which nobody reads the partitions of a transaction that is open."""
    due_at = START + 30 * US_PER_S
    world = World(pace=Pace(herd_fires=100, herd_lead_s=0.5))
    _make_pool(world)
    world.run(1)
    for number in range(200):
        world.command(CommandKind.CREATE, f"t:once-{number}", JobSpec("demo.noop", Once(due_at)))
    beside = JobSpec("demo.noop", Once(due_at - US_PER_S // 10), pool="side")
    world.command(CommandKind.CREATE, "t:beside", beside)
    world.run(12)
    world.dispatcher._pools.forget()
    asked, topic_id = list[bool](), MemoryLog.topic_id

    def ask(log: MemoryLog, topic: str) -> str:
        asked.append(world.dispatcher._rounds.is_early)
        return topic_id(log, topic)

    monkeypatch.setattr(MemoryLog, "topic_id", ask)
    world.run(30, step_s=0.02)
    assert asked == [False]
    assert len(world.runs("t:")) == 201
