"""Who serves a pool, as people are told: from the beats, and only from fresh ones."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from waterclock.workers.heartbeat import Beats, Pulse
from waterclock.workers.slots import Slots
from worker_world import World

from waterclock.clusters.acls import Resource, acls
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.model.errors import AccessRefused
from waterclock.model.executor import ShellCommand
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Every, JobSpec
from waterclock.recorder.__main__ import pools_served
from waterclock.serving import Served, warning_for, who_serves
from waterclock.wire.names import Names

EVERY = Every(5 * US_PER_S)


def beat(world: World, worker: str, pool: str, handlers: tuple[str, ...]) -> None:
    pulse = Pulse(worker, f"t.worker.{worker}", 15.0, 2.5, pool=pool, handlers=handlers)
    beats = Beats(MemoryLog(world.cluster, worker).appender(), world.names, world.clock, pulse)
    beats.begin(1, world.clock.monotonic_s())
    beats.beat(Slots(4))


def serving(world: World) -> dict[str, Served]:
    return who_serves(world.outside, world.names, lease_ttl_s=15.0, now=world.clock.now())


def test_a_pool_is_served_by_those_whose_beats_name_it() -> None:
    world = World()
    beat(world, "w-1", "default", ("bill", "mail"))
    beat(world, "w-2", "default", ("mail", "post"))
    beat(world, "g-1", "gpu", ("train",))
    assert serving(world) == {
        "default": Served(("w-1", "w-2"), frozenset({"bill", "mail", "post"})),
        "gpu": Served(("g-1",), frozenset({"train"})),
    }


def test_a_worker_that_fell_silent_serves_nobody() -> None:
    world = World()
    beat(world, "g-1", "gpu", ("train",))
    world.clock.advance(17 * US_PER_S)
    beat(world, "w-1", "default", ())
    assert set(serving(world)) == {"default"}


def test_the_newest_beat_counts() -> None:
    world = World()
    beat(world, "w-1", "default", ("bill",))
    beat(world, "w-1", "gpu", ("train",))
    assert set(serving(world)) == {"gpu"}


def test_a_pool_without_a_worker_is_told_with_the_command_that_starts_one() -> None:
    world = World()
    beat(world, "w-1", "default", ("bill",))
    told = warning_for(JobSpec("train", EVERY, pool="gpu"), serving(world))
    assert "no worker for pool gpu" in told
    assert "waterclock worker MODULE:APP --pool gpu" in told


def test_a_handler_that_no_worker_knows_is_told_with_those_they_know() -> None:
    world = World()
    beat(world, "w-1", "default", ("bill", "mail"))
    assert warning_for(JobSpec("bill", EVERY), serving(world)) == ""
    told = warning_for(JobSpec("bil", EVERY), serving(world))
    assert "knows the handler 'bil'" in told
    assert "bill, mail" in told


def test_a_job_with_an_executor_needs_no_handler() -> None:
    world = World()
    beat(world, "w-1", "default", ())
    assert warning_for(JobSpec("", EVERY, executor=ShellCommand(("/bin/true",))), serving(world)) == ""


def test_more_handlers_than_a_beat_lists_warn_nobody() -> None:
    world = World()
    beat(world, "w-1", "default", tuple(f"h{number}" for number in range(300)))
    (served,) = serving(world).values()
    assert len(served.handlers) == 201
    assert served.knows("zebra")


def test_a_worker_beats_with_its_pool_and_its_handlers() -> None:
    world = World()
    worker, _ = world.worker()
    world.settle(worker)
    world.clock.advance(2_500_000)
    world.turn(worker)
    assert set(serving(world)) == {"default"}


class Locked(MemoryLog):
    """A cluster whose brokers let a process do what one user may: here to ask for topics that it may read."""

    def __init__(self, cluster: MemoryCluster, names: Names, user: str) -> None:
        super().__init__(cluster, user)
        rights = [acl for acl in acls(names) if acl.role == user and acl.resource is Resource.TOPIC]
        self.may_read = {acl.name for acl in rights if "Read" in acl.operations}

    def partitions(self, topic: str) -> int:
        if topic not in self.may_read:
            raise AccessRefused("kafka", f"partitions of {topic}: TOPIC_AUTHORIZATION_FAILED")
        return super().partitions(topic)


@pytest.mark.parametrize("user", ["recorder", "api"])
def test_whoever_tells_which_pools_are_served_has_the_rights_for_it(user: str) -> None:
    world = World()
    beat(world, "g-1", "gpu", ("train",))
    log = Locked(world.cluster, world.names, user)
    assert who_serves(log, world.names, lease_ttl_s=15.0, now=world.clock.now())["gpu"].workers == ("g-1",)
    assert pools_served(log, world.names, lease_ttl_s=15.0, now=world.clock.now()) == {"gpu"}


def test_a_recorder_that_may_not_read_the_beats_says_of_no_pool_that_nobody_serves_it() -> None:
    """Given rights of an earlier release, then the look for stuck nodes goes on without what the beats say."""
    world = World()
    beat(world, "g-1", "gpu", ("train",))
    log = Locked(world.cluster, world.names, "dag-engine")
    assert pools_served(log, world.names, lease_ttl_s=15.0, now=world.clock.now()) is None
