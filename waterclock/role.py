"""What every role is: a core with a ``step()``. ``waterclock/process.py`` is the thin loop that turns it."""

from __future__ import annotations

from typing import Protocol


class Role(Protocol):
    """A pure core behind ports. One thread calls it."""

    def step(self) -> bool:
        """One cycle. True: there is more to do right now; False: nothing was due (the polls have waited already)."""
        ...

    def drain(self) -> bool:
        """One cycle of stopping: take nothing new. True while something is left to finish."""
        ...

    def close(self) -> None:
        """Leave groups and close clients. Nothing may be outstanding that a restart would not find again."""
        ...
