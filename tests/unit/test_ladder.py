"""The retry ladder on the Log in memory: never early, hardly late, once, and nobody waits behind another's wait."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from waterclock.retry_router import rung as rungs
from waterclock.retry_router.hops import DUE, HOP, RUNG_US, onward, wait_of
from waterclock.retry_router.ladder import Ladder
from waterclock.retry_router.rung import group_of
from waterclock.retry_router.standing import Stand, moved_from_text, moved_to_text

from waterclock.clock import ManualClock
from waterclock.log.memory import CommitFate, Killed, MemoryCluster, MemoryLog
from waterclock.log.memory_consumer import MemoryConsumer, MemoryReader
from waterclock.log.port import Committed, Isolation, Outgoing, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown, NotFound
from waterclock.model.events import Reject, WorkRecord
from waterclock.model.ids import US_PER_S, make_run_id, partition_of
from waterclock.model.job import Tier
from waterclock.transact import Round
from waterclock.wire.codec import decode_any, decode_work
from waterclock.wire.messages import work_message
from waterclock.wire.names import RUNGS, Names, topic_specs

NAMES = Names()
TIER = NAMES.runs(Tier.HIGH)
TICK_US = 50_000
PLACE = TopicPartition(NAMES.delay("1s"), 0)
MS = 1_000


class World:
    """A cluster, and a hand that places what the retry router would."""

    def __init__(self, partitions: int = 1) -> None:
        self.clock = ManualClock()
        self.cluster = MemoryCluster(self.clock)
        for spec in topic_specs(NAMES, partitions):
            self.cluster.create_topic(spec.name, spec.partitions)
        self.log = MemoryLog(self.cluster, "hand")
        self.appender = self.log.appender()
        self.due: dict[str, int] = {}
        self.arrived: dict[str, list[int]] = {}
        self._readers: dict[str, MemoryReader] = {}

    def place(self, wait_us: int, job_id: str = "acme:nightly", **parts: object) -> str:
        """A record that waits for so long from now on; returns its run id."""
        fire_at = self.clock.now() + len(self.due)
        run_id = make_run_id(job_id, fire_at)
        work = WorkRecord(run_id, fire_at, fire_at, 2, job_id, 1, Tier.HIGH, "default", "invoice", b"payload")
        message = work_message(NAMES, work._replace(**parts))
        self.due[run_id] = self.clock.now() + wait_us
        self.append(onward(NAMES, TIER, message, self.due[run_id], self.clock.now()))
        return run_id

    def append(self, message: Outgoing) -> None:
        self.appender.append(message)

    def ladder(self, instance: str = "retry-router-1", **parts: int) -> Ladder:
        return Ladder(MemoryLog(self.cluster, instance), self.clock, NAMES, instance, **parts)

    def turn(self, *ladders: Ladder, for_us: int, tick_us: int = TICK_US) -> None:
        """Let the ladders work while time goes by; note what arrives on the tier, and when."""
        until = self.clock.now() + for_us
        while self.clock.now() < until:
            for ladder in ladders:
                for _ in range(20):
                    if not ladder.step():
                        break
            self.note()
            self.clock.advance(tick_us)

    def note(self) -> None:
        for record in self.new(TIER):
            self.arrived.setdefault(decode_work(record.value or b"").run_id, []).append(self.clock.now())

    def new(self, topic: str) -> list[Record]:
        """What came to a topic since the last call."""
        if topic not in self._readers:
            self._readers[topic] = self.log.reader(Isolation.COMMITTED, headers=True)
            self._readers[topic].assign({TopicPartition(topic, p): 0 for p in range(self.log.partitions(topic))})
        return list(self._readers[topic].poll(100_000, 0.0))

    def kept(self, topic: str) -> list[Record]:
        """All that is on a topic's only partition."""
        place = TopicPartition(topic, 0)
        return list(read_range(self.log, Isolation.COMMITTED, place, 0, self.log.high_watermark(place)))

    def lose_position(self, word: str, *, by_hand: bool) -> None:
        """The group is deleted, or Kafka's own tool has set it to the beginning."""
        group, place = self.cluster.group(group_of(NAMES, word)), TopicPartition(NAMES.delay(word), 0)
        group.forget_topic(place.topic)
        if by_hand:
            group.commit({place: Committed(0)})

    def lateness_us(self) -> list[int]:
        """Of each run; every one must have arrived exactly once."""
        assert {run_id: len(times) for run_id, times in self.arrived.items()} == dict.fromkeys(self.due, 1)
        return [self.arrived[run_id][0] - due for run_id, due in self.due.items()]

    def lag(self) -> int:
        lag = 0
        for word in RUNGS:
            group = self.cluster.group(group_of(NAMES, word))
            for partition in range(self.log.partitions(NAMES.delay(word))):
                place = TopicPartition(NAMES.delay(word), partition)
                committed = group.committed(place)
                assert committed is not None
                lag += self.log.high_watermark(place) - committed.offset
        return lag


