"""The world of a real broker, behind a proxy that can lose commits."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from waterclock.log.kafka import KafkaLog
from waterclock.log.port import TopicPartition

from .doubt_proxy import DoubtProxy
from .world import Kept

_WAIT_S = 30.0
_PAUSE_S = 0.01
_ADMIN_TIMEOUT_S = 15.0


class KafkaWorld:
    """``prefix`` makes names that no other session has; ``begun`` counts the cases."""

    def __init__(self, closing: ExitStack, proxy: DoubtProxy, admin: AdminClient, prefix: str) -> None:
        self._closing = closing
        self._proxy = proxy
        self._admin = admin
        self._prefix = prefix
        self._made_count = 0

    def new_topic(self, partitions: int = 1, *, append_time: bool = False, compact: bool = False) -> str:
        name = self.new_name("topic")
        config = {
            "message.timestamp.type": "LogAppendTime" if append_time else "CreateTime",
            "cleanup.policy": "compact" if compact else "delete",
            "max.message.bytes": str(1 << 20),
        }
        made = self._admin.create_topics([NewTopic(name, partitions, 1, config=config)])
        made[name].result(_ADMIN_TIMEOUT_S)
        self.advance_or_wait(lambda: self._has_leaders(name, partitions), f"leaders of {name}")
        return name

    def delete_topic(self, topic: str) -> None:
        for answer in self._admin.delete_topics([topic]).values():
            answer.result(_ADMIN_TIMEOUT_S)
        self.advance_or_wait(lambda: topic not in self._admin.list_topics(timeout=_ADMIN_TIMEOUT_S).topics, "its end")

    def make_anew(self, topic: str) -> None:
        self.delete_topic(topic)
        self._admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(_ADMIN_TIMEOUT_S)
        self.advance_or_wait(lambda: self._has_leaders(topic, 1), f"leaders of {topic}")

    def new_name(self, start: str) -> str:
        self._made_count += 1
        return f"{self._prefix}-{start}-{self._made_count}"

    def new_log(
        self, client_id: str = "case", *, transaction_timeout_s: float = 10.0, session_timeout_s: float = 10.0
    ) -> KafkaLog:
        return self.keep(
            KafkaLog(
                f"127.0.0.1:{self._proxy.port}",
                client_id=client_id,
                transaction_timeout_s=transaction_timeout_s,
                session_timeout_s=session_timeout_s,
            )
        )

    def keep(self, closable: Kept) -> Kept:
        self._closing.callback(closable.close)
        return closable

    def lose_commit(self, transactional_id: str, *, applied: bool) -> None:
        self._proxy.lose_commit(transactional_id, applied=applied)

    def delete_records(self, place: TopicPartition, before: int) -> None:
        asked = Place(place.topic, place.partition, before)
        for answer in self._admin.delete_records([asked]).values():
            answer.result(_ADMIN_TIMEOUT_S)

    def clean(self, topic: str) -> None:
        """The broker's cleaner comes when it likes."""

    def advance_or_wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _WAIT_S
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"still waiting after {_WAIT_S} s for: {what}")
            time.sleep(_PAUSE_S)

    def _has_leaders(self, topic: str, partitions: int) -> bool:
        found = self._admin.list_topics(topic, _ADMIN_TIMEOUT_S).topics[topic].partitions
        return len(found) == partitions and all(each.leader >= 0 for each in found.values())
