"""What our one-node Cassandra has acknowledged is there after it was killed: jobs and due rows are nowhere else."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from cassandra import DriverException
from cassandra.cluster import Cluster, NoHostAvailable, Session

from tests.acceptance.real_stack import wait_for
from waterclock.stack.servers import start_cassandra

pytestmark = pytest.mark.servers

WRITERS = 16
ACKNOWLEDGED_MIN = 2_000
PATIENCE_S = 60.0


def _cluster(port: int) -> Any:
    # A node that has just come back reads its log's rest beside the first question for the schema: the driver's 2 s
    # for that are too few on a full machine.
    return Cluster(["127.0.0.1"], port=port, connect_timeout=PATIENCE_S, control_connection_timeout=PATIENCE_S)


def _write_on(session: Session, writer: int, acknowledged: list[tuple[int, int]], stop: threading.Event) -> None:
    """Row after row, until the node is gone."""
    insert, number = session.prepare("INSERT INTO killed.rows (writer, number) VALUES (?, ?)"), 0
    while not stop.is_set():
        try:
            session.execute(insert, (writer, number))
        except (DriverException, NoHostAvailable):
            return
        acknowledged.append((writer, number))
        number += 1


def test_acknowledged_rows_survive_the_kill_of_cassandra(tmp_path: Path) -> None:
    server = start_cassandra(tmp_path)
    acknowledged: list[tuple[int, int]] = []
    stop = threading.Event()
    with _cluster(server.port) as cluster:
        session = cluster.connect()
        session.execute(
            "CREATE KEYSPACE killed WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
        )
        session.execute("CREATE TABLE killed.rows (writer int, number int, PRIMARY KEY (writer, number))")
        args = (session, acknowledged, stop)
        writers = [threading.Thread(target=_write_on, args=(args[0], at, *args[1:])) for at in range(WRITERS)]
        for each in writers:
            each.start()
        try:
            wait_for(lambda: len(acknowledged) >= ACKNOWLEDGED_MIN, "rows to be acknowledged")
        finally:
            server.kill()
            stop.set()
        for each in writers:
            each.join(60)
    again = start_cassandra(tmp_path, port=server.port)
    try:
        with _cluster(again.port) as cluster:
            rows = {(row.writer, row.number) for row in cluster.connect().execute("SELECT * FROM killed.rows")}
    finally:
        again.kill()
    lost = sorted(set(acknowledged) - rows)
    assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged rows are gone, such as {lost[:3]}"
