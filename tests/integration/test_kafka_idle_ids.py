"""A role of which no transaction was heard for longer than the brokers remember its id goes on all the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.acceptance.real_stack import wait_for
from tests.free_ports import free_port
from waterclock.log.kafka import KafkaLog
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import Isolation, Log, Outgoing, TopicPartition, TopicSpec
from waterclock.log.reading import read_range
from waterclock.model.errors import RoundInDoubt
from waterclock.stack.kafka_server import Doors
from waterclock.stack.servers import launch_kafka
from waterclock.transact import Round, Rounds

pytestmark = pytest.mark.servers

_ONE, _TWO = TopicPartition("one", 0), TopicPartition("two", 0)
_FORGETFUL = """
transactional.id.expiration.ms=2000
transaction.remove.expired.transaction.cleanup.interval.ms=500
"""
_FORGOTTEN_AFTER_S = 5.0
"""By default it is a week, looked for every hour."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    server = launch_kafka(tmp_path_factory.mktemp("kafka"), port=free_port(), doors=Doors(_FORGETFUL))
    try:
        server.wait_ready()
        address = f"127.0.0.1:{server.port}"
        ensure_topics(address, [TopicSpec(place.topic, 1, {}) for place in (_ONE, _TWO)])
        log = KafkaLog(address, client_id="idle")
        yield log
        log.close()
    finally:
        server.kill()


def _record(place: TopicPartition) -> Outgoing:
    return Outgoing(place.topic, b"k", b"v", (), 0)


def _plain(draft: Round) -> None:
    draft.extend([_record(_ONE), _record(_TWO)])


def _with_what_goes_ahead(draft: Round) -> None:
    draft.go_ahead([_record(_ONE)])
    draft.append(_record(_TWO))


@pytest.mark.parametrize("fill", [_plain, _with_what_goes_ahead])
def test_an_id_that_the_brokers_have_forgotten_costs_one_round(log: Log, fill: Callable[[Round], None]) -> None:
    rounds = Rounds(log, f"waterclock.retry-ladder.{fill.__name__}")
    before = _count(log)
    rounds.open()
    time.sleep(_FORGOTTEN_AFTER_S)  # nothing tells whether an id is remembered, but to use it
    draft = rounds.draft()
    fill(draft)
    with pytest.raises(RoundInDoubt):
        rounds.commit(draft)
    rounds.commit(draft)
    assert rounds.init_count == 2
    wait_for(lambda: _count(log) == before + 1, "the round landed once", 10.0, every_s=0.1)
    rounds.close()


def _count(log: Log) -> int:
    return sum(1 for _ in read_range(log, Isolation.COMMITTED, _TWO, 0, log.high_watermark(_TWO)))
