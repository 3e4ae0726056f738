"""What happened, in order: a digest of everything, and lines for people where somebody wants to read them.

Must hold: the digest covers every port call of every role, every fault and every decision of the scheduler, so two
plays of a seed with equal digests are the same play. ``counts`` is what was provoked, by name.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any

from waterclock.model.ids import US_PER_S, Instant
from waterclock.wire.codec import decode_event

_BATCH = 1_000
"""Lines that are digested together."""


class Story:
    """Of one play. ``keeps_lines`` is for people: it costs time and changes nothing."""

    def __init__(self, *, keeps_lines: bool = False) -> None:
        self._lines: list[tuple[int, str]] = []
        self.counts: Counter[str] = Counter()
        self._keeps_lines = keeps_lines
        self._since_start_us: Callable[[], int] = lambda: 0
        self._digest = hashlib.blake2b(digest_size=16)
        self._waiting: list[str] = []
        self._calls_count = 0

    def begin(self, since_start_us: Callable[[], int]) -> None:
        """By the world's clock, which sleeps and jumps where ticks do not: lines bear its time."""
        self._since_start_us = since_start_us

    def call(self, tick: int, client: str, operation: str) -> None:
        """A port call, before its effect."""
        self._calls_count += 1
        self._waiting.append(f"{tick}|{client}|{operation}\n")
        if len(self._waiting) >= _BATCH:
            self._flush()

    def tell(self, tick: int, who: str, what: str) -> None:
        """Something that people want to know."""
        self._add(_line(tick, who, what))
        if self._keeps_lines:
            self._keep(self._since_start_us(), who, what)

    def weave(self, events: Iterable[Mapping[str, Any]], start_at: Instant) -> None:
        """The run events (of a dump) among the lines, each where the log took it: what complaints speak of."""
        for record in events if self._keeps_lines else ():
            event = decode_event(record["value"])
            words = [event.kind.name, event.run_id, f"attempt {event.attempt}", event.reason]
            place = f"run-events[{record['partition']}]@{record['offset']}"
            self._keep(int(record["timestamp_us"]) - start_at, place, " ".join(word for word in words if word))

    def _keep(self, at_us: int, who: str, what: str) -> None:
        self._lines.append((at_us, _line(at_us, who, what)))

    @property
    def lines(self) -> list[str]:
        """Everything told, by time; at one instant in the order in which it was told."""
        return [line for _, line in sorted(self._lines, key=itemgetter(0))]

    def add(self, content: bytes) -> None:
        """Content that must be the same in every play: the dumps."""
        self._flush()
        self._digest.update(content)

    def digest(self) -> str:
        """The digest up to now, as hex text."""
        self._flush()
        return self._digest.hexdigest()

    def _add(self, text: str) -> None:
        self._waiting.append(text)
        if len(self._waiting) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        self.counts["port calls"] = self._calls_count
        self._digest.update("".join(self._waiting).encode())
        self._waiting.clear()


def _line(us: int, who: str, what: str) -> str:
    return f"{us / US_PER_S:10.3f}  {who:<14} {what}"
