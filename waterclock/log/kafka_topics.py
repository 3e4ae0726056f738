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
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from waterclock.model.errors import BackendDown, RequestError

from .kafka_errors import BACKEND, error_of
from .kafka_metadata import cluster_metadata
from .kafka_properties import Properties
from .kafka_watch import Watch
from .port import TopicSpec

_ANSWER_TIMEOUT_S = 15.0
_VISIBLE_WAIT_S = 15.0
_LOOK_AGAIN_S = 0.05


def ensure_topics(
    bootstrap: str,
    specs: Sequence[TopicSpec],
    *,
    replication_factor: int = 1,
    extra: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Make what is missing, check the rest, wait until every topic has leaders. Returns the names of those made.

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
    """A topic is usable a moment after it was made, when the broker's metadata names a leader of each partition."""
    deadline = time.monotonic() + _VISIBLE_WAIT_S
    while True:
        there = _partitions_by_topic(admin, watch)
        absent = [spec.name for spec in specs if spec.name not in there]
        if not absent:
            break
        if time.monotonic() > deadline:
            raise BackendDown(BACKEND, f"{absent[0]} has no leader yet after {_VISIBLE_WAIT_S:.0f} s")
        admin.poll(_LOOK_AGAIN_S)
    for spec in specs:
        if there[spec.name] != spec.partitions:
            raise RequestError(
                f"topic {spec.name} has {there[spec.name]} partitions, not {spec.partitions}",
                hint="The number of partitions is part of the data's format: use the number it was made with, "
                "or another prefix",
            )


def _partitions_by_topic(admin: AdminClient, watch: Watch) -> dict[str, int]:
    """The topics all of whose partitions have a leader."""
    return {
        name: len(topic.partitions)
        for name, topic in cluster_metadata(admin, watch, _ANSWER_TIMEOUT_S, doing="topics").topics.items()
        if topic.error is None and topic.partitions and all(p.leader >= 0 for p in topic.partitions.values())
    }
