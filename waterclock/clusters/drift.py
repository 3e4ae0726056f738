"""Where what stands differs from what is planned. Pure.

What must hold: nothing that differs is ever changed by us: the number of partitions is the data's format, and whoever
set another retention may have had a reason. So a difference is said, with the line that would end it, by Kafka's tools.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import NamedTuple

from waterclock.log.kafka_cluster import Right, TopicSeen
from waterclock.log.port import TopicSpec

from .acls import Acl
from .plan import BROKER_DEFAULT
from .render import Principal


class Drift(NamedTuple):
    """One difference. ``serious``: Waterclock does not work so, or loses data; ``remedy``: what would end it."""

    topic: str
    what: str
    remedy: str
    serious: bool = False


_DURABILITY = frozenset({"min.insync.replicas", "unclean.leader.election.enable"})
_FORMAT = frozenset({"message.timestamp.type", "cleanup.policy"})
"""Settings that the roles stand on: with another value they decide wrongly, not only otherwise."""


def drift_of(spec: TopicSpec, replication: int, seen: TopicSeen) -> list[Drift]:
    """All differences of one topic. ``replication``: copies that are planned, or BROKER_DEFAULT."""
    found: list[Drift] = []
    if seen.partitions != spec.partitions:
        found.append(
            Drift(
                spec.name,
                f"{seen.partitions} partitions, not {spec.partitions}",
                f"set partitions = {seen.partitions}, or another kafka.prefix: the number is part of the data's format",
                serious=True,
            )
        )
    if replication != BROKER_DEFAULT and seen.replication < replication:
        remedy = "kafka-reassign-partitions.sh adds copies (Strimzi: spec.replicas)"
        found.append(Drift(spec.name, f"{seen.replication} copies, not {replication}", remedy, serious=True))
    found += [
        _config_drift(spec.name, key, value, seen.config)
        for key, value in spec.config.items()
        if seen.config.get(key) != value
    ]
    return found


def _config_drift(topic: str, key: str, wanted: str, config: Mapping[str, str]) -> Drift:
    words = ["--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", f"{key}={wanted}"]
    return Drift(
        topic,
        f"{key} = {config.get(key, 'unknown')}, not {wanted}",
        f"kafka-configs.sh --bootstrap-server ... {shlex.join(words)}",
        serious=key in _FORMAT | _DURABILITY,
    )


def rights_of(acl: Acl, principal: Principal) -> list[Right]:
    """An ACL of the plan as single rights, in the words of the brokers."""
    return [
        Right(f"User:{principal(acl.role)}", acl.resource.value, acl.name, acl.prefixed, _word(operation))
        for operation in acl.operations
    ]


def _word(operation: str) -> str:
    """``DescribeConfigs`` as the brokers call it: ``DESCRIBE_CONFIGS``."""
    return "".join(f"_{letter}" if letter.isupper() and at else letter for at, letter in enumerate(operation)).upper()
