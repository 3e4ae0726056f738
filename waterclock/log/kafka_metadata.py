"""The first question to a cluster: its metadata, or why there is no answer.

Why beside the client's own: while a broker refuses us (password, certificate) the client only waits out its time and
then says that nobody answered; the reason comes through the background, within a second. So the question is put in
growing slices and what was heard meanwhile is looked at in between. How it fails: AccessRefused with that reason as
soon as it is heard; BackendDown once the time is over.
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata

from .kafka_errors import CONNECTION_LOST, error_of, query_error
from .kafka_watch import Watch

_FIRST_SLICE_S = 1.0


def cluster_metadata(
    client: AdminClient | Consumer, watch: Watch, timeout_s: float, *, topic: str | None = None, doing: str = "metadata"
) -> ClusterMetadata:
    """What the brokers know of ``topic``, or of everything. Raises AccessRefused, BackendDown, NotFound."""
    until = time.monotonic() + timeout_s
    slice_s = _FIRST_SLICE_S
    while True:
        left_s = until - time.monotonic()
        try:
            wait_s = max(0.01, min(slice_s, left_s))
            return client.list_topics(timeout=wait_s) if topic is None else client.list_topics(topic, wait_s)
        except KafkaException as raised:
            client.poll(0)  # serves what was heard
            error = error_of(raised)
            if watch.refusal is not None or error.code() not in CONNECTION_LOST or time.monotonic() >= until:
                raise query_error(error, doing, watch.refusal) from raised
        slice_s *= 2
