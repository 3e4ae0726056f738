"""A proxy that lets an EndTxn arrive late: inside a later, open transaction of the same transactional id.

The next EndTxn of an id is held back and the client cut (``proxy.py``); the client repeats it by itself, so its round
lands. Then the requests of that id are watched: once a later transaction is open by the broker's own answer (and, at
``Moment.OFFSETS``, has records on the broker), the next request of it waits here, the held EndTxn goes in before it,
and the broker's answer is kept. ``then`` may end the client at this very moment, so that nothing of the later
transaction follows: what stands then was committed by the late EndTxn alone.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from enum import Enum

from tests.conformance.proxy import END_TXN, CuttingProxy, Fate, Request, Rule, Way, transactional_id_of

_PRODUCE, _ADD_PARTITIONS, _ADD_OFFSETS = 0, 24, 25
_PRODUCED_WITHIN_S = 0.5
_FLEXIBLE_PRODUCE = 9


class Moment(Enum):
    """How far the later transaction is."""

    OFFSETS = "its records are on the broker, its offsets not yet"
    END = "all but its own end is on the broker"


class Delay:
    """One EndTxn that is to be late. ``done``: it has arrived, and ``error`` is what the broker said (0: accepted)."""

    def __init__(self, rule: Rule, moment: Moment, then: Callable[[], None] | None) -> None:
        self.rule = rule
        self.moment = moment
        self.then = then
        self.done = threading.Event()
        self.error: int | None = None
        self.is_open = False
        self.has_records = False


class LateProxy(CuttingProxy):
    """One delay of each id at a time."""

    def __init__(self, host: str, broker_port: int) -> None:
        super().__init__(host, broker_port)
        self._delays: dict[str, Delay] = {}
        self._asked: dict[tuple[object, int], tuple[Delay, int]] = {}
        self._changed = threading.Condition()

    def delay(self, transactional_id: str, moment: Moment, then: Callable[[], None] | None = None) -> Delay:
        """For the next EndTxn of this id."""
        delay = Delay(self.rule(transactional_id, Fate.DELAY), moment, then)
        with self._changed:
            self._delays[transactional_id] = delay
        return delay

    def give_up(self, transactional_id: str) -> None:
        """Its moment has not come: forget it."""
        with self._changed:
            delay = self._delays.pop(transactional_id, None)
        if delay is not None:
            self.take_rule(transactional_id)
            delay.rule.drop()

    def way_of(self, request: Request) -> Way:
        transactional_id = _id_in(request)
        with self._changed:
            delay = self._delays.get(transactional_id)
            if not transactional_id or delay is None or not delay.rule.met.is_set() or delay.done.is_set():
                return Way.ON
            if request.api_key in (_PRODUCE, _ADD_PARTITIONS, _ADD_OFFSETS):
                self._asked[request.connection, request.correlation_id] = delay, request.api_key
        if self._has_come(delay, request):
            return self._let_arrive(delay)
        if request.api_key == END_TXN:
            with self._changed:
                delay.is_open = delay.has_records = False  # the round before, or one in which the moment did not come
        return Way.ON

    def reaches(self, connection: object, answer: bytes) -> bool:
        (correlation_id,) = struct.unpack_from(">i", answer, 4)
        with self._changed:
            delay, api_key = self._asked.pop((connection, correlation_id), (None, -1))
            if delay is not None:
                self._note(delay, api_key, answer)
                self._changed.notify_all()
        return True

    @staticmethod
    def _note(delay: Delay, api_key: int, answer: bytes) -> None:
        """What the broker's answer says of the later transaction."""
        if api_key == _PRODUCE:
            delay.has_records = delay.is_open
        elif api_key == _ADD_PARTITIONS:
            delay.is_open = delay.is_open or _all_added(answer)
        else:
            delay.is_open = delay.is_open or struct.unpack_from(">h", answer, 12)[0] == 0

    def _has_come(self, delay: Delay, request: Request) -> bool:
        """Whether this request is the one that is to find the late EndTxn before it."""
        if delay.moment is Moment.END:
            return request.api_key == END_TXN and delay.is_open
        if request.api_key != _ADD_OFFSETS:
            return False
        with self._changed:
            return self._changed.wait_for(lambda: delay.is_open and delay.has_records, _PRODUCED_WITHIN_S)

    @staticmethod
    def _let_arrive(delay: Delay) -> Way:
        """The late EndTxn goes in; where the client was ended at that moment, nothing of it follows."""
        delay.error = delay.rule.release()
        if delay.then is not None:
            delay.then()
        delay.done.set()
        return Way.ON if delay.then is None else Way.CUT


def _id_in(request: Request) -> str:
    """The transactional id that a request is about; "" for those that are about none."""
    if request.api_key in (_ADD_PARTITIONS, _ADD_OFFSETS, END_TXN):
        return transactional_id_of(request.frame, request.version)
    if request.api_key != _PRODUCE:
        return ""
    (client_length,) = struct.unpack_from(">h", request.frame, 12)
    at = 14 + max(0, client_length)
    if request.version < _FLEXIBLE_PRODUCE:
        (length,) = struct.unpack_from(">h", request.frame, at)
        return request.frame[at + 2 : at + 2 + max(0, length)].decode()
    # Flexible: no tagged fields in the header (one byte), then a compact text, whose length is counted from one.
    length, at = request.frame[at + 1] - 1, at + 2
    return request.frame[at : at + max(0, length)].decode()


def _all_added(frame: bytes) -> bool:
    """AddPartitionsToTxn v0-v2: size, correlation id, throttle time, then by topic (partition, error code)."""
    (topics,) = struct.unpack_from(">i", frame, 12)
    at = 16
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", frame, at)
        at += 2 + length
        (partitions,) = struct.unpack_from(">i", frame, at)
        at += 4
        for _ in range(partitions):
            if struct.unpack_from(">h", frame, at + 4)[0]:
                return False
            at += 6
    return topics > 0
