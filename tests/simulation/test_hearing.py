"""Who may rest: nobody for whom the next turn would bring something that it waits for."""

from __future__ import annotations

from waterclock.clock import ManualClock
from waterclock.log.memory import MemoryCluster
from waterclock.log.memory_consumer import MemoryReader
from waterclock.log.port import Isolation, Outgoing, TopicPartition

from .hearing import HearingLog

PLACE = TopicPartition("t", 0)


def _log(client: str, cluster: MemoryCluster) -> HearingLog:
    return HearingLog(cluster, client, session_timeout_s=5.0)


def _cluster() -> MemoryCluster:
    cluster = MemoryCluster(ManualClock())
    cluster.create_topic("t", 1)
    return cluster


def _at_its_end() -> tuple[HearingLog, MemoryReader]:
    """One whose reader has read all there is, and waits. Whoever lets go of the reader waits for nothing."""
    log = _log("one", _cluster())
    reader = log.reader(Isolation.COMMITTED)
    reader.assign({PLACE: 0})
    reader.poll(10, 0.0)
    log.end_turn()
    return log, reader


def _say(log: HearingLog) -> None:
    log.appender().append(Outgoing("t", b"k", b"v"))


def test_a_record_behind_an_end_that_was_reached_is_news() -> None:
    log, _reader = _at_its_end()
    assert not log.has_news
    _say(log)
    assert log.has_news


def test_a_record_of_an_open_transaction_is_news_once_it_shows() -> None:
    log, _reader = _at_its_end()
    producer = log.producer("p")
    producer.init(1.0)
    producer.begin()
    producer.append(Outgoing("t", b"k", b"v"))
    assert not log.has_news
    producer.commit(1.0)
    assert log.has_news


def test_what_a_poll_left_is_news_and_what_nobody_polls_is_not() -> None:
    log = _log("one", _cluster())
    reader = log.reader(Isolation.COMMITTED)
    reader.assign({PLACE: 0})
    for _ in range(3):
        _say(log)
    reader.poll(1, 0.0)
    log.end_turn()
    assert log.has_news
    log.end_turn()  # a whole turn without a poll: its reader is done with, or has no room
    assert not log.has_news


def test_a_reader_that_was_let_go_says_nothing() -> None:
    log = _log("one", _cluster())
    reader = log.reader(Isolation.COMMITTED)
    reader.assign({PLACE: 0})
    del reader
    log.end_turn()
    _say(log)
    assert not log.has_news


def test_a_member_that_its_group_waits_for_has_news() -> None:
    cluster = _cluster()
    one, two = _log("one", cluster), _log("two", cluster)
    first, second = one.consumer("g", ["t"]), two.consumer("g", ["t"])
    assert one.has_news, "it has not joined yet"
    first.poll(0, 0.0)
    first.start({PLACE: 0})
    first.poll(0, 0.0)
    one.end_turn()
    assert not one.has_news
    second.poll(0, 0.0)
    assert one.has_news, "somebody else has come"
