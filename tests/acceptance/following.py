"""Reads run-events on and on, from outside, and keeps what it says: the dump of a long check, without reading twice."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import TopicPartition

from tests.acceptance import dumps
from tests.oracle.chronicle import Chronicle

_BATCH = 5_000
_QUIET_S = 0.2
_US_PER_MS = 1_000


class Following:
    """The committed records of run-events so far, and the chronicle they make."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.events: list[dict[str, Any]] = []
        self.chronicle = Chronicle()
        self._bootstrap = bootstrap
        self._topic = topic
        self._consumer = dumps.reader(bootstrap, committed=True)
        self._consumer.assign([TopicPartition(topic, at, 0) for at in dumps.partitions_of(bootstrap, topic)])

    def read_on(self, within_s: float = dumps.DUMP_WITHIN_S) -> Chronicle:
        """Up to the high watermark as it is now. Raises TimeoutError where an open transaction keeps it away."""
        ends = dumps.high_watermarks(self._bootstrap, self._topic)
        until = time.monotonic() + within_s
        while True:
            self.glance(_QUIET_S)
            places = self._consumer.position([TopicPartition(self._topic, at) for at in ends])
            # Not "and nothing more came": under load something always does.
            if all(max(place.offset, 0) >= ends[place.partition] for place in places):
                return self.chronicle
            if time.monotonic() > until:
                raise TimeoutError(f"{self._topic}: read up to {places}, not {ends}: is a transaction open?")

    def glance(self, wait_s: float = 0.0) -> int:
        """What has come meanwhile, and no more: a killed worker's transaction may hide the rest for seconds."""
        read = []
        for message in self._consumer.consume(_BATCH, wait_s):
            if message.error() is not None:
                raise RuntimeError(f"{self._topic}[{message.partition()}]: {message.error()}")
            read.append(
                {
                    "partition": message.partition(),
                    "offset": message.offset(),
                    "timestamp_us": message.timestamp()[1] * _US_PER_MS,
                    "key": message.key(),
                    "value": message.value(),
                }
            )
        self.events += read
        self.chronicle.read(read)
        return len(read)

    def close(self) -> None:
        self._consumer.close()
