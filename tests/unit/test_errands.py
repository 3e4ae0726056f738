"""Errands: no fire waits for the store's answers, and nothing that happens meanwhile is lost over them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from waterclock.dispatcher import errands
from waterclock.dispatcher.errands import Call, Errand, Errands, Made, do_at_once
from waterclock.dispatcher.pace import Pace
from waterclock.dispatcher.position import Position
from waterclock.dispatcher.shard import Shard
from waterclock.dispatcher.store_thread import StoreThread

from tests.unit.dispatcher_world import START, World
from waterclock.model.errors import BackendDown
from waterclock.model.ids import US_PER_S, slot_of
from waterclock.model.job import CommandKind, Every, JobSpec


class ByHand:
    """Makes a call as it is given; its answer comes when somebody says so."""

    def __init__(self) -> None:
        self.answers = True
        self.waiting: deque[_Answer] = deque()

    def begin(self, call: Call) -> _Answer:
        answer = _Answer(call, self)
        self.waiting.append(answer)
        return answer

    def close(self) -> None:
        self.waiting.clear()


class _Answer(Made):
    def __init__(self, call: Call, hand: ByHand) -> None:
        super().__init__(call)
        self._hand = hand

    @property
    def is_done(self) -> bool:  # type: ignore[override]
        return self._hand.answers


def every(seconds: int, start_at: int) -> JobSpec:
    return JobSpec("h", Every(seconds * US_PER_S, start_at))


def a_world() -> tuple[World, ByHand]:
    """A window of two minutes is loaded, and more of it is wanted a minute later."""
    hand = ByHand()
    world = World(partitions=1, pace=Pace(look_ahead_s=100.0, sweep_every_s=3_600.0), beside=hand)
    world.steps(3)
    world.command(CommandKind.CREATE, "acme:a", every(10, START))
    world.run(30)
    return world, hand


def test_fires_go_out_while_the_store_has_not_answered() -> None:
    world, hand = a_world()
    hand.answers = False
    before = len(world.runs("acme:a"))
    world.run(40)
    assert hand.waiting, "the window was to be wanted meanwhile"
    assert len(world.runs("acme:a")) == before + 4


def test_a_job_that_is_made_while_its_bucket_is_read_fires_all_the_same() -> None:
    """Its row was not there when the bucket was read, and its command did not find the bucket loaded."""
    world, hand = a_world()
    (shard,) = world.dispatcher._shards.values()
    while not (shard.horizon_at <= world.clock.now() + 100 * US_PER_S and world.dispatcher._errands.has_one(shard)):
        hand.answers = shard.horizon_at > world.clock.now() + 101 * US_PER_S
        world.run(0.5)
    first_at = shard.loaded_minute * 60 * US_PER_S + 30 * US_PER_S
    being_read = shard.slots[shard.loaded_slots : shard.loaded_slots + shard.slice_slots]
    job_id = next(each for each in (f"acme:b{number}" for number in range(9_999)) if slot_of(each) in being_read)
    world.command(CommandKind.CREATE, job_id, every(3_600, first_at))
    world.run(1)
    hand.answers = True
    world.run((first_at - world.clock.now()) / US_PER_S + 2)
    assert len(world.runs(job_id)) == 1


def test_whoever_is_interrupted_again_and_again_is_done_at_once() -> None:
    world, hand = a_world()
    (shard,) = world.dispatcher._shards.values()
    hand.answers = False
    done: list[str] = []

    def errand() -> Errand[None]:
        done.append((yield lambda: "read"))

    mine = Errands(hand)
    for _ in range(errands.GIVEN_UP_MAX):
        mine.begin(shard, errand())
        assert mine.go_on(shard)
        shard.changes += 1
        hand.answers = True
        assert not mine.go_on(shard)
        hand.answers = False
    assert done == []
    mine.begin(shard, errand())
    assert done == ["read"]


def test_the_trouble_of_a_call_is_told_to_whoever_goes_on() -> None:
    shard = Shard(0, 1, 1, Position(START), 0)
    ended: list[str] = []

    def errand() -> Errand[None]:
        try:
            yield _refuse
        finally:
            ended.append("closed")

    mine = Errands(errands.AtOnce())
    mine.begin(shard, errand())
    with pytest.raises(BackendDown):
        mine.go_on(shard)
    assert (ended, mine.go_on(shard)) == (["closed"], False)
    with pytest.raises(BackendDown):
        do_at_once(errand())


def test_an_errand_of_a_shard_that_was_taken_anew_is_none_of_the_new_one() -> None:
    hand = ByHand()
    mine, told = Errands(hand), []

    def errand() -> Errand[None]:
        told.append((yield lambda: "read"))

    before, after = (Shard(0, 1, 1, Position(START), 0) for _ in range(2))
    mine.begin(before, errand())
    assert not mine.has_one(after)
    assert not mine.go_on(after)
    assert told == []


def test_a_thread_makes_the_calls_in_their_order_and_hands_on_what_they_raise() -> None:
    thread, gate, order = StoreThread(), threading.Event(), list[Any]()

    def noted(value: str) -> Callable[[], str]:
        def call() -> str:
            gate.wait(5)
            order.append((value, threading.current_thread().name))
            return value

        return call

    first, second, third = thread.begin(noted("a")), thread.begin(_refuse), thread.begin(noted("b"))
    assert not first.is_done
    gate.set()
    for pending in (first, second, third):
        pending._made.wait(5)  # type: ignore[attr-defined]
        assert pending.is_done
    assert (first.result(), third.result(), order) == ("a", "b", [("a", "store-errands"), ("b", "store-errands")])
    with pytest.raises(BackendDown):
        second.result()
    thread.close()


def _refuse() -> None:
    raise BackendDown("cassandra", "away")
