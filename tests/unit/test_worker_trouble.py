"""The worker when something is lost: a round, a broker's answer, its id, its lease, its life."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from waterclock.workers.heartbeat import Beats, Pulse
from waterclock.workers.incarnation import TwinLives
from waterclock.workers.lease_watch import LeaseWatch
from waterclock.workers.loop import Worker
from waterclock.workers.slots import Slots
from worker_world import HandExecutors, World

from waterclock.log.memory import CommitFate
from waterclock.log.memory_consumer import MemoryReader
from waterclock.log.memory_producer import MemoryProducer
from waterclock.log.port import Outgoing, Ticket, TopicPartition
from waterclock.model.errors import BackendDown, LeaseLost
from waterclock.model.events import EventKind, Lease, LeaseKind
from waterclock.model.fold import Fold
from waterclock.model.job import Tier
from waterclock.wire.codec import decode_event
from waterclock.wire.messages import lease_message

ID = "t.worker.worker-1"


def _work_off(world: World, worker: Worker, executors: HandExecutors, turns: int = 12) -> None:
    for _ in range(turns):
        world.turn(worker)
        executors.end_all()
    world.turn(worker, count=3)


def _accepted(world: World) -> dict[str, int]:
    """Accepted claims and outcomes per run, judged by the reducer over the log."""
    count: dict[str, int] = {}
    folds: dict[int, Fold[None]] = {}
    for record in world.dump(world.names.run_events):
        event = decode_event(record.value or b"")
        if folds.setdefault(record.partition, Fold()).apply(event, record.offset).accepted:
            count[event.run_id] = count.get(event.run_id, 0) + (event.kind is not EventKind.PENDING)
    return count


def _each_once(world: World, run_ids: list[str]) -> None:
    """One accepted STARTED and one accepted outcome for every run, and no second one of either in the log."""
    assert _accepted(world) == dict.fromkeys(run_ids, 2)
    assert world.started() == sorted(run_ids)
    assert world.succeeded() == sorted(run_ids)


@pytest.mark.parametrize("fate", [CommitFate.ABORTS, CommitFate.LOST, CommitFate.UNANSWERED, CommitFate.DOUBLED])
@pytest.mark.parametrize("round_number", [0, 1, 2])
def test_every_run_is_done_once_whatever_becomes_of_one_commit(fate: CommitFate, round_number: int) -> None:
    """Given a worker that lives, when any one of its rounds meets trouble, then each run is claimed and done once."""
    world = World()
    worker, executors = world.worker(slots=4)
    world.settle(worker)
    for _ in range(round_number):
        world.cluster.faults.next_commit(ID, CommitFate.LANDS)
    world.cluster.faults.next_commit(ID, fate)
    run_ids = world.fire(6) + world.fire(2, Tier.HIGH)
    _work_off(world, worker, executors)
    assert [attempt.work.run_id for attempt in executors.submitted].count(run_ids[0]) == 1
    _each_once(world, run_ids)
    assert executors.forgotten_count == 0


def test_claims_of_an_aborted_round_are_void_and_run_once_later() -> None:
    world = World()
    worker, executors = world.worker()
    world.settle(worker)
    world.cluster.faults.next_commit(ID, CommitFate.ABORTS)
    run_ids = world.fire(4)
    world.turn(worker)
    assert executors.submitted == []
    world.turn(worker)
    assert sorted(attempt.work.run_id for attempt in executors.submitted) == sorted(run_ids)
    assert world.started() == sorted(run_ids)


def test_claims_of_a_doubtful_round_that_landed_run_under_the_tokens_of_that_round() -> None:
    world = World()
    worker, executors = world.worker()
    world.settle(worker)
    world.cluster.faults.next_commit(ID, CommitFate.UNANSWERED)
    world.fire(4)
    world.turn(worker)
    assert executors.submitted == []
    world.turn(worker)
    tokens = {attempt.token for attempt in executors.running}
    claims = [r.offset for r in world.dump(world.names.run_events) if decode_event(r.value or b"").attempt == 1]
    assert len(executors.running) == 4
    assert tokens == set(claims)


def test_claims_of_a_doubtful_round_that_did_not_land_are_void() -> None:
    world = World()
    worker, executors = world.worker()
    world.settle(worker)
    world.cluster.faults.next_commit(ID, CommitFate.LOST)
    run_ids = world.fire(4)
    world.turn(worker)
    assert executors.submitted == []
    world.turn(worker, count=2)
    assert sorted(attempt.work.run_id for attempt in executors.submitted) == sorted(run_ids)
    assert world.started() == sorted(run_ids)


@pytest.mark.parametrize("fate", [CommitFate.ABORTS, CommitFate.LOST])
def test_outcomes_survive_a_round_that_did_not_land(fate: CommitFate) -> None:
    world = World()
    worker, executors = world.worker()
    run_ids = world.fire(3)
    world.settle(worker)
    executors.end_all()
    world.cluster.faults.next_commit(ID, fate)
    world.turn(worker)
    assert world.succeeded() == []
    world.turn(worker, count=3)
    assert world.succeeded() == sorted(run_ids)


def test_outcomes_of_a_doubtful_round_that_landed_are_not_sent_again() -> None:
    world = World()
    worker, executors = world.worker()
    run_ids = world.fire(3)
    world.settle(worker)
    executors.end_all()
    world.cluster.faults.next_commit(ID, CommitFate.UNANSWERED)
    world.turn(worker, count=5)
    assert world.succeeded() == sorted(run_ids)


def test_doubt_stays_doubt_while_nobody_answers() -> None:
    """Given a doubtful round that landed, when reading it back fails a few times, then its claims still run once."""
    world = World()
    worker, executors = world.worker()
    world.settle(worker)
    world.cluster.faults.next_commit(ID, CommitFate.UNANSWERED)
    run_ids = world.fire(3)
    world.turn(worker)

    def no_reads(_: str, operation: str) -> None:
        if operation in {"read", "high_watermark"}:
            raise BackendDown("kafka", "no answer")

    world.cluster.faults.on_call = no_reads
    world.turn(worker, count=20)
    assert executors.submitted == []
    world.cluster.faults.on_call = None
    world.turn(worker, count=60)
    assert sorted(attempt.work.run_id for attempt in executors.submitted) == sorted(run_ids)
    assert world.started() == sorted(run_ids)


def test_a_restart_begins_a_new_incarnation_and_drops_nothing_of_the_unclaimed() -> None:
    world = World()
    first, executors = world.worker(slots=2, client="first")
    world.fire(6)
    world.settle(first)
    claimed = set(world.started())
    world.cluster.kill("first")
    second, others = world.worker(slots=8, client="second")
    world.settle(second)
    assert {attempt.work.run_id for attempt in others.submitted}.isdisjoint(claimed)
    assert len(world.started()) == 6
    assert [lease.kind for lease in world.leases()] == [LeaseKind.HELLO, LeaseKind.HELLO]
    assert executors.running


def test_a_twin_makes_the_older_one_exit_and_it_says_which_id_and_why() -> None:
    world = World()
    first, mine = world.worker(process="first")
    world.fire(2)
    world.settle(first)
    second, _ = world.worker(process="second")
    second.step()
    with pytest.raises(TwinLives, match=r"t\.worker\.worker-1 belongs to another process.*Either.*or"):
        world.turn(first, count=200)
    assert mine.forgotten_count == 1
    world.turn(second, count=10)
    assert [lease.by for lease in world.leases()] == ["first", "second"]


def test_a_fenced_worker_never_fences_its_twin_back() -> None:
    """Given a worker whose round is fenced by a twin's init, when it looks, then it exits and the twin goes on."""
    world = World()
    first, mine = world.worker(process="first")
    world.settle(first)
    second, others = world.worker(process="second")
    second.step()
    world.fire(2)
    with pytest.raises(TwinLives):
        world.turn(first, count=3)
    assert mine.submitted == []
    world.turn(second, count=5)
    assert len(others.submitted) == 2