@pytest.mark.parametrize(
    "wait_us",
    [1, 300 * MS, 999 * MS, US_PER_S, 1_001 * MS, 4_999 * MS, 7_300 * MS, 33 * US_PER_S, 181 * US_PER_S, 3_600_000_000],
)  # fmt: skip
def test_a_delayed_record_is_never_early_and_at_most_a_second_late(wait_us: int) -> None:
    world = World()
    world.turn(ladder := world.ladder(), for_us=200_000)
    world.place(wait_us)
    world.turn(ladder, for_us=wait_us + 1_500 * MS)
    [late_us] = world.lateness_us()
    assert 0 <= late_us <= 8 * TICK_US


@pytest.mark.parametrize("tier", Tier)
@pytest.mark.parametrize("wait_us", [300 * MS, 7_300 * MS])
def test_a_record_comes_to_its_own_tier_in_the_end(tier: Tier, wait_us: int) -> None:
    """Whichever rungs it stood on (docs/retries.md)."""
    world = World()
    world.turn(ladder := world.ladder(), for_us=200_000)
    run_id = world.place(wait_us, tier=tier)
    world.turn(ladder, for_us=wait_us + 1_500 * MS)
    arrived = {each: [decode_work(work.value or b"").run_id for work in world.kept(NAMES.runs(each))] for each in Tier}
    assert arrived == {each: [run_id] if each is tier else [] for each in Tier}


def test_a_record_climbs_down_the_largest_rungs_that_fit() -> None:
    world = World()
    world.turn(ladder := world.ladder(), for_us=200_000)
    world.place(127 * US_PER_S)
    seen: list[str] = []
    for _ in range(130 * 20):
        world.turn(ladder, for_us=TICK_US)
        for word in RUNGS:
            for record in world.new(NAMES.delay(word)):
                wait = wait_of(record.headers)
                assert wait is not None
                assert wait.ends_at <= wait.due_at
                seen.append(word)
    assert seen[:2] == ["2m", "5s"]
    assert set(seen[2:]) == {"1s"}
    assert world.lateness_us()[0] >= 0


def test_many_waits_at_once_are_all_in_time() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    world = World(partitions=4)
    world.turn(ladder := world.ladder(), for_us=200_000)
    for _ in range(60):
        for _ in range(dice.randrange(10)):
            wait_us = dice.choice([dice.randrange(1, 2 * US_PER_S), dice.randrange(1, 40 * US_PER_S)])
            world.place(wait_us, f"acme:job-{dice.randrange(20)}")
        world.turn(ladder, for_us=dice.randrange(1, 500_000))
    world.turn(ladder, for_us=42 * US_PER_S)
    late = world.lateness_us()
    assert min(late) >= 0
    assert max(late) <= 10 * TICK_US
    assert world.lag() == 0


def test_what_has_little_left_does_not_wait_behind_what_has_more() -> None:
    world = World()
    world.turn(ladder := world.ladder(), for_us=200_000)
    slow = world.place(1_900 * MS)  # stands on the smallest rung for its whole second
    quick = world.place(200 * MS)
    world.turn(ladder, for_us=2_500 * MS)
    assert world.arrived[quick][0] < world.due[slow] - 1_000 * MS
    assert max(world.lateness_us()) <= 4 * TICK_US


