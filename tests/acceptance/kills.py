"""Killing roles where it hurts: at any time, or the moment an uncommitted tail sees the first record of a round.

What it hit is never judged here: a kill inside an open transaction shows as records that only read_uncommitted shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from confluent_kafka import OFFSET_END, Message, TopicPartition

from tests.acceptance.dumps import partitions_of, reader
from tests.acceptance.real_stack import RealStack, RoleProcess

_US_PER_S = 1_000_000
BREATH_S = 0.02
"""Between two rounds of a check's hand: its one thread kills, loads and follows, and is not to take a core for it."""


class Kill(NamedTuple):
    """One kill -9: of whom, when (microseconds, this machine's clock), and whether a record of a round set it off."""

    instance: str
    at: int
    trapped: bool


class Trap:
    """Tails a topic uncommitted and names the writer of the first record seen after it was armed."""

    def __init__(self, bootstrap: str, topic: str, writer_of: Callable[[Message], str | None]) -> None:
        self._places = [TopicPartition(topic, at, OFFSET_END) for at in partitions_of(bootstrap, topic)]
        self._writer_of = writer_of
        self._consumer = reader(
            bootstrap, committed=False, fetch_wait_max_ms=5, fetch_queue_backoff_ms=1, auto_offset_reset="latest"
        )

    def first_writer(self, timeout_s: float) -> str | None:
        """The role instance that writes first from now on; None where nobody does in time."""
        self._consumer.assign(self._places)
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                writer = self._writer_of(message)
                if writer is not None:
                    return writer
        return None

    def close(self) -> None:
        self._consumer.close()


class Killer:
    """Kills and restarts the given roles, one at a time, with rests between.

    Those that no trap names are dealt like cards, so that chance spares nobody.
    """

    def __init__(self, stack: RealStack, instances: Sequence[str], trap: Trap, dice: Random) -> None:
        self._stack = stack
        self._instances = instances
        self._trap = trap
        self._dice = dice
        self._deck: list[str] = []
        self.kills: list[Kill] = []

    def kill_one(self, *, trapped_part: float, patience_s: float) -> None:
        """One kill, restarted at once: by the trap in ``trapped_part`` of all cases, else anyone, now."""
        instance = None
        if self._dice.random() < trapped_part:
            instance = self._trap.first_writer(patience_s)
        trapped = instance is not None
        role = self._stack.roles[instance or self._dealt()]
        role.kill()
        self.kills.append(Kill(role.instance, time.time_ns() // 1_000, trapped))
        role.start()

    def _dealt(self) -> str:
        if not self._deck:
            self._deck = self._dice.sample(self._instances, len(self._instances))
        return self._deck.pop()

    def rest(self, longest_s: float, meanwhile: Callable[[], None]) -> None:
        """Up to ``longest_s`` of peace, in which ``meanwhile`` goes on about every 20 ms."""
        until = time.monotonic() + self._dice.uniform(0.0, longest_s)
        while time.monotonic() < until:
            meanwhile()
            time.sleep(BREATH_S)


class Life:
    """One worker that is killed and restarted again and again, one step at a time: many of them overlap.

    From being ready to the next kill ``alive_s`` at most. In two of three cases it comes back within a second, else it
    stays away until its lease is over for long. Steps, not threads: a child dies with the thread that started it.
    """

    _BACK_PART = 2 / 3

    def __init__(self, role: RoleProcess, dice: Random, lease_s: float, alive_s: float) -> None:
        self.role = role
        self._dice = dice
        self._lease_s = lease_s
        self._alive_s = alive_s
        self._kill_at_s: float | None = None
        self._back_at_s: float | None = None

    @property
    def is_down(self) -> bool:
        """Killed, and not restarted yet."""
        return self._back_at_s is not None

    def go_on(self, *, may_kill: bool) -> Kill | None:
        """What is due by now: a restart, or a kill."""
        now_s = time.monotonic()
        if self._back_at_s is not None:
            if now_s >= self._back_at_s:
                self._back_at_s = None
                self.role.start()
        elif self._kill_at_s is None:
            if self.role.is_ready:
                self._kill_at_s = now_s + self._dice.uniform(0.2, self._alive_s)
        elif may_kill and now_s >= self._kill_at_s:
            return self._kill(now_s)
        return None

    def _kill(self, now_s: float) -> Kill:
        self._kill_at_s = None
        self.role.kill()
        killed_at = time.time_ns() // 1_000
        comes_back = self._dice.random() < self._BACK_PART
        away_s = self._dice.uniform(0.0, 1.0) if comes_back else self._lease_s + self._dice.uniform(2.5, 4.0)
        self._back_at_s = now_s + away_s
        return Kill(self.role.instance, killed_at, False)


def count_inside(kills: Sequence[Kill], gone: Sequence[tuple[int, int, int]]) -> int:
    """How many of the kills fell inside an open transaction, by the records that were aborted (``dumps.aborted``)."""
    return sum(count > 0 for count in split_by_kill(kills, [stamp for _, _, stamp in gone]))


def split_by_kill(kills: Sequence[Kill], stamps: Sequence[int], window_s: float = 2.0) -> list[int]:
    """How many of the records with these timestamps each kill left uncommitted: those shortly before it.

    A record belongs to the first kill at or after it, if that came within ``window_s``; the rest, which no kill
    explains (a round aborted by its own role), belongs to none.
    """
    hit = [0] * len(kills)
    at = 0
    for stamp in sorted(stamps):
        while at < len(kills) and kills[at].at < stamp - 1_000:
            at += 1
        if at < len(kills) and kills[at].at - stamp <= window_s * _US_PER_S:
            hit[at] += 1
    return hit
