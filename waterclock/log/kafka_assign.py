"""Assigning partitions to a Kafka client, and waiting until it has let go of where it stood before.

Why: ``assign`` answers at once, and the client clears its old position of a partition in the background, up to 10 ms
later (measured: one assign in 25, while records keep coming). Until then ``position()`` tells how far an *earlier*
assignment had read. Whoever believes that skips what it was about to read: a claim was called not accepted without a
look, and a position beyond unread work could have been committed.

What must hold: when ``assign_at`` returns, the client's position of each place is unknown (nothing was handed out yet)
or the one that was asked for. How it fails: BackendDown, where the client does not get there within a second.
"""

from __future__ import annotations

import time
from threading import Event

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from waterclock.model.errors import BackendDown

from .kafka_errors import BACKEND

_WITHIN_S = 1.0
_LOOK_EVERY_S = 0.0005


def assign_at(driver: Consumer, places: list[Place]) -> None:
    """Replace the client's assignment by these, each at its offset. Raises KafkaException, BackendDown."""
    driver.assign(places)
    wanted = {(place.topic, place.partition): place.offset for place in places}
    until_s = time.monotonic() + _WITHIN_S
    while not all(
        place.offset < 0 or place.offset == wanted[place.topic, place.partition] for place in driver.position(places)
    ):
        if time.monotonic() > until_s:
            raise BackendDown(BACKEND, f"the client still stands where it was, {_WITHIN_S:.0f} s after an assignment")
        Event().wait(_LOOK_EVERY_S)  # time.sleep fails (EINVAL) where a wall clock is faked under the process