def test_what_has_moved_on_ahead_of_an_older_one_does_not_move_again_after_a_restart() -> None:
    world = World()
    world.turn(first := world.ladder(), for_us=200_000)
    for number in range(50):
        world.place(1_500 * MS if number % 3 == 0 else 100 * MS)
    world.turn(first, for_us=500_000)
    assert len(world.arrived) == 33
    world.cluster.kill("retry-router-1")
    world.turn(world.ladder(), for_us=2_500 * MS)
    assert max(world.lateness_us()) <= 1_500 * MS
    assert world.lag() == 0


@pytest.mark.parametrize("fate", ["deleted", "set by hand"])
def test_where_positions_were_lost_nothing_that_was_handed_on_before_runs_unasked(fate: str) -> None:
    """Given retries that have moved on, when positions are lost, then what comes again asks the log first."""
    world = World()
    world.turn(first := world.ladder(), for_us=200_000)
    before = [world.place(300 * MS) for _ in range(3)]
    world.turn(first, for_us=1_500 * MS)
    assert [decode_work(record.value or b"").verify_from for record in world.kept(TIER)] == [-1] * 3
    world.cluster.kill("retry-router-1")
    for word in RUNGS:
        world.lose_position(word, by_hand=fate == "set by hand")
    world.turn(second := world.ladder(), for_us=1_500 * MS)
    after = world.place(300 * MS)
    world.turn(second, for_us=1_500 * MS)
    again = [decode_work(record.value or b"") for record in world.kept(TIER)[3:]]
    assert [(work.run_id, work.verify_from) for work in again] == [*((run_id, 0) for run_id in before), (after, -1)]


def test_what_may_have_been_handed_on_is_still_marked_by_the_next_owner() -> None:
    """Given a lost position, and an owner that has committed one since, when it goes, its successor marks the rest."""
    world = World()
    world.turn(first := world.ladder(), for_us=200_000)
    world.place(300 * MS)
    late = world.place(900 * MS)
    world.turn(first, for_us=200_000)
    world.cluster.kill("retry-router-1")
    for word in RUNGS:
        world.lose_position(word, by_hand=True)
    world.turn(world.ladder(), for_us=400 * MS)
    assert len(world.kept(TIER)) == 1, "one is handed on, and the position behind it committed"
    world.cluster.kill("retry-router-1")
    world.turn(world.ladder(), for_us=2_000 * MS)
    assert [
        (work.run_id, work.verify_from) for work in (decode_work(record.value or b"") for record in world.kept(TIER))
    ][1:] == [(late, 0)]


def test_a_full_partition_alone_is_held_back_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given one partition with more than is held in memory, others on the rung and other rungs go on as ever."""
    monkeypatch.setattr(rungs, "_STANDING_MAX", 1_000)
    world = World(partitions=4)
    for _ in range(2_500):
        world.place(601 * US_PER_S)
    world.turn(ladder := world.ladder(), for_us=5 * US_PER_S)
    ten = next(rung for rung in ladder._rungs if rung.word == "10m")
    assert sorted(map(len, ten.stands.values())) == [0, 0, 0, 1_000]
    elsewhere = [world.place(601 * US_PER_S, f"acme:job-{number}") for number in range(20)]
    quick = world.place(2 * US_PER_S)
    world.turn(ladder, for_us=3 * US_PER_S)
    assert 0 <= world.arrived[quick][0] - world.due[quick] <= 6 * TICK_US
    world.cluster.kill("retry-router-1")
    world.turn(world.ladder(), for_us=601 * US_PER_S)
    assert min(world.lateness_us()) >= 0
    assert max(world.lateness_us()) <= US_PER_S
    assert max(world.arrived[run_id][0] - world.due[run_id] for run_id in elsewhere) <= 500_000
    assert world.lag() == 0


def test_a_herd_of_ten_thousand_starves_nobody() -> None:
    world = World(partitions=4)
    world.turn(ladder := world.ladder(), for_us=200_000)
    for number in range(10_000):
        world.place(1_000 * MS + number * 100, f"acme:job-{number % 50}")
    world.turn(ladder, for_us=500_000)
    other = world.place(100 * MS, "acme:other")
    world.turn(ladder, for_us=4 * US_PER_S)
    late = world.lateness_us()
    assert min(late) >= 0
    assert max(late) <= US_PER_S
    assert world.arrived[other][0] - world.due[other] <= US_PER_S


@pytest.mark.parametrize(("wait_us", "partitions"), [(30 * US_PER_S, 4), (120 * US_PER_S, 1)])
def test_a_herd_whose_last_hop_is_a_long_rung_is_in_time(
    wait_us: int, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given several times as many as a partition holds in memory, all due at the same instant."""
    monkeypatch.setattr(rungs, "_STANDING_MAX", 1_000)
    world = World(partitions=partitions)
    world.turn(ladder := world.ladder(), for_us=200_000)
    for number in range(8_000):
        world.place(wait_us, f"acme:job-{number % 50}")
    world.turn(ladder, for_us=wait_us - 300_000, tick_us=500_000)
    world.turn(ladder, for_us=10 * US_PER_S)
    late = sorted(world.lateness_us())
    assert late[0] >= 0
    assert late[-1] <= US_PER_S
    assert world.lag() == 0


