"""Taking records from a Kafka client: the one place where its messages become Records or errors.

Must hold: nothing that the client hands out is dropped, because its position has moved past it: an error message among
good records is raised at the next take, and never eats its neighbours. Hot path: about a microsecond per record here
(``consume`` of a batch, one tuple each, headers only when asked for). ``consume(n, t)`` would wait the whole t, so:
``poll(t)`` for the first, ``consume(n - 1, 0)`` for what is there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from operator import methodcaller
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from waterclock.model.errors import Fenced, LostResource, WaterclockError

from .kafka_errors import OUTSIDE, down_error, error_of, poll_trouble
from .kafka_watch import Watch
from .outside import outside
from .port import UNREADABLE, Headers, Record, TopicPartition

_US_PER_MS = 1_000
_TAKE_MAX = 100_000
_ENDS_S = 1.0
"""How long a broker has to say where a log ends: only words depend on it."""

_record = tuple.__new__
_never = threading.Event()

_ask_headers = methodcaller("headers")
"""A name that is not UTF-8 makes the client return a torn list *and* leave an exception behind. Called this way the
interpreter notices (SystemError); a plain method call, once specialised, does not, and reading that list may crash."""


class Feed:
    """The records of one client, subscribed or assigned."""

    def __init__(self, driver: Consumer, watch: Watch, name: str, *, headers: bool) -> None:
        self._poll = driver.poll
        self._consume = driver.consume
        self._driver = driver
        self._watch = watch
        self._name = name
        self._headers = headers
        self._trouble: WaterclockError | None = None
        self.waited_s = 0.0
        """How long the last take waited for its first record."""

    def take(self, limit: int, timeout_s: float, linger_s: float = 0.0) -> list[Record]:
        """Up to ``limit`` (at least one) records; waits for the first, and then until ``linger_s`` have passed since
        the call. Raises what an earlier take met.

        Raises BackendDown, LostResource (a position that is not in the log), Fenced (for good).
        """
        self.raise_trouble()
        messages: list[Message] = []
        began_s = time.monotonic()
        try:
            first = self._poll(timeout_s)
            self.waited_s = time.monotonic() - began_s
            if first is None:
                self._note_down()
                return []
            messages.append(first)
            if limit > 1:
                if linger_s and first.error() is None:  # asleep: each poll would be woken by the next record
                    _never.wait(max(0.0, linger_s - self.waited_s))
                messages += self._consume(min(limit, _TAKE_MAX) - 1, 0.0)
        except KafkaException as raised:
            self.note(poll_trouble(error_of(raised), self._name))
        return self._records(messages)

    def note(self, trouble: WaterclockError | None) -> None:
        """Keep an error for the next take; the first one, unless a final one comes after it."""
        if trouble is not None and (self._trouble is None or isinstance(trouble, Fenced)):
            self._trouble = trouble

    def forget_loss(self) -> None:
        """What was lost was assigned before: nobody stands there any more."""
        if isinstance(self._trouble, LostResource) and not isinstance(self._trouble, Fenced):
            self._trouble = None

    def raise_trouble(self) -> None:
        """Raise what was noted. A fenced client stays fenced: it would deliver nothing, silently."""
        trouble = self._trouble
        if trouble is None:
            return
        if not isinstance(trouble, Fenced):
            self._trouble = None
        raise trouble

    def _records(self, messages: Sequence[Message]) -> list[Record]:
        if any(message.error() is not None for message in messages):
            for message in messages:
                error = message.error()
                if error is not None:
                    self.note(self._trouble_of(message, error))
            messages = [message for message in messages if message.error() is None]
        if self._headers:
            return [_with_headers(m) for m in messages]
        return [
            _record(
                Record,
                (m.topic(), m.partition(), m.offset(), m.timestamp()[1] * _US_PER_MS, m.key(), m.value(), ()),
            )
            for m in messages
        ]

    def _trouble_of(self, message: Message, error: KafkaError) -> WaterclockError | None:
        """The client hands the position out with its error; where the log ends is asked, for nothing else tells."""
        topic, partition, position = message.topic(), message.partition(), message.offset()
        plain = poll_trouble(error, f"{self._name}: {topic}[{partition}]")
        if self._trouble is not None or error.code() not in OUTSIDE:  # one is told: who asked of each would stand still
            return plain
        if topic is None or partition is None or position is None or position < 0:
            return plain
        try:  # after its time-out the client answers None, whatever its types say
            ends = cast(
                "tuple[int, int] | None", self._driver.get_watermark_offsets(Place(topic, partition), timeout=_ENDS_S)
            )
        except KafkaException:
            ends = None
        low, end = ends or (None, None)
        return outside(TopicPartition(topic, partition), position, low, end, f"{self._name}: ")

    def _note_down(self) -> None:
        down = self._watch.take_down()
        if down is not None:
            self.note(down_error(down, self._name))


def _with_headers(message: Message) -> Record:
    headers = _headers(message)
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    at = message.timestamp()[1] * _US_PER_MS
    return _record(Record, (topic, partition, offset, at, message.key(), message.value(), headers))


def _headers(message: Message) -> Headers:
    """The headers, a null value as b"". A name that is not UTF-8 the client cannot read: see ``UNREADABLE``."""
    try:
        found = _ask_headers(message)
    except (SystemError, UnicodeError):
        return UNREADABLE
    if not found:
        return ()
    if any(value is None for _, value in found):
        return tuple((name, value or b"") for name, value in found)
    return cast("Headers", tuple(found))  # what was read are pairs with bytes
