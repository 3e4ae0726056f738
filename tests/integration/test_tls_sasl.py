"""Clusters that are locked: every role with its own user and no right too many; whoever is wrong is told why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.acceptance.real_stack import RoleProcess, wait_for
from tests.conftest import fresh_name
from tests.free_ports import free_port
from tests.integration.locked_servers import LockedServers
from waterclock.clock import SystemClock
from waterclock.clusters.making import make
from waterclock.clusters.plan import plan_of
from waterclock.log.kafka import KafkaLog
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import Outgoing
from waterclock.model.errors import AccessRefused
from waterclock.settings import Settings
from waterclock.store.access import driver_options
from waterclock.store.session import connect
from waterclock.wire.codec import decode_event
from waterclock.wire.names import Names

pytestmark = pytest.mark.servers
CLOCK = SystemClock()
ROLES = {
    "dispatcher-1": ("dispatcher", "dispatcher"),
    "worker-1": ("workers", "worker"),
    "retry-router-1": ("retry_router", "retry-router"),
    "dag-engine-1": ("dag_engine", "dag-engine"),
    "recorder-1": ("recorder", "recorder"),
    "intake-1": ("intake", "intake"),
    "api-1": ("api", "api"),
}
"""Process -> its module, and what its user is called."""

CASSANDRA_USER, CASSANDRA_PASSWORD = "cassandra", "cassandra"
"""Whom a fresh node knows."""

WRONG = {"sasl.password": "wrong"}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedServers]:
    locked = LockedServers(tmp_path_factory.mktemp("locked"), fresh_name("t"))
    yield locked
    locked.close()


def settings_of(servers: LockedServers, user: str) -> Settings:
    return Settings(
        kafka={
            "bootstrap": servers.bootstrap,
            "prefix": servers.prefix,
            "client": servers.client(user),
        },
        cassandra={
            "port": servers.cassandra.port,
            "user": CASSANDRA_USER,
            "password": CASSANDRA_PASSWORD,
            "tls": {"enabled": True, "ca_file": str(servers.certificate.pem)},
        },
    )


@pytest.fixture(scope="module")
def made(servers: LockedServers) -> LockedServers:
    """Topics, rights and tables, by ``init``."""
    settings = settings_of(servers, "admin")

    def all_of_it() -> set[str]:
        return {step.result for step in make(plan_of(settings), settings, lambda role: f"{servers.prefix}-{role}")}

    # The first password of a fresh node is there a moment after the node is.
    assert wait_for(lambda: _patiently(all_of_it), "init") == {"made"}
    assert all_of_it() == {"kept"}
    return servers


def _patiently(act: Any) -> Any:
    try:
        return act()
    except AccessRefused as refused:
        if refused.backend != "cassandra":
            raise
        return None


# Getting in ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["log", "topics", "append"])
def test_a_wrong_password_is_told_as_such_and_not_as_a_broker_that_is_away(
    servers: LockedServers, question: str
) -> None:
    wrong = servers.client("admin") | WRONG
    with pytest.raises(AccessRefused, match=r"(?i)authentication"):
        _ask(servers, question, wrong)


@pytest.mark.parametrize("question", ["log", "topics"])
def test_a_certificate_of_a_stranger_is_refused_and_named(servers: LockedServers, question: str) -> None:
    with pytest.raises(AccessRefused, match=r"(?i)certificate"):
        _ask(servers, question, servers.client("admin") | {"ssl.ca.location": str(servers.stranger.pem)})


def _ask(servers: LockedServers, question: str, client: dict[str, str]) -> None:
    if question == "topics":
        ensure_topics(servers.bootstrap, [], extra=client)
        return
    log = KafkaLog(servers.bootstrap, client_id="t", extra=client)
    try:
        if question == "append":
            appender = log.appender()
            appender.append(Outgoing("anything", b"key", b"value"))
            appender.flush(10.0)
        log.partitions("anything")
    finally:
        log.close()


def test_cassandra_refuses_a_wrong_password_and_we_a_strangers_certificate(made: LockedServers) -> None:
    good = settings_of(made, "admin").cassandra
    wrong = good.model_copy(update={"password": type(good.password)("wrong")})
    stranger = good.model_copy(update={"tls": good.tls.model_copy(update={"ca_file": made.stranger.pem})})
    for settings, why in ((wrong, r"(?i)credentials|password"), (stranger, r"(?i)certificate")):
        began_s = time.monotonic()
        with pytest.raises(AccessRefused, match=why):
            connect(["127.0.0.1"], made.cassandra.port, CLOCK, options=driver_options(settings), deadline_s=60.0)
        assert time.monotonic() - began_s < 30, "it was waited for as if it would come"
    connect(["127.0.0.1"], made.cassandra.port, CLOCK, options=driver_options(good)).cluster.shutdown()


def test_the_command_line_says_what_is_wrong_and_where_to_put_it_right(made: LockedServers, tmp_path: Path) -> None:
    env = _env(made, "operator") | {"WATERCLOCK_KAFKA__CLIENT": json.dumps(made.client("admin") | WRONG)}
    done = _waterclock(env, tmp_path, "lag")
    assert done.returncode == 5
    assert "authentication" in done.stderr.lower()
    assert "WATERCLOCK_KAFKA__CLIENT" in done.stderr
    assert "wrong" not in done.stderr


# Doing one's work ----------------------------------------------------------------------------------------------------


def test_each_role_does_its_work_with_its_own_user_and_rights(made: LockedServers, tmp_path: Path) -> None:
    """A job event by the producer's user becomes runs that succeed and are in history; nobody is an administrator."""
    port_of_api = {"WATERCLOCK_API__PORT": str(free_port())}
    processes = [
        RoleProcess(
            module,
            instance,
            _env(made, user) | port_of_api,
            tmp_path / f"{instance}.log",
            tmp_path / f"{instance}.ready",
        )
        for instance, (module, user) in ROLES.items()
    ]
    try:
        for process in processes:
            process.start()
        for process in processes:
            process.wait_ready()
        _send_job_event(made)
        _create_by_api(port_of_api["WATERCLOCK_API__PORT"])
        job_id, story = "default:behind-locks", {"PENDING", "STARTED", "ATTEMPT_SUCCEEDED"}
        wait_for(lambda: story <= _kinds(made, job_id), "a run that succeeded")
        wait_for(lambda: story <= _kinds(made, "default:by-api"), "a run of the job that the API took")

        def recorded() -> bool:
            done = _waterclock(_env(made, "operator"), tmp_path, "run", "list", job_id, "-o", "json")
            return done.returncode == 0 and "SUCCEEDED" in done.stdout

        wait_for(recorded, "the run in history", every_s=1.0)
        doctor = _waterclock(_env(made, "operator"), tmp_path, "doctor", "-o", "json")
        assert doctor.returncode == 0, doctor.stdout + doctor.stderr
        assert _state(doctor.stdout, "rights") == "ok"
    finally:
        codes = [process.stop() for process in processes if process.process is not None]
    assert codes == [0] * len(ROLES)
    for process in processes:
        assert "AUTHORIZATION_FAILED" not in process.log_path.read_text(), process.instance


