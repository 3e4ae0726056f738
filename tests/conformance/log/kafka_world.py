"""The world on a real broker: time passes by itself, and a proxy loses what a case wants lost.

One broker for the session, of its own, because its advertised listener leads through the proxy.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from tests.conformance.proxy import Fate, Proxy
from waterclock.log.kafka import KafkaLog
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import TopicPartition
from waterclock.stack.servers import start_kafka
from waterclock.wire.names import TopicSpec

from .world import Kept

_WAIT_S = 30.0
_PAUSE_S = 0.02


class ProxiedKafka:
    """A real Kafka whose clients all go through ``proxy``."""

    def __init__(self, address: str, proxy: Proxy) -> None:
        self.address = address
        self.proxy = proxy


@contextmanager
def proxied_kafka(folder: Path) -> Iterator[ProxiedKafka]:
    """Start it; the proxy is the bootstrap as well. Raises StackTrouble where there is no Java or there are no jars."""
    proxy = Proxy()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = start_kafka(folder, port=port, advertised_port=proxy.port)
    try:
        proxy.aim(server.port)
        yield ProxiedKafka(f"127.0.0.1:{proxy.port}", proxy)
    finally:
        proxy.close()
        server.stop()


class KafkaWorld:
    _made_count = 0

    def __init__(self, kafka: ProxiedKafka, closing: ExitStack) -> None:
        self._kafka = kafka
        self._closing = closing

    def new_topic(self, partitions: int = 1, *, append_time: bool = False, compact: bool = False) -> str:
        name = self.new_name("topic")
        config = {"min.cleanable.dirty.ratio": "0.01"} if compact else {}
        config["cleanup.policy"] = "compact" if compact else "delete"
        config["message.timestamp.type"] = "LogAppendTime" if append_time else "CreateTime"
        ensure_topics(self._kafka.address, [TopicSpec(name, partitions, config)])
        return name

    def new_name(self, start: str) -> str:
        KafkaWorld._made_count += 1
        return f"{start}-{KafkaWorld._made_count}"

    def new_log(self, client_id: str = "case") -> KafkaLog:
        return self.keep(KafkaLog(self._kafka.address, client_id=client_id, session_timeout_s=6))

    def keep(self, closable: Kept) -> Kept:
        self._closing.callback(closable.close)
        return closable

    def lose_commit(self, transactional_id: str, *, applied: bool) -> None:
        self._kafka.proxy.rule(transactional_id, Fate.LOSE_ANSWER if applied else Fate.LOSE_REQUEST)

    def delete_records(self, place: TopicPartition, before: int) -> None:
        with AdminClient({"bootstrap.servers": self._kafka.address}) as admin:
            for answer in admin.delete_records([Place(place.topic, place.partition, before)]).values():
                answer.result(10)

    def clean(self, topic: str) -> None:
        """The broker cleans when it likes."""

    def advance_or_wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _WAIT_S
        while time.monotonic() < deadline:
            if condition():
                return
            time.sleep(_PAUSE_S)
        pytest.fail(f"still waiting after {_WAIT_S} s for: {what}")
