"""A role that waits for Kafka builds itself anew each second: no session with Cassandra may be left behind."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from waterclock.dispatcher import __main__ as dispatcher

from waterclock.log.kafka import KafkaLog
from waterclock.model.errors import BackendDown
from waterclock.recorder import __main__ as recorder
from waterclock.settings import Settings
from waterclock.store import opening


@pytest.mark.parametrize("role", [dispatcher, recorder], ids=["dispatcher", "recorder"])
def test_a_store_is_closed_where_the_role_on_it_cannot_be_built(role: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[MagicMock] = []

    def store(*_: Any, **__: Any) -> MagicMock:
        opened.append(MagicMock())
        return opened[-1]

    def away(_self: KafkaLog, topic: str) -> int:
        raise BackendDown("kafka", f"partitions of {topic}: nobody answers")

    monkeypatch.setattr(opening, "CassandraStore", store)
    monkeypatch.setattr(KafkaLog, "partitions", away)

    for _ in range(3):
        with pytest.raises(BackendDown, match="nobody answers"):
            role.build(Settings())

    assert [each.close.call_count for each in opened] == [1, 1, 1]


def test_a_store_stays_open_for_what_was_built_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CassandraStore", MagicMock())

    with opening.store_to_build_on(Settings()) as store:
        pass

    assert isinstance(store, MagicMock)
    store.close.assert_not_called()
