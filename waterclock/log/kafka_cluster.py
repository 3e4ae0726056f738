"""An administrator's look at a Kafka cluster, for ``init`` and ``doctor``: brokers, topics, settings, rights.

What must hold: looking changes nothing; the one thing that is made here are ACLs (topics: ``kafka_topics.py``), and
they are only added. Every question is bounded. How it fails: BackendDown where nobody answers, AccessRefused where the
user may not ask, RequestError where a broker refuses what was to be made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from waterclock.model.errors import AccessRefused, BackendDown, RequestError

from .kafka_errors import BACKEND, CONNECTION_LOST, error_of, query_error
from .kafka_metadata import cluster_metadata
from .kafka_properties import Properties
from .kafka_watch import Watch
from .port import TopicPartition

_TIMEOUT_S = 10.0
_RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}


class TopicSeen(NamedTuple):
    """A topic as it stands. ``replication``: copies of the partition that has fewest; ``leaderless``: how many."""

    name: str
    partitions: int
    replication: int
    leaderless: int
    config: Mapping[str, str]


class Right(NamedTuple):
    """One ACL, in the words of ``kafka-acls``; ``principal`` with its ``User:``."""

    principal: str
    resource: str
    name: str
    prefixed: bool
    operation: str


class KafkaCluster:
    """One administrator's connection; a context manager."""

    def __init__(self, bootstrap: str, *, client_id: str, extra: Mapping[str, str] = MappingProxyType({})) -> None:
        properties = Properties(
            bootstrap, client_id=client_id, transaction_timeout_s=10, session_timeout_s=10, extra=extra
        )
        self._watch = Watch(client_id)
        self._admin = AdminClient(properties.admin(), logger=self._watch, error_cb=self._watch.on_error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._admin.__exit__(kind, error, trace)

    def brokers(self) -> dict[int, str]:
        """Id and ``host:port`` of every broker."""
        found = cluster_metadata(self._admin, self._watch, _TIMEOUT_S, doing="brokers")
        return {broker.id: f"{broker.host}:{broker.port}" for broker in found.brokers.values()}

    def topics(self, names: Sequence[str]) -> dict[str, TopicSeen]:
        """Those of ``names`` that exist, with all their settings."""
        there = cluster_metadata(self._admin, self._watch, _TIMEOUT_S, doing="topics").topics
        found = {name: there[name] for name in names if name in there and there[name].error is None}
        configs = self._configs([(ResourceType.TOPIC, name) for name in found])
        return {
            name: TopicSeen(
                name,
                len(topic.partitions),
                min((len(each.replicas) for each in topic.partitions.values()), default=0),
                sum(each.leader < 0 for each in topic.partitions.values()),
                configs[name],
            )
            for name, topic in found.items()
        }

    def broker_settings(self, broker: int) -> Mapping[str, str]:
        """All settings of one broker; what is secret is empty."""
        return self._configs([(ResourceType.BROKER, str(broker))])[str(broker)]

    def ends(self, places: Sequence[TopicPartition], *, committed: bool) -> dict[TopicPartition, int]:
        """The high watermarks; ``committed``: where readers of committed records stop (the last stable offset)."""
        if not places:
            return {}
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # confluent-kafka types this one not at all
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = self._admin.list_offsets(
            {Place(*place): latest for place in places}, isolation_level=level, request_timeout=_TIMEOUT_S
        )
        return {TopicPartition(at.topic, at.partition): self._answer("ends", each).offset for at, each in asked.items()}

    def rights(self) -> set[Right] | None:
        """Every ACL that allows something; None where the brokers have no authorizer."""
        anything: Any = None  # the client takes it for "any", and says so in its documentation alone
        everything = AclBindingFilter(
            ResourceType.ANY,
            anything,
            ResourcePatternType.ANY,
            anything,
            anything,
            AclOperation.ANY,
            AclPermissionType.ALLOW,
        )
        try:
            found = self._admin.describe_acls(everything, request_timeout=_TIMEOUT_S).result(_TIMEOUT_S + 1)
        except KafkaException as raised:
            if error_of(raised).code() == KafkaError.SECURITY_DISABLED:
                return None
            raise self._error("rights", raised) from raised
        if not found and self._has_no_authorizer():
            return None
        words = {kind: word for word, kind in _RESOURCES.items()}
        return {
            Right(
                each.principal,
                words.get(each.restype, each.restype.name.lower()),
                each.name,
                each.resource_pattern_type is ResourcePatternType.PREFIXED,
                each.operation.name,
            )
            for each in found
        }

    def _has_no_authorizer(self) -> bool:
        """A broker without one answers that there are no rights, as one does that has none yet."""
        try:
            return not self.broker_settings(min(self.brokers())).get("authorizer.class.name")
        except AccessRefused:
            return False

    def allow(self, rights: Sequence[Right]) -> None:
        """Add these ACLs. Raises RequestError where the brokers refuse one, BackendDown where they do not answer."""
        if not rights:
            return
        asked = self._admin.create_acls([_binding(right) for right in rights], request_timeout=_TIMEOUT_S)
        for right, answer in zip(rights, asked.values(), strict=True):
            try:
                answer.result(_TIMEOUT_S + 1)
            except KafkaException as raised:
                error = error_of(raised)
                if error.code() in CONNECTION_LOST:
                    raise self._error("giving rights", raised) from raised
                raise RequestError(
                    f"{right.operation} on {right.resource} {right.name} was not given to {right.principal}: "
                    f"{error.str()}",
                    hint="Giving rights takes Alter on the cluster",
                ) from raised

    def _configs(self, resources: Sequence[tuple[ResourceType, str]]) -> dict[str, dict[str, str]]:
        if not resources:
            return {}
        asked = self._admin.describe_configs(
            [ConfigResource(kind, name) for kind, name in resources], request_timeout=_TIMEOUT_S
        )
        return {
            resource.name: {key: entry.value or "" for key, entry in self._answer("settings", each).items()}
            for resource, each in asked.items()
        }

    def _answer(self, doing: str, future: Any) -> Any:
        try:
            return future.result(_TIMEOUT_S + 1)
        except KafkaException as raised:
            raise self._error(doing, raised) from raised
        except TimeoutError as late:
            raise BackendDown(BACKEND, f"{doing}: no answer in {_TIMEOUT_S:.0f} s") from late

    def _error(self, doing: str, raised: KafkaException) -> Exception:
        self._admin.poll(0)  # serves why a broker did not let us in
        return query_error(error_of(raised), doing, self._watch.refusal)


def _binding(right: Right) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if right.prefixed else ResourcePatternType.LITERAL
    kind, operation = _RESOURCES[right.resource], AclOperation[right.operation]
    return AclBinding(kind, right.name, pattern, right.principal, "*", operation, AclPermissionType.ALLOW)
