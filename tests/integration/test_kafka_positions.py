"""Positions of a group while a round is moving one of them, on a real broker: none is left out."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import Running, fresh_name
from waterclock.log.kafka import KafkaLog
from waterclock.log.kafka_lag import group_lags
from waterclock.log.kafka_producer import KafkaProducer
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import Committed, Outgoing, TopicPartition
from waterclock.wire.names import TopicSpec

pytestmark = pytest.mark.servers

_WITHIN_S = 20.0


class Moving:
    """A group at 0 in both partitions of a topic, and an open round that moves it to 1 in the second of them."""

    def __init__(self, server: Running, at_end: ExitStack) -> None:
        self.bootstrap = server.address
        self.group = fresh_name("positions")
        self.still, self.moved = TopicPartition(self.group, 0), TopicPartition(self.group, 1)
        ensure_topics(self.bootstrap, [TopicSpec(self.group, 2, {})])
        self.log = KafkaLog(self.bootstrap, client_id="positions-test", session_timeout_s=6)
        at_end.callback(self.log.close)
        member = self.log.consumer(self.group, [self.group])
        at_end.callback(member.close)
        until_s = time.monotonic() + _WITHIN_S
        while not member.owned():
            assert time.monotonic() < until_s, "it never joined"
            member.poll(0, 0.1)
        member.commit({self.still: Committed(0), self.moved: Committed(0, "before")})
        self.round = self.log.producer(fresh_name("round"))
        at_end.callback(self.round.close)
        _open(self.round, self.group)
        self.round.send_offsets({self.moved: Committed(1, "behind")}, member.metadata())


def _open(producer: KafkaProducer, topic: str) -> None:
    """A round with twenty records, which are on the brokers."""
    producer.init(30.0)
    producer.begin()
    for number in range(20):
        producer.append(Outgoing(topic, str(number).encode(), b"v", (), 0))
    producer.flush(10.0)


@pytest.fixture
def moving(kafka_server: Running) -> Iterator[Moving]:
    with ExitStack() as at_end:
        yield Moving(kafka_server, at_end)


def test_a_position_that_a_round_is_moving_is_waited_for(moving: Moving) -> None:
    found: dict[TopicPartition, Committed] = {}
    asking = threading.Thread(target=lambda: found.update(moving.log.group_positions(moving.group)))
    asking.start()
    asking.join(0.5)  # it would have answered long ago
    assert found == {}, "the round is open"
    moving.round.commit(10.0)
    asking.join(_WITHIN_S)
    assert found == {moving.still: Committed(0), moving.moved: Committed(1, "behind")}


def test_lag_is_told_of_a_partition_whose_position_a_round_is_moving(moving: Moving) -> None:
    lags = {
        TopicPartition(each.topic, each.partition): each for each in group_lags(moving.bootstrap, "x", [moving.group])
    }
    assert lags[moving.moved].current_offset == 0, "as it was before the round"
    assert sum(each.lag for each in lags.values()) == 20, "every record"
