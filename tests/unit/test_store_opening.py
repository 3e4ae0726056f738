"""A role that waits for its backends at its start leaves no session with Cassandra behind, and hears a stop."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest
import structlog
from cassandra.cluster import Cluster, NoHostAvailable
from waterclock.dispatcher import __main__ as dispatcher

from waterclock.clock import ManualClock
from waterclock.log.kafka import KafkaLog
from waterclock.model.errors import BackendDown
from waterclock.model.ids import US_PER_S
from waterclock.process import run_role
from waterclock.recorder import __main__ as recorder
from waterclock.settings import Settings
from waterclock.store import opening


@pytest.mark.parametrize("role", [dispatcher, recorder], ids=["dispatcher", "recorder"])
def test_a_store_is_closed_where_the_role_on_it_cannot_be_built(role: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[MagicMock] = []

    def store(*_: Any, **__: Any) -> MagicMock:
        opened.append(MagicMock(told=MagicMock(return_value=None)))
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


class Hasty(ManualClock):
    """A second passes whenever it is asked."""

    def monotonic_s(self) -> float:
        self.advance(US_PER_S)
        return super().monotonic_s()


@pytest.fixture
def as_before() -> Iterator[None]:
    """What the role sets in its process, signals and logging, is set back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    structlog.reset_defaults()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("as_before")
def test_a_role_that_waits_for_cassandra_at_its_start_hears_a_stop_within_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Hasty()

    def refuses(*_: object) -> None:
        raise NoHostAvailable("Connection refused", {})

    def build(settings: Settings) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return opening.open_store(settings)

    monkeypatch.setattr(Cluster, "connect", refuses)
    monkeypatch.setattr(opening, "SystemClock", lambda: clock)

    began_s = clock.monotonic_s()
    run_role("recorder", build, Settings())

    assert clock.monotonic_s() - began_s <= 10
    (line,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert line["event"] == "waiting for a backend"
    assert "no answer from 127.0.0.1 port 9042" in line["cause"]
    assert "Connection refused" in line["cause"]
