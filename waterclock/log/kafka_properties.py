"""The client properties that Waterclock needs, each where it is used (reference: ``kafka.md`` 2).

Must hold: offsets move by hand alone, everybody reads committed records unless asked otherwise, positions are always
explicit (``auto.offset.reset=error``: a position that left the log is an error, never a silent jump), and keys go to
the partition that Java's default partitioner names. ``extra`` (TLS, SASL, a rack) passes through to every client and
cannot replace what the guarantees stand on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TypeAlias

from confluent_kafka import KafkaException, Producer

from waterclock.model.errors import RequestError

from .kafka_errors import error_of
from .port import Isolation

Conf: TypeAlias = dict[str, str | int | float | bool]

APPENDER_TIMEOUT_S = 10
"""After this a plain record that no broker acknowledged is given up: a beat that arrives later would tell a lie."""

_SILENT = logging.getLogger("waterclock.kafka.trial")
_SILENT.disabled = True

_HEARTBEAT_MAX_MS = 3_000
_HEARTBEATS_PER_SESSION = 20
_SILENCE_MS = 15_000
"""Longer than any answer that we wait for; a producer's is a little less than its transaction's time-out, by itself."""


def check_extra(extra: Mapping[str, str]) -> None:
    """Try the free properties on a client that goes nowhere. Raises RequestError: misspelt, or a file that is none."""
    if not extra:
        return
    quiet: Conf = {"log_level": 0}
    try:
        Producer({**extra, **quiet}, error_cb=lambda _: None, logger=_SILENT)
    except KafkaException as refused:
        found = f"kafka.client: {error_of(refused).str()}"
        raise RequestError(found, pointer="/kafka/client", hint="See librdkafka's CONFIGURATION.md") from None


class Properties:
    """Makes the configuration of each kind of client. Raises RequestError where ``extra`` cannot be."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str,
        transaction_timeout_s: float,
        session_timeout_s: float,
        extra: Mapping[str, str],
        patient: bool = False,
    ) -> None:
        check_extra(extra)
        self.client_id = client_id
        self._transaction_timeout_ms = int(transaction_timeout_s * 1_000)
        self._session_timeout_ms = int(session_timeout_s * 1_000)
        self._patient = patient
        self._common: Conf = {
            **extra,
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            # A lost connection shows in the client's log lines and nowhere else: the dirty mark needs them.
            "log.connection.close": True,
            "log_level": 6,
        }

    def transactional(self, transactional_id: str) -> Conf:
        """A transactional producer. Without ``retry.backoff.ms`` = 5 a round takes 100 ms instead of 5."""
        return {
            **self._producing(),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": self._transaction_timeout_ms,
        }

    def appending(self, linger_s: float = 0.0) -> Conf:
        """A plain idempotent producer."""
        return {
            **self._producing(),
            "enable.idempotence": True,
            "message.timeout.ms": APPENDER_TIMEOUT_S * 1_000,
            "linger.ms": linger_s * 1_000,
        }

    def member(self, group: str, instance: str | None) -> Conf:
        """A member of a consumer group: classic protocol, range, so that co-partitioned topics stay together."""
        conf: Conf = {
            **self._fetching(Isolation.COMMITTED),
            "group.id": group,
            "group.protocol": "classic",
            "partition.assignment.strategy": "range",
            "session.timeout.ms": self._session_timeout_ms,
            "heartbeat.interval.ms": min(_HEARTBEAT_MAX_MS, self._session_timeout_ms // _HEARTBEATS_PER_SESSION),
            "queued.min.messages": 5_000,
        }
        if self._patient:
            # Otherwise every commit of anybody wakes this member's fetch, and the broker pays for each.
            conf |= {"fetch.min.bytes": 131_072, "fetch.wait.max.ms": 100}
        return conf if instance is None else {**conf, "group.instance.id": instance}

    def reader(self, isolation: Isolation) -> Conf:
        """A reader without membership; the client wants a group id all the same, and never uses it."""
        return {
            **self._fetching(isolation),
            "group.id": "waterclock.reader",
            # Most reads want a few records: with the defaults each pulled in a megabyte, and queued 100,000.
            "fetch.message.max.bytes": 131_072,
            "queued.min.messages": 1_000,
        }

    def admin(self) -> Conf:
        """An administrator's connection."""
        return dict(self._common)

    def _producing(self) -> Conf:
        return {
            **self._common,
            "retry.backoff.ms": 5,
            "retry.backoff.max.ms": 1_000,
            "linger.ms": 0,
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "queue.buffering.max.messages": 500_000,
        }

    def _fetching(self, isolation: Isolation) -> Conf:
        return {
            **self._common,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": isolation.value,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
            # A full local queue otherwise stalls a partition for a second.
            "fetch.queue.backoff.ms": 5,
            "fetch.error.backoff.ms": 20,
            # By default a broker that fell silent without a word (a host without power) is noticed after a minute, and
            # a plain commit to it, which has no time-out of its own, is tried three times.
            "socket.timeout.ms": _SILENCE_MS,
        }
