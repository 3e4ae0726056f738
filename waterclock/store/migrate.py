"""Bring a keyspace to the schema of this release: the files of ``schemas/cassandra``, in order, each once.

What must hold: ONE runner at a time (concurrent DDL can split a schema, and there is no lock); a file never changes
once it has run anywhere (its sha256 is kept in ``schema_migrations``); every statement may run twice, so that a runner
that was killed is simply started again. Services never migrate: they wait for the schema, or refuse a foreign one.
Raises Conflict where the keyspace has another history than these files, BackendDown where the server does not answer.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from threading import Event
from types import MappingProxyType
from typing import Any, NamedTuple

from cassandra.cluster import Session

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown, Conflict, RequestError

from .session import CONNECTION_ERRORS, connect, translated

SCOPE = "waterclock"
DDL_TIMEOUT_S = 30.0
_PAUSE_S = 0.25

_FILE = re.compile(r"(\d{3})_([a-z0-9_]+)\.cql\Z")
_KEYSPACE = re.compile(r"[a-z][a-z0-9_]{0,47}\Z")
_ALLOWED = re.compile(r"CREATE (TABLE|INDEX) IF NOT EXISTS |ALTER TABLE [a-z_]+ ADD IF NOT EXISTS ")


class Migration(NamedTuple):
    """One file of the schema."""

    version: int
    name: str
    text: str

    @property
    def sha256(self) -> str:
        """Checksum of the file's text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def statements(self) -> list[str]:
        """The statements, without remarks. Only additive ones that may run twice pass: else ValueError."""
        bare = re.sub(r"^\s*--.*$", "", self.text, flags=re.MULTILINE)
        found = [part.strip() for part in bare.split(";") if part.strip()]
        for statement in found:
            if not _ALLOWED.match(statement):
                raise ValueError(f"{self.name}: not an additive statement that may run twice: {statement[:80]!r}")
        return found


def migrations() -> list[Migration]:
    """The files of this release, by number. Numbers without gaps, from 1: else ValueError."""
    found = sorted(
        Migration(int(match[1]), entry.name, entry.read_text(encoding="utf-8"))
        for entry in files("waterclock.schemas.cassandra").iterdir()
        if (match := _FILE.match(entry.name))
    )
    if [each.version for each in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"migrations are not numbered 1..n: {[each.name for each in found]}")
    return found


def pending(known: Sequence[Migration], applied: dict[int, tuple[str, str]]) -> list[Migration]:
    """What is still to run, given version -> (name, sha256) of what has. Raises Conflict on another history."""
    newest = known[-1].version if known else 0
    for version, (name, sha256) in sorted(applied.items()):
        if version > newest:
            raise Conflict(
                f"The keyspace has schema {version} ({name}), this release knows up to {newest}",
                hint="Run the release that made it, or a later one",
            )
        if sha256 != known[version - 1].sha256:
            raise Conflict(
                f"Schema {version} of the keyspace ({name}) is not the file {known[version - 1].name} of this release",
                hint="A file that has run is never changed: restore it, and put the change into a new one",
            )
    return [each for each in known if each.version not in applied]


def migrate(
    contact_points: Sequence[str],
    port: int,
    keyspace: str,
    clock: Clock,
    *,
    replication: int = 1,
    local_dc: str = "datacenter1",
    deadline_s: float = 60.0,
    known: Sequence[Migration] | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> list[str]:
    """Make the keyspace if it is missing and run what is pending; returns the names of the files that ran.

    ``replication``: copies in ``local_dc``; an existing keyspace keeps its own. ``deadline_s`` is for the first answer,
    ``options`` are the driver's (``access.driver_options``).
    """
    if not _KEYSPACE.match(keyspace):
        raise RequestError(
            f"{keyspace[:60]!r} is no name for a keyspace", pointer="/keyspace", hint="Use up to 48 of a-z, 0-9 and '_'"
        )
    session = connect(contact_points, port, clock, local_dc=local_dc, deadline_s=deadline_s, options=options)
    try:
        _change(session, keyspace_statement(keyspace, local_dc, replication))
        session.set_keyspace(keyspace)
        return _run(session, migrations() if known is None else known, clock)
    except CONNECTION_ERRORS as error:
        raise translated("migrate", error, writing=True) from error
    finally:
        session.cluster.shutdown()


def keyspace_statement(keyspace: str, local_dc: str, replication: int) -> str:
    """The statement that makes the keyspace where there is none."""
    return (
        f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = "
        f"{{'class': 'NetworkTopologyStrategy', '{local_dc}': {replication:d}}} AND durable_writes = true"
    )


def note_statement(migration: Migration) -> str:
    """The note that a file has run, for whoever runs its statements by hand: without it the migrator runs it again."""
    return (
        "INSERT INTO schema_migrations (scope, version, name, sha256, applied_at) VALUES "  # noqa: S608 - all of it ours
        f"('{SCOPE}', {migration.version}, '{migration.name}', '{migration.sha256}', 0)"
    )


def _run(session: Session, known: Sequence[Migration], clock: Clock) -> list[str]:
    ran: list[str] = []
    for statement in known[0].statements:  # the table of migrations itself: without it there is nothing to compare
        _change(session, statement)
    for migration in pending(known, _applied(session)):
        for statement in migration.statements:
            _change(session, statement)
        now = clock.now()
        session.execute(
            "INSERT INTO schema_migrations (scope, version, name, sha256, applied_at) VALUES (%s, %s, %s, %s, %s) "
            "USING TIMESTAMP %s",
            (SCOPE, migration.version, migration.name, migration.sha256, now, now),
        )
        ran.append(migration.name)
    return ran


def _change(session: Session, statement: str) -> None:
    """One DDL statement, until every node that is up has the same schema."""
    result = session.execute(statement, timeout=DDL_TIMEOUT_S)
    if not result.response_future.is_schema_agreed:
        raise BackendDown("cassandra", f"the nodes do not agree on the schema after: {statement[:80]}")


def _applied(session: Session) -> dict[int, tuple[str, str]]:
    found = session.execute("SELECT version, name, sha256 FROM schema_migrations WHERE scope = %s", (SCOPE,))
    return {version: (name, sha256) for version, name, sha256 in found}


def wait_for_schema(session: Session, clock: Clock, until_s: float) -> None:
    """Return once the session's keyspace has exactly this release's schema.

    Raises Conflict on another history at once, BackendDown when something is still pending at ``until_s`` (monotonic).
    """
    known = migrations()
    while True:
        missing = _missing(session, known)
        if not missing:
            return
        if clock.monotonic_s() >= until_s:
            raise BackendDown("cassandra", f"the schema is not there yet: {missing} pending in {session.keyspace}")
        Event().wait(_PAUSE_S)


def _missing(session: Session, known: Sequence[Migration]) -> int:
    """How many files are still to run, without a query that fails where none has."""
    try:
        tables = session.execute(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", (session.keyspace,)
        )
        if ("schema_migrations",) not in set(tables):
            return len(known)
        return len(pending(known, _applied(session)))
    except CONNECTION_ERRORS as error:
        raise translated("schema", error, writing=False) from error
