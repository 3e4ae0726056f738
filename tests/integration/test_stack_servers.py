"""The two servers as child processes: ready by protocol, gone when told, and never left behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from waterclock.stack.cql_probe import release_version
from waterclock.stack.jars import KAFKA
from waterclock.stack.kafka_server import cluster_id
from waterclock.stack.ports import holder_of, pick_port
from waterclock.stack.servers import launch_kafka, start_kafka
from waterclock.stack.trouble import StackTrouble

pytestmark = pytest.mark.servers


def wait_until(condition, within_s: float = 20.0) -> None:
    give_up_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up_at, f"not within {within_s} s"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_both_servers_answer_their_own_protocol(kafka_server, cassandra_server):
    assert cluster_id(kafka_server.port)
    assert release_version(cassandra_server.port, cassandra_server.host).startswith("5.")


def test_a_taken_port_is_replaced_and_its_holder_named(kafka_server):
    if kafka_server.server is None:
        pytest.skip("this Kafka is not our child")
    picked = pick_port(kafka_server.port)
    assert picked.port != kafka_server.port
    assert picked.holder == holder_of(kafka_server.port)
    assert str(picked.holder) == f"java kafka.Kafka (pid {kafka_server.server.pid})"


def test_an_open_port_that_does_not_speak_cql_is_not_ready(kafka_server):
    assert release_version(kafka_server.port, timeout_s=0.5) is None


def test_kafka_keeps_its_cluster_on_another_port(tmp_path):
    first = start_kafka(tmp_path, port=29192)
    identity = cluster_id(first.port)
    first.kill()

    second = start_kafka(tmp_path, port=29292)
    try:
        assert second.port != first.port
        assert cluster_id(second.port) == identity
    finally:
        second.stop()
    assert second.exit_code() is not None


def test_a_server_dies_with_the_process_that_started_it(tmp_path):
    starter = (
        "import sys, pathlib\n"
        "from waterclock.stack.servers import launch_kafka\n"
        "print(launch_kafka(pathlib.Path(sys.argv[1]), port=29492).pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", starter, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
    wait_until(lambda: not is_alive(pid))


def test_a_jvm_that_dies_tells_its_last_lines_its_exit_code_and_where_its_log_is(tmp_path):
    (tmp_path / "logs").mkdir(parents=True)
    (tmp_path / "logs" / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=other\n")

    server = launch_kafka(tmp_path, port=29592)
    with pytest.raises(StackTrouble) as told:
        server.wait_ready(30)

    assert "ended with exit code 1" in told.value.message
    assert str(server.log_path) in told.value.message
    assert "node.id" in told.value.message or "node id" in told.value.message.lower()
    assert told.value.hint


def test_data_of_another_version_is_refused_before_it_is_touched(tmp_path):
    (tmp_path / "VERSION").write_text("kafka 3.9.0\n")
    with pytest.raises(StackTrouble) as told:
        launch_kafka(tmp_path, port=29692)
    assert "kafka 3.9.0" in told.value.message
    assert KAFKA.version in told.value.message
    assert "down --purge" in told.value.hint
    assert "tar czf" in told.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["VERSION"]
