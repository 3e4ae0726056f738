"""How far behind each consumer group of a real Kafka is, as ``kafka-consumer-groups`` counts it.

Committed positions are asked for as in ``kafka_groups.py``, but also where a round is moving one: what stood before it
counts, for a busy group moves one nearly always. The end is the high watermark. How it fails: BackendDown after 10 s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from waterclock.model.errors import BackendDown

from .kafka_errors import BACKEND
from .kafka_groups import TIMEOUT_S, answer, committed_of
from .kafka_metadata import cluster_metadata
from .kafka_properties import Properties
from .kafka_watch import Watch
from .port import TopicPartition


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
        cluster_metadata(admin, watch, TIMEOUT_S, doing="groups")  # says why where the brokers do not let us in
        chosen = sorted(groups or _groups_under(admin, prefix))
        return _lags(admin, chosen) if chosen else []


def _groups_under(admin: AdminClient, prefix: str) -> list[str]:
    listing = answer(admin.list_consumer_groups(request_timeout=TIMEOUT_S))
    if listing.errors:  # a broker that did not answer is no broker without groups
        raise BackendDown(BACKEND, f"no list of groups: {listing.errors[0]}")
    found = listing.valid
    return [each.group_id for each in found if each.group_id.startswith(f"{prefix}.")]


def _lags(admin: AdminClient, groups: Sequence[str]) -> list[GroupLag]:
    positions = {
        group: {place: position.offset for place, position in committed_of(admin, group, stable=False).items()}
        for group in groups
    }
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


def _ends(admin: AdminClient, places: set[TopicPartition]) -> dict[TopicPartition, int]:
    if not places:
        return {}
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # confluent-kafka types this one not at all
    asked = admin.list_offsets({Place(*place): latest for place in places}, request_timeout=TIMEOUT_S)
    return {TopicPartition(at.topic, at.partition): answer(future).offset for at, future in asked.items()}


def _owners(admin: AdminClient, groups: Sequence[str]) -> dict[tuple[str, TopicPartition], tuple[str, str, str]]:
    """Who holds each partition of each group now: consumer id, host, client id."""
    asked = admin.describe_consumer_groups(list(groups), request_timeout=TIMEOUT_S)
    return {
        (group, TopicPartition(at.topic, at.partition)): (member.member_id, member.host, member.client_id)
        for group, future in asked.items()
        for member in answer(future).members
        for at in (member.assignment.topic_partitions if member.assignment else ())
    }
