"""Who may do what on Kafka: the smallest set of rights for each role, over the prefix's names. Pure.

What must hold: only roles may write ``run-events``, ``commands`` and the tiers; everybody else writes ``job-events``
and nothing more. Each topic that the intake reads has a producer of its own, because to write there is to make jobs of
the tenant that it is bound to. Who may *initialise* a transactional id may fence its owner, so each role has its own
prefix of ids.

How it fails: a right that is missing shows as an error of the broker that names topic, group or id; it is waited out.
A prefix of names covers everything that begins with it: of two installations on one cluster neither's prefix may begin
the other's (``waterclock`` and ``waterclock.test`` would share).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from waterclock.wire.names import ROLES_WITH_STATE, RUNGS, Names

_ROUTER_CORES = ("retry_router", "retry_ladder", "lease_keeper", "worker")
"""Whose transactional ids the router's process initialises: its three cores', and a worker's to fence it."""

READER_GROUP = "waterclock.reader"
"""Readers without membership name this group and never join it, under any prefix: the client wants a name."""


class Resource(StrEnum):
    """What a right is about, in the words of ``kafka-acls``."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"
    CLUSTER = "cluster"


class Acl(NamedTuple):
    """``role`` may do ``operations`` to the resource of this name (``prefixed``: to all whose name begins so)."""

    role: str
    resource: Resource
    name: str
    prefixed: bool
    operations: tuple[str, ...]


class _Needs(NamedTuple):
    """What one role reads and writes. A name that ends in a dot is a prefix."""

    reads: Sequence[str] = ()
    writes: Sequence[str] = ()
    groups: Sequence[str] = ()
    transactional_ids: Sequence[str] = ()
    describes: Sequence[str] = ()
    """Topics that it asks for, and neither reads nor writes."""
    asks_groups: Sequence[str] = ()
    """Groups whose positions it asks for."""
    looks_at: Sequence[str] = ()
    """Topics and groups whose settings or positions it asks for, and the cluster's."""


CLUSTER = "kafka-cluster"
_LOOK = ("Describe", "DescribeConfigs")


def acls(
    names: Names, ingress: Sequence[str] = (), records: Sequence[str] = (), sources: Sequence[str] = ()
) -> list[Acl]:
    """Every right of every role. ``ingress``: topics that the intake reads beside job-events; ``records``: those that
    jobs may write to by a worker; ``sources``: those whose records may start jobs.

    ``producer`` is any service that sends job events, ``producer-<topic>`` one that does so by another topic;
    ``operator`` a person with the command line, who reads all and
    commands jobs; whoever runs ``init`` needs more for that hour: Create on topics, Alter on the cluster.
    """
    return [acl for role, needs in _needs(names, ingress, records, sources).items() for acl in _granted(role, needs)]


def _needs(names: Names, ingress: Sequence[str], records: Sequence[str], sources: Sequence[str]) -> dict[str, _Needs]:
    said = [names.commands, names.run_events, names.control]
    work, everything = f"{names.prefix}.runs.", f"{names.prefix}."
    own, rungs = {role: [names.state(role)] for role in ROLES_WITH_STATE}, [names.delay(rung) for rung in RUNGS]
    leases, ends = [names.leases, names.heartbeats], [names.dlq, names.rejects]
    ingress = [topic for topic in ingress if topic != names.job_events]
    return {
        "dispatcher": _Needs(
            reads=[names.commands, names.run_events, *own["dispatcher"]],
            writes=[*said, work, names.rejects, names.triggers, *own["dispatcher"]],
            groups=[names.group("dispatcher")],
            transactional_ids=[names.transactional_id("dispatcher", "")],
        ),
        "worker": _Needs(
            reads=[work, names.run_events, names.control, names.leases],
            writes=[names.run_events, names.leases, names.heartbeats, names.rejects, names.run_logs, *records],
            groups=[f"{names.prefix}.workers."],
            transactional_ids=[names.transactional_id("worker", "")],
        ),
        "retry-router": _Needs(
            reads=[names.run_events, work, names.triggers, *leases, *rungs, *own["retry-router"]],
            writes=[*said, *ends, work, *rungs, *leases, *own["retry-router"]],
            groups=[names.group("retry_router"), f"{names.group('retry-ladder')}.", names.group("lease-keeper")],
            transactional_ids=[names.transactional_id(role, "") for role in _ROUTER_CORES],
            looks_at=[f"{names.prefix}.workers."],
            asks_groups=[names.group("dispatcher")],
        ),
        "dag-engine": _Needs(
            reads=[names.run_events, *own["dag-engine"]],
            writes=[names.run_events, work, names.control, *own["dag-engine"]],
            groups=[names.group("dag-engine")],
            transactional_ids=[names.transactional_id("dag-engine", "")],
        ),
        "recorder": _Needs(
            reads=[names.commands, names.run_events, names.run_logs, names.heartbeats, *own["recorder"]],
            writes=own["recorder"],
            groups=[names.group("recorder"), names.group("recorder_logs")],
            transactional_ids=[names.transactional_id("recorder", "")],
            asks_groups=[names.group("dispatcher")],
        ),
        "intake": _Needs(
            reads=[names.job_events, *ingress, *([names.triggers, *sources] if sources else [])],
            writes=[names.commands, names.rejects],
            describes=[work],
            groups=[names.group("intake"), *([names.group("intake-sources")] if sources else [])],
            transactional_ids=[
                names.transactional_id(role, "") for role in ("intake", *(["intake-sources"] if sources else []))
            ],
        ),
        "api": _Needs(
            reads=[names.run_events, names.heartbeats, names.dlq], writes=[names.commands], looks_at=[everything]
        ),
        "operator": _Needs(reads=[everything], writes=[names.commands], looks_at=[everything, *ingress, CLUSTER]),
        "producer": _Needs(writes=[names.job_events]),
        **{f"producer-{topic}": _Needs(writes=[topic]) for topic in ingress},
    }


def _granted(role: str, needs: _Needs) -> Iterator[Acl]:
    for name in dict.fromkeys((*needs.reads, *needs.writes)):
        operations = (*(["Read"] if name in needs.reads else []), *(["Write"] if name in needs.writes else []))
        yield _acl(role, Resource.TOPIC, name, (*operations, "Describe"))
    for name in needs.describes:
        yield _acl(role, Resource.TOPIC, name, ("Describe",))
    for name in (*needs.groups, *([READER_GROUP] if needs.reads else [])):
        yield _acl(role, Resource.GROUP, name, ("Read", "Describe"))
    for name in needs.transactional_ids:
        yield _acl(role, Resource.TRANSACTIONAL_ID, name, ("Write", "Describe"))
    for name in needs.asks_groups:
        yield _acl(role, Resource.GROUP, name, ("Describe",))
    for name in needs.looks_at:
        if name == CLUSTER:
            yield _acl(role, Resource.CLUSTER, name, _LOOK)
        else:
            yield _acl(role, Resource.TOPIC, name, _LOOK)
            if name.endswith("."):  # a topic of somebody's own has no group of ours under its name
                yield _acl(role, Resource.GROUP, name, ("Describe",))


def _acl(role: str, resource: Resource, name: str, operations: tuple[str, ...]) -> Acl:
    return Acl(role, resource, name, name.endswith("."), operations)