@pytest.mark.parametrize("busy", [True, False])
def test_a_hello_of_another_process_is_never_answered_with_an_init(busy: bool) -> None:
    """Given a twin that has said HELLO and not yet joined, when we send or look, then we exit and it is not fenced."""
    world = World()
    worker, executors = world.worker(process="first")
    world.fire(1)
    world.settle(worker)
    twin = _say(world, LeaseKind.HELLO, "second")
    if busy:
        executors.end_all()
    with pytest.raises(TwinLives, match="second"):
        world.turn(worker, count=100)
    assert executors.forgotten_count == 1
    assert world.succeeded() == []
    twin.begin()  # it still may
    twin.abort(1.0)


def test_a_stopped_worker_that_wakes_up_behind_its_replacement_exits() -> None:
    world = World()
    first, mine = world.worker(process="first")
    world.fire(1)
    world.settle(first)
    second, _ = world.worker(process="second")
    world.turn(second, count=1_000)  # 20 s: the lease of the first is long over
    first.step()
    assert mine.forgotten_count == 1
    with pytest.raises(TwinLives):
        world.turn(first, count=3)
    world.turn(second, count=2)
    assert [lease.by for lease in world.leases()] == ["first", "second"]


def test_a_zombie_start_cannot_announce_itself_over_a_living_worker() -> None:
    """Given a start that stands still before its HELLO, when a twin starts meanwhile, then that HELLO never lands."""
    world = World()
    zombie, _ = world.worker(process="zombie")
    living, executors = world.worker(process="living")
    stood = []

    def stand_still(client: str, operation: str) -> None:
        if client == "worker-1/zombie" and operation == "begin" and not stood:
            stood.append(client)
            living.step()

    world.cluster.faults.on_call = stand_still
    with pytest.raises(TwinLives):
        world.turn(zombie, count=5)
    world.fire(1)
    world.turn(living, count=4)
    assert stood
    assert [lease.by for lease in world.leases()] == ["living"]
    assert len(executors.running) == 1


