"""Makes what a plan asks for and the clusters lack; says what it made, what it kept, and what differs.

What must hold: what exists is never changed, lowered or deleted, so that running it twice is harmless, also by two at
once (CQL apart: one runner at a time). Kafka comes before Cassandra, because a topic that cannot be made is the usual
refusal, and it costs nothing. How it fails: with the first refusal (RequestError, AccessRefused, BackendDown); what was
made until then stays, and the next call goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from waterclock.clock import SystemClock
from waterclock.log.kafka_cluster import KafkaCluster
from waterclock.log.kafka_topics import ensure_topics
from waterclock.settings import Settings
from waterclock.store.access import driver_options
from waterclock.store.migrate import migrate

from .drift import drift_of, rights_of
from .plan import Plan
from .render import Principal

_STORE_DEADLINE_S = 20.0


class Step(NamedTuple):
    """One thing: ``result`` is made, kept, differs or skipped; ``note`` says how it differs, or why.

    ``serious``: with this difference Waterclock decides wrongly, or loses data.
    """

    what: str
    name: str
    result: str
    note: str = ""
    next_step: str = ""
    serious: bool = False


def make(plan: Plan, settings: Settings, principal: Principal) -> Iterator[Step]:
    """Make what is missing, step by step. Raises RequestError, AccessRefused, BackendDown, Conflict."""
    yield from _topics(plan, settings)
    yield from _rights(plan, settings, principal)
    yield from _tables(plan, settings)


def _cluster(settings: Settings) -> KafkaCluster:
    kafka = settings.kafka
    return KafkaCluster(kafka.bootstrap, client_id=f"{kafka.prefix}-init", extra=kafka.properties)


def _topics(plan: Plan, settings: Settings) -> Iterator[Step]:
    with _cluster(settings) as cluster:
        seen = cluster.topics([spec.name for spec in plan.topics])
    missing = [spec for spec in plan.topics if spec.name not in seen]
    kafka = settings.kafka
    made = ensure_topics(kafka.bootstrap, missing, replication_factor=plan.replication, extra=kafka.properties)
    for spec in plan.topics:
        there = seen.get(spec.name)
        if there is None:
            yield Step("topic", spec.name, "made" if spec.name in made else "kept")
            continue
        differences = drift_of(spec, plan.replication, there)
        for each in differences:
            yield Step("topic", spec.name, "differs", each.what, each.remedy, each.serious)
        if not differences:
            yield Step("topic", spec.name, "kept")


def _rights(plan: Plan, settings: Settings, principal: Principal) -> Iterator[Step]:
    with _cluster(settings) as cluster:
        there = cluster.rights()
        if there is None:
            yield Step("acl", f"{len(plan.acls)} planned", "skipped", "the brokers have no authorizer: all may do all")
            return
        for acl in plan.acls:
            missing = [right for right in rights_of(acl, principal) if right not in there]
            cluster.allow(missing)
            name = f"{principal(acl.role)}: {', '.join(acl.operations)} on {acl.resource.value} {acl.name}"
            yield Step("acl", f"{name}*" if acl.prefixed else name, "made" if missing else "kept")


def _tables(plan: Plan, settings: Settings) -> Iterator[Step]:
    cassandra = settings.cassandra
    ran = migrate(
        cassandra.contact_points,
        cassandra.port,
        cassandra.keyspace,
        SystemClock(),
        replication=plan.keyspace_replication,
        local_dc=cassandra.local_dc,
        deadline_s=_STORE_DEADLINE_S,
        options=driver_options(cassandra),
    )
    for name in ran:
        yield Step("schema", f"{cassandra.keyspace}: {name}", "made")
    if not ran:
        yield Step("schema", cassandra.keyspace, "kept")
