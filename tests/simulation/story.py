"""What happened, in order: a digest of everything, and lines for people where somebody wants to read them.

Must hold: the digest covers every port call of every role, every fault and every decision of the scheduler, so two
plays of a seed with equal digests are the same play. ``counts`` is what was provoked, by name.
"""

from __future__ import annotations

import hashlib
from collections import Counter

from waterclock.model.ids import US_PER_S

_BATCH = 1_000
"""Lines that are digested together."""


class Story:
    """Of one play. ``keeps_lines`` is for people: it costs time and changes nothing."""

    def __init__(self, *, keeps_lines: bool = False) -> None:
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()
        self._keeps_lines = keeps_lines
        self._digest = hashlib.blake2b(digest_size=16)
        self._waiting: list[str] = []

    def call(self, tick: int, client: str, operation: str) -> None:
        """A port call, before its effect."""
        self.counts["port calls"] += 1
        self._add(f"{tick}|{client}|{operation}\n")

    def tell(self, tick: int, who: str, what: str) -> None:
        """Something that people want to know."""
        line = f"{tick / US_PER_S:10.3f}  {who:<14} {what}"
        self._add(line)
        if self._keeps_lines:
            self.lines.append(line)

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
        self._digest.update("".join(self._waiting).encode())
        self._waiting.clear()