def _say(world: World, kind: LeaseKind, by: str) -> MemoryProducer:
    """Init of the worker's id, then HELLO or FENCED in a transaction of it: what a twin or the lease keeper does."""
    producer = world.outside.producer(ID)
    producer.init(1.0)
    producer.begin()
    producer.append(lease_message(world.names, Lease(kind, "worker-1", world.clock.now(), by)))
    producer.commit(1.0)
    return producer


def test_a_worker_that_is_dead_on_leases_kills_its_runs_and_begins_anew() -> None:
    world = World()
    worker, executors = world.worker()
    run_ids = world.fire(2)
    world.settle(worker)
    ended = executors.running[0]
    executors.end(ended)
    _say(world, LeaseKind.FENCED, "keeper")
    world.turn(worker, count=5)
    assert executors.forgotten_count == 1
    assert world.succeeded() == []
    assert [lease.kind for lease in world.leases()] == [LeaseKind.HELLO, LeaseKind.FENCED, LeaseKind.HELLO]
    more = world.fire(2)
    _work_off(world, worker, executors)
    assert world.succeeded() == sorted(more)
    assert world.started() == sorted(run_ids + more)
    lives = {event.run_id: event.incarnation for event in world.events(EventKind.STARTED)}
    assert min(lives[run_id] for run_id in more) > max(lives[run_id] for run_id in run_ids)


def test_an_idle_worker_notices_that_it_was_fenced() -> None:
    world = World()
    worker, executors = world.worker()
    world.settle(worker)
    _say(world, LeaseKind.FENCED, "keeper")
    world.turn(worker, count=100)  # 2 s
    assert executors.forgotten_count == 1
    assert world.leases()[-1].kind is LeaseKind.HELLO


def test_a_worker_whose_leases_were_removed_unread_begins_anew_with_what_is_left() -> None:
    """It may have been fenced among them: it ends its life, and does not stand still until somebody restarts it."""
    world = World()
    worker, executors = world.worker()
    lost = world.fire(1)
    world.settle(worker)
    for partition in range(world.outside.partitions(world.names.leases)):
        place = TopicPartition(world.names.leases, partition)
        world.put(lease_message(world.names, Lease(LeaseKind.HELLO, "x", 0, "p"))._replace(partition=partition))
        world.cluster.delete_records(place, world.outside.high_watermark(place))
    world.turn(worker, count=200)  # 4 s
    assert executors.forgotten_count == 1
    more = world.fire(2)
    _work_off(world, worker, executors)
    assert world.succeeded() == sorted(more)
    assert world.started() == sorted(lost + more)


def test_a_worker_whose_leases_were_made_anew_believes_nothing_of_the_old_ones() -> None:
    """Given that it was fenced in the new topic, below where it stood in the old one."""
    world = World()
    for _ in range(5):
        world.put(lease_message(world.names, Lease(LeaseKind.HELLO, "w", 0, "p")))
    watch = LeaseWatch(world.outside, world.names.leases, "w", world.clock)
    assert watch.catch_up().hello >= 0
    partitions = world.outside.partitions(world.names.leases)
    world.cluster.delete_topic(world.names.leases)
    world.cluster.create_topic(world.names.leases, partitions, compact=True)
    world.put(lease_message(world.names, Lease(LeaseKind.FENCED, "w", 0, "p")))
    with pytest.raises(LeaseLost):
        watch.catch_up()
    standing = watch.catch_up()
    assert standing.fenced > standing.hello


def test_what_a_forgotten_attempt_returns_is_dropped() -> None:
    world = World()
    worker, executors = world.worker()
    world.fire(1)
    world.settle(worker)
    attempt = executors.running[0]
    _say(world, LeaseKind.FENCED, "keeper")
    world.turn(worker, count=50)
    executors.running.append(attempt)  # user code in a thread could not be stopped
    executors.end(attempt)
    world.turn(worker, count=5)
    assert world.succeeded() == []


