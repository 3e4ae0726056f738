"""Make the topics that are missing, and refuse those that are not as they must be.

A topic with another number of partitions would send every key elsewhere: that is refused, never repaired. Fails with
Conflict for that, and with BackendDown when the cluster does not answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from waterclock.model.errors import BackendDown, Conflict
from waterclock.wire.names import Names, TopicSpec, topic_specs

_TIMEOUT_S = 30.0


def ensure_topics(
    bootstrap: str,
    names: Names,
    partitions: int,
    *,
    pools: Sequence[str] = ("default",),
    replication: int = -1,
    client: Mapping[str, Any] | None = None,
) -> tuple[int, int]:
    """Make what is missing; returns (made, all). ``replication`` -1: the cluster's default."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **(client or {})})
    wanted = topic_specs(names, partitions, pools)
    missing = _missing(admin, wanted)
    new = [NewTopic(s.name, s.partitions, replication_factor=replication, config=s.config) for s in missing]
    for name, future in admin.create_topics(new, operation_timeout=_TIMEOUT_S).items() if new else ():
        try:
            future.result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # somebody else made it a moment ago
                raise BackendDown("kafka", f"topic {name} cannot be made: {error.args[0].str()}") from error
    return len(missing), len(wanted)


def _missing(admin: AdminClient, wanted: Sequence[TopicSpec]) -> list[TopicSpec]:
    try:
        found = admin.list_topics(timeout=_TIMEOUT_S).topics
    except KafkaException as error:
        raise BackendDown("kafka", f"no answer within {_TIMEOUT_S:.0f} s: {error.args[0].str()}") from error
    for spec in wanted:
        topic = found.get(spec.name)
        if topic is not None and len(topic.partitions) != spec.partitions:
            raise Conflict(
                f"Topic {spec.name} has {len(topic.partitions)} partitions and not {spec.partitions}",
                hint="Set partitions (waterclock.toml) to what is there, or use another kafka.prefix",
            )
    return [spec for spec in wanted if spec.name not in found]
