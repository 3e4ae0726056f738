"""Positions that a dead member's open round holds back hold up no others, however many they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from waterclock.clock import ManualClock
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.memory_consumer import MemoryConsumer
from waterclock.log.port import Committed, TopicPartition
from waterclock.model.errors import BackendDown
from waterclock.told_positions import ToldPositions
from waterclock.transact import Rounds

PLACES = [TopicPartition("t", number) for number in range(16)]


def joined(clock: ManualClock) -> tuple[MemoryCluster, MemoryConsumer, Rounds]:
    """A member that owns all of them, and has started none."""
    cluster = MemoryCluster(clock)
    cluster.create_topic("t", len(PLACES))
    log = MemoryLog(cluster, "one")
    consumer, rounds = log.consumer("group", ["t"], instance="one"), Rounds(log, "one")
    while not consumer.owned():
        rounds.poll(consumer, 0, 0.0)
    return cluster, consumer, rounds


def test_each_is_asked_for_in_its_turn_and_those_that_are_held_back_again_and_again() -> None:
    clock = ManualClock()
    cluster, consumer, rounds = joined(clock)
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


def test_a_broker_that_takes_long_to_answer_is_heard_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    _, consumer, rounds = joined(clock)
    right, waited = type(consumer).committed, []

    def slow(self: MemoryConsumer, places: Sequence[TopicPartition], timeout_s: float) -> Any:
        waited.append(min(timeout_s, 0.7))
        if timeout_s < 0.7:
            raise BackendDown("kafka", "no answer yet")
        return right(self, places, timeout_s)

    monkeypatch.setattr(MemoryConsumer, "committed", slow)
    told = ToldPositions(rounds, consumer)
    found: dict[TopicPartition, Committed | None] = {}
    for _ in range(80):  # not at once: it looks like positions that are held back
        waited.clear()
        found |= told.of(set(PLACES) - found.keys(), clock.monotonic_s())
        assert sum(waited) <= 2, "the turn ends"
        clock.advance(600_000)
    assert found.keys() == set(PLACES)


def held_back(clock: ManualClock, *parts: list[TopicPartition]) -> tuple[Rounds, MemoryConsumer, list[Any]]:
    """A member that owns all, and a producer that died inside a round for each of these parts of them."""
    cluster = MemoryCluster(clock)
    cluster.create_topic("t", len(PLACES))
    log = MemoryLog(cluster, "one")
    consumer = log.consumer("group", ["t"], instance="one")
    rounds = Rounds(log, "one")
    while not consumer.owned():
        rounds.poll(consumer, 0, 0.0)
    dead = []
    for number, part in enumerate(parts):
        producer = MemoryLog(cluster, f"two-{number}", transaction_timeout_s=600.0).producer(f"two-{number}")
        producer.init(1.0)
        producer.begin()
        producer.send_offsets(dict.fromkeys(part, Committed(4)), consumer.metadata())
        dead.append(producer)
    return rounds, consumer, dead


@pytest.mark.parametrize(("until_s", "share"), [(20, 0.3), (300, 0.35)])
def test_what_is_held_back_costs_whoever_waits_for_it_little_of_its_time(
    monkeypatch: pytest.MonkeyPatch, until_s: int, share: float
) -> None:
    """Given that nothing but that is left to ask for: each question that is asked in vain takes all of its wait."""
    clock = ManualClock()
    rounds, consumer, _ = held_back(clock, PLACES)
    right, waited = MemoryConsumer.committed, []

    def committed(self: MemoryConsumer, places: Sequence[TopicPartition], timeout_s: float) -> Any:
        try:
            return right(self, places, timeout_s)
        except BackendDown:
            waited.append(timeout_s)
            clock.advance(int(timeout_s * 1_000_000))
            raise

    monkeypatch.setattr(MemoryConsumer, "committed", committed)
    told = ToldPositions(rounds, consumer)
    began_s, longest, lasted = clock.monotonic_s(), 0.0, 0.0
    while clock.monotonic_s() < began_s + until_s:
        waited.clear()
        assert not told.of(PLACES, clock.monotonic_s())
        longest, lasted = max(longest, sum(waited)), lasted + sum(waited)
        clock.advance(50_000)
    assert longest <= (0.7 if until_s == 20 else 2)
    assert lasted <= share * until_s


def test_what_one_dead_member_holds_back_waits_for_no_other_one_that_is_dead() -> None:
    clock = ManualClock()
    rounds, consumer, (_, other) = held_back(clock, PLACES[:7], PLACES[7:])
    told = ToldPositions(rounds, consumer)
    for _ in range(20):
        assert not told.of(PLACES, clock.monotonic_s())
        clock.advance(600_000)
    other.commit(1.0)
    found: dict[TopicPartition, Committed | None] = {}
    for _ in range(20):
        found |= told.of(set(PLACES) - found.keys(), clock.monotonic_s())
        clock.advance(600_000)
    assert found == dict.fromkeys(PLACES[7:], Committed(4))
