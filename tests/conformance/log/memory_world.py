"""The world in memory: a manual clock that moves while a case waits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from waterclock.clock import ManualClock
from waterclock.log.memory import CommitFate, MemoryCluster, MemoryLog
from waterclock.log.port import TopicPartition
from waterclock.model.ids import US_PER_S

from .world import Kept

_START_AT = 1_795_000_000 * US_PER_S + 123
_STEP_US = 10_007
_STEPS = 500
"""5 s in all: below every session and transaction time-out, so that waiting alone breaks nothing."""


class MemoryWorld:
    def __init__(self, closing: ExitStack) -> None:
        self._clock = ManualClock(_START_AT)
        self._cluster = MemoryCluster(self._clock)
        self._closing = closing
        self._made_count = 0

    def new_topic(self, partitions: int = 1, *, append_time: bool = False, compact: bool = False) -> str:
        name = self.new_name("topic")
        self._cluster.create_topic(name, partitions, append_time=append_time, compact=compact)
        return name

    def delete_topic(self, topic: str) -> None:
        self._cluster.delete_topic(topic)

    def make_anew(self, topic: str) -> None:
        self.delete_topic(topic)
        self._cluster.create_topic(topic, 1)

    def new_name(self, start: str) -> str:
        self._made_count += 1
        return f"{start}-{self._made_count}"

    def new_log(
        self, client_id: str = "case", *, transaction_timeout_s: float = 10.0, session_timeout_s: float = 10.0
    ) -> MemoryLog:
        return self.keep(
            MemoryLog(
                self._cluster,
                client_id,
                transaction_timeout_s=transaction_timeout_s,
                session_timeout_s=session_timeout_s,
            )
        )

    def keep(self, closable: Kept) -> Kept:
        self._closing.callback(closable.close)
        return closable

    def lose_commit(self, transactional_id: str, *, applied: bool) -> None:
        fate = CommitFate.UNANSWERED if applied else CommitFate.LOST
        self._cluster.faults.next_commit(transactional_id, fate)

    def delete_records(self, place: TopicPartition, before: int) -> None:
        self._cluster.delete_records(place, before)

    def clean(self, topic: str) -> None:
        self._cluster.compact(topic)

    def advance_or_wait(self, condition: Callable[[], bool], what: str) -> None:
        for _ in range(_STEPS):
            if condition():
                return
            self._clock.advance(_STEP_US)
        pytest.fail(f"still waiting after {_STEPS} steps for: {what}")
