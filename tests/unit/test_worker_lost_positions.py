"""Positions that a worker's groups have lost: what is read for them, how long it may take, what goes on meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from position_world import DAY_US, count_events_read, go_away, places, positions_of, remove_work
from waterclock.workers.positions import ClaimedPositions
from worker_world import PARTITIONS, START, World

from waterclock.log.memory import CommitFate, MemoryLog
from waterclock.log.port import Consumer, TopicPartition
from waterclock.model.errors import BackendDown
from waterclock.model.events import EventKind, RunEvent, Started, WorkRecord
from waterclock.model.ids import US_PER_S, job_of_run, make_run_id, partition_of
from waterclock.model.job import Tier
from waterclock.wire.codec import decode_work
from waterclock.wire.messages import event_message, work_message

SESSION_US = 10 * US_PER_S


@pytest.fixture
def events_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return count_events_read(monkeypatch)


class SlowLog:
    """Reading takes its time: ten records and a tenth of a second for each time that worker-1 looks."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.others: list[Callable[[], object]] = []
        """Happens every few seconds."""
        self.looks = 0
        world.cluster.faults.on_poll = lambda asked: min(asked, 10)
        world.cluster.faults.on_call = self._on_call

    def _on_call(self, client: str, operation: str) -> None:
        if operation == "read" and client.startswith("worker-1"):
            self.looks += 1
            self._world.clock.advance(US_PER_S // 10)
            if self.looks % 30 == 0:
                for other in self.others:
                    other()


def forget_positions(world: World, tier: Tier = Tier.MEDIUM) -> None:
    """As if the group had expired."""
    world.cluster.group(world.names.worker_group(tier))._committed.clear()


def events_count(world: World) -> int:
    return len(world.events())


def _put_event(world: World, kind: EventKind, run_id: str, attempt: int, place: TopicPartition, offset: int) -> None:
    detail = Started(place.topic, place.partition, offset) if kind is EventKind.STARTED else None
    event = RunEvent(kind, run_id.partition("@")[0], run_id, world.clock.now(), attempt, "w", 0, 0, detail=detail)
    world.put(event_message(world.names, event))


def test_a_retry_is_not_run_again_where_its_run_began_before_what_is_read() -> None:
    """Given the claim of a second attempt, whose run's first events are older than all work that is kept."""
    world = World()
    (run_id,) = world.fire(1)
    (first,) = world.dump(world.names.runs(Tier.MEDIUM))
    place = TopicPartition(first.topic, first.partition)
    _put_event(world, EventKind.STARTED, run_id, 1, place, first.offset)
    world.cluster.delete_records(place, first.offset + 1)
    world.clock.advance(31 * DAY_US)
    for number in range(PARTITIONS):  # retention of run-events
        events = TopicPartition(world.names.run_events, number)
        world.cluster.delete_records(events, world.outside.high_watermark(events))
    job_id = run_id.partition("@")[0]
    again = WorkRecord(run_id, START, START, 2, job_id, 1, Tier.MEDIUM, "default", "noop", b"")
    offset = world.put(work_message(world.names, again))
    _put_event(world, EventKind.STARTED, run_id, 2, place, offset)
    fresh = world.fire(2)
    worker, executors = world.worker()
    world.settle(worker)
    assert sorted(attempt.work.run_id for attempt in executors.submitted) == sorted(fresh)


def test_a_claim_that_did_not_count_was_made_all_the_same() -> None:
    """Given a run that was cancelled before its claim, the last of its partition, then it is not claimed once more."""
    world = World()
    first, _ = world.worker(client="first")
    run_ids = world.fire(6)
    for run_id in run_ids:
        world.cancel(run_id)
    world.settle(first)
    assert world.started() == sorted(run_ids)
    world.cluster.kill("first")
    forget_positions(world)
    second, _ = world.worker(client="second")
    world.clock.advance(SESSION_US + US_PER_S)
    world.settle(second)
    assert world.started() == sorted(run_ids)
    assert world.lag(Tier.MEDIUM) == 0


def _lost(world: World, claimed: int) -> list[str]:
    """So many runs were claimed and done; then the group has lost its positions."""
    first, executors = world.worker("worker-0", slots=claimed)
    world.settle(first)
    done = world.fire(claimed)
    world.settle(first)
    executors.end_all()
    world.settle(first)
    assert world.succeeded() == sorted(done)
    go_away(first)
    forget_positions(world)
    return done


MANY = 1_500
"""Claims; with what goes with them 4,500 events, for which a slow log takes 45 s: some sessions, and three leases."""


def test_a_worker_that_reads_for_long_beats_and_stays_in_its_groups() -> None:
    """Given a reading that outlasts lease and session by far, then neither is lost, and it comes to its end."""
    world = World()
    done = _lost(world, claimed=MANY)
    worker, executors = world.worker(slots=5)
    left = world.fire(3)
    log, began_at, turns = SlowLog(world), world.clock.now(), 0
    while not executors.running:
        world.turn(worker)
        turns += 1
        assert turns < 500
    assert world.clock.now() - began_at > 4 * SESSION_US, "it was soon over, so this proves nothing"
    assert log.looks > 400
    assert sorted(attempt.work.run_id for attempt in executors.submitted) == sorted(left)
    assert world.started() == sorted(done + left)
    assert world.cluster.group(world.names.worker_group(Tier.MEDIUM)).generation == 3, "join, leave, join"
    beaten = [beat.at for beat in world.beats() if beat.worker == "worker-1"]
    assert max(after - before for before, after in pairwise(beaten)) <= 4 * US_PER_S
    assert [lease.worker for lease in world.leases()] == ["worker-0", "worker-1"]


def test_what_has_a_position_goes_on_while_others_wait_for_theirs() -> None:
    """Given one tier that has lost its positions, then the others are served, and what ends is recorded."""
    world = World()
    _lost(world, claimed=MANY)
    worker, executors = world.worker(slots=5)
    left = world.fire(2)
    SlowLog(world)
    world.turn(worker, count=4)
    high = world.fire(3, Tier.HIGH)
    world.turn(worker, count=2)
    assert sorted(attempt.work.run_id for attempt in executors.running) == sorted(high)
    executors.end_all()
    world.turn(worker, count=2)
    assert set(high) <= set(world.succeeded())
    assert positions_of(world) == [None] * PARTITIONS, "the reading was over, so this proves nothing"
    world.turn(worker, count=120)
    assert sorted(attempt.work.run_id for attempt in executors.running) == sorted(left)


class Neighbour:
    """Another member of the group of a tier, that takes nothing. It comes and goes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._log = MemoryLog(world.cluster, "neighbour")
        self._consumer: Consumer | None = None
        self.owned: frozenset[TopicPartition] = frozenset()

    def poll(self) -> None:
        if self._consumer is None:
            names = self._world.names
            group, topic = names.worker_group(Tier.MEDIUM), names.runs(Tier.MEDIUM)
            self._consumer = self._log.consumer(group, [topic], instance="a-neighbour")
        self._consumer.poll(0, 0.0)
        self.owned = self._consumer.owned()

    def go(self) -> None:
        if self._consumer is not None:
            self._consumer.close(leave=True)
        self._consumer, self.owned = None, frozenset()


def test_a_rebalance_does_not_wait_for_the_reading() -> None:
    world = World()
    _lost(world, claimed=MANY)
    worker, _ = world.worker()
    world.fire(2)
    log, neighbour = SlowLog(world), Neighbour(world)
    log.others.append(neighbour.poll)
    while log.looks < 150:
        world.turn(worker)
    assert len(neighbour.owned) == PARTITIONS // 2
    assert positions_of(world) == [None] * PARTITIONS, "the reading was over, so this proves nothing"


def test_what_was_read_is_kept_whatever_becomes_of_memberships_and_incarnations(events_read: list[int]) -> None:
    """Given members that come and go meanwhile, a round that fails and a lost lease, then no event is read twice."""
    world = World()
    _lost(world, claimed=MANY)
    worker, _ = world.worker(slots=5)
    left = world.fire(3)
    log, neighbour = SlowLog(world), Neighbour(world)
    log.others.append(lambda: neighbour.go() if log.looks % 120 == 0 else neighbour.poll())
    troubles = [(100, lambda: world.cluster.faults.next_commit("t.worker.worker-1", CommitFate.ABORTS))]
    troubles += [(101, lambda: world.fire(1, Tier.HIGH)), (250, lambda: world.clock.advance(15 * US_PER_S))]
    while log.looks < 400:
        world.turn(worker)
        while troubles and log.looks > troubles[0][0]:
            troubles.pop(0)[1]()
    assert positions_of(world) == [None] * PARTITIONS, "the reading was over, so this proves less"
    assert world.cluster.group(world.names.worker_group(Tier.MEDIUM)).generation > 5
    log.others.clear()
    neighbour.go()
    world.turn(worker, count=100)
    assert len([lease for lease in world.leases() if lease.worker == "worker-1"]) == 2
    assert set(left) <= set(world.started())
    assert len(world.started()) == len(set(world.started()))
    assert len(events_read) <= events_count(world)


def test_what_others_have_claimed_since_is_read_as_well(events_read: list[int]) -> None:
    """Given claims that stand behind the end of what was read, then none of them is handed out again."""
    world = World()
    _lost(world, claimed=40)
    world.fire(2)
    worker, executors = world.worker(slots=2)
    world.turn(worker, count=40)
    assert len(executors.running) == 2
    before = len(events_read)
    for place in places(world):  # somebody else claims, in one round with no position that is still known
        offset = world.outside.high_watermark(place)
        at = world.clock.now()
        run_id = make_run_id("acme:x", at)
        work = WorkRecord(run_id, at, at, 1, "acme:x", 1, Tier.MEDIUM, "default", "noop", b"")
        world.put(work_message(world.names, work)._replace(partition=place.partition))
        _put_event(world, EventKind.STARTED, run_id, 1, place, offset)
    forget_positions(world)
    world.clock.advance(SESSION_US * 2)  # put out of its groups
    executors.end_all()
    world.turn(worker, count=40)
    assert len(executors.submitted) == 2
    assert len(events_read) - before < 20, "not from the beginning"
    assert world.lag(Tier.MEDIUM) == 0


def test_a_claim_by_a_clock_that_is_some_seconds_slow_is_found() -> None:
    """Given its record time before that of its work, and nothing else behind that in run-events."""
    world = World()
    world.clock.advance(DAY_US)
    at = world.clock.now()
    run_id = make_run_id("acme:x", at)
    work = work_message(world.names, WorkRecord(run_id, at, at, 1, "acme:x", 1, Tier.MEDIUM, "default", "noop", b""))
    place = world.cluster.place_of(work)
    offset = world.put(work)
    claim = Started(place.topic, place.partition, offset)
    started = event_message(world.names, RunEvent(EventKind.STARTED, "acme:x", run_id, at, 1, "w", detail=claim))
    events = world.cluster.partition(world.cluster.place_of(started))
    events.append(at - 9 * US_PER_S, started.key, started.value, started.headers, None)
    worker, executors = world.worker()
    world.settle(worker)
    assert executors.submitted == []
    assert world.lag(Tier.MEDIUM) == 0


def test_retention_that_passes_what_is_still_to_be_read_holds_nothing_up() -> None:
    """Where run-events are kept for less long than work: what has no claim any more is handed out again."""
    world = World()
    _lost(world, claimed=200)
    worker, executors = world.worker(slots=300)
    left = world.fire(3)
    world.cluster.faults.on_poll = lambda asked: min(asked, 10)
    world.turn(worker, count=2)
    for number in range(PARTITIONS):
        events = TopicPartition(world.names.run_events, number)
        world.cluster.delete_records(events, world.outside.high_watermark(events) - 20)
    world.turn(worker, count=60)
    assert set(left) <= {attempt.work.run_id for attempt in executors.submitted}
    assert len(world.leases()) == 2


@pytest.mark.parametrize("removed", [False, True])
def test_positions_that_are_lost_under_a_worker_cost_nothing_that_retention_has_left(removed: bool) -> None:
    """Given partitions that were being read, then no client goes on in them where it stood before the trouble."""
    world = World()
    worker, executors = world.worker(slots=8)
    world.settle(worker)
    done = world.fire(8)
    world.settle(worker)
    waiting = world.fire(8)
    forget_positions(world)
    if removed:
        world.turn(worker, count=100)
        remove_work(world, Tier.MEDIUM, keep=2)
        waiting = [decode_work(record.value or b"").run_id for record in world.dump(world.names.runs(Tier.MEDIUM))]
    executors.end_all()
    world.cluster.faults.next_commit("t.worker.worker-1", CommitFate.ABORTS)
    world.cluster.faults.on_poll = lambda asked: min(asked, 1)  # the reading goes on for some turns
    later = []
    for _ in range(6):
        world.turn(worker)
        later += world.fire(1)
        executors.end_all()
    for _ in range(60):
        world.turn(worker)
        executors.end_all()
    assert world.started() == sorted(done + waiting + later)
    assert sorted(attempt.work.run_id for attempt in executors.submitted) == sorted(done + waiting + later)
    assert world.lag(Tier.MEDIUM) == 0
    assert len(world.leases()) == 1


def test_the_reading_goes_on_where_trouble_left_it(events_read: list[int]) -> None:
    world = World()
    _lost(world, claimed=200)
    worker, executors = world.worker(slots=5)
    left = world.fire(3)
    troubles = []

    def hiccup(client: str, operation: str) -> None:
        if client.startswith("worker-1") and operation == "read" and len(events_read) >= 50 * (len(troubles) + 1):
            troubles.append(len(events_read))
            raise BackendDown("kafka", "no answer")

    world.cluster.faults.on_call = hiccup
    world.cluster.faults.on_poll = lambda asked: min(asked, 10)
    world.turn(worker, count=300)
    assert len(troubles) >= 5
    assert sorted(attempt.work.run_id for attempt in executors.submitted) == sorted(left)
    assert len(events_read) <= events_count(world)


def test_of_an_older_question_only_what_is_older_is_read(events_read: list[int]) -> None:
    """Given a tier whose oldest work is younger than another's, when both ask, one after the other."""
    world = World()
    world.fire(50, Tier.LOW)
    world.clock.advance(DAY_US)
    world.fire(30, Tier.HIGH)
    claimed = ClaimedPositions(world.outside, world.names.run_events)
    for tier, expected in ((Tier.HIGH, 30), (Tier.LOW, 80), (Tier.HIGH, 80), (Tier.LOW, 80)):
        claimed.ask(places(world, tier))
        for _ in range(20):
            claimed.look()
        assert claimed.is_read
        assert len(events_read) == expected
    world.fire(5, Tier.HIGH)
    claimed.ask(places(world, Tier.HIGH))
    for _ in range(20):
        claimed.look()
    assert len(events_read) == 85


def test_nothing_is_said_before_all_was_read() -> None:
    world = World()
    world.cluster.faults.on_poll = lambda asked: min(asked, 10)
    world.fire(100)
    claimed = ClaimedPositions(world.outside, world.names.run_events)
    assert claimed.is_read
    claimed.ask(places(world))
    looks = 0
    while not claimed.is_read:
        with pytest.raises(AssertionError):
            claimed.next_offset(places(world)[0])
        claimed.look()
        looks += 1
        assert looks < 100
    assert looks >= 2
    assert [claimed.next_offset(place) for place in places(world)] == [0, 0]
    claimed.close()


def test_no_lag_is_left_where_another_partition_begins_later() -> None:
    """Given a marker behind the last run of a partition, and one whose position has to be rebuilt: to begin there the
    client assigns all anew, and of what it has passed before it tells no position any more."""
    world = World()
    first, executors = world.worker(slots=40)
    world.settle(first)
    for run_ids in (world.fire(30), world.fire(1)):
        world.settle(first)
        executors.end_all()
        world.settle(first)
        last = run_ids[-1]
    go_away(first)
    (place,) = (each for each in places(world) if each.partition == partition_of(job_of_run(last), PARTITIONS))
    group = world.cluster.group(world.names.worker_group(Tier.MEDIUM))
    others = [each for each in places(world) if each != place]
    for each in others:
        group._committed.pop(each)
    world.fire(30, job="acme:other")  # else they begin at their end, without being read for
    slow = SlowLog(world)
    partition = world.cluster.partition(place)
    partition.end(partition.open_span(), world.clock.now(), commit=True)
    second, executors = world.worker(client="worker-1 again", slots=40)
    world.turn(second, count=4, us=10_000)
    assert slow.looks
    for _ in range(40):
        world.turn(second, count=10, us=100_000)
        executors.end_all()
    assert world.lag(Tier.MEDIUM) == 0
