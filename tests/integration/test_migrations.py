"""The schema's runner on a real node: once, again, after a crash, and what services make of what they find."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from cassandra.cluster import Session

from waterclock.clock import SystemClock
from waterclock.model.errors import BackendDown, Conflict, RequestError
from waterclock.store.cassandra import CassandraStore
from waterclock.store.migrate import Migration, migrate, migrations
from waterclock.store.session import connect
from waterclock.store.tables import TABLES

pytestmark = pytest.mark.servers
CLOCK = SystemClock()


@pytest.fixture
def keyspace() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def session(cassandra_server: Any) -> Any:
    opened = connect([cassandra_server.host], cassandra_server.port, CLOCK)
    yield opened
    opened.cluster.shutdown()


def run(server: Any, keyspace: str, known: list[Migration] | None = None) -> list[str]:
    return migrate([server.host], server.port, keyspace, CLOCK, known=known)


def open_store(server: Any, keyspace: str, deadline_s: float = 0.0) -> CassandraStore:
    return CassandraStore([server.host], server.port, keyspace, CLOCK, deadline_s=deadline_s)


def test_an_empty_server_gets_the_whole_schema_and_a_second_run_finds_nothing_to_do(
    cassandra_server: Any, keyspace: str, session: Session
) -> None:
    assert run(cassandra_server, keyspace) == [each.name for each in migrations()]

    assert run(cassandra_server, keyspace) == []
    tables = session.execute("SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", (keyspace,))
    assert {name for (name,) in tables} == {table.name for table in TABLES} | {"schema_migrations"}
    replication = session.execute(
        "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = %s", (keyspace,)
    ).one()[0]
    assert replication["class"].endswith("NetworkTopologyStrategy")
    assert replication["datacenter1"] == "1"


def test_what_the_server_keeps_is_what_the_files_say(cassandra_server: Any, keyspace: str, session: Session) -> None:
    run(cassandra_server, keyspace)

    for table in TABLES:
        life, grace = session.execute(
            "SELECT default_time_to_live, gc_grace_seconds FROM system_schema.tables "
            "WHERE keyspace_name = %s AND table_name = %s",
            (keyspace, table.name),
        ).one()
        columns = session.execute(
            "SELECT column_name, type FROM system_schema.columns WHERE keyspace_name = %s AND table_name = %s",
            (keyspace, table.name),
        )
        assert life == table.ttl_s
        assert grace >= 3 * 3_600
        assert set(columns) == {(column.name, column.type) for column in table.columns}


def test_a_runner_that_was_killed_is_simply_started_again(cassandra_server: Any, keyspace: str) -> None:
    known = migrations()
    broken = [*known[:3], Migration(4, known[3].name, known[3].text.replace("'DAYS'", "'NONSENSE'", 3))]
    with pytest.raises(Exception, match="NONSENSE"):
        run(cassandra_server, keyspace, broken)

    assert run(cassandra_server, keyspace) == [each.name for each in known[3:]]


def test_a_changed_file_and_a_later_schema_are_refused_by_runner_and_service(
    cassandra_server: Any, keyspace: str
) -> None:
    known = migrations()
    later = Migration(len(known) + 1, "999_later.cql", "ALTER TABLE jobs ADD IF NOT EXISTS tags frozen<set<text>>;")
    run(cassandra_server, keyspace, [*known, later])
    changed = [*known[:-1], Migration(known[-1].version, known[-1].name, known[-1].text + "-- changed\n"), later]

    with pytest.raises(Conflict, match="is not the file"):
        run(cassandra_server, keyspace, changed)
    with pytest.raises(Conflict, match=r"999_later\.cql"):
        run(cassandra_server, keyspace)
    with pytest.raises(Conflict, match=r"999_later\.cql"):
        open_store(cassandra_server, keyspace, deadline_s=30.0)


def test_a_service_waits_for_the_schema_and_says_what_it_misses(cassandra_server: Any, keyspace: str) -> None:
    with pytest.raises(BackendDown, match=keyspace):
        open_store(cassandra_server, keyspace)
    run(cassandra_server, keyspace, migrations()[:2])

    with pytest.raises(BackendDown, match=f"{len(migrations()) - 2} pending"):
        open_store(cassandra_server, keyspace)

    run(cassandra_server, keyspace)
    open_store(cassandra_server, keyspace).close()


def test_a_name_that_is_no_keyspace_is_refused_before_anything_is_sent(cassandra_server: Any) -> None:
    with pytest.raises(RequestError, match="no name for a keyspace"):
        run(cassandra_server, "x; DROP KEYSPACE y")
