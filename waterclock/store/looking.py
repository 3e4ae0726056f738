"""An administrator's look at a Cassandra cluster, for ``doctor``. Reads system tables; writes nothing.

How it fails: BackendDown where nobody answers, AccessRefused where the server will not have us, or not let us ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cassandra.cluster import Session

from waterclock.clock import Clock
from waterclock.model.errors import Conflict
from waterclock.model.ids import Instant
from waterclock.settings import CassandraSettings

from .access import driver_options
from .migrate import SCOPE, migrations, pending
from .session import CONNECTION_ERRORS, connect, translated

_US_PER_MS = 1_000


class StoreSeen(NamedTuple):
    """A cluster as one node tells of it.

    ``replication``: of the keyspace, None where there is none; ``waiting``: schema files that have not run;
    ``conflict``: why the keyspace's history is not ours. ``server_at`` is the node's clock between ``asked_at`` and
    ``told_at`` of ours.
    """

    releases: tuple[str, ...]
    datacenters: tuple[str, ...]
    schema_versions: tuple[str, ...]
    replication: dict[str, str] | None
    waiting: int
    conflict: str
    stamps_allowed: bool
    asked_at: Instant
    server_at: Instant
    told_at: Instant


def look(settings: CassandraSettings, clock: Clock, *, deadline_s: float = 10.0) -> StoreSeen:
    """Ask one node for everything. Raises BackendDown after ``deadline_s``, AccessRefused."""
    session = connect(
        settings.contact_points,
        settings.port,
        clock,
        local_dc=settings.local_dc,
        deadline_s=deadline_s,
        options=driver_options(settings),
    )
    try:
        return _look(session, settings.keyspace, clock)
    except CONNECTION_ERRORS as error:
        raise translated("look", error, writing=False) from error
    finally:
        session.cluster.shutdown()


def _look(session: Session, keyspace: str, clock: Clock) -> StoreSeen:
    own = session.execute("SELECT release_version, data_center, schema_version FROM system.local").one()
    peers = list(session.execute("SELECT release_version, data_center, schema_version FROM system.peers_v2"))
    nodes = [own, *peers]
    keyspaces = session.execute(
        "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = %s", (keyspace,)
    ).one()
    waiting, conflict = _history(session, keyspace) if keyspaces else (len(migrations()), "")
    allowed = session.execute("SELECT value FROM system_views.settings WHERE name = 'user_timestamps_enabled'").one()
    asked_at = clock.now()
    server_at = _node_time(session)
    return StoreSeen(
        _distinct(nodes, lambda row: row[0]),
        _distinct(nodes, lambda row: row[1]),
        _distinct(nodes, lambda row: row[2]),
        dict(keyspaces[0]) if keyspaces else None,
        waiting,
        conflict,
        allowed is None or str(allowed[0]).lower() != "false",
        asked_at,
        server_at,
        clock.now(),
    )


def _history(session: Session, keyspace: str) -> tuple[int, str]:
    """How many files have not run, and why the history is another's."""
    tables = set(session.execute("SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", (keyspace,)))
    if ("schema_migrations",) not in tables:
        return len(migrations()), ""
    rows = session.execute(
        f"SELECT version, name, sha256 FROM {keyspace}.schema_migrations WHERE scope = %s",  # noqa: S608 - checked name
        (SCOPE,),
    )
    try:
        return len(pending(migrations(), {version: (name, sha256) for version, name, sha256 in rows})), ""
    except Conflict as conflict:
        return 0, str(conflict)


def _node_time(session: Session) -> Instant:
    """The node's clock, to the millisecond: a statement without a stamp of its own gets the node's."""
    row = session.execute("SELECT toUnixTimestamp(now()) FROM system.local").one()
    return int(row[0]) * _US_PER_MS


def _distinct(rows: list[Any], part: Callable[[Any], Any]) -> tuple[str, ...]:
    return tuple(sorted({str(part(row)) for row in rows if part(row) is not None}))
