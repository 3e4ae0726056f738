"""Reading partitions of a real Kafka without a group: state topics, control, leases, dumps.

What must hold: positions are explicit and nothing is ever committed. How it fails: a position that retention has
already removed, or that lies beyond the end, raises LostResource at a later poll (start from the low watermark), and at
each poll from then on: the client says it once and delivers nothing more of that partition, as if it were a quiet one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Place

from waterclock.model.errors import Fenced, LostResource

from .kafka_assign import assign_at
from .kafka_closing import close_in_background
from .kafka_errors import error_of, query_error
from .kafka_feed import Feed
from .kafka_places import places_of
from .kafka_properties import Conf
from .kafka_watch import Watch
from .port import Record, TopicPartition


class KafkaReader:
    """The port's Reader over confluent-kafka."""

    def __init__(self, conf: Conf, name: str, *, headers: bool) -> None:
        self._name = name
        watch = Watch(name)
        self._driver = Consumer(conf, logger=watch, error_cb=watch.on_error)
        self._feed = Feed(self._driver, watch, name, headers=headers)
        self._starts: dict[TopicPartition, int] = {}
        self._lost: str | None = None
        self._is_closed = False

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self._starts = dict(positions)
        self._lost = None
        self._feed.forget_loss()
        try:
            assign_at(self._driver, places_of(positions))
        except KafkaException as raised:
            raise query_error(error_of(raised), f"{self._name}: assign") from raised

    def poll(self, max_records: int, timeout_s: float) -> Sequence[Record]:
        if max_records <= 0:
            return ()
        if self._lost is not None:
            raise LostResource(self._lost)
        try:
            return self._feed.take(max_records, timeout_s)
        except Fenced:
            raise
        except LostResource as lost:
            self._lost = str(lost)
            raise

    def position(self, partition: TopicPartition) -> int:
        found = self._driver.position([Place(partition.topic, partition.partition)])[0].offset
        return found if found >= 0 else self._starts[partition]

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            close_in_background(self._driver.close, self._name)
