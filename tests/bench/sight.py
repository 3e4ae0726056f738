"""What somebody outside sees: a reader of committed run-events, and when each event it looks for came by.

It tells events by their text headers and decodes nothing, so that it takes little of the cores it watches.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from tests.acceptance import dumps

PENDING, STARTED, SUCCEEDED = (f"io.waterclock.run.{word}".encode() for word in ("pending", "started", "succeeded"))
LOST = b"io.waterclock.run.attempt-lost"
US = 1_000_000


class Glimpse(NamedTuple):
    """One event: what it is, of which run, when it was appended (the broker's stamp) and seen; microseconds."""

    kind: bytes
    run_id: str
    appended_at: int
    seen_at: int


class Sight(threading.Thread):
    """Reads from where the topic ends now; ``kinds``: what it keeps."""

    def __init__(self, bootstrap: str, topic: str, kinds: Collection[bytes] = (STARTED,)) -> None:
        super().__init__(daemon=True)
        self._consumer: Consumer = dumps.reader(bootstrap, committed=True, fetch_wait_max_ms=100)
        ends = dumps.high_watermarks(bootstrap, topic)
        self._consumer.assign([TopicPartition(topic, number, end) for number, end in ends.items()])
        self._kinds = frozenset(kinds)
        self._ended = threading.Event()
        self._kept: list[tuple[bytes, bytes, int, int]] = []
        gc.disable()  # what is kept are no circles, and to look through a million of them takes 0.4 s: seen too late
        self.start()

    def run(self) -> None:
        while not self._ended.is_set():
            first = self._consumer.poll(0.05)
            batch = [first, *self._consumer.consume(2_000, 0)] if first is not None else []
            now = time.time_ns() // 1_000
            for message in batch:
                if message.error() is None:
                    headers = message.headers()
                    if headers[0][1] in self._kinds:
                        self._kept.append((headers[0][1], headers[1][1], message.timestamp()[1] * 1_000, now))
        self._consumer.close()

    def count(self) -> int:
        """How many it has kept so far."""
        return len(self._kept)

    def since(self, place: int) -> list[Glimpse]:
        """What it has kept from the ``place``-th on."""
        return [Glimpse(kind, run.decode(), appended, seen) for kind, run, appended, seen in self._kept[place:]]

    def stop(self) -> list[Glimpse]:
        """Everything that it kept."""
        self._ended.set()
        self.join()
        gc.enable()
        return self.since(0)


def fire_at(run_id: str) -> int:
    """The fire time that a run's id names, in microseconds."""
    at = datetime.fromisoformat(run_id.rpartition("@")[2])
    return round(at.timestamp() * US)


def delays_ms(seen_at: Iterable[tuple[str, int]]) -> list[float]:
    """From the fire time of each run to when it was seen."""
    return [(at - fire_at(run_id)) / 1_000 for run_id, at in seen_at]
