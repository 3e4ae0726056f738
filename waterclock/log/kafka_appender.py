"""A plain idempotent producer on a real Kafka: beats, and commands from outside a role.

What must hold: ``flush`` returns only when all replicas have everything that was appended since the last one; a record
that failed is never forgotten. How it fails: BackendDown says that some record *may* not be there; whoever repeats it
must be able to (commands carry an idempotency key, beats are worthless when late: given up after 10 s); AccessRefused
says the same, and that a broker did not let us in since the last flush that went well. A fatal error
of the idempotent protocol kills the driver; the next append makes a new one. RequestError: a free property contradicts
what idempotence asks for, which the driver says only when it is made.
"""

from __future__ import annotations

from confluent_kafka import KafkaException, Producer

from waterclock.model.errors import AccessRefused, BackendDown, RequestError

from .kafka_closing import close_in_background
from .kafka_errors import BACKEND, append_error, error_of
from .kafka_producer import FollowedTicket
from .kafka_properties import Conf
from .kafka_trial import not_made
from .kafka_watch import Watch
from .port import Outgoing

_FULL_WAIT_S = 0.05
_FULL_TRIES = 100
_TRIM_AT = 100


class KafkaAppender:
    """The port's Appender over confluent-kafka."""

    def __init__(self, conf: Conf, name: str) -> None:
        self._conf = conf
        self._name = name
        self._watch = Watch(name)
        self._driver: Producer | None = None
        self._unsettled: list[FollowedTicket] = []
        self._trim_at = _TRIM_AT

    def append(self, message: Outgoing) -> FollowedTicket:
        driver = self._usable()
        topic, key, value, headers, partition = message
        ticket = FollowedTicket()
        for _ in range(_FULL_TRIES):
            try:
                driver.produce(
                    topic, value, key, -1 if partition is None else partition, ticket, None, 0, list(headers)
                )
            except BufferError:
                self._watch.serve(driver.poll, _FULL_WAIT_S)
            except KafkaException as raised:
                self._watch.serve(driver.poll, 0)  # it may be dead, and who never flushes would not hear of it
                found = append_error(error_of(raised), f"{self._name}: append to {topic}")
                if isinstance(found, RequestError):
                    raise found from raised
                raise BackendDown(BACKEND, str(found)) from raised
            else:
                self._unsettled.append(ticket)
                self._watch.serve(driver.poll, 0)
                self._trim()
                return ticket
        raise BackendDown(BACKEND, f"{self._name}: the local queue stayed full for {_FULL_TRIES * _FULL_WAIT_S:.0f} s")

    def flush(self, timeout_s: float) -> None:
        if self._driver is not None:
            self._watch.serve(self._driver.flush, timeout_s)
        tickets, self._unsettled, self._trim_at = self._unsettled, [], _TRIM_AT
        failed = next((ticket for ticket in tickets if ticket.error is not None), None)
        open_count = sum(1 for ticket in tickets if not ticket.is_reported)
        if failed is not None:
            raise self._down(f"{self._name}: a record was not taken: {failed.error}")
        if open_count:
            raise self._down(f"{self._name}: {open_count} records not acknowledged after {timeout_s} s")
        self._watch.refusal = None

    def _down(self, text: str) -> BackendDown:
        """With what a broker said that did not let us in: without it a wrong password looks like one that is away."""
        refusal = self._watch.refusal
        return BackendDown(BACKEND, text) if refusal is None else AccessRefused(BACKEND, f"{text}: {refusal.str()}")

    def close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            close_in_background(lambda: _close(driver), self._name)

    def _usable(self) -> Producer:
        if self._driver is not None and self._watch.fatal is not None:
            self.close()
        if self._driver is None:
            self._watch = Watch(self._name)
            self._driver = self._made()
        return self._driver

    def _made(self) -> Producer:
        try:
            return Producer(self._conf, logger=self._watch, error_cb=self._watch.on_error)
        except KafkaException as refused:
            raise not_made(refused, self._name) from refused

    def _trim(self) -> None:
        """Forget what has landed; who never flushes (beats) must not gather tickets for ever.

        What is under way is kept, however much: each is reported within 10 s. Of the failed one is
        enough for the next flush.
        """
        if len(self._unsettled) > self._trim_at:
            failed = next((ticket for ticket in self._unsettled if ticket.error is not None), None)
            under_way = [ticket for ticket in self._unsettled if not ticket.is_reported]
            self._unsettled = under_way if failed is None else [failed, *under_way]
            self._trim_at = 2 * len(self._unsettled) + _TRIM_AT


def _close(driver: Producer) -> None:
    driver.purge()
    driver.close()
