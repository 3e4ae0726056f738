"""The lease keeper: who is silent for a lease is fenced first and called dead then, and nobody else is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import ClassVar

import pytest
from waterclock.retry_router.fencing import OwnHands
from waterclock.retry_router.keeper import FENCINGS_MAX, Keeper

from waterclock.log.memory import CommitFate
from waterclock.log.port import Outgoing, TopicPartition
from waterclock.model.errors import BackendDown, Fenced
from waterclock.model.ids import partition_of
from waterclock.transact import Rounds

from .router_world import NAMES, World

STEP_US = 200_000


def run(world: World, *keepers: Keeper, seconds: float) -> None:
    for _ in range(round(seconds * 1_000_000 / STEP_US)):
        for keeper in keepers:
            keeper.step()
        world.clock.advance(STEP_US)


def beating(world: World, keeper: Keeper, worker: str, incarnation: int, seconds: float) -> None:
    """The keeper works while a worker beats every 1.2 s."""
    for _ in range(round(seconds / 1.2)):
        world.beat(worker, incarnation)
        run(world, keeper, seconds=1.2)


def test_a_silent_worker_is_fenced_within_its_lease_and_a_second() -> None:
    world = World()
    incarnation = world.hello()
    beating(world, keeper := world.keeper(), "w-1", incarnation, seconds=12)
    run(world, keeper, seconds=3)
    assert world.fenced() == []
    run(world, keeper, seconds=3)
    assert world.fenced() == ["w-1"]
    run(world, keeper, seconds=60)
    assert world.fenced() == ["w-1"], "once is enough"


def test_a_beating_worker_is_never_fenced() -> None:
    world = World()
    beating(world, world.keeper(), "w-1", world.hello(), seconds=60)
    assert world.fenced() == []


def test_fenced_stands_behind_an_init_of_the_workers_own_id() -> None:
    world = World()
    rounds = Rounds(world.log, NAMES.transactional_id("worker", "w-1"))
    rounds.open()
    world.beat("w-1", world.hello())
    rounds.close()
    old = Rounds(world.log, NAMES.transactional_id("worker", "w-1"))
    old.open()
    run(world, world.keeper(), seconds=15)
    assert world.fenced() == ["w-1"]
    draft = old.draft()
    draft.append(Outgoing(NAMES.run_events, b"acme:nightly", b"an outcome that came too late"))
    with pytest.raises(Fenced):
        old.commit(draft)


def test_each_worker_has_the_lease_that_its_beats_name() -> None:
    world = World()
    short, long = world.hello("w-short"), world.hello("w-long")
    keeper = world.keeper(default_lease_s=5.0)
    run(world, keeper, seconds=1)
    world.beat("w-short", short, lease_s=5)
    world.beat("w-long", long, lease_s=30)
    run(world, keeper, seconds=8)
    assert world.fenced() == ["w-short"]
    run(world, keeper, seconds=20)
    assert world.fenced() == ["w-short"]
    run(world, keeper, seconds=5)
    assert world.fenced() == ["w-short", "w-long"]


def test_a_fresh_keeper_watches_a_full_lease_before_it_judges() -> None:
    world = World()
    world.beat("w-1", world.hello())
    world.clock.advance(3_600_000_000)
    run(world, keeper := world.keeper(default_lease_s=5.0), seconds=4.6)
    assert world.fenced() == []
    run(world, keeper, seconds=2)
    assert world.fenced() == ["w-1"]


def test_a_lagging_keeper_judges_nobody() -> None:
    """It stood still itself: beats that it had no chance to read are held against nobody."""
    world = World()
    incarnation = world.hello()
    beating(world, keeper := world.keeper(), "w-1", incarnation, seconds=12)
    world.clock.advance(60_000_000)
    run(world, keeper, seconds=4.4)
    assert world.fenced() == []
    beating(world, keeper, "w-1", incarnation, seconds=12)
    assert world.fenced() == []


def test_nobody_is_judged_before_the_beats_were_read_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    incarnation = world.hello()
    beating(world, keeper := world.keeper(), "w-1", incarnation, seconds=12)
    monkeypatch.setattr("waterclock.retry_router.keeper._POLL_RECORDS", 0)  # it sees no more of them
    for _ in range(30):
        world.beat("w-1", incarnation)
        run(world, keeper, seconds=1)
    assert world.fenced() == []


def test_somebodys_open_transaction_on_leases_keeps_the_judgement_back() -> None:
    world = World()
    incarnation = world.hello()
    beating(world, keeper := world.keeper(), "w-1", incarnation, seconds=6)
    other = world.log.producer("somebody")
    other.init(1.0)
    other.begin()
    other.append(Outgoing(NAMES.leases, b"w-2", b"nothing yet"))
    run(world, keeper, seconds=8)
    assert keeper.fenced_count == 0
    other.abort(1.0)
    run(world, keeper, seconds=1)
    assert world.fenced() == ["w-1"]


def test_a_worker_that_comes_back_is_not_judged_for_its_former_life() -> None:
    world = World()
    beating(world, keeper := world.keeper(), "w-1", world.hello(), seconds=6)
    run(world, keeper, seconds=3.4)
    again = world.hello()
    run(world, keeper, seconds=4.4)
    assert world.fenced() == [], "its HELLO counts as a beat"
    beating(world, keeper, "w-1", again, seconds=12)
    assert world.fenced() == []


def test_what_an_older_incarnation_beats_saves_nobody() -> None:
    world = World()
    first = world.hello()
    world.hello()
    beating(world, world.keeper(default_lease_s=5.0), "w-1", first, seconds=12)
    assert world.fenced() == ["w-1"]


def test_a_worker_without_a_record_on_leases_is_judged_by_its_beats() -> None:
    world = World()
    keeper = world.keeper()
    beating(world, keeper, "w-1", 7, seconds=12)
    assert world.fenced() == []
    run(world, keeper, seconds=6)
    assert world.fenced() == ["w-1"]


def test_a_worker_that_never_beat_is_fenced_after_the_default_lease() -> None:
    world = World()
    world.hello()
    run(world, world.keeper(default_lease_s=15.0), seconds=16)
    assert world.fenced() == ["w-1"]


@pytest.mark.parametrize(
    "fate", [CommitFate.UNANSWERED, CommitFate.LOST, CommitFate.ABORTS, CommitFate.DELAYED], ids=lambda fate: fate.name
)
def test_a_fencing_in_doubt_is_done_again_until_it_stands(fate: CommitFate) -> None:
    world = World()
    beating(world, keeper := world.keeper(), "w-1", world.hello(), seconds=6)
    world.cluster.faults.next_commit(NAMES.transactional_id("worker", "w-1"), fate)
    run(world, keeper, seconds=20)
    assert set(world.fenced()) == {"w-1"}


def test_of_two_keepers_each_judges_the_workers_of_its_own_partitions() -> None:
    world = World(partitions=4)
    workers = [f"w-{number}" for number in range(12)]
    lives = {worker: world.hello(worker) for worker in workers}
    one, two = world.keeper("retry-router-1"), world.keeper("retry-router-2")
    for _ in range(10):
        for worker in workers[:6]:
            world.beat(worker, lives[worker])
        run(world, one, two, seconds=2)
    assert sorted(world.fenced()) == sorted(workers[6:])
    assert one.ready
    assert two.ready


def test_many_lost_at_once_are_all_fenced() -> None:
    world = World()
    for number in range(40):
        world.beat(f"w-{number}", world.hello(f"w-{number}"))
    run(world, world.keeper(), seconds=20)
    assert len(world.fenced()) == 40


def test_a_rack_of_workers_lost_at_once_is_fenced_as_fast_as_fencings_end() -> None:
    """Four at a time: each four are followed by the next at once, and not by whoever is silent half a second later."""
    world = World()
    for number in range(100):
        world.beat(f"w-{number}", world.hello(f"w-{number}"))
    run(world, world.keeper(), seconds=5 + 100 / 4 * STEP_US / 1_000_000 + 1)
    assert len(world.fenced()) == 100


@pytest.mark.parametrize("partitions", [1, 2])
def test_workers_whose_ids_no_broker_answers_for_hold_up_no_others_death(partitions: int) -> None:
    """As many as are fenced at once; each try takes 10 s, and is in vain."""
    world, tries = World(partitions), dict[str, list[tuple[float, Future[None]]]]()
    for number in range(40):
        world.beat(f"w-{number}", world.hello(f"w-{number}"))
    stuck = [f"w-{number}" for number in range(40) if partition_of(f"w-{number}", partitions) == 0][:FENCINGS_MAX]

    class Hands(OwnHands):
        def submit(self, fence: Callable[[], None], /) -> Future[None]:
            (worker,) = fence.__defaults__ or ()  # type: ignore[attr-defined]
            if worker not in stuck:
                return super().submit(fence)
            tried: Future[None] = Future()
            tries.setdefault(worker, []).append((world.clock.monotonic_s() + 10.0, tried))
            return tried

    keeper = world.keeper(hands=Hands())
    for _ in range(200):
        run(world, keeper, seconds=0.4)
        for over_at_s, tried in [each for of_one in tries.values() for each in of_one]:
            if over_at_s <= world.clock.monotonic_s() and not tried.done():
                tried.set_exception(BackendDown("kafka", "its coordinator is away"))
    assert sorted(world.fenced()) == sorted({f"w-{number}" for number in range(40)} - {*stuck})
    assert all(len(tries[worker]) > 1 for worker in stuck), "they are tried again all the same"


def test_a_beat_under_anothers_name_is_nobodys_sign_of_life() -> None:
    world = World()
    incarnation = world.hello()
    keeper = world.keeper(default_lease_s=5.0)
    for _ in range(10):
        world.beat("w-1", incarnation)
        partition = world.cluster.partition(world.cluster.place_of(Outgoing(NAMES.heartbeats, b"w-1", b"")))
        partition.append(world.clock.now(), b"w-2", b"\xc3\x01 no beat", (), None)
        run(world, keeper, seconds=1)
    assert world.fenced() == []


def test_who_speaks_while_another_is_being_fenced_is_not_fenced_after_it() -> None:
    world = World()
    lives = {f"w-{number}": world.hello(f"w-{number}") for number in range(12)}
    for worker, life in lives.items():
        world.beat(worker, life)

    class SlowHands(OwnHands):
        """While the first is being fenced, which takes half a second, everybody else speaks again."""

        spared: ClassVar[set[str]] = set()

        def submit(self, fence: Callable[[], None], /) -> Future[None]:
            done = super().submit(fence)
            if not self.spared:
                self.spared.update(lives.keys() - set(world.fenced()))
                for worker in sorted(self.spared):
                    world.beat(worker, lives[worker])
                world.clock.advance(500_000)
            return done

    keeper = world.keeper(hands=SlowHands())
    for _ in range(200):
        if SlowHands.spared:
            break
        run(world, keeper, seconds=0.2)
    assert len(SlowHands.spared) == 11
    run(world, keeper, seconds=2)
    assert len(world.fenced()) == 1


def test_a_silent_worker_is_fenced_however_many_others_beat_all_the_time() -> None:
    world = World()
    keeper = world.keeper()
    silent, busy = world.hello("w-1"), world.hello("w-2")
    world.beat("w-1", silent)
    asks = keeper._log.high_watermark

    def asked_late(place: TopicPartition) -> int:
        """Between the keeper's reading and its question somebody has beaten, each time."""
        if place.topic == NAMES.heartbeats:
            world.beat("w-2", busy)
        return asks(place)

    keeper._log.high_watermark = asked_late  # type: ignore[method-assign]
    run(world, keeper, seconds=4)
    assert world.fenced() == []
    run(world, keeper, seconds=4)
    assert world.fenced() == ["w-1"]


def test_who_lives_by_leases_that_were_made_anew_is_not_fenced_for_its_lower_number() -> None:
    world = World()
    before = [world.hello() for _ in range(5)]
    beating(world, keeper := world.keeper(), "w-1", before[-1], seconds=12)
    partitions = world.log.partitions(NAMES.leases)
    world.cluster.delete_topic(NAMES.leases)
    world.cluster.create_topic(NAMES.leases, partitions, compact=True)
    world.beat("w-1", before[-1])
    run(world, keeper, seconds=1)
    incarnation = world.hello()
    beating(world, keeper, "w-1", incarnation, seconds=30)
    assert world.fenced() == []
    run(world, keeper, seconds=15)
    assert world.fenced() == ["w-1"], "once, when it is silent"
