"""What Waterclock needs on clusters that others run: topics, rights, tables. Pure: from settings alone.

What must hold: the plan is what ``init`` makes and what ``doctor`` compares with, from one place. With ``production``
nothing is planned that one machine's loss destroys or stops: three copies of which two acknowledge, unless more or
other numbers are set, and never one. How it fails: RequestError that names the setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from waterclock.log.port import TopicSpec
from waterclock.model.errors import RequestError
from waterclock.settings import Settings
from waterclock.store.migrate import keyspace_statement, migrations, note_statement
from waterclock.wire.names import Names, topic_specs

from .acls import Acl, acls

BROKER_DEFAULT = -1
"""Copies of a topic: as the brokers' ``default.replication.factor`` says."""

_COPIES, _IN_SYNC = 3, 2
_SAFE_CONFIG = {"unclean.leader.election.enable": "false"}


class Plan(NamedTuple):
    """All of it. ``replication``: copies of each topic; ``statements``: CQL, in order, each may run twice."""

    topics: Sequence[TopicSpec]
    replication: int
    acls: Sequence[Acl]
    keyspace: str
    keyspace_replication: int
    statements: Sequence[str]


def plan_of(settings: Settings) -> Plan:
    """The plan of these settings. Raises RequestError where they contradict ``production`` or themselves."""
    kafka = settings.kafka
    names = Names(kafka.prefix)
    replication, config = _durability(settings)
    ingress = ingress_of(settings)
    pools = sorted({*settings.pools, settings.worker.pool})
    topics = [
        spec._replace(config=spec.config | config) for spec in topic_specs(names, settings.partitions, pools, ingress)
    ]
    copies = _keyspace_copies(settings)
    rights = acls(names, ingress, settings.kafka_records.allow, sorted(settings.intake.sources))
    return Plan(topics, replication, rights, settings.cassandra.keyspace, copies, _statements(settings, copies))


def ingress_of(settings: Settings) -> list[str]:
    """The topics beside job-events that are bound to a tenant."""
    own = Names(settings.kafka.prefix).job_events
    return sorted(topic for topic in settings.intake.tenants if topic != own)


def _durability(settings: Settings) -> tuple[int, dict[str, str]]:
    """Copies of each topic, and what its config says about them."""
    kafka = settings.kafka
    replication, in_sync = kafka.replication, kafka.min_insync
    if settings.production:
        replication, in_sync = replication or _COPIES, in_sync or _IN_SYNC
        _refuse_single("kafka.replication", replication, "a topic with one copy is gone with its machine")
        _refuse_single("kafka.min_insync", in_sync, "what one copy acknowledged is gone with its machine")
    if replication and in_sync > replication:
        raise RequestError(
            f"kafka.min_insync = {in_sync} of {replication} copies can never be met",
            pointer="/kafka/min_insync",
            hint=f"Set at most {replication}; {max(1, replication - 1)} lets one machine be away",
        )
    config = {"min.insync.replicas": str(in_sync)} if in_sync else {}
    return replication or BROKER_DEFAULT, config | (_SAFE_CONFIG if settings.production else {})


def _keyspace_copies(settings: Settings) -> int:
    cassandra = settings.cassandra
    if not settings.production:
        return cassandra.replication
    copies = cassandra.replication if "replication" in cassandra.model_fields_set else _COPIES
    _refuse_single("cassandra.replication", copies, "a quorum of one or two copies does not outlive a machine", least=3)
    return copies


def _refuse_single(name: str, value: int, why: str, *, least: int = 2) -> None:
    if value < least:
        raise RequestError(
            f"{name} = {value} is refused in production: {why}",
            pointer=f"/{name.replace('.', '/')}",
            hint=f"Leave it out, set {least} or more, or production = false on a cluster for trying things out",
        )


def _statements(settings: Settings, copies: int) -> list[str]:
    """What the migrator would run on an empty server, and the notes by which it knows that it has run."""
    cassandra = settings.cassandra
    known = migrations()
    return [
        keyspace_statement(cassandra.keyspace, cassandra.local_dc, copies),
        f"USE {cassandra.keyspace}",
        *(statement for migration in known for statement in migration.statements),
        *(note_statement(migration) for migration in known),
    ]
