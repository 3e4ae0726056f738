"""A client that schedules by Kafka: alone, many at a time, or inside a transaction of the caller's own.

What must hold: a verb that returns has its record acknowledged by all replicas; of ``in_transaction`` the caller's
commit decides, so the job is scheduled if and only if the caller's own records are seen. How it fails: BackendDown
after 10 s says that the record *may* be in the log: repeat it with the same ``idempotency_key``, and it counts once.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from waterclock.log.port import Appender, Outgoing, Ticket
from waterclock.model.errors import BackendDown

from .job_events import JobEvents, Receipt

_FLUSH_S = 10.0
_BATCH_MAX = 1_000


class TransactionalProducer(Protocol):
    """What is used of the caller's producer: ``confluent_kafka.Producer`` has it."""

    def produce(self, topic: str, *args: Any, **kwargs: Any) -> Any:
        """Queue a record."""
        ...


class KafkaClient(JobEvents):
    """Sends job events and waits for each acknowledgement. Any thread may call it; close it in the end."""

    def __init__(self, appender: Appender, topic: str, tenant: str) -> None:
        super().__init__(topic, tenant)
        self._appender = appender
        self._lock = threading.Lock()

    @classmethod
    def connect(
        cls,
        bootstrap: str,
        *,
        tenant: str = "default",
        prefix: str = "waterclock",
        topic: str = "",
        config: Mapping[str, str | int | bool] | None = None,
    ) -> KafkaClient:
        """See ``Client.kafka``."""
        from waterclock.log.kafka import KafkaLog  # noqa: PLC0415 - the driver is loaded by those who use it
        from waterclock.wire.names import Names  # noqa: PLC0415 - the same

        extra = {key: str(value) for key, value in (config or {}).items()}
        log = KafkaLog(bootstrap, client_id=f"{prefix}-client", extra=extra)
        return cls(log.appender(), topic or Names(prefix).job_events, tenant)

    def batch(self) -> Batch:
        """Many job events for one wait: ``with client.batch() as batch: batch.create(...)``. Waits at its end."""
        return Batch(self._appender, self._lock, self._topic, self._tenant)

    def in_transaction(self, producer: TransactionalProducer) -> InTransaction:
        """The same verbs through ``producer``, a transactional one of yours with a transaction open.

        You begin and commit; nothing here flushes or waits. What you abort schedules nothing.
        """
        return InTransaction(producer, self._topic, self._tenant)

    def close(self) -> None:
        """Give the connection up. What was returned is safe already."""
        self._appender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, message: Outgoing, receipt: Receipt) -> Receipt:
        with self._lock:
            ticket = self._appender.append(message)
            self._appender.flush(_FLUSH_S)
        return _told(receipt, ticket)


class Batch(JobEvents):
    """Job events that are acknowledged together, at the end of the ``with`` and after each 1,000.

    ``receipts``, complete once the ``with`` has ended, say where each one lies. Raises BackendDown: some may not be
    there; a batch that is ended by an exception waits for nothing.
    """

    def __init__(self, appender: Appender, lock: threading.Lock, topic: str, tenant: str) -> None:
        super().__init__(topic, tenant)
        self._appender = appender
        self._lock = lock
        self._open: list[tuple[Receipt, Ticket]] = []
        self.receipts: list[Receipt] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._settle()

    def _send(self, message: Outgoing, receipt: Receipt) -> Receipt:
        with self._lock:
            self._open.append((receipt, self._appender.append(message)))
        if len(self._open) >= _BATCH_MAX:
            self._settle()
        return receipt

    def _settle(self) -> None:
        with self._lock:
            self._appender.flush(_FLUSH_S)
        sent, self._open = self._open, []
        self.receipts += [_told(receipt, ticket) for receipt, ticket in sent]


class InTransaction(JobEvents):
    """Job events in somebody else's transaction: they are seen when, and only when, that is committed."""

    def __init__(self, producer: TransactionalProducer, topic: str, tenant: str) -> None:
        super().__init__(topic, tenant)
        self._producer = producer

    def _send(self, message: Outgoing, receipt: Receipt) -> Receipt:
        self._producer.produce(message.topic, value=message.value, key=message.key, headers=list(message.headers))
        return receipt


def _told(receipt: Receipt, ticket: Ticket) -> Receipt:
    if ticket.offset is None:
        raise BackendDown("kafka", f"the event {receipt.command_id} of {receipt.job_id} was not acknowledged")
    return receipt._replace(partition=ticket.partition, offset=ticket.offset)
