"""What the log in memory does that no case on a real broker can show: compaction, evictions, one seed one history."""

from __future__ import annotations

import hashlib
import random

import pytest

from waterclock.clock import ManualClock
from waterclock.log.memory import CommitFate, MemoryCluster, MemoryLog
from waterclock.log.memory_partition import Partition
from waterclock.log.port import Committed, Isolation, Log, Outgoing, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import BackendDown, RequestError, RoundAborted, RoundInDoubt
from waterclock.model.ids import US_PER_S
from waterclock.transact import Rounds

PLACE = TopicPartition("topic", 0)


def cluster_with(partitions: int = 1) -> tuple[ManualClock, MemoryCluster]:
    clock = ManualClock()
    cluster = MemoryCluster(clock)
    cluster.create_topic("topic", partitions)
    return clock, cluster


def test_a_log_alone_has_the_topics_it_was_given() -> None:
    log: Log = MemoryLog.alone(ManualClock(), {"a": 2, "b": 4}, frozenset({"b"}))
    assert (log.partitions("a"), log.partitions("b")) == (2, 4)


def stamps_of(log: MemoryLog, place: TopicPartition) -> list[int]:
    found = read_range(log, Isolation.COMMITTED, place, 0, log.high_watermark(place))
    return [record.timestamp_us for record in found]


def test_records_bear_their_writers_time_and_go_back_where_clocks_differ() -> None:
    clock, cluster = cluster_with()
    ahead = MemoryLog(cluster, "ahead", clock=ManualClock(clock.now() + 3 * US_PER_S + 999))
    plain = MemoryLog(cluster, "plain")
    producer = ahead.producer("txn")
    producer.init(1.0)
    producer.begin()
    producer.append(Outgoing("topic", b"k", b"in a round"))
    producer.commit(1.0)
    ahead.appender().append(Outgoing("topic", b"k", b"plain"))
    plain.appender().append(Outgoing("topic", b"k", b"by who has no clock of its own"))
    at = clock.now()
    assert stamps_of(plain, PLACE) == [at + 3 * US_PER_S, at + 3 * US_PER_S, at]
    entries = cluster.partition(PLACE)._entries
    assert [entry.appended_us for entry in entries] == [at] * 4, "the marker among them"
    assert [entry.timestamp_us for entry in entries if entry.is_marker] == [at], "a marker is the broker's"
    assert plain.offset_at(PLACE, at + 1) == 0, "the first that is not older, though the newest one is"


def test_append_time_is_the_clusters_whatever_the_writers_clock_says() -> None:
    clock, cluster = cluster_with()
    cluster.create_topic("stamped", 1, append_time=True)
    ahead = MemoryLog(cluster, "ahead", clock=ManualClock(clock.now() + 3 * US_PER_S))
    ahead.appender().append(Outgoing("stamped", b"k", b"v"))
    assert stamps_of(ahead, TopicPartition("stamped", 0)) == [clock.now()]


@pytest.mark.parametrize("name", ["\ud800", "ce_id\0", "\0"])
def test_a_name_that_the_real_client_cannot_bear_is_refused_here_too(name: str) -> None:
    """It takes its process down over the first one, and cuts the others at their NUL. The round stays usable."""
    _, cluster = cluster_with()
    log = MemoryLog(cluster)
    bad = [Outgoing("topic", b"k", b"v", ((name, b""),)), Outgoing(f"topic{name}", b"k", b"v")]
    producer, appender = log.producer("txn"), log.appender()
    producer.init(1.0)
    producer.begin()
    for message in bad:
        for append in (producer.append, producer.append_tracked, appender.append):
            with pytest.raises(RequestError, match="NUL, or that is no UTF-8"):
                append(message)
    producer.append(Outgoing("topic", b"k", b"good", (("\N{SNOWMAN}", b"\0\xed"),)))
    producer.commit(1.0)
    assert [record.value for record in read_range(log, Isolation.COMMITTED, PLACE, 0, 1)] == [b"good"]


def test_compaction_keeps_the_newest_committed_version_of_each_key() -> None:
    partition = Partition()
    for value in (b"1", b"2"):
        partition.append(0, b"a", value, (), None)
        partition.append(0, b"b", value, (), None)
    aborted = partition.open_span()
    partition.append(0, b"a", b"never", (), aborted)
    partition.end(aborted, 0, commit=False)
    partition.append(0, b"b", None, (), None)
    still_open = partition.open_span()
    partition.append(0, b"a", b"open", (), still_open)
    partition.compact()
    entries, position = partition.read(0, Isolation.COMMITTED, 100)
    assert [(e.offset, e.key, e.value) for e in entries] == [(2, b"a", b"2"), (6, b"b", None)]
    assert position == partition.lso == 7
    partition.end(still_open, 0, commit=True)
    partition.compact()
    entries, position = partition.read(0, Isolation.COMMITTED, 100)
    assert [(e.offset, e.value) for e in entries] == [(6, None), (7, b"open")]
    assert position == partition.high == 9


