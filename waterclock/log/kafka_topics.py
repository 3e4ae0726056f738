"""Making the topics, and checking that those there are as they must be. For ``waterclock up``, ``init`` and tests.

What must hold: a topic that exists is never changed here. Its number of partitions is on-disk format (slots, shards
and keys follow from it), so a different number is refused, with the way out. Running it twice is harmless; two at
once as well. How it fails: BackendDown where no broker answers, RequestError where a topic is not as asked for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from waterclock.model.errors import BackendDown, RequestError

from .kafka_errors import BACKEND, NOT_ALLOWED, error_of, query_error
from .kafka_metadata import cluster_metadata
from .kafka_properties import Properties
from .kafka_watch import Watch
from .port import TopicSpec

_ANSWER_TIMEOUT_S = 15.0
_VISIBLE_WAIT_S = 15.0
_VISIBLE_WAIT_PER_PARTITION_S = 0.02
"""A broker makes the files of one after the other: 256 partitions of each topic took two busy cores over 15 s."""
_LOOK_AGAIN_S = 0.05


def ensure_topics(
    bootstrap: str,
    specs: Sequence[TopicSpec],
    *,
    replication_factor: int = 1,
    extra: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Make what is missing, check the rest, wait until every partition is served. Returns the names of those made.

    Raises RequestError (another number of partitions, a refused configuration) and BackendDown.
    """
    properties = Properties(
        bootstrap, client_id="waterclock-topics", transaction_timeout_s=10, session_timeout_s=10, extra=extra
    )
    watch = Watch("topics")
    with AdminClient(properties.admin(), logger=watch, error_cb=watch.on_error) as admin:
        there = _partitions_by_topic(admin, watch)
        missing = [spec for spec in specs if spec.name not in there]
        made = _create(admin, missing, replication_factor) if missing else []
        _await_topics(admin, watch, specs)
        await_served(admin, [Place(spec.name, at) for spec in specs for at in range(spec.partitions)])
    return made


def _create(admin: AdminClient, missing: Sequence[TopicSpec], replication_factor: int) -> list[str]:
    new = [
        NewTopic(s.name, num_partitions=s.partitions, replication_factor=replication_factor, config=dict(s.config))
        for s in missing
    ]
    made: list[str] = []
    for name, answer in admin.create_topics(new, request_timeout=_ANSWER_TIMEOUT_S).items():
        try:
            answer.result(_ANSWER_TIMEOUT_S + 1)
        except KafkaException as raised:
            error = error_of(raised)
            if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise _creation_error(error, name) from raised
        else:
            made.append(name)
    return made


def _creation_error(error: KafkaError, name: str) -> RequestError | BackendDown:
    if error.retriable() or error.code() in {KafkaError._TIMED_OUT, KafkaError._TRANSPORT}:
        return BackendDown(BACKEND, f"topic {name} was not made: {error.str()}")
    return RequestError(f"topic {name} cannot be made: {error.str()}", hint="Check the broker's limits and the ACLs")


def _await_topics(admin: AdminClient, watch: Watch, specs: Sequence[TopicSpec]) -> None:
    """A topic is known a moment after it was made, when the broker's metadata names a leader of each partition."""
    wait_s = _visible_wait_s(sum(spec.partitions for spec in specs))
    deadline = time.monotonic() + wait_s
    while True:
        there = _partitions_by_topic(admin, watch)
        absent = [spec.name for spec in specs if spec.name not in there]
        if not absent:
            break
        if time.monotonic() > deadline:
            raise BackendDown(BACKEND, f"{absent[0]} has no leader yet after {wait_s:.0f} s")
        admin.poll(_LOOK_AGAIN_S)
    for spec in specs:
        if there[spec.name] != spec.partitions:
            raise RequestError(
                f"topic {spec.name} has {there[spec.name]} partitions, not {spec.partitions}",
                hint="The number of partitions is part of the data's format: use the number it was made with, "
                "or another prefix",
            )


def await_served(admin: AdminClient, places: Sequence[Place]) -> None:
    """Wait until each partition's leader answers for it: 15 s, and 20 ms for each. Raises AccessRefused, BackendDown.

    Why not content with metadata: a KRaft broker publishes who leads a new partition before its own replica is
    there, and refuses who asks in between (NOT_LEADER_OR_FOLLOWER, error 6 of the protocol).
    """
    wait_s = _visible_wait_s(len(places))
    deadline = time.monotonic() + wait_s
    unserved = list(places)
    while unserved:
        refusals = _refusals(admin, unserved)
        for place, error in refusals.items():
            doing = f"topic {place.topic}, partition {place.partition}: not served yet"
            if error.code() in NOT_ALLOWED:
                raise query_error(error, doing)
            if time.monotonic() > deadline:
                raise BackendDown(BACKEND, f"{doing} after {wait_s:.0f} s: {error.name()}, {error.str()}")
        unserved = list(refusals)
        if unserved:
            admin.poll(_LOOK_AGAIN_S)


def _visible_wait_s(partitions: int) -> float:
    return _VISIBLE_WAIT_S + _VISIBLE_WAIT_PER_PARTITION_S * partitions


def _refusals(admin: AdminClient, places: Sequence[Place]) -> dict[Place, KafkaError]:
    """Why a partition's end cannot be told now, for those whose cannot."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # confluent-kafka types this one not at all
    refusals = {}
    for place, answer in admin.list_offsets(dict.fromkeys(places, latest), request_timeout=_ANSWER_TIMEOUT_S).items():
        try:
            answer.result(_ANSWER_TIMEOUT_S + 1)
        except KafkaException as raised:
            refusals[place] = error_of(raised)
    return refusals


def _partitions_by_topic(admin: AdminClient, watch: Watch) -> dict[str, int]:
    """The topics all of whose partitions have a leader."""
    return {
        name: len(topic.partitions)
        for name, topic in cluster_metadata(admin, watch, _ANSWER_TIMEOUT_S, doing="topics").topics.items()
        if topic.error is None and topic.partitions and all(p.leader >= 0 for p in topic.partitions.values())
    }
