"""When a catch-up will be over, by how fast its rows became fewer. Pure.

What is owed rides with the dispatchers' committed positions (``cursor_text.py``). Whoever looks twice knows a speed; a
gap that opens meanwhile makes it more, and the measure begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from .cursor_text import Told, read_cursor

_KEEP_S = 300.0
_LOOKS_MAX = 60


class CatchUpEta:
    """Of all shards together. ``owed``: due rows still to come, as of the last look."""

    def __init__(self) -> None:
        self.owed = 0
        self._looks: list[tuple[float, int]] = []

    def look(self, owed: int, now_s: float) -> None:
        """So many rows are owed now; ``now_s`` is monotonic."""
        if self._looks and owed > self._looks[-1][1]:
            self._looks.clear()
        self._looks = [look for look in self._looks if now_s - look[0] <= _KEEP_S][-_LOOKS_MAX + 1 :]
        self._looks.append((now_s, owed))
        self.owed = owed

    @property
    def per_s(self) -> float:
        """Rows a second, over what is remembered; 0: they do not become fewer, or nobody has looked twice."""
        (first_s, most), (last_s, least) = self._looks[0], self._looks[-1]
        return (most - least) / (last_s - first_s) if last_s > first_s else 0.0

    @property
    def eta_s(self) -> float | None:
        """Seconds until nothing is owed any more; None: not known."""
        if not self.owed:
            return 0.0
        return self.owed / self.per_s if self.per_s > 0 else None


def told_by(texts: Iterable[str]) -> list[Told]:
    """What the metadata of all shards say, as far as this release can read it."""
    return [told for text in texts if (told := read_cursor(text)) is not None]