def test_key_value_and_headers_stay_as_they_are_and_headers_never_grow() -> None:
    world = World()
    world.turn(ladder := world.ladder(), for_us=200_000)
    fire_at = world.clock.now()
    work = WorkRecord(make_run_id("acme:n", fire_at), fire_at, fire_at, 3, "acme:n", 1, Tier.HIGH, "default", "h", b"p")
    message = work_message(NAMES, work)._replace(key=b"acme:n/load")
    message = message._replace(headers=(*message.headers, ("traceparent", b"00-1")))
    due_at = fire_at + 8 * US_PER_S
    world.append(onward(NAMES, TIER, message, due_at, fire_at))
    sizes = set()
    for _ in range(200):
        world.turn(ladder, for_us=TICK_US)
        sizes |= {len(record.headers) for word in RUNGS for record in world.new(NAMES.delay(word))}
    assert sizes == {len(message.headers) + 2}
    place = TopicPartition(TIER, 0)
    [arrived] = read_range(world.log, Isolation.COMMITTED, place, 0, world.log.high_watermark(place), headers=True)
    assert (arrived.key, arrived.value, arrived.headers) == (message.key, message.value, message.headers)


class Remembering(MemoryLog):
    """As a real client: how many partitions a topic has is asked once."""

    def __init__(self, cluster: MemoryCluster, client_id: str) -> None:
        super().__init__(cluster, client_id)
        self._known: dict[str, int] = {}

    def partitions(self, topic: str) -> int:
        if topic not in self._known:
            self._known[topic] = super().partitions(topic)
        return self._known[topic]


SIDE = NAMES.runs(Tier.HIGH, "side")


def world_with_a_pool_that_goes() -> tuple[World, Ladder]:
    """A ladder that has handed work on to a pool; now the pool's topic is gone, and more work waits for it."""
    world = World()
    world.cluster.create_topic(SIDE, 1)
    ladder = Ladder(Remembering(world.cluster, "retry-router-1"), world.clock, NAMES, "retry-router-1")
    world.turn(ladder, for_us=200_000)
    for_side(world)
    world.turn(ladder, for_us=US_PER_S)
    assert len(world.new(SIDE)) == 1
    world.cluster.delete_topic(SIDE)
    for_side(world)
    return world, ladder


def for_side(world: World, count: int = 1) -> None:
    for _ in range(count):
        message = _message(world, pool="side")
        world.append(onward(NAMES, TIER, message, world.clock.now() + 500 * MS, world.clock.now()))


def test_a_tier_topic_that_is_taken_away_holds_no_retry_up() -> None:
    world, ladder = world_with_a_pool_that_goes()
    world.place(700 * MS)
    world.turn(ladder, for_us=5 * US_PER_S)
    assert len(world.new(NAMES.rejects)) == 1
    assert max(world.lateness_us()) <= US_PER_S
    assert world.lag() == 0


