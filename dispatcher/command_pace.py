"""How long a poll lingers for commands that come one by one: a round costs the same for one as for hundreds, and each
round reads the store for its commands.

The first after a while goes at once; what comes within ``LINGER_S`` of it waits for the rest of that, with what comes
beside it. Where nobody did, the sender probably waits for each answer before it asks again, and nothing is gained by
making it wait: then no poll lingers for ``ALONE_S``. What must hold: a fire never waits for it (the dispatcher polls no
longer than until the next one), and nothing is decided by it but when to look again.
"""

from __future__ import annotations

from waterclock.clock import Clock
from waterclock.log.port import Consumer, Polled
from waterclock.transact import Rounds

LINGER_S = 0.040
ALONE_S = 1.0
_LATER_S = 0.005
"""A poll that ends so much later than it lingers has waited for its first command: that one waited for nobody."""


class CommandPace:
    """Of one dispatcher."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken_at_s = float("-inf")
        self._alone_until_s = float("-inf")

    def poll(self, rounds: Rounds, commands: Consumer, room: int, wait_s: float) -> Polled:
        """At most ``room`` records; waits no longer than ``wait_s``, until the next fire. Raises BackendDown."""
        began_at_s, linger_s = self._clock.monotonic_s(), min(wait_s, self._linger_s())
        polled = rounds.poll(commands, room, wait_s, linger_s)
        if polled.records:
            self._taken_at_s = self._clock.monotonic_s()
            has_waited = 0 < linger_s > self._taken_at_s - began_at_s - _LATER_S
            if has_waited and len(polled.records) == 1:
                self._alone_until_s = self._taken_at_s + ALONE_S
        return polled

    def _linger_s(self) -> float:
        now_s = self._clock.monotonic_s()
        return 0.0 if now_s < self._alone_until_s else max(0.0, self._taken_at_s + LINGER_S - now_s)
