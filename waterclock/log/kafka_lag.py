"""How far behind each consumer group of a real Kafka is, as ``kafka-consumer-groups`` counts it.

Committed positions are asked for with ``require_stable``: of a round that is just being committed the answer waits, so
that a lag is never seen that is already gone. The end is the high watermark. How it fails: BackendDown after 10 s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from waterclock.model.errors import BackendDown

from .kafka_errors import BACKEND
from .kafka_metadata import cluster_metadata
from .kafka_properties import Properties
from .kafka_watch import Watch
from .port import TopicPartition

_TIMEOUT_S = 10.0


class GroupLag(NamedTuple):
    """One partition that a group has a position in. The last three say who holds it now; "-": nobody."""

    group: str
    topic: str
    partition: int
    current_offset: int
    log_end_offset: int
    lag: int
    consumer_id: str = "-"
    host: str = "-"
    client_id: str = "-"


def group_lags(
    bootstrap: str, prefix: str, groups: Sequence[str] = (), *, extra: Mapping[str, str] = MappingProxyType({})
) -> list[GroupLag]:
    """A line for each group, topic and partition with a committed position; ``groups``: only these.

    Without ``groups``: all whose name begins with ``<prefix>.``. Raises BackendDown.
    """
    properties = Properties(
        bootstrap, client_id=f"{prefix}-lag", transaction_timeout_s=10, session_timeout_s=10, extra=extra
    )
    watch = Watch("lag")
    with AdminClient(properties.admin(), logger=watch, error_cb=watch.on_error) as admin:
        cluster_metadata(admin, watch, _TIMEOUT_S, doing="groups")  # says why where the brokers do not let us in
        chosen = sorted(groups or _groups_under(admin, prefix))
        return _lags(admin, chosen) if chosen else []


def _groups_under(admin: AdminClient, prefix: str) -> list[str]:
    listing = _answer(admin.list_consumer_groups(request_timeout=_TIMEOUT_S))
    if listing.errors:  # a broker that did not answer is no broker without groups
        raise BackendDown(BACKEND, f"no list of groups: {listing.errors[0]}")
    found = listing.valid
    return [each.group_id for each in found if each.group_id.startswith(f"{prefix}.")]


def _lags(admin: AdminClient, groups: Sequence[str]) -> list[GroupLag]:
    positions = {group: _committed(admin, group) for group in groups}
    ends = _ends(admin, {place for found in positions.values() for place in found})
    owners = _owners(admin, groups)
    return [
        GroupLag(
            group,
            *place,
            offset,
            ends[place],
            max(0, ends[place] - offset),
            *owners.get((group, place), ("-", "-", "-")),
        )
        for group, found in positions.items()
        for place, offset in sorted(found.items())
    ]


def _committed(admin: AdminClient, group: str) -> dict[TopicPartition, int]:
    asked = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], require_stable=True, request_timeout=_TIMEOUT_S
    )
    found = _answer(asked[group]).topic_partitions
    return {TopicPartition(at.topic, at.partition): at.offset for at in found if at.offset >= 0 and not at.error}


def _ends(admin: AdminClient, places: set[TopicPartition]) -> dict[TopicPartition, int]:
    if not places:
        return {}
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # confluent-kafka types this one not at all
    asked = admin.list_offsets({Place(*place): latest for place in places}, request_timeout=_TIMEOUT_S)
    return {TopicPartition(at.topic, at.partition): _answer(future).offset for at, future in asked.items()}


def _owners(admin: AdminClient, groups: Sequence[str]) -> dict[tuple[str, TopicPartition], tuple[str, str, str]]:
    """Who holds each partition of each group now: consumer id, host, client id."""
    asked = admin.describe_consumer_groups(list(groups), request_timeout=_TIMEOUT_S)
    return {
        (group, TopicPartition(at.topic, at.partition)): (member.member_id, member.host, member.client_id)
        for group, future in asked.items()
        for member in _answer(future).members
        for at in (member.assignment.topic_partitions if member.assignment else ())
    }


def _answer(future: Any) -> Any:
    try:
        return future.result(_TIMEOUT_S + 1)
    except (KafkaException, TimeoutError) as error:
        raise BackendDown(BACKEND, f"no answer about groups within {_TIMEOUT_S:.0f} s: {error}") from error