def test_a_producer_may_write_nothing_but_job_events(made: LockedServers) -> None:
    names = Names(made.prefix)
    for topic in (names.run_events, names.commands, f"{names.prefix}.runs.high", names.leases):
        assert _refusal(made, "producer", topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert _refusal(made, "producer", names.job_events) is None


def test_a_worker_may_not_pass_for_a_dispatcher(made: LockedServers) -> None:
    names = Names(made.prefix)
    assert _refusal(made, "worker", names.commands) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    stolen = {"transactional.id": names.transactional_id("dispatcher", "dispatcher-1")}
    producer = Producer({**made.client(f"{made.prefix}-worker"), "bootstrap.servers": made.bootstrap, **stolen})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(20)
    assert refused.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _env(servers: LockedServers, role: str) -> dict[str, str]:
    user = f"{servers.prefix}-{role}"
    return {
        "WATERCLOCK_KAFKA__BOOTSTRAP": servers.bootstrap,
        "WATERCLOCK_KAFKA__PREFIX": servers.prefix,
        "WATERCLOCK_KAFKA__CLIENT": json.dumps(servers.client(user)),
        "WATERCLOCK_CASSANDRA__PORT": str(servers.cassandra.port),
        "WATERCLOCK_CASSANDRA__USER": CASSANDRA_USER,
        "WATERCLOCK_CASSANDRA__PASSWORD": CASSANDRA_PASSWORD,
        "WATERCLOCK_CASSANDRA__TLS__ENABLED": "true",
        "WATERCLOCK_CASSANDRA__TLS__CA_FILE": str(servers.certificate.pem),
    }


def _waterclock(env: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "waterclock.cli", *words]
    surroundings = {**os.environ, **env, "HOME": str(folder)}
    return subprocess.run(
        command, env=surroundings, cwd=folder, capture_output=True, text=True, timeout=90, check=False
    )


def _state(rows: str, check: str) -> str:
    return next(row["state"] for row in json.loads(rows) if row["check"] == check)


def _send_job_event(servers: LockedServers) -> None:
    document = {"name": "behind-locks", "handler": "demo.ping", "every": "1s", "tier": "high"}
    conf = {**servers.client(f"{servers.prefix}-producer"), "bootstrap.servers": servers.bootstrap}
    producer = Producer(conf)
    topic = Names(servers.prefix).job_events
    producer.produce(topic, json.dumps(document).encode(), headers=[("content-type", b"application/json")])
    assert producer.flush(20) == 0


def _create_by_api(port: str) -> None:
    document = {"name": "by-api", "handler": "demo.ping", "every": "1s"}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v1/jobs",
        json.dumps(document).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - our own port
        assert answer.status in (200, 201, 202)


def _kinds(servers: LockedServers, job_id: str) -> set[str]:
    """What the log says of a job's runs, read by the operator."""
    topic = Names(servers.prefix).run_events
    user = servers.client(f"{servers.prefix}-operator")
    conf = {**user, "bootstrap.servers": servers.bootstrap, "group.id": "waterclock.reader"}
    consumer = Consumer({**conf, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(4)])
    found = [message for message in consumer.consume(500, 2.0) if message.error() is None]
    consumer.close()
    events = [decode_event(message.value() or b"") for message in found]
    return {event.kind.value for event in events if event.job_id == job_id}


def _refusal(servers: LockedServers, role: str, topic: str) -> int | None:
    """The broker's answer to one record, written without a transaction."""
    answers: list[KafkaError | None] = []
    conf = {**servers.client(f"{servers.prefix}-{role}"), "bootstrap.servers": servers.bootstrap}
    producer = Producer({**conf, "message.timeout.ms": 15_000})
    producer.produce(topic, b"{}", b"key", 0, on_delivery=lambda error, _: answers.append(error))
    producer.flush(20)
    assert len(answers) == 1
    return answers[0].code() if answers[0] is not None else None
