"""Giving rights to users of a real Kafka: what a silent broker, and one that refuses, are told as."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from waterclock.log import kafka_cluster
from waterclock.log.kafka_cluster import KafkaCluster, Right
from waterclock.model.errors import BackendDown, RequestError

RIGHT = Right("User:worker", "topic", "waterclock.commands", False, "READ")


class _Administrator:
    """Fails each new ACL with ``code`` within the time that it was given; without one it answers after a minute."""

    def __init__(self, code: int) -> None:
        self._code = code

    def create_acls(self, acls: list[Any], request_timeout: float = 60.0) -> dict[Any, Future[None]]:
        answers: dict[Any, Future[None]] = {acl: Future() for acl in acls}
        if request_timeout <= kafka_cluster._TIMEOUT_S:
            for future in answers.values():
                future.set_exception(KafkaException(KafkaError(self._code)))
        return answers

    def poll(self, _timeout: float) -> None: ...


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (KafkaError._TIMED_OUT, BackendDown),
        (KafkaError._TRANSPORT, BackendDown),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, RequestError),
    ],
)
def test_a_broker_that_does_not_answer_is_no_broker_that_refuses_a_right(
    code: int, told: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_cluster, "AdminClient", lambda *_, **__: _Administrator(code))
    monkeypatch.setattr(kafka_cluster, "_TIMEOUT_S", 0.1)

    with pytest.raises(told) as caught:
        KafkaCluster("nowhere:1", client_id="init").allow([RIGHT])

    assert caught.type is told
