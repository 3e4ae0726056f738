"""Committed positions, as far as they are told at once, for roles that do other things meanwhile.

Why: a process that dies inside a round leaves the positions in it pending, and nobody is told them until the broker has
ended it, up to 20 s later. Where nobody may end it sooner (``abandoned.py``), whoever takes these partitions over must
wait for them; but not with everything else, or one death stops all who are left.

What must hold: a question takes bounded time, however many are held back and for how long, and what is known to be held
back costs one short wait; each partition is asked for in its turn, so that none waits behind those; and a broker that
is slow is heard in the end: where nothing was told for longer than any round can be open, each wait is twice as long as
the one before, up to 0.8 s, and there is a rest behind it. How it fails: where no broker answers nothing is told, and
whoever asks learns it from whatever it does next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import structlog

from waterclock.log.port import Committed, Consumer, TopicPartition
from waterclock.model.errors import BackendDown
from waterclock.transact import Rounds

_ALL_WITHIN_S = 0.3
_EACH_WITHIN_S = 0.1
_EACH_WITHIN_S_MAX = 0.8
_IN_VAIN_S = 0.3
_ASKED_S = 1.0
_AGAIN_S = 0.5
_SILENT_S = 25.0
"""So long nothing may be told because of rounds of the dead; behind that it may be the broker that is slow."""
_RESTS = 5
"""So many times as long as a question with long waits took, counted from its beginning, there is no other."""

_log = structlog.get_logger()


class ToldPositions:
    """Those of one consumer's partitions."""

    def __init__(self, rounds: Rounds, consumer: Consumer) -> None:
        self._rounds = rounds
        self._consumer = consumer
        # In the order in which they were asked for, the longest ago first.
        self._held_back: dict[TopicPartition, None] = {}
        self._silent_since_s: float | None = None
        self._ask_at_s = float("-inf")
        self._within_s = _EACH_WITHIN_S

    def of(self, partitions: Iterable[TopicPartition], now_s: float) -> dict[TopicPartition, Committed | None]:
        """What is committed for these; left out is what is held back, and all until it is time to ask again.

        Takes two seconds at most, by real clients, and mostly a tenth of one. Raises Fenced.
        """
        if now_s < self._ask_at_s:
            return {}
        wanted = sorted(partitions)
        if not wanted:
            return {}
        is_patient = self._within_s > _EACH_WITHIN_S
        asked_s = 0.0
        if not self._held_back or is_patient:
            within_s = max(_ALL_WITHIN_S, self._within_s)
            try:
                found = self._rounds.positions(self._consumer, wanted, within_s=within_s)
            except BackendDown as down:
                _log.info("positions are held back", group=self._consumer.group, cause=str(down))
                asked_s += within_s
            else:
                self._heard()
                return found
        found, each_s = self._one_by_one(wanted)
        self._ask_at_s = now_s + max(_AGAIN_S, _RESTS * (asked_s + each_s) if is_patient else 0.0)
        if not found:
            self._unheard(now_s)
        elif not is_patient or len(found) == len(wanted):
            self._heard()
        return found

    def _one_by_one(self, wanted: Sequence[TopicPartition]) -> tuple[dict[TopicPartition, Committed | None], float]:
        """What was told, and how long was asked for at most."""
        found: dict[TopicPartition, Committed | None] = {}
        in_vain_s = asked_s = 0.0
        known = [place for place in self._held_back if place in wanted]
        for place in [*(place for place in wanted if place not in self._held_back), *known]:
            asked_s += self._within_s
            was_known = place in self._held_back
            self._held_back.pop(place, None)  # to the end of the line, if it is held back still
            try:
                found |= self._rounds.positions(self._consumer, [place], within_s=self._within_s)
            except BackendDown:
                self._held_back[place] = None
                in_vain_s += self._within_s
                if was_known or in_vain_s >= _IN_VAIN_S:
                    break
            if self._within_s > _EACH_WITHIN_S and asked_s >= _ASKED_S:
                break
        return found, asked_s

    def _heard(self) -> None:
        self._silent_since_s, self._within_s = None, _EACH_WITHIN_S

    def _unheard(self, now_s: float) -> None:
        if self._silent_since_s is None:
            self._silent_since_s = now_s
        elif now_s - self._silent_since_s > _SILENT_S:
            self._within_s = min(2 * self._within_s, _EACH_WITHIN_S_MAX)

    def begin_again(self) -> None:
        """Other partitions, or all of them anew: what was held back may not be, and nothing waits to be asked for."""
        self._held_back.clear()
        self._ask_at_s = float("-inf")