def test_a_round_that_the_client_refuses_for_a_topic_that_is_gone_is_made_again() -> None:
    """Given a client that has heard of its end: it takes no record for it, in place of waiting for an answer."""
    world, ladder = world_with_a_pool_that_goes()
    commit = ladder._rounds.commit

    def refuse(draft: Round) -> None:
        if any(message.topic == SIDE for message in draft.messages):
            raise NotFound("UNKNOWN_TOPIC")
        commit(draft)

    ladder._rounds.commit = refuse  # type: ignore[method-assign]
    world.place(700 * MS)
    world.turn(ladder, for_us=5 * US_PER_S)
    assert len(world.new(NAMES.rejects)) == 1
    assert world.lateness_us()
    assert world.lag() == 0


def test_a_tier_topic_that_was_made_again_is_found_in_the_next_round() -> None:
    world, ladder = world_with_a_pool_that_goes()
    world.turn(ladder, for_us=2 * US_PER_S)
    world.cluster.create_topic(SIDE, 1)
    for_side(world)
    world.turn(ladder, for_us=2 * US_PER_S)
    assert world.log.high_watermark(TopicPartition(SIDE, 0)) > 0
    assert len(world.new(NAMES.rejects)) == 1


def test_no_broker_is_asked_for_each_record() -> None:
    world, ladder = world_with_a_pool_that_goes()
    world.turn(ladder, for_us=2 * US_PER_S)
    asked: Counter[str] = Counter()
    world.cluster.faults.on_call = lambda _client, operation: asked.update([operation])
    for_side(world, 300)
    for _ in range(300):
        world.place(500 * MS)
    world.turn(ladder, for_us=2 * US_PER_S)
    assert asked["topic_id"] + asked["partitions"] <= 2 * asked["commit"], "each of two topics once a round"
    assert asked["commit"] < 30
    assert world.lag() == 0


@pytest.mark.parametrize("fault", ["headers", "due", "value", "topic"])
def test_what_is_no_waiting_work_goes_to_rejects_byte_for_byte_and_blocks_nobody(fault: str) -> None:
    world = World()
    world.turn(ladder := world.ladder(), for_us=200_000)
    good = onward(NAMES, TIER, _message(world), world.clock.now() + US_PER_S, world.clock.now())
    bad = {
        "headers": good._replace(headers=()),
        "due": good._replace(headers=((DUE, b"\xff"), (HOP, b"soon"))),
        "value": good._replace(value=b"\xc3\x01 no work"),
        "topic": onward(NAMES, TIER, _message(world, pool="gone"), world.clock.now() + 500 * MS, world.clock.now()),
    }[fault]
    world.append(bad)
    world.place(700 * MS)
    world.turn(ladder, for_us=3 * US_PER_S)
    [record] = world.new(NAMES.rejects)
    reject = decode_any(record.value or b"")
    assert isinstance(reject, Reject)
    assert (reject.role, reject.source.value, reject.source.headers) == ("retry-ladder", bad.value, bad.headers)
    assert max(world.lateness_us()) <= 4 * TICK_US
    assert world.lag() == 0


def test_lag_is_what_still_waits() -> None:
    world = World()
    world.turn(ladder := world.ladder(), for_us=200_000)
    world.turn(ladder, for_us=3 * US_PER_S)
    assert world.lag() == 0
    world.place(20 * US_PER_S)
    world.turn(ladder, for_us=3 * US_PER_S)
    assert world.lag() == 1
    world.turn(ladder, for_us=20 * US_PER_S)
    assert world.lag() == 0
    assert ladder.ready


def test_a_clock_that_steps_back_makes_nothing_early() -> None:
    world = World()
    world.turn(ladder := world.ladder(), for_us=200_000)
    run_id = world.place(3 * US_PER_S)
    world.turn(ladder, for_us=US_PER_S)
    world.clock.jump(-10 * US_PER_S)
    world.turn(ladder, for_us=11 * US_PER_S)
    assert not world.arrived
    world.turn(ladder, for_us=3 * US_PER_S)
    assert world.arrived[run_id][0] >= world.due[run_id]


