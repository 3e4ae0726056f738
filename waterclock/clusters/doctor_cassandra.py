"""Looks at Cassandra and judges: release, schema, copies, clocks. Changes nothing.

Judging is pure, over what ``waterclock/store/looking.py`` saw of one node; a cluster whose nodes disagree shows in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from waterclock.clock import Clock
from waterclock.model.errors import AccessRefused, BackendDown, RequestError
from waterclock.model.ids import US_PER_S
from waterclock.settings import CassandraSettings, Settings
from waterclock.store.looking import StoreSeen, look
from waterclock.store.migrate import migrations

from .finding import Finding, State, ok, unless

OLDEST = (5, 0)
"""Tables are made with a compaction that 5.0 brought."""

CLOCK_S = 1.0
"""Clocks further apart than this move fires: stamps of commands are compared with fire times."""


def examine(settings: Settings, clock: Clock) -> Iterator[Finding]:
    """Every finding about Cassandra."""
    cassandra = settings.cassandra
    try:
        seen = look(cassandra, clock)
    except AccessRefused as refused:
        yield Finding("cassandra", State.FAIL, str(refused), "Check [cassandra]: user, password, tls.ca_file; GRANTs")
    except BackendDown as down:
        where = f"{', '.join(cassandra.contact_points)}:{cassandra.port}"
        remedy = f"Is {where} right? WATERCLOCK_CASSANDRA__CONTACT_POINTS names it"
        yield Finding("cassandra", State.UNREACHABLE, str(down), remedy)
    except RequestError as wrong:  # a setting: the rest of the look goes on
        yield Finding("cassandra", State.FAIL, wrong.message, wrong.hint)
    else:
        yield from judge(seen, cassandra, production=settings.production)


def judge(seen: StoreSeen, settings: CassandraSettings, *, production: bool) -> Iterator[Finding]:
    """Every finding about what was seen."""
    old = [release for release in seen.releases if _number(release) < OLDEST]
    yield unless(
        not old, "cassandra", f"release {', '.join(seen.releases)}", "Waterclock's tables need Cassandra 5.0 or later"
    )
    yield unless(
        len(seen.schema_versions) == 1,
        "schema agreement",
        f"{len(seen.schema_versions)} versions of the schema",
        "nodetool describecluster; change no table until the nodes agree",
    )
    yield from _schema(seen, settings)
    yield from _copies(seen, settings, production=production)
    yield unless(
        seen.stamps_allowed,
        "stamps",
        "user_timestamps_enabled" + (" = true" if seen.stamps_allowed else " = false: every write is refused"),
        "Set it to true in cassandra.yaml: replays write the same cells by their stamps",
    )
    yield _clock(seen)


def _schema(seen: StoreSeen, settings: CassandraSettings) -> Iterator[Finding]:
    known = len(migrations())
    if seen.conflict:
        yield Finding("schema", State.FAIL, seen.conflict, "Run the release that made this keyspace, or a later one")
    elif seen.replication is None:
        found = f"there is no keyspace {settings.keyspace}"
        yield Finding("schema", State.FAIL, found, "waterclock init --plan -o cql shows it, waterclock init makes it")
    else:
        yield unless(
            not seen.waiting,
            "schema",
            f"{known - seen.waiting} of {known} files have run in {settings.keyspace}",
            "waterclock init runs the rest; roles wait for it",
        )


def _copies(seen: StoreSeen, settings: CassandraSettings, *, production: bool) -> Iterator[Finding]:
    if seen.replication is None:
        return
    local = settings.local_dc
    if local not in seen.datacenters:
        there = ", ".join(seen.datacenters)
        yield Finding("datacenter", State.FAIL, f"no node is in {local!r}, but in {there}", "Set cassandra.local_dc")
    strategy = seen.replication.get("class", "").rpartition(".")[2]
    if strategy != "NetworkTopologyStrategy":
        remedy = f"ALTER KEYSPACE {settings.keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy', ...}}"
        yield Finding("copies of rows", State.WARN, f"{strategy} knows no datacenters", remedy)
        return
    copies = int(seen.replication.get(local, "0"))
    if not copies:
        yield Finding("copies of rows", State.FAIL, f"no copy in {local!r}", "ALTER KEYSPACE, then nodetool repair")
        return
    yield unless(
        copies >= 3,
        "copies of rows",
        f"{copies} in {local}",
        "ALTER KEYSPACE to 3, then nodetool repair --full: a quorum of fewer does not outlive a node",
        State.FAIL if production else State.WARN,
    )


def _clock(seen: StoreSeen) -> Finding:
    """The node's clock against ours: only what the time of asking cannot explain counts."""
    if seen.server_at > seen.told_at:
        apart_us, word = seen.server_at - seen.told_at, "ahead of"
    else:
        apart_us, word = max(0, seen.asked_at - seen.server_at), "behind"
    apart_s = apart_us / US_PER_S
    if apart_s < 0.01:
        return ok("cassandra clock", "agrees with ours")
    return unless(
        apart_s < CLOCK_S,
        "cassandra clock",
        f"{apart_s:.3g} s {word} ours",
        "Run chrony or ntpd on both; writes carry our stamps, and TTLs its time",
        State.WARN,
    )


def _number(release: str) -> tuple[int, int]:
    major, minor, *_ = *release.split("-", maxsplit=1)[0].split("."), "0", "0"
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else OLDEST
