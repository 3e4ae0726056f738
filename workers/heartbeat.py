"""The sign of life, and the moment at which this worker must stop by itself.

What must hold: a beat is sent by the round thread, so a stuck round thread does not beat; only if ``leases`` was read
to its end within the last quarter of the lease; and never for a dead incarnation. ``deadline_s`` is three quarters of
the lease after the newest beat that the brokers have acknowledged, counted from when it was *sent*: the keeper, who
counts from when it arrived, is always later. No clocks are compared: each side uses its own monotonic one.

How it fails: an unacknowledged beat is only late; the next one follows. Past the deadline the worker kills its runs. No
acknowledgement moves a deadline that has passed: the executors have stopped everything by themselves then, and would
never say so.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from waterclock.clock import Clock
from waterclock.log.port import Appender, Ticket
from waterclock.model.errors import LeaseLost
from waterclock.model.events import Heartbeat
from waterclock.model.ids import US_PER_S
from waterclock.wire.messages import heartbeat_message
from waterclock.wire.names import Names

from .slots import Slots

_UNACKED_MAX = 16
_HANDLERS_MAX = 200


class _Sent(NamedTuple):
    at_s: float
    ticket: Ticket


class Pulse(NamedTuple):
    """What every beat of this process says, whatever its incarnation; ``interval_s`` is at most a quarter lease.

    ``handlers`` are the names that it knows; more than 200 are not listed, and the beat says so.
    """

    worker: str
    transactional_id: str
    lease_ttl_s: float
    interval_s: float
    version: str = ""
    tzdata: str = ""
    pool: str = "default"
    handlers: tuple[str, ...] = ()


class Beats:
    """Sends the beats of one worker."""

    def __init__(self, appender: Appender, names: Names, clock: Clock, pulse: Pulse) -> None:
        self._appender = appender
        self._names = names
        self._clock = clock
        self._pulse = pulse
        names_known = sorted(pulse.handlers)
        cut = len(names_known) > _HANDLERS_MAX
        self._handlers = (*names_known[:_HANDLERS_MAX], *(("*",) if cut else ()))
        self._incarnation = -1
        self._due_at_s = float("-inf")
        self._unacked: deque[_Sent] = deque(maxlen=_UNACKED_MAX)
        self.deadline_s = float("-inf")

    def begin(self, incarnation: int, said_hello_at_s: float) -> None:
        """A new incarnation; its HELLO, sent at ``said_hello_at_s``, counts as its first beat."""
        self._incarnation = incarnation
        self._unacked.clear()
        self._due_at_s = said_hello_at_s
        self._allow_from(said_hello_at_s)

    @property
    def due(self) -> bool:
        """Whether a beat should go out now."""
        return self._clock.monotonic_s() >= self._due_at_s

    def check(self) -> None:
        """Raises LeaseLost past the deadline."""
        if self._clock.monotonic_s() > self.deadline_s:
            raise LeaseLost("no beat was acknowledged for three quarters of the lease")

    def beat(self, slots: Slots) -> None:
        """Send a beat with what is held now, and note which earlier ones were acknowledged. Raises LeaseLost."""
        self.check()
        pulse, now_s = self._pulse, self._clock.monotonic_s()
        beat = Heartbeat(
            worker=pulse.worker,
            incarnation=self._incarnation,
            at=self._clock.now(),
            transactional_id=pulse.transactional_id,
            held_count=slots.held_count,
            held_xor=slots.held_xor,
            slots=slots.capacity,
            version=pulse.version,
            tzdata=pulse.tzdata,
            pool=pulse.pool,
            handlers=self._handlers,
            lease_ttl_us=round(pulse.lease_ttl_s * US_PER_S),
        )
        self._unacked.append(_Sent(now_s, self._appender.append(heartbeat_message(self._names, beat))))
        self._due_at_s = now_s + pulse.interval_s
        self._take_acks()

    def close(self) -> None:
        """Stop beating."""
        self._appender.close()

    def _take_acks(self) -> None:
        # The newest one that was acknowledged counts: those before it say less, and one that was given up (no broker
        # took it in time) will never be acknowledged.
        for index in range(len(self._unacked) - 1, -1, -1):
            if self._unacked[index].ticket.offset is not None:
                self.check()
                self._allow_from(self._unacked[index].at_s)
                for _ in range(index + 1):
                    self._unacked.popleft()
                return

    def _allow_from(self, at_s: float) -> None:
        self.deadline_s = at_s + 0.75 * self._pulse.lease_ttl_s
