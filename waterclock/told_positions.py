"""Committed positions, as far as they are told at once, for roles that do other things meanwhile.

Why: a process that dies inside a round leaves the positions in it pending, and nobody is told them until the broker has
ended it, up to 20 s later. Where nobody may end it sooner (``abandoned.py``), whoever takes these partitions over must
wait for them; but not with everything else, or one death stops all who are left.

What must hold: a question takes bounded time, however many are held back; each partition is asked for in its turn, so
that none waits behind those; and a broker that is slow is heard in the end: where nothing was told, the next wait is
twice as long, up to 0.8 s. How it fails: where no broker answers nothing is told, and whoever asks learns it from
whatever it does next.
"""

from __future__ import annotations

from collections.abc import Iterable

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

_log = structlog.get_logger()


class ToldPositions:
    """Those of one consumer's partitions."""

    def __init__(self, rounds: Rounds, consumer: Consumer) -> None:
        self._rounds = rounds
        self._consumer = consumer
        self._held_back: set[TopicPartition] = set()
        self._ask_at_s = float("-inf")
        self._within_s = _EACH_WITHIN_S

    def of(self, partitions: Iterable[TopicPartition], now_s: float) -> dict[TopicPartition, Committed | None]:
        """What is committed for these; left out is what is held back, and all until it is time to ask again.

        Takes two seconds at most, by real clients, and mostly a third of one. Raises Fenced.
        """
        if now_s < self._ask_at_s:
            return {}
        wanted = sorted(partitions)
        if not self._held_back or self._within_s > _EACH_WITHIN_S:
            try:
                return self._rounds.positions(self._consumer, wanted, within_s=max(_ALL_WITHIN_S, self._within_s))
            except BackendDown as down:
                _log.info("positions are held back", group=self._consumer.group, cause=str(down))
        found = self._one_by_one(wanted)
        self._within_s = _EACH_WITHIN_S if found else min(2 * self._within_s, _EACH_WITHIN_S_MAX)
        self._ask_at_s = now_s + _AGAIN_S
        return found

    def _one_by_one(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, Committed | None]:
        found: dict[TopicPartition, Committed | None] = {}
        in_vain_s = asked_s = 0.0
        for place in sorted(wanted, key=self._held_back.__contains__):
            asked_s += self._within_s
            try:
                found |= self._rounds.positions(self._consumer, [place], within_s=self._within_s)
                self._held_back.discard(place)
            except BackendDown:
                self._held_back.add(place)
                in_vain_s += self._within_s
            if in_vain_s >= _IN_VAIN_S or (self._within_s > _EACH_WITHIN_S and asked_s >= _ASKED_S):
                break
        return found

    def begin_again(self) -> None:
        """Other partitions, or all of them anew: what was held back may not be, and nothing waits to be asked for."""
        self._held_back.clear()
        self._ask_at_s = float("-inf")
