"""How long a poll lingers for commands that come one by one: a round costs the same for one as for hundreds, and each
round reads the store for its commands.

The first after a while goes at once; what comes within ``LINGER_S`` of it waits for the rest of that, with what comes
beside it. It was worth it where they came so far apart that each would have had a round of its own. Of senders, one or
many, that wait for an answer before they ask again, waiting makes nothing but slower ones: where it spared no round
in ``_LOOKS`` polls, none lingers for a while, twice as long each time in a row.

What must hold: nothing lingers in the last ``_LEAD_S`` of what a poll may wait (until the next fire, or until the next
round may begin), nor where a herd is about to be committed, nor where more commands stand there than one poll takes.
Nothing is decided by it but when to look again. How far apart they came is told by the brokers' stamps: where the
clocks of two brokers are 10 ms apart, senders that wait are not recognised.
"""

from __future__ import annotations

from waterclock.clock import Clock
from waterclock.log.port import Consumer, Polled
from waterclock.model.ids import US_PER_S
from waterclock.transact import Rounds

LINGER_S = 0.040  # two of 50 a second
REST_S, REST_MAX_S = 0.25, 2.0  # a sender that waits loses little, and a stream is found again soon
_LEAD_S = 0.010  # a round
_APART_S = 0.010  # as near as rounds come to one another where they are quick
_LOOKS = 4  # one that spared a round is enough to go on


class CommandPace:
    """Of one dispatcher."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken_at_s = float("-inf")
        self._not_before_s = float("-inf")
        self._rest_s = REST_S
        self._looks = 0
        self._saved = 0

    def poll(self, rounds: Rounds, commands: Consumer, room: int, wait_s: float) -> Polled:
        """At most ``room`` records. ``wait_s``: until something else is to be done. Raises BackendDown."""
        left_s = 0.0 if rounds.is_early else min(wait_s - _LEAD_S, self._left_s())
        linger_s = left_s if left_s >= _APART_S else 0.0  # less would hardly spare a round
        polled = rounds.poll(commands, room, wait_s, linger_s)
        if polled.records:
            self._taken_at_s = self._clock.monotonic_s() if len(polled.records) < room else float("-inf")
            if polled.waited_s < linger_s:  # else the first came later, and waited for nobody
                self._look(polled)
        return polled

    def _left_s(self) -> float:
        now_s = self._clock.monotonic_s()
        return 0.0 if now_s < self._not_before_s else self._taken_at_s + LINGER_S - now_s

    def _look(self, polled: Polled) -> None:
        self._looks += 1
        self._saved += _rounds_spared(polled)
        if self._looks < _LOOKS:
            return
        if self._saved:
            self._rest_s = REST_S
        else:
            self._not_before_s = self._clock.monotonic_s() + self._rest_s
            self._rest_s = min(2 * self._rest_s, REST_MAX_S)
        self._looks = self._saved = 0


def _rounds_spared(polled: Polled) -> int:
    """About so many more there would have been."""
    came_at = [record.timestamp_us for record in polled.records]
    return (max(came_at) - min(came_at)) // round(_APART_S * US_PER_S)
