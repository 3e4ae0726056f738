"""The Log port over a real Kafka, by confluent-kafka (librdkafka).

What it makes lives in ``kafka_producer``, ``kafka_consumer``, ``kafka_reader`` and ``kafka_appender``; how the client
is configured in ``kafka_properties``; what its errors mean in ``kafka_errors``. Here are the questions about
partitions, asked through one read_uncommitted client of this Log, made at the first question: one round trip, half a
millisecond, and no administrator's threads. How it fails: BackendDown after 10 s without an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from waterclock.model.errors import BackendDown, NotFound
from waterclock.model.ids import Instant

from .kafka_appender import KafkaAppender
from .kafka_closing import close_in_background
from .kafka_consumer import KafkaConsumer
from .kafka_errors import BACKEND, LeaderMoved, error_of, query_error
from .kafka_groups import committed_of, instances_of
from .kafka_metadata import cluster_metadata
from .kafka_open import open_places
from .kafka_producer import KafkaProducer
from .kafka_properties import Properties
from .kafka_reader import KafkaReader
from .kafka_topic_ids import topic_id_of
from .kafka_trial import check_fit
from .kafka_watch import Watch
from .port import Committed, Isolation, TopicPartition

_ANSWER_TIMEOUT_S = 10.0
_US_PER_MS = 1_000


class KafkaLog:
    """One process's way to one Kafka cluster.

    ``transaction_timeout_s`` bounds how long a dead process can block readers (< lease < max.poll.interval);
    ``session_timeout_s`` how long a dead member keeps its partitions. ``extra`` passes through to every
    client. ``patient``: group members may wait up to 100 ms for a fuller fetch, for roles that nobody waits for.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str,
        transaction_timeout_s: float = 10,
        session_timeout_s: float = 10,
        extra: Mapping[str, str] = MappingProxyType({}),
        patient: bool = False,
    ) -> None:
        self._properties = Properties(
            bootstrap,
            client_id=client_id,
            transaction_timeout_s=transaction_timeout_s,
            session_timeout_s=session_timeout_s,
            extra=extra,
            patient=patient,
        )
        self._client_id = client_id
        self._asker: Consumer | None = None
        self._watch = Watch(f"{client_id} questions")
        self._partitions: dict[str, int] = {}

    def check_fit(self) -> None:
        """Whether ``extra`` fits beside what a role sets. Raises RequestError: it contradicts one of them."""
        check_fit(self._properties)

    def producer(self, transactional_id: str) -> KafkaProducer:
        return KafkaProducer(self._properties.transactional(transactional_id), transactional_id)

    def appender(self, *, linger_s: float = 0.0) -> KafkaAppender:
        return KafkaAppender(self._properties.appending(linger_s), f"{self._client_id} appender")

    def consumer(
        self, group: str, topics: Sequence[str], *, instance: str | None = None, headers: bool = False
    ) -> KafkaConsumer:
        return KafkaConsumer(self._properties.member(group, instance), group, topics, headers=headers)

    def reader(self, isolation: Isolation, *, headers: bool = False) -> KafkaReader:
        return KafkaReader(self._properties.reader(isolation), f"{self._client_id} reader", headers=headers)

    def partitions(self, topic: str) -> int:
        known = self._partitions.get(topic)
        if known is None:
            known = self._partitions[topic] = self._count_partitions(topic)
        return known

    def topic_id(self, topic: str) -> str:
        watch = Watch(f"{self._client_id} topics")
        with AdminClient(self._properties.admin(), logger=watch, error_cb=watch.on_error) as admin:
            return topic_id_of(admin, topic)

    def low_watermark(self, partition: TopicPartition) -> int:
        return self._offset(partition, OFFSET_BEGINNING)

    def high_watermark(self, partition: TopicPartition) -> int:
        return self._offset(partition, OFFSET_END)

    def offset_at(self, partition: TopicPartition, at: Instant) -> int:
        # Kafka's record times are milliseconds: "at or after" rounds up.
        found = self._offset(partition, max(0, -(-at // _US_PER_MS)))
        return found if found >= 0 else self.high_watermark(partition)

    def open_from(self, topics: Sequence[str]) -> dict[TopicPartition, int]:
        places: list[TopicPartition] = []
        for topic in topics:
            with suppress(NotFound):
                places += [TopicPartition(topic, number) for number in range(self.partitions(topic))]
        watch = Watch(f"{self._client_id} open rounds")
        with AdminClient(self._properties.admin(), logger=watch, error_cb=watch.on_error) as admin:
            return open_places(admin, places)

    def members(self, group: str) -> frozenset[str]:
        watch = Watch(f"{self._client_id} groups")
        with AdminClient(self._properties.admin(), logger=watch, error_cb=watch.on_error) as admin:
            return instances_of(admin, group)

    def group_positions(self, group: str) -> dict[TopicPartition, Committed]:
        watch = Watch(f"{self._client_id} groups")
        with AdminClient(self._properties.admin(), logger=watch, error_cb=watch.on_error) as admin:
            return committed_of(admin, group)

    def close(self) -> None:
        asker, self._asker = self._asker, None
        if asker is not None:
            close_in_background(asker.close, f"{self._client_id} questions")

    def _offset(self, partition: TopicPartition, question: int) -> int:
        """ListOffsets READ_UNCOMMITTED: the client takes a time in ms, or the markers for the beginning and the end.

        While no broker answers, and while its metadata is older than the topic, the client calls a partition that
        exists unknown. Only a broker can deny one: so it is asked, and then the question is put once more. The same
        where a leader has changed or come back: the client learns of it by being refused, partition by partition.
        """
        try:
            return self._ask(partition, question)
        except LeaderMoved:
            self._count_partitions(partition.topic)  # the brokers' answer renews what the client knows of leaders
        except NotFound:
            if partition.partition >= self._count_partitions(partition.topic):
                raise
        try:
            return self._ask(partition, question)
        except NotFound as denied:
            raise BackendDown(BACKEND, str(denied)) from denied

    def _ask(self, partition: TopicPartition, question: int) -> int:
        doing = f"offsets of {partition.topic}[{partition.partition}]"
        asker = self._questions()
        place = Place(partition.topic, partition.partition, question)
        try:
            found = asker.offsets_for_times([place], _ANSWER_TIMEOUT_S)[0]
        except KafkaException as raised:
            asker.poll(0)  # serves its log lines, and why a broker did not let us in
            raise query_error(error_of(raised), doing, self._watch.refusal) from raised
        asker.poll(0)
        if found.error is not None:
            raise query_error(found.error, doing)
        return found.offset

    def _count_partitions(self, topic: str) -> int:
        asker, doing = self._questions(), f"partitions of {topic}"
        found = cluster_metadata(asker, self._watch, _ANSWER_TIMEOUT_S, topic=topic, doing=doing).topics[topic]
        if found.error is not None:
            raise query_error(found.error, doing)
        return len(found.partitions)

    def _questions(self) -> Consumer:
        if self._asker is None:
            self._watch = watch = Watch(f"{self._client_id} questions")
            conf = self._properties.reader(Isolation.UNCOMMITTED)
            self._asker = Consumer(conf, logger=watch, error_cb=watch.on_error)
        return self._asker
