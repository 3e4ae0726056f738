"""What every role is: a core with a ``step()``, and the thin loop that turns it."""

from __future__ import annotations

from collections.abc import Callable
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


def turn(role: Role, stopping: Callable[[], bool], drain_deadline: Callable[[], bool]) -> None:
    """Step ``role`` until ``stopping()``, then drain it until it is done or ``drain_deadline()`` says enough."""
    while not stopping():
        role.step()
    while role.drain() and not drain_deadline():
        pass
    role.close()