@pytest.mark.parametrize(
    "fate", [CommitFate.UNANSWERED, CommitFate.LOST, CommitFate.ABORTS, CommitFate.DOUBLED], ids=lambda fate: fate.name
)
@pytest.mark.parametrize("commit", range(5))
def test_doubtful_commits_neither_lose_nor_double_a_record(fate: CommitFate, commit: int) -> None:
    world = World()
    world.turn(ladder := world.ladder(), for_us=200_000)
    fates = world.cluster.faults
    for _ in range(commit):
        fates.next_commit("waterclock.retry-ladder.retry-router-1", CommitFate.LANDS)
    fates.next_commit("waterclock.retry-ladder.retry-router-1", fate)
    for wait_us in (100 * MS, 1_500 * MS, 900 * MS, 6_200 * MS):
        world.place(wait_us)
        world.turn(ladder, for_us=300_000)
    world.turn(ladder, for_us=12 * US_PER_S)
    assert min(world.lateness_us()) >= 0
    assert world.lag() == 0


def crash_at(call: int) -> Callable[[str, str], None]:
    """A plan: the router's process dies at its n-th port call."""
    calls = 0

    def on_call(client_id: str, _operation: str) -> None:
        nonlocal calls
        if client_id == "retry-router-1":
            calls += 1
            if calls == call:
                raise Killed("planned")

    return on_call


@pytest.mark.parametrize("call", [*range(1, 60), *range(60, 266, 7)])
def test_a_crash_at_any_call_neither_loses_nor_doubles_a_record(call: int) -> None:
    world = World()
    for number in range(12):
        world.place(number * 150 * MS + 1)
    world.cluster.faults.on_call = crash_at(call)

    def live() -> None:
        ladder = world.ladder()
        for _ in range(10):
            world.turn(ladder, for_us=400_000)
            world.place(300 * MS)

    with pytest.raises(Killed):
        live()
    world.cluster.kill("retry-router-1")
    world.cluster.faults.on_call = None
    world.turn(world.ladder(), for_us=15 * US_PER_S)
    assert min(world.lateness_us()) >= 0
    assert world.lag() == 0


def test_partitions_that_move_to_another_router_hand_everything_on_once() -> None:
    world = World(partitions=4)
    world.turn(one := world.ladder("retry-router-1"), for_us=200_000)
    for number in range(200):
        world.place(1 + number * 30 * MS, f"acme:job-{number % 13}")
    world.turn(one, for_us=2 * US_PER_S)
    two = world.ladder("retry-router-2")
    world.turn(one, two, for_us=15 * US_PER_S)
    assert min(world.lateness_us()) >= 0
    assert one.ready
    assert two.ready
    assert world.lag() == 0


def test_a_ladder_that_is_asked_to_stop_leaves_the_rest_to_its_successor() -> None:
    world = World()
    world.turn(first := world.ladder(), for_us=200_000)
    world.place(2 * US_PER_S)
    world.turn(first, for_us=US_PER_S)
    assert not first.drain()
    first.close()
    world.turn(world.ladder(), for_us=3 * US_PER_S)
    assert 0 <= world.lateness_us()[0] <= 6 * TICK_US


def test_the_bitmap_of_what_moved_on_survives_its_text() -> None:
    for moved in (set(), {8}, {9, 10, 400}, set(range(8, 20_000, 3))):
        text = moved_to_text(7, moved)
        assert len(text) <= 4_095
        assert moved_from_text(7, text) == moved
    assert moved_from_text(7, "") == set()
    assert moved_from_text(7, moved_to_text(7, {3, 7})) == set()


