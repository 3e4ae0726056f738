"""The faults that can be planned on the log in memory, each with what it leaves behind."""

from __future__ import annotations

import pytest

from waterclock.clock import ManualClock
from waterclock.log.memory import CommitFate, Killed, MemoryCluster, MemoryLog
from waterclock.log.memory_producer import MemoryProducer
from waterclock.log.memory_transactions import Landing
from waterclock.log.port import Committed, Isolation, Log, Outgoing, TopicPartition
from waterclock.model.errors import BackendDown, Fenced, RoundAborted, RoundInDoubt
from waterclock.model.ids import US_PER_S

ONE, TWO = TopicPartition("one", 0), TopicPartition("two", 0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(clock: ManualClock) -> MemoryCluster:
    cluster = MemoryCluster(clock)
    cluster.create_topic("one", 1)
    cluster.create_topic("two", 1)
    return cluster


def started(log: Log, transactional_id: str = "txn") -> MemoryProducer:
    producer = log.producer(transactional_id)
    producer.init(1.0)
    assert isinstance(producer, MemoryProducer)
    return producer


def append(producer: MemoryProducer, topic: str, value: str) -> None:
    producer.append(Outgoing(topic, b"k", value.encode(), (), 0))


def visible(cluster: MemoryCluster, place: TopicPartition) -> list[str]:
    reader = MemoryLog(cluster, "checker").reader(Isolation.COMMITTED)
    reader.assign({place: 0})
    return [(record.value or b"").decode() for record in reader.poll(1_000, 0.0)]


def doubtful(cluster: MemoryCluster, producer: MemoryProducer, fate: CommitFate) -> None:
    cluster.faults.next_commit("txn", fate)
    producer.begin()
    append(producer, "one", "doubtful")
    with pytest.raises(RoundInDoubt):
        producer.commit(1.0)
    assert producer.dirty


def test_an_unanswered_commit_stands(cluster: MemoryCluster) -> None:
    doubtful(cluster, started(MemoryLog(cluster)), CommitFate.UNANSWERED)
    assert visible(cluster, ONE) == ["doubtful"]


def test_a_lost_commit_blocks_readers_until_the_id_is_initialised(cluster: MemoryCluster) -> None:
    log = MemoryLog(cluster)
    doubtful(cluster, started(log), CommitFate.LOST)
    log.appender().append(Outgoing("one", b"k", b"behind", (), 0))
    assert visible(cluster, ONE) == []
    started(log)
    assert visible(cluster, ONE) == ["behind"]


def test_a_lost_commit_ends_with_its_time_out(cluster: MemoryCluster, clock: ManualClock) -> None:
    log = MemoryLog(cluster, transaction_timeout_s=5.0)
    doubtful(cluster, started(log), CommitFate.LOST)
    clock.advance(5 * US_PER_S - 1)
    assert log.high_watermark(ONE) == 1
    clock.advance(1)
    assert log.high_watermark(ONE) == 2
    assert visible(cluster, ONE) == []


def test_a_refused_commit_leaves_a_usable_producer(cluster: MemoryCluster) -> None:
    producer = started(MemoryLog(cluster))
    cluster.faults.next_commit("txn", CommitFate.ABORTS)
    producer.begin()
    append(producer, "one", "refused")
    with pytest.raises(RoundAborted):
        producer.commit(1.0)
    with pytest.raises(RoundAborted):
        append(producer, "one", "too late")
    producer.abort(1.0)
    producer.begin()
    append(producer, "one", "again")
    producer.commit(1.0)
    assert visible(cluster, ONE) == ["again"]
    assert not producer.dirty


def test_a_delayed_commit_still_counts_while_nobody_has_taken_the_id(cluster: MemoryCluster) -> None:
    doubtful(cluster, started(MemoryLog(cluster)), CommitFate.DELAYED)
    assert visible(cluster, ONE) == []
    (delayed,) = cluster.coordinator.delayed
    assert cluster.coordinator.deliver(delayed)
    assert visible(cluster, ONE) == ["doubtful"]


def test_a_delayed_commit_cannot_touch_the_rounds_of_a_new_producer(cluster: MemoryCluster) -> None:
    log = MemoryLog(cluster)
    doubtful(cluster, started(log), CommitFate.DELAYED)
    successor = started(log)
    successor.begin()
    append(successor, "one", "half")
    (delayed,) = cluster.coordinator.delayed
    assert not cluster.coordinator.deliver(delayed)
    successor.abort(1.0)
    assert visible(cluster, ONE) == []


def test_a_dirty_producer_begins_nothing(cluster: MemoryCluster) -> None:
    producer = started(MemoryLog(cluster))
    cluster.faults.next_commit("txn", CommitFate.DOUBLED)
    producer.begin()
    append(producer, "one", "landed")
    producer.commit(1.0)
    assert producer.dirty
    with pytest.raises(RoundInDoubt):
        producer.begin()


@pytest.mark.parametrize("fate", [CommitFate.DOUBLED, CommitFate.DELAYED])
def test_reusing_a_dirty_producer_tears_a_round(cluster: MemoryCluster, fate: CommitFate) -> None:
    cluster.faults.lets_dirty_producers_begin = True
    producer = started(MemoryLog(cluster))
    cluster.faults.next_commit("txn", fate)
    producer.begin()
    append(producer, "one", "first round")
    if fate is CommitFate.DOUBLED:
        producer.commit(1.0)
    else:
        with pytest.raises(RoundInDoubt):
            producer.commit(1.0)
    producer.begin()
    append(producer, "one", "half of the second")
    (delayed,) = cluster.coordinator.delayed
    assert cluster.coordinator.deliver(delayed)
    append(producer, "two", "the other half")
    with pytest.raises(RoundInDoubt):
        append(producer, "one", "more")
    started(MemoryLog(cluster))
    assert visible(cluster, ONE) == ["first round", "half of the second"]
    assert visible(cluster, TWO) == []


def test_what_is_decided_lands_one_by_one(cluster: MemoryCluster) -> None:
    log = MemoryLog(cluster)
    consumer = log.consumer("group", ["one"])
    consumer.poll(0, 0.0)
    cluster.coordinator.hold_markers = True
    producer = started(log)
    producer.begin()
    append(producer, "one", "a")
    append(producer, "two", "b")
    producer.send_offsets({ONE: Committed(1, "cursor")}, consumer.metadata())
    producer.commit(1.0)
    assert cluster.coordinator.landings() == [Landing("txn", ONE), Landing("txn", TWO), Landing("txn", "group")]
    with pytest.raises(BackendDown):
        consumer.committed([ONE], 1.0)

    cluster.coordinator.land(Landing("txn", "group"))
    assert consumer.committed([ONE], 1.0) == {ONE: Committed(1, "cursor")}
    assert (visible(cluster, ONE), visible(cluster, TWO)) == ([], [])
    cluster.coordinator.land(Landing("txn", TWO))
    assert (visible(cluster, ONE), visible(cluster, TWO)) == ([], ["b"])
    cluster.coordinator.land(Landing("txn", ONE))
    assert visible(cluster, ONE) == ["a"]
    assert cluster.coordinator.landings() == []


@pytest.mark.parametrize("next_call", ["init", "append"])
def test_what_is_decided_has_landed_before_the_next_round_of_the_id(cluster: MemoryCluster, next_call: str) -> None:
    log = MemoryLog(cluster)
    cluster.coordinator.hold_markers = True
    producer = started(log)
    producer.begin()
    append(producer, "one", "a")
    producer.commit(1.0)
    assert visible(cluster, ONE) == []
    if next_call == "init":
        started(log)
    else:
        producer.begin()
        append(producer, "two", "b")
    assert visible(cluster, ONE) == ["a"]


def test_a_killed_client_closes_nothing(cluster: MemoryCluster, clock: ManualClock) -> None:
    survivor, victim = MemoryLog(cluster, "survivor"), MemoryLog(cluster, "victim")
    consumer = victim.consumer("group", ["one"])
    consumer.poll(0, 0.0)
    producer = started(victim)
    producer.begin()
    append(producer, "one", "open")
    cluster.kill("victim")
    for call in (lambda: producer.commit(1.0), lambda: consumer.poll(1, 0.0), lambda: victim.partitions("one")):
        with pytest.raises(Killed):
            call()
    producer.close()
    consumer.close(leave=True)
    assert survivor.high_watermark(ONE) == 1, "its transaction is still open"

    heir = survivor.consumer("group", ["one"])
    heir.poll(0, 0.0)
    clock.advance(10 * US_PER_S)
    heir.poll(0, 0.0)
    assert not heir.owned(), "its session is not over"
    clock.advance(1)
    assert heir.poll(0, 0.0).assigned == (ONE,)
    assert survivor.high_watermark(ONE) == 2, "its transaction has timed out"


def test_a_killed_client_comes_back_under_its_name(cluster: MemoryCluster) -> None:
    victim = MemoryLog(cluster, "victim")
    consumer = victim.consumer("group", ["one"], instance="slot-1")
    consumer.poll(0, 0.0)
    generation = consumer.metadata().generation
    producer = started(victim)
    producer.begin()
    append(producer, "one", "open")
    cluster.kill("victim")
    again = MemoryLog(cluster, "victim")
    started(again)
    back = again.consumer("group", ["one"], instance="slot-1")
    assert back.poll(0, 0.0).assigned == (ONE,)
    assert back.metadata().generation == generation
    assert visible(cluster, ONE) == []


def test_a_crash_can_be_put_at_any_port_call(cluster: MemoryCluster) -> None:
    calls: list[str] = []

    class Crash(BaseException):
        pass

    def story(log: MemoryLog) -> None:
        consumer = log.consumer("group", ["one"], instance="i")
        consumer.poll(1, 0.0)
        consumer.start({ONE: 0})
        producer = log.producer("txn")
        producer.init(1.0)
        producer.begin()
        append(producer, "two", "x")
        producer.send_offsets({ONE: Committed(0)}, consumer.metadata())
        producer.commit(1.0)
        consumer.committed([ONE], 1.0)
        log.high_watermark(ONE)

    cluster.faults.on_call = lambda _, operation: calls.append(operation)
    story(MemoryLog(cluster, "role"))
    expected = "poll start init begin append send_offsets commit,commit landed,committed high_watermark"
    assert calls == [call for part in expected.split(",") for call in ([part] if "landed" in part else part.split())]

    for crash_at in range(len(calls)):
        seen: list[str] = []

        def crash(client_id: str, operation: str, seen: list[str] = seen, crash_at: int = crash_at) -> None:
            assert client_id == "role"
            seen.append(operation)
            if len(seen) > crash_at:
                raise Crash

        landed_before = len(visible(cluster, TWO))
        cluster.faults.on_call = crash
        with pytest.raises(Crash):
            story(MemoryLog(cluster, "role"))
        cluster.faults.on_call = None
        cluster.kill("role")
        started(MemoryLog(cluster, "role"))
        landed = len(visible(cluster, TWO)) - landed_before
        assert landed == (calls[crash_at] in {"commit landed", "committed", "high_watermark"})


def test_a_callback_may_decide_each_commit(cluster: MemoryCluster) -> None:
    fates = iter([CommitFate.LANDS, CommitFate.ABORTS])
    cluster.faults.on_commit = lambda _: next(fates)
    producer = started(MemoryLog(cluster))
    producer.begin()
    append(producer, "one", "lands")
    producer.commit(1.0)
    producer.begin()
    append(producer, "one", "falls")
    with pytest.raises(RoundAborted):
        producer.commit(1.0)
    assert visible(cluster, ONE) == ["lands"]


def test_a_fenced_producer_stays_dead(cluster: MemoryCluster) -> None:
    log = MemoryLog(cluster)
    older = started(log)
    started(log)
    for call in (older.begin, lambda: older.init(1.0), lambda: older.abort(1.0)):
        with pytest.raises(Fenced):
            call()
