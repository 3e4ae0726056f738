"""A transactional producer on a real Kafka.

Why beside the driver's own: it remembers whether anything left an outcome open (``dirty``), follows offsets, bounds
every wait, and translates errors. Must hold: a dirty producer begins nothing (kafka.md 3.4); an abort waits for one
delivery report first (librdkafka #4849: an abort while the partition is still being added can be fatal); ``close``
never blocks. How it fails: ``send_offsets`` can outlast its time limit while the group's coordinator is down
(librdkafka #5456); the supervisor's watch over the role is the bound then.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from waterclock.model.errors import RoundAborted, RoundInDoubt, WaterclockError

from .kafka_closing import close_in_background
from .kafka_errors import FORGOTTEN, append_error, error_of, init_error, round_error
from .kafka_places import committed_places
from .kafka_properties import Conf
from .kafka_watch import Watch
from .port import Committed, GroupMetadata, Outgoing, Ticket, TopicPartition

_SEND_OFFSETS_TIMEOUT_S = 10.0
_FIRST_REPORT_WAIT_S = 1.0
_FULL_WAIT_S = 0.05
_FULL_TRIES = 200
_LAST_ABORT_S = 5.0


class FollowedTicket(Ticket):
    """A ticket that is its own delivery callback."""

    __slots__ = ("error", "is_reported")

    def __init__(self) -> None:  # not by super(): each claim of a worker has one
        self.offset = None
        self.partition = -1
        self.is_reported = False
        self.error: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self.is_reported = True
        self.error = error
        if error is None:
            self.offset = message.offset()
            self.partition = message.partition() or 0


class KafkaProducer:
    """The port's Producer over confluent-kafka."""

    def __init__(self, conf: Conf, transactional_id: str) -> None:
        self._name = transactional_id
        self._watch = Watch(transactional_id)
        self._driver: Producer | None = Producer(conf, logger=self._watch, error_cb=self._watch.on_error)
        self._produce = self._driver.produce
        self._is_dirty = False
        self._first: FollowedTicket | None = None

    @property
    def dirty(self) -> bool:
        return self._is_dirty or self._watch.losses > 0 or self._watch.fatal is not None

    def init(self, timeout_s: float) -> None:
        try:
            self._live.init_transactions(timeout_s)
        except KafkaException as raised:
            raise init_error(error_of(raised), f"{self._name}: init") from raised
        self._serve()
        # A broker that was not reached before the id was ours touches no transaction of ours. A connection that was
        # closed counts all the same: the client would not report the next one like it.
        self._watch.losses = self._watch.closings

    def begin(self) -> None:
        self._serve()
        if self.dirty:
            raise self._dirty_error()
        try:
            self._live.begin_transaction()
        except KafkaException as raised:
            raise self._round_error(raised, "begin") from raised
        self._first = None

    def append(self, message: Outgoing) -> None:
        if self._first is None:
            self._first = self._append(message, FollowedTicket())
            return
        topic, key, value, headers, partition = message
        try:
            self._produce(
                topic,
                value,
                key,
                -1 if partition is None else partition,
                None,
                None,
                0,
                list(headers) if headers else None,
            )
        except (BufferError, KafkaException) as raised:
            self._append_again(message, None, raised)

    def append_tracked(self, message: Outgoing) -> FollowedTicket:
        ticket = self._append(message, FollowedTicket())
        if self._first is None:
            self._first = ticket
        return ticket

    def send_offsets(self, offsets: Mapping[TopicPartition, Committed], group: GroupMetadata) -> None:
        try:
            self._live.send_offsets_to_transaction(committed_places(offsets), group.raw, _SEND_OFFSETS_TIMEOUT_S)
        except KafkaException as raised:
            raise self._round_error(raised, "send_offsets") from raised

    def flush(self, timeout_s: float) -> None:
        try:
            left = self._live.flush(timeout_s)
        except KafkaException as raised:
            raise self._round_error(raised, "flush") from raised
        if left:
            self._is_dirty = True
            raise RoundInDoubt(f"{self._name}: {left} records were not acknowledged in {timeout_s:.0f} s")
        if self.dirty:
            raise self._dirty_error()

    def commit(self, timeout_s: float) -> None:
        try:
            self._live.commit_transaction(timeout_s)
        except KafkaException as raised:
            raise self._round_error(raised, "commit") from raised
        self._serve()  # hear of connections lost on the way: committed, yet not to be used again

    def abort(self, timeout_s: float) -> None:
        self._await_first_report()
        try:
            self._live.abort_transaction(timeout_s)
        except KafkaException as raised:
            found = self._round_error(raised, "abort")
            if isinstance(found, RoundAborted):  # an abort that must be aborted: nothing clean is left
                self._is_dirty = True
                found = RoundInDoubt(str(found))
            raise found from raised
        self._serve()

    def close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            close_in_background(lambda: close_producer(driver), self._name)

    @property
    def _live(self) -> Producer:
        if self._driver is None:
            raise RuntimeError(f"{self._name}: this producer was closed")
        return self._driver

    def _append(self, message: Outgoing, ticket: FollowedTicket) -> FollowedTicket:
        topic, key, value, headers, partition = message
        try:
            self._produce(topic, value, key, -1 if partition is None else partition, ticket, None, 0, list(headers))
        except (BufferError, KafkaException) as raised:
            self._append_again(message, ticket, raised)
        return ticket

    def _append_again(
        self, message: Outgoing, ticket: FollowedTicket | None, raised: BufferError | KafkaException
    ) -> None:
        """The local queue was full: serve reports and try again, for 10 s at most. Anything else is translated."""
        topic, key, value, headers, partition = message
        where = -1 if partition is None else partition
        for _ in range(_FULL_TRIES):
            if isinstance(raised, KafkaException):
                raise self._append_error(raised, topic) from raised
            self._serve(_FULL_WAIT_S)
            try:
                self._produce(topic, value, key, where, ticket, None, 0, list(headers))
            except (BufferError, KafkaException) as again:
                raised = again
            else:
                return
        raise RoundAborted(f"{self._name}: the local queue stayed full for {_FULL_TRIES * _FULL_WAIT_S:.0f} s")

    def _append_error(self, raised: KafkaException, topic: str) -> WaterclockError:
        self._serve()  # here a fatal error has no name of its own: the client's news tell which, fenced or another
        if self._watch.fatal is not None:
            return self._dirty_error()
        found = append_error(error_of(raised), f"{self._name}: append to {topic}")
        if isinstance(found, RoundAborted) and self._is_forgotten():
            found = RoundInDoubt(f"{found}; {self._name} was idle so long that the brokers have forgotten it")
        if isinstance(found, RoundInDoubt):
            self._is_dirty = True
        return found

    def _is_forgotten(self) -> bool:
        """Whether it is that which the open transaction has failed of: to begin another is refused with the reason."""
        try:
            self._live.begin_transaction()
        except KafkaException as raised:
            return error_of(raised).code() == FORGOTTEN
        return False

    def _serve(self, timeout_s: float = 0.0) -> None:
        self._watch.serve(self._live.poll, timeout_s)

    def _round_error(self, raised: KafkaException, doing: str) -> WaterclockError:
        error = error_of(raised)
        if error.fatal():
            self._watch.fatal = error
        found = round_error(error, f"{self._name}: {doing}")
        if not isinstance(found, RoundAborted):
            self._is_dirty = True
        return found

    def _dirty_error(self) -> WaterclockError:
        if self._watch.fatal is not None:
            return round_error(self._watch.fatal, self._name)
        return RoundInDoubt(f"{self._name}: the producer is dirty, a new one must take its place")

    def _await_first_report(self) -> None:
        first = self._first
        deadline = time.monotonic() + _FIRST_REPORT_WAIT_S
        while first is not None and not first.is_reported and time.monotonic() < deadline:
            self._serve(_FULL_WAIT_S)


def close_producer(driver: Producer) -> None:
    """Destroy it, leaving nothing open where that can be had in 5 s. What is still open the id's next init settles."""
    driver.purge()
    with suppress(KafkaException):  # nothing was open, or nobody answers
        driver.abort_transaction(_LAST_ABORT_S)
    driver.close()
