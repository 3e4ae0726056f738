"""A router that dies in the middle of a round keeps its successors from nothing, wherever in it that was."""

from __future__ import annotations

import pytest
from waterclock.retry_router.loop import RetryRouter

from waterclock.log.memory import MemoryLog
from waterclock.log.memory_faults import Killed
from waterclock.log.port import Isolation, TopicPartition
from waterclock.model.events import EventKind
from waterclock.model.ids import partition_of
from waterclock.wire.codec import decode_event

from .router_world import GENERATION, NAMES, World

A_LONG_TRANSACTION_S = 600.0
JOBS = [next(f"acme:a{n}" for n in range(50) if partition_of(f"acme:a{n}", 2) == number) for number in (0, 1)]


@pytest.mark.parametrize("dies_at", ["send_offsets", "commit"])
def test_who_takes_over_from_a_router_that_died_inside_a_round_goes_on_with_all_its_partitions(dies_at: str) -> None:
    world = World(partitions=2)
    one, other = (_router(world, f"retry-router-{number}") for number in (1, 2))
    for _ in range(30):
        world.turn(one, other, steps=1)
    (theirs,) = other._shards

    def strike(client: str, operation: str) -> None:
        if client == "retry-router-2" and operation == dies_at:
            raise Killed

    world.claimed(JOBS[theirs])
    first = world.failed(JOBS[theirs])
    world.cluster.faults.on_call = strike
    with pytest.raises(Killed):
        world.turn(other, steps=10)
    world.cluster.faults.on_call = None
    world.turn(one, steps=60)  # twelve seconds, and its session is over after six
    assert len(one._consumer.owned()) == 2
    later = {world.failed(job) for job in JOBS}
    world.turn(one, steps=20)
    assert one.ready
    assert _given_up(world) >= later | {first}


def _router(world: World, name: str) -> RetryRouter:
    log = MemoryLog(world.cluster, name, session_timeout_s=6.0, transaction_timeout_s=A_LONG_TRANSACTION_S)
    # What is open is kept at once, so that the round has a record for the state topic in it as well.
    return RetryRouter(log, world.clock, NAMES, name, generation=GENERATION, kept_behind=1, window=1)


def _given_up(world: World) -> set[str]:
    """What readers of committed records are told of."""
    found = set[str]()
    for number in (0, 1):
        partition = world.cluster.partition(TopicPartition(NAMES.run_events, number))
        entries, _ = partition.read(0, Isolation.COMMITTED, 10_000)
        events = [decode_event(entry.value or b"") for entry in entries]
        found |= {event.run_id for event in events if event.kind is EventKind.RUN_FAILED}
    return found
