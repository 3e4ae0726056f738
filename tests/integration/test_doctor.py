"""``waterclock init`` and ``waterclock doctor`` against real servers: made, kept, said, and never changed."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.acceptance.real_stack import wait_for
from tests.conftest import fresh_name
from waterclock import cli
from waterclock.clock import SystemClock
from waterclock.clusters import doctor_clocks
from waterclock.log import kafka_cluster
from waterclock.log.kafka import KafkaLog
from waterclock.model.events import Heartbeat
from waterclock.model.zones import TZDATA_VERSION
from waterclock.wire.messages import heartbeat_message
from waterclock.wire.names import Names

pytestmark = pytest.mark.servers
CLOCK = SystemClock()


@pytest.fixture
def surroundings(kafka_server: Any, cassandra_server: Any, tmp_path, monkeypatch) -> Names:
    for name in os.environ:
        if name.startswith("WATERCLOCK_"):
            monkeypatch.delenv(name)
    prefix = fresh_name("t")
    monkeypatch.setattr(doctor_clocks, "WATCH_S", 0.3)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WATERCLOCK_KAFKA__BOOTSTRAP", kafka_server.address)
    monkeypatch.setenv("WATERCLOCK_KAFKA__PREFIX", prefix)
    monkeypatch.setenv("WATERCLOCK_CASSANDRA__CONTACT_POINTS", cassandra_server.host)
    monkeypatch.setenv("WATERCLOCK_CASSANDRA__PORT", str(cassandra_server.port))
    monkeypatch.setenv("WATERCLOCK_CASSANDRA__KEYSPACE", prefix)
    return Names(prefix)


@pytest.fixture
def waterclock(surroundings: Names, monkeypatch, capsys):
    """Runs a command in this process: (exit code, its rows, stderr)."""

    def run(*words: str) -> tuple[int, list[dict[str, Any]], str]:
        monkeypatch.setattr(sys, "argv", ["waterclock", *words, "-o", "json"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), json.loads(out) if out else [], err

    return run


def of(rows: list[dict[str, Any]], check: str) -> list[tuple[str, str]]:
    return [(row["state"], row["found"]) for row in rows if row["check"] == check]


def set_config(server: Any, topic: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": server.address})
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(10)
    wait_for(lambda: _config(admin, topic)[key].value == value, f"{key} of {topic} taken over")


def _config(admin: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    asked = ConfigResource(ResourceType.TOPIC, topic)
    return next(iter(admin.describe_configs([asked]).values())).result(10)


def test_init_makes_all_then_keeps_all_and_doctor_is_content(waterclock: Any, surroundings: Names) -> None:
    code, before, _ = waterclock("doctor")
    assert code == 1
    assert ("fail", f"there is no keyspace {surroundings.prefix}") in of(before, "schema")
    assert of(before, "topics")[0][0] == "fail"

    code, steps, err = waterclock("init", "--yes")
    assert code == 0, err
    assert {step["result"] for step in steps if step["what"] in {"topic", "schema"}} == {"made"}

    code, steps, _ = waterclock("init", "--yes")
    assert code == 0
    assert {step["result"] for step in steps if step["what"] in {"topic", "schema"}} == {"kept"}

    code, rows, err = waterclock("doctor")
    assert code == 0, rows
    assert {row["state"] for row in rows} == {"ok", "warn"}
    assert all(row["next_step"] for row in rows if row["state"] != "ok")
    assert all(not row["next_step"] for row in rows if row["state"] == "ok")
    expected = {
        "kafka",
        "kafka release",
        "topics",
        "drift",
        "auto-create",
        "open transactions",
        "cassandra",
        "schema",
        "stamps",
    }
    assert expected <= {row["check"] for row in rows if row["state"] == "ok"}
    assert {"cassandra clock", "broker clock", "schema agreement"} <= {row["check"] for row in rows}


def test_drift_is_said_by_both_and_changed_by_neither(waterclock: Any, surroundings: Names, kafka_server: Any) -> None:
    waterclock("init", "--yes")
    set_config(kafka_server, surroundings.commands, "message.timestamp.type", "CreateTime")
    set_config(kafka_server, surroundings.dlq, "retention.ms", "1000")

    code, steps, err = waterclock("init", "--yes")
    assert code == 1
    assert "nothing that exists was changed" in err
    differing = {step["name"]: step for step in steps if step["result"] == "differs"}
    assert set(differing) == {surroundings.commands, surroundings.dlq}
    assert "kafka-configs.sh" in differing[surroundings.dlq]["next_step"]

    code, rows, _ = waterclock("doctor")
    assert code == 1
    assert ("warn", f"{surroundings.dlq}: retention.ms = 1000, not 2592000000") in of(rows, "drift")
    append_time = f"{surroundings.commands}: message.timestamp.type = CreateTime, not LogAppendTime"
    assert ("fail", append_time) in of(rows, "drift")


def test_production_is_not_content_with_one_copy(waterclock: Any, monkeypatch) -> None:
    waterclock("init", "--yes")
    monkeypatch.setenv("WATERCLOCK_PRODUCTION", "true")
    code, rows, _ = waterclock("doctor")
    assert code == 1, rows
    assert of(rows, "copies")[0][0] == "fail"
    assert of(rows, "copies of rows")[0][0] == "fail"


def test_an_open_transaction_that_holds_readers_back_is_named(
    waterclock: Any, surroundings: Names, kafka_server: Any, monkeypatch
) -> None:
    monkeypatch.setattr(kafka_cluster, "_TIMEOUT_S", 60.0)  # other tests run beside it; a broker is not away for that
    waterclock("init", "--yes")
    open_one = Producer({"bootstrap.servers": kafka_server.address, "transactional.id": fresh_name("x")})
    open_one.init_transactions(10)
    open_one.begin_transaction()
    open_one.produce(surroundings.run_events, b"held", b"k", 0)
    open_one.flush(10)
    try:
        _, rows, _ = waterclock("doctor")
        state, found = of(rows, "open transactions")[0]
        assert state == "warn"
        assert f"{surroundings.run_events}[0] at 0" in found
    finally:
        open_one.abort_transaction(10)
    _, rows, _ = waterclock("doctor")
    assert of(rows, "open transactions") == [("ok", "none holds readers back")]


def test_nobody_at_home_ends_with_5(waterclock: Any, monkeypatch) -> None:
    monkeypatch.setattr(kafka_cluster, "_TIMEOUT_S", 1.0)
    monkeypatch.setenv("WATERCLOCK_KAFKA__BOOTSTRAP", "127.0.0.1:1")
    code, rows, _ = waterclock("doctor")
    assert code == 5
    assert of(rows, "kafka")[0][0] == "unreachable"
    assert of(rows, "cassandra")[0][0] == "ok"


def test_a_worker_whose_clock_or_zone_data_differs_is_named(
    waterclock: Any, surroundings: Names, kafka_server: Any, monkeypatch
) -> None:
    monkeypatch.setattr(doctor_clocks, "WATCH_S", 4.0)
    waterclock("init", "--yes")
    log = KafkaLog(kafka_server.address, client_id=fresh_name("d"))
    appender = log.appender()

    class Beating:
        """The system's clock; every look at it also lets two workers beat."""

        def now(self) -> int:
            return CLOCK.now()

        def monotonic_s(self) -> float:
            for worker, late_us, zones in (("late", 5_000_000, TZDATA_VERSION), ("other", 0, "1999a")):
                beat = Heartbeat(worker, 1, CLOCK.now() - late_us, "id", 0, 0, 1, "1", zones)
                appender.append(heartbeat_message(surroundings, beat))
            return CLOCK.monotonic_s()

    def compared() -> dict[str, Any] | None:
        """None while the topics, just made, have no leader that knows of it."""
        found = {each.check: each for each in doctor_clocks.examine(log, surroundings, Beating())}
        return found if "clocks" not in found else None

    found = wait_for(compared, "clocks compared")
    assert found["worker clocks"].state == "warn"
    assert "late is 5" in found["worker clocks"].found
    assert "1999a at workers" in found["zone data"].found
    appender.close()
    log.close()
