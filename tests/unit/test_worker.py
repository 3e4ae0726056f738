"""The worker on in-memory ports: what it promises when all goes well. What it did is read back from the log."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import itertools

from worker_world import PARTITIONS, World

from waterclock.log.memory import CommitFate
from waterclock.log.port import Outgoing, TopicPartition
from waterclock.model.events import EventKind, LeaseKind, Outcome, Started
from waterclock.model.ids import offset_of
from waterclock.model.job import Tier
from waterclock.wire.codec import decode_event


def test_every_run_is_claimed_once_and_its_outcome_is_recorded_once() -> None:
    world = World()
    worker, executors = world.worker(slots=4)
    run_ids = sorted(world.fire(30) + world.fire(10, Tier.HIGH) + world.fire(10, Tier.LOW))
    for _ in range(60):
        world.turn(worker)
        executors.end_all()
    assert world.started() == run_ids
    assert world.succeeded() == run_ids
    assert sorted(attempt.work.run_id for attempt in executors.submitted) == run_ids


def test_user_code_sees_a_run_only_after_its_claim_is_committed() -> None:
    world = World()
    worker, executors = world.worker()
    submit = executors.submit
    seen: list[list[str]] = []

    def submit_and_look(attempts):  # type: ignore[no-untyped-def]
        seen.append(world.started())
        submit(attempts)

    executors.submit = submit_and_look  # type: ignore[method-assign]
    run_ids = world.fire(3)
    world.settle(worker)
    assert seen == [sorted(run_ids)]


def test_the_fencing_token_is_the_offset_of_the_committed_claim() -> None:
    world = World()
    worker, executors = world.worker()
    world.fire(5)
    world.settle(worker)
    offsets = {}
    for record in world.dump(world.names.run_events):
        event = decode_event(record.value or b"")
        if event.kind is EventKind.STARTED:
            offsets[event.run_id] = record.offset
    assert {attempt.work.run_id: offset_of(attempt.token) for attempt in executors.running} == offsets


def test_a_claim_names_the_work_record_and_the_incarnation() -> None:
    world = World()
    worker, executors = world.worker()
    world.fire(1, Tier.HIGH)
    world.settle(worker)
    executors.end_all()
    world.settle(worker)
    started, ended = world.events(EventKind.STARTED, EventKind.ATTEMPT_SUCCEEDED)
    work = next(record for record in world.dump(world.names.runs(Tier.HIGH)))
    assert started.detail == Started(work.topic, work.partition, work.offset)
    assert (started.worker, started.incarnation) == ("worker-1", 0)
    assert (ended.worker, ended.incarnation, ended.token) == ("worker-1", 0, executors.submitted[0].token)


def test_a_failed_attempt_says_so() -> None:
    world = World()
    worker, executors = world.worker()
    world.fire(1)
    world.settle(worker)
    executors.end(executors.running[0], Outcome.FAILED)
    world.settle(worker)
    assert len(world.events(EventKind.ATTEMPT_FAILED)) == 1


def test_no_more_is_held_than_there_are_worker_slots() -> None:
    world = World()
    worker, executors = world.worker(slots=3)
    world.fire(10)
    world.settle(worker, 10)
    assert len(executors.running) == 3
    executors.end(executors.running[0])
    world.settle(worker, 3)
    assert len(executors.running) == 3
    assert len(executors.submitted) == 4


def test_what_ends_frees_its_slot_in_the_round_that_records_it() -> None:
    world = World()
    worker, executors = world.worker(slots=2)
    world.fire(4)
    world.settle(worker)
    executors.end_all()
    world.turn(worker)
    assert len(world.succeeded()) == 2
    assert len(executors.running) == 2


def test_low_never_starves_while_high_has_work() -> None:
    world = World()
    worker, executors = world.worker(slots=1)
    world.fire(60, Tier.HIGH)
    low = world.fire(2, Tier.LOW)
    for _ in range(35):  # of fifteen slots that are free while both have work LOW takes one
        world.turn(worker)
        executors.end_all()
    succeeded = set(world.succeeded())
    assert set(low) <= succeeded
    assert len(succeeded) <= 35, "HIGH, with its sixty, has work still"


def test_offsets_of_all_tiers_ride_in_the_round_that_claims() -> None:
    world = World()
    worker, executors = world.worker(slots=30)
    world.settle(worker)
    for tier in Tier:
        world.fire(4, tier)
    world.turn(worker)
    assert len(executors.running) == 12
    assert [world.lag(tier) for tier in Tier] == [0, 0, 0]


def test_a_round_that_fails_moves_no_position_and_claims_nothing() -> None:
    world = World()
    worker, executors = world.worker(slots=30)
    world.settle(worker)
    for tier in Tier:
        world.fire(4, tier)
    _abort_next(world)
    world.turn(worker)
    assert executors.submitted == []
    assert world.started() == []
    assert [world.lag(tier) for tier in Tier] == [4, 4, 4]


def test_undecodable_work_goes_to_rejects_as_it_was_and_stops_nobody() -> None:
    world = World()
    worker, executors = world.worker()
    topic = world.names.runs(Tier.HIGH)
    headers = (("content-type", b"text/plain"),)
    offset = world.put(Outgoing(topic, b"k", b"\xc3\x01not work", headers, partition=0))
    world.put(Outgoing(topic, b"k", None, (), partition=0))
    run_ids = world.fire(3, Tier.HIGH)
    world.settle(worker)
    assert sorted(attempt.work.run_id for attempt in executors.running) == sorted(run_ids)
    bad, empty = world.rejects()
    assert bad.role == "worker"
    assert (bad.source.offset, bad.source.value, bad.source.headers) == (offset, b"\xc3\x01not work", headers)
    assert "without a value" in empty.reason
    assert world.lag(Tier.HIGH) == 0


def test_an_idle_worker_brings_the_lag_to_zero_past_markers() -> None:
    world = World()
    worker, _ = world.worker()
    world.settle(worker)
    producer = world.outside.producer("somebody")
    producer.init(1.0)
    for partition in range(PARTITIONS):
        producer.begin()
        producer.append(Outgoing(world.names.runs(Tier.LOW), b"k", b"aborted", (), partition))
        producer.abort(1.0)
    assert world.lag(Tier.LOW) == 2 * PARTITIONS
    world.clock.advance(5_000_000)
    world.settle(worker)
    assert world.lag(Tier.LOW) == 0


def test_an_idle_worker_makes_no_rounds() -> None:
    world = World()
    worker, _ = world.worker()
    world.turn(worker, count=300)
    places = [TopicPartition(world.names.run_events, number) for number in range(PARTITIONS)]
    assert [world.outside.high_watermark(place) for place in places] == [0, 0]
    assert not any(worker.step() for _ in range(20))


def test_a_group_without_a_position_commits_one_at_once() -> None:
    world = World()
    worker, _ = world.worker()
    world.settle(worker, 2)
    group = world.cluster.group(world.names.worker_group(Tier.LOW))
    assert all(group.committed(TopicPartition(world.names.runs(Tier.LOW), number)) for number in range(PARTITIONS))


def test_a_lost_position_is_rebuilt_behind_the_newest_claim() -> None:
    world = World()
    first, executors = world.worker("worker-1")
    done = world.fire(6)
    world.settle(first)
    executors.end_all()
    world.settle(first)
    world.cluster.kill("worker-1/")
    left = world.fire(3)
    _forget_positions(world, Tier.MEDIUM)
    second, others = world.worker("worker-1", client="second")
    world.clock.advance(11_000_000)
    world.settle(second)
    assert sorted(attempt.work.run_id for attempt in others.submitted) == sorted(left)
    assert set(world.started()) == set(done) | set(left)


def test_beats_carry_what_is_held() -> None:
    world = World()
    worker, executors = world.worker()
    world.fire(3)
    world.settle(worker)
    world.clock.advance(2_500_000)
    world.turn(worker)
    xor = 0
    for attempt in executors.running:
        xor ^= attempt.token
    assert (world.beats()[-1].held_count, world.beats()[-1].held_xor) == (3, xor)
    assert world.beats()[-1].transactional_id == "t.worker.worker-1"
    assert world.beats()[-1].slots == 8


def test_a_beat_goes_out_at_least_every_quarter_lease() -> None:
    world = World()
    worker, _ = world.worker()
    world.turn(worker, count=1_500)  # 30 s
    beaten = [beat.at for beat in world.beats()]
    assert len(beaten) >= 11
    assert max(after - before for before, after in itertools.pairwise(beaten)) <= 15_000_000 // 4


def test_a_drain_claims_nothing_more_and_records_what_ends() -> None:
    world = World()
    worker, executors = world.worker(slots=2)
    run_ids = world.fire(5)
    world.settle(worker)
    assert worker.drain()
    executors.end_all()
    while worker.drain():
        world.clock.advance(10_000)
    worker.close()
    assert len(world.succeeded()) == 2
    assert len(world.started()) == 2
    assert world.lag(Tier.MEDIUM) >= len(run_ids) - 2


def test_a_drain_leaves_what_outlives_the_grace_open() -> None:
    world = World()
    worker, executors = world.worker()
    world.fire(1)
    world.settle(worker)
    turns = 0
    while worker.drain():
        world.clock.advance(100_000)
        turns += 1
        assert turns < 200
    worker.close()
    assert turns >= 99
    assert world.events(EventKind.ATTEMPT_SUCCEEDED, EventKind.ATTEMPT_FAILED) == []
    assert executors.running == []


def test_a_full_worker_stays_in_its_groups() -> None:
    world = World()
    worker, executors = world.worker(slots=1)
    world.fire(2)
    world.settle(worker)
    world.turn(worker, count=1_000)  # 20 s without a free slot, twice the session
    other, _ = world.worker("worker-2")
    world.turn(worker, other, count=5)
    executors.end_all()
    world.turn(worker, other, count=10)
    assert len(world.succeeded()) == 1
    assert len(world.started()) == 2


def test_a_rebalance_moves_no_running_work() -> None:
    world = World()
    first, mine = world.worker("worker-1")
    world.fire(6)
    world.settle(first)
    held = list(mine.running)
    second, others = world.worker("worker-2")
    world.turn(first, second, count=20)
    mine.end_all()
    world.turn(first, second, count=5)
    assert others.submitted == []
    assert len(world.succeeded()) == len(held) == 6
    world.fire(10)
    world.turn(first, second, count=10)
    assert mine.submitted != held
    assert others.submitted


def test_work_is_claimed_once_across_rebalances() -> None:
    world = World()
    first, mine = world.worker("worker-1", slots=3)
    run_ids = sorted(world.fire(40))
    world.turn(first, count=3)
    second, others = world.worker("worker-2", slots=3)
    for _ in range(60):
        world.turn(first, second)
        mine.end_all()
        others.end_all()
    assert world.started() == run_ids
    assert world.succeeded() == run_ids
    assert others.submitted


def test_a_worker_announces_itself_in_a_transaction_of_its_own_id() -> None:
    world = World()
    worker, _ = world.worker(process="p1")
    world.settle(worker)
    (hello,) = world.leases()
    assert (hello.kind, hello.worker, hello.by) == (LeaseKind.HELLO, "worker-1", "p1")


def test_it_is_ready_once_it_lives_and_has_joined() -> None:
    world = World()
    worker, _ = world.worker()
    assert not worker.ready
    world.settle(worker)
    assert worker.ready


def _abort_next(world: World) -> None:
    world.cluster.faults.next_commit("t.worker.worker-1", CommitFate.ABORTS)


def _forget_positions(world: World, tier: Tier) -> None:
    """As if the group had expired."""
    world.cluster.group(world.names.worker_group(tier))._committed.clear()
