"""Where the client stands in ``commands``, as far as it may be believed.

For a moment after a start that is still where it stood before (librdkafka); to believe it would pass over the commands
of a round that was aborted.
"""

from __future__ import annotations

from collections.abc import Iterable

from waterclock.clock import Clock
from waterclock.log.port import Consumer, TopicPartition

_OLD_NEWS_S = 5.0
"""So long after a start a position is believed even where it equals the one from before."""


class ToldPositions:
    """Of one consumer."""

    def __init__(self, clock: Clock, inputs: Consumer) -> None:
        self._clock = clock
        self._inputs = inputs
        self._before: dict[TopicPartition, int] = {}
        self._believed_at_s = 0.0

    def started(self, places: Iterable[TopicPartition]) -> None:
        """Reading was begun anew at these places."""
        told = {place: self._inputs.position(place) for place in places}
        self._before = {place: position for place, position in told.items() if position is not None}
        self._believed_at_s = self._clock.monotonic_s() + _OLD_NEWS_S

    def heard(self, place: TopicPartition) -> None:
        """A record came: from now on the position is the new one."""
        self._before.pop(place, None)

    def of(self, place: TopicPartition) -> int | None:
        """The position; None while it may still be the one from before the start."""
        position = self._inputs.position(place)
        before = self._before.get(place)
        if before is None:
            return position
        if position == before and self._clock.monotonic_s() < self._believed_at_s:
            return None
        del self._before[place]
        return position
