"""Positions that a dead member's open round holds back hold up no others, however many they are."""

from __future__ import annotations

from waterclock.clock import ManualClock
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.port import Committed, TopicPartition
from waterclock.told_positions import ToldPositions
from waterclock.transact import Rounds

PLACES = [TopicPartition("t", number) for number in range(16)]


def test_each_is_asked_for_in_its_turn_and_those_that_are_held_back_again_and_again() -> None:
    clock = ManualClock()
    cluster = MemoryCluster(clock)
    cluster.create_topic("t", len(PLACES))
    log = MemoryLog(cluster, "one")
    consumer = log.consumer("group", ["t"], instance="one")
    rounds = Rounds(log, "one")
    while not consumer.owned():
        rounds.poll(consumer, 0, 0.0)
    dead = MemoryLog(cluster, "two", transaction_timeout_s=600.0).producer("two")
    dead.init(1.0)
    dead.begin()
    dead.send_offsets(dict.fromkeys(PLACES[:7], Committed(4)), consumer.metadata())
    told = ToldPositions(rounds, consumer)

    waiting, found = set(PLACES), 0
    for _ in range(6):
        new = told.of(waiting, clock.monotonic_s())
        assert not told.of(waiting, clock.monotonic_s()), "not so soon"
        waiting -= new.keys()
        found += len(new)
        clock.advance(600_000)
    assert waiting == set(PLACES[:7])
    assert found == 9

    dead.commit(1.0)
    assert told.of(waiting, clock.monotonic_s()) == dict.fromkeys(PLACES[:7], Committed(4))
