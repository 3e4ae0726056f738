"""How long a poll lingers for commands that come one by one: a round costs the same for one as for hundreds, and each
round reads the store for its commands.

The first after a while goes at once; what comes within ``LINGER_S`` of it waits for the rest of that, with what comes
beside it. In vain, where nothing came but what was there at its beginning: so it is with senders, one or many, that
wait for an answer before they ask again, and waiting makes nothing but them slow. Twice in a row, and no poll lingers
for ``IN_VAIN_S``.

What must hold: a round for commands has ``_LEAD_S`` before the next fire, and nothing lingers where a herd is about to
be committed, or where more commands stand there than one poll takes. Nothing is decided by it but when to look again.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.clock import Clock
from waterclock.log.port import Consumer, Polled, Record
from waterclock.model.ids import US_PER_S
from waterclock.transact import Rounds

LINGER_S = 0.040
IN_VAIN_S = 1.0
_LEAD_S = 0.010
_TOGETHER_US = round(LINGER_S * US_PER_S) // 4
"""Commands that came so close to one another would have shared a round anyway, nearly."""


class CommandPace:
    """Of one dispatcher."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken_at_s = float("-inf")
        self._not_before_s = float("-inf")
        self._was_in_vain = False

    def poll(self, rounds: Rounds, commands: Consumer, room: int, wait_s: float) -> Polled:
        """At most ``room`` records. ``wait_s``: until something else is to be done. Raises BackendDown."""
        linger_s = 0.0 if rounds.is_early else max(0.0, min(wait_s - _LEAD_S, self._linger_s()))
        began_at_s = self._clock.monotonic_s()
        polled = rounds.poll(commands, room, wait_s, linger_s)
        if polled.records:
            self._taken_at_s = self._clock.monotonic_s() if len(polled.records) < room else float("-inf")
            if LINGER_S / 2 <= linger_s <= self._clock.monotonic_s() - began_at_s:
                self._judge(polled.records)
        return polled

    def _linger_s(self) -> float:
        now_s = self._clock.monotonic_s()
        return 0.0 if now_s < self._not_before_s else self._taken_at_s + LINGER_S - now_s

    def _judge(self, records: Sequence[Record]) -> None:
        """Whether it was worth it, by when the brokers took them."""
        came_at = [record.timestamp_us for record in records]
        in_vain = max(came_at) - min(came_at) < _TOGETHER_US
        if in_vain and self._was_in_vain:
            self._not_before_s = self._clock.monotonic_s() + IN_VAIN_S
        self._was_in_vain = in_vain and not self._was_in_vain