def test_every_rung_is_as_long_as_its_name_says() -> None:
    seconds = {"1s": 1, "5s": 5, "30s": 30, "2m": 120, "10m": 600, "1h": 3_600}
    assert {word: length // US_PER_S for word, length in RUNG_US.items()} == seconds


def _message(world: World, **parts: object) -> Outgoing:
    fire_at = world.clock.now()
    work = WorkRecord(make_run_id("acme:x", fire_at), fire_at, fire_at, 2, "acme:x", 1, Tier.HIGH, "default", "h", b"")
    return work_message(NAMES, work._replace(**parts))


def test_what_a_predecessor_moved_on_and_nobody_has_read_again_stays_moved() -> None:
    """The record before it moves on first: behind a position that stands at it the bitmap has no bit for it."""
    stand = Stand(PLACE, Committed(14, moved_to_text(14, {15, 16, 18})), 0, 100)
    stand.take(Record(*PLACE, 14, 0, b"k", b"v", ()), None)
    stand.next_offset = 15
    moved = stand.move_on(1)
    assert moved is not None
    assert moved.offset == 14
    due = stand.to_commit()
    assert due == Committed(17, moved_to_text(17, {18}))
    successor = Stand(PLACE, due, 0, 100)
    assert successor.next_offset == 17
    for offset in (17, 18):
        successor.take(Record(*PLACE, offset, 0, b"k", b"v", ()), None)
    assert [successor.move_on(1), successor.move_on(1)][1] is None


def test_the_open_round_of_a_router_that_died_makes_nothing_else_late() -> None:
    """Given a broker that ends it late: what it has a hand on is waited for, and the other partitions go on."""
    world = World(partitions=4)
    ladder, other = world.ladder("retry-router-1"), world.ladder("retry-router-2")
    world.turn(ladder, other, for_us=US_PER_S)
    consumer = other._rungs[0].consumer
    (held, *_) = sorted(consumer.owned())
    died = MemoryLog(world.cluster, "retry-router-2", transaction_timeout_s=60.0).producer(
        NAMES.transactional_id("retry-ladder", "retry-router-2")
    )
    died.init(1.0)
    died.begin()
    died.send_offsets({held: Committed(0)}, consumer.metadata())
    world.turn(ladder, for_us=15 * US_PER_S)
    jobs = [f"acme:job-{number}" for number in range(40)]
    for job_id in jobs:
        if partition_of(job_id, 4) != held.partition:
            world.place(1_500 * MS, job_id)
            world.place(7 * US_PER_S, job_id)
    world.turn(ladder, for_us=10 * US_PER_S)
    assert max(world.lateness_us()) <= US_PER_S
    died.abort(1.0)
    for job_id in jobs:
        world.place(1_500 * MS, job_id)
    world.turn(ladder, for_us=4 * US_PER_S)
    assert max(world.lateness_us()) <= US_PER_S


def test_what_a_dead_router_holds_back_of_all_rungs_is_not_asked_for_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given that each question in vain takes all of its wait: what ends meanwhile goes on between them."""
    world = World(partitions=4)
    ladder, other = world.ladder("retry-router-1"), world.ladder("retry-router-2")
    world.turn(ladder, other, for_us=10 * US_PER_S)
    died = MemoryLog(world.cluster, "retry-router-2", transaction_timeout_s=600.0).producer(
        NAMES.transactional_id("retry-ladder", "retry-router-2")
    )
    died.init(1.0)
    died.begin()
    held = {place.partition for place in other._rungs[0].consumer.owned()}
    for rung in other._rungs:
        died.send_offsets(dict.fromkeys(rung.consumer.owned(), Committed(0)), rung.consumer.metadata())
    right = MemoryConsumer.committed

    def committed(self: MemoryConsumer, places: Sequence[TopicPartition], timeout_s: float) -> Any:
        try:
            return right(self, places, timeout_s)
        except BackendDown:
            world.clock.advance(int(timeout_s * US_PER_S))
            raise

    monkeypatch.setattr(MemoryConsumer, "committed", committed)
    jobs = [job_id for number in range(40) if partition_of(job_id := f"acme:job-{number}", 4) not in held]
    for number in range(200):
        world.place(1_500 * MS, jobs[number % len(jobs)])
        world.turn(ladder, for_us=100 * MS)
    world.turn(ladder, for_us=5 * US_PER_S)
    assert max(world.lateness_us()) <= US_PER_S
