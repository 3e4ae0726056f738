"""What a play keeps as evidence is whole, whatever goes wrong around it."""

from __future__ import annotations

from waterclock.log.port import TopicPartition
from waterclock.model.events import Lease, LeaseKind
from waterclock.wire.messages import lease_message

from .plan import draw
from .world import NAMES, World


def test_what_the_log_cleaner_takes_from_leases_was_kept_also_where_polls_bring_nothing() -> None:
    world = World(draw(0))
    appender = world.outside.appender()
    for number in range(5):
        appender.append(lease_message(NAMES, Lease(LeaseKind.HELLO, "worker-1", number, "p")))
    polls = iter(range(1_000))
    world.cluster.faults.on_poll = lambda asked: 0 if next(polls) % 2 == 0 else min(asked, 1)
    world.compact()
    places = [TopicPartition(NAMES.leases, number) for number in range(world.plan.partitions)]
    assert [offset for place in places for offset in world.leases.get(place, ())] == [0, 1, 2, 3, 4]