def test_a_slow_worker_whose_transaction_timed_out_keeps_its_runs() -> None:
    """Fenced, but its own HELLO is the newest record: it was only slow, so it inits and goes on."""
    world = World()
    worker, executors = world.worker()
    run_ids = world.fire(2)
    world.settle(worker)
    executors.end_all()
    producer = world.outside.producer(ID)  # as the broker does at the time-out: the epoch is bumped, nothing is said
    producer.init(1.0)
    world.turn(worker, count=5)
    assert executors.forgotten_count == 0
    assert world.succeeded() == sorted(run_ids)
    assert len(world.leases()) == 1


def test_a_worker_that_cannot_beat_for_three_quarters_of_the_lease_stops_its_runs() -> None:
    world = World()
    worker, executors = world.worker()
    world.fire(2)
    world.settle(worker)
    beaten_at_s = world.clock.monotonic_s()

    def no_answer(client: str, _: str) -> None:
        if client != "outside":
            raise BackendDown("kafka", "no answer")

    world.cluster.faults.on_call = no_answer
    turns = 0
    while not executors.forgotten_count:
        world.turn(worker, us=50_000)
        turns += 1
        assert turns < 1_000
    assert 15.0 * 0.5 < world.clock.monotonic_s() - beaten_at_s <= 15.0 * 0.75 + 0.5
    world.cluster.faults.on_call = None
    world.turn(worker, count=200)
    assert [lease.kind for lease in world.leases()] == [LeaseKind.HELLO, LeaseKind.HELLO]
    assert worker.ready


def test_a_worker_that_cannot_commit_for_three_quarters_of_the_lease_stops_its_runs() -> None:
    world = World()
    worker, executors = world.worker()
    world.fire(1)
    world.settle(worker)
    executors.end_all()
    world.cluster.faults.on_commit = lambda _: CommitFate.ABORTS
    failing_from_s = world.clock.monotonic_s()
    turns = 0
    while not executors.forgotten_count:
        world.turn(worker, us=50_000)
        turns += 1
        assert turns < 1_000
    assert 15.0 * 0.7 < world.clock.monotonic_s() - failing_from_s <= 15.0 * 0.75 + 1.5


def test_no_beat_is_sent_while_the_end_of_leases_is_out_of_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a log that answers but shows nothing new, then the worker falls silent, and stops its runs in time."""
    world = World()
    worker, executors = world.worker()
    world.fire(1)
    world.settle(worker)
    monkeypatch.setattr(MemoryReader, "poll", lambda *_: ())
    world.put_lease(Lease(LeaseKind.UNKNOWN, "worker-1", 0))  # moves the end, and says nothing
    blind_from = world.clock.now()
    world.turn(worker, count=400)  # 8 s
    assert executors.forgotten_count == 0
    monkeypatch.undo()
    assert all(beat.at <= blind_from + 15_000_000 // 4 for beat in world.beats())
    monkeypatch.setattr(MemoryReader, "poll", lambda *_: ())
    world.turn(worker, count=350)  # 15 s in all
    assert executors.forgotten_count == 1


def test_only_acknowledged_beats_prolong_the_lease_from_when_they_were_sent() -> None:
    world = World()
    tickets: list[Ticket] = []

    class Silent:
        def append(self, _message: Outgoing) -> Ticket:
            tickets.append(Ticket())
            return tickets[-1]

        def flush(self, timeout_s: float) -> None: ...

        def close(self) -> None: ...

    beats = Beats(Silent(), world.names, world.clock, Pulse("worker-1", ID, 15.0, 2.5))
    beats.begin(0, world.clock.monotonic_s())
    for _ in range(3):
        beats.beat(Slots(1))
        world.clock.advance(2_500_000)
    assert beats.deadline_s == 0.75 * 15.0
    tickets[1].offset = 7
    beats.beat(Slots(1))
    assert beats.deadline_s == 2.5 + 0.75 * 15.0, "also where the beat before it was given up"
    tickets[0].offset = 6
    beats.beat(Slots(1))
    assert beats.deadline_s == 2.5 + 0.75 * 15.0, "never back"


def test_the_executors_are_told_how_long_the_lease_lets_runs_live() -> None:
    world = World()
    worker, executors = world.worker()
    world.settle(worker)
    first = executors.allowed_until_s
    assert first == pytest.approx(0.75 * 15.0, abs=0.2)
    world.turn(worker, count=500)  # 10 s
    assert executors.allowed_until_s > first + 5.0


def test_a_broker_that_does_not_answer_is_asked_again_and_no_more_than_once_a_second() -> None:
    world = World()
    worker, _ = world.worker()
    calls = []

    def no_answer(client: str, operation: str) -> None:
        if client != "outside":
            calls.append(operation)
            raise BackendDown("kafka", "no answer")

    world.cluster.faults.on_call = no_answer
    world.turn(worker, count=2_000, us=10_000)  # 20 s
    assert 15 <= len(calls) <= 45
    world.cluster.faults.on_call = None
    world.turn(worker, count=200)
    assert worker.ready