def test_a_limited_read_goes_on_where_it_stopped() -> None:
    partition = Partition()
    for _ in range(3):
        span = partition.open_span()
        partition.append(0, b"k", b"v", (), span)
        partition.end(span, 0, commit=True)
    position, offsets = 0, []
    while position < partition.high:
        entries, position = partition.read(position, Isolation.COMMITTED, 1)
        offsets += [entry.offset for entry in entries]
    assert offsets == [0, 2, 4]


def test_a_reader_behind_an_open_transaction_gives_up_at_its_bound() -> None:
    _, cluster = cluster_with()
    log = MemoryLog(cluster)
    producer = log.producer("txn")
    producer.init(1.0)
    producer.begin()
    producer.append(Outgoing("topic", b"k", b"v", (), 0))
    with pytest.raises(BackendDown):
        list(read_range(log, Isolation.COMMITTED, PLACE, 0, log.high_watermark(PLACE)))


def test_no_partition_starves() -> None:
    _, cluster = cluster_with(4)
    log = MemoryLog(cluster)
    appender = log.appender()
    for n in range(40):
        appender.append(Outgoing("topic", b"k", b"v", (), n % 4))
    reader = log.reader(Isolation.COMMITTED)
    reader.assign({TopicPartition("topic", n): 0 for n in range(4)})
    assert {reader.poll(10, 0.0)[0].partition for _ in range(4)} == {0, 1, 2, 3}


def test_a_member_that_does_not_poll_is_evicted_and_finds_out() -> None:
    clock, cluster = cluster_with(2)
    slow = MemoryLog(cluster, "slow", session_timeout_s=6.0).consumer("group", ["topic"])
    quick = MemoryLog(cluster, "quick", session_timeout_s=6.0).consumer("group", ["topic"])
    slow.poll(0, 0.0)
    stale = slow.metadata()
    quick.poll(0, 0.0)
    assert not quick.owned(), "the rebalance waits for the member that does not poll"
    clock.advance(6 * US_PER_S)
    quick.poll(0, 0.0)
    clock.advance(1)
    assert len(quick.poll(0, 0.0).assigned) == 2

    producer = MemoryLog(cluster, "slow").producer("txn")
    producer.init(1.0)
    producer.begin()
    with pytest.raises(RoundAborted):
        producer.send_offsets({PLACE: Committed(1)}, stale)
    found_out = slow.poll(0, 0.0)
    assert len(found_out.revoked) == 2
    assert not slow.owned()
    assert len(quick.poll(0, 0.0).revoked) == 2
    assert len(slow.poll(0, 0.0).assigned) == 1


def test_the_old_generation_still_commits_while_the_group_rebalances() -> None:
    _, cluster = cluster_with(2)
    first, second = (MemoryLog(cluster, name).consumer("group", ["topic"]) for name in ("first", "second"))
    first.poll(0, 0.0)
    second.poll(0, 0.0)
    first.commit({PLACE: Committed(1)})
    first.poll(0, 0.0)
    assert first.committed([PLACE], 1.0) == {PLACE: Committed(1)}


def test_transact_settles_its_doubts_on_it() -> None:
    _, cluster = cluster_with()
    rounds = Rounds(MemoryLog(cluster), "txn")
    for fate, expected in ((CommitFate.LOST, False), (CommitFate.UNANSWERED, True)):
        cluster.faults.next_commit("txn", fate)
        draft = rounds.draft()
        ticket = draft.append_tracked(Outgoing("topic", b"k", b"v", (), 0))
        with pytest.raises(RoundInDoubt):
            rounds.commit(draft)
        assert ticket.offset is not None
        assert rounds.landed(draft) is expected


def history(seed: int) -> str:
    """A digest of a few thousand calls chosen by ``seed``."""
    dice = random.Random(seed)
    clock, cluster = cluster_with(4)
    cluster.faults.on_commit = lambda _: dice.choice(list(CommitFate))
    cluster.coordinator.hold_markers = bool(seed % 2)
    digest = hashlib.blake2b()
    logs = [MemoryLog(cluster, f"client-{n}", session_timeout_s=2.0) for n in range(3)]
    consumers = [log.consumer("group", ["topic"]) for log in logs]
    rounds = [Rounds(log, f"txn-{n}") for n, log in enumerate(logs)]
    for _ in range(400):
        n = dice.randrange(3)
        polled = rounds[n].poll(consumers[n], 5, 0.0)
        digest.update(repr(polled).encode())
        consumers[n].start(dict.fromkeys(polled.assigned, 0))
        draft = rounds[n].draft()
        draft.append(Outgoing("topic", b"%d" % dice.randrange(100), b"v"))
        for record in polled.records:
            draft.advance(consumers[n], TopicPartition(record.topic, record.partition), record.offset + 1)
        try:
            rounds[n].commit(draft)
        except (RoundAborted, RoundInDoubt) as trouble:
            digest.update(repr(trouble).encode())
        landings = cluster.coordinator.landings()
        if landings:
            cluster.coordinator.land(dice.choice(landings))
        clock.advance(dice.randrange(US_PER_S))
    return digest.hexdigest()


@pytest.mark.parametrize("seed", [1, 2])
def test_one_seed_gives_one_history(seed: int) -> None:
    assert history(seed) == history(seed)
    assert history(seed) != history(seed + 2)
