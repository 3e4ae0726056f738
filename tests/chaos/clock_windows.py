"""When the faked clock was off, and by how much: the only excuse for a run that is made before it is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.chaos.deeds import Deed
from tests.chaos.director import CLOCK_HEALED
from tests.chaos.rights import CLOCK
from waterclock.model.ids import US_PER_S

TRUE_US = US_PER_S // 10
"""By how much clocks that nobody fakes may differ (guarantees.md: NTP)."""

_CACHED_US = US_PER_S
"""``FAKETIME_CACHE_DURATION``: so long a process goes on with the offset that it has read."""

_LANDS_WITHIN_US = 10 * US_PER_S
"""A round that was decided lands within its transaction's time-out, or not at all."""

_FELT_WITHIN_US = 2 * US_PER_S


class Window(NamedTuple):
    """From ``since`` to ``until`` the faked role's clock was off by ``off_us``; stamps of this machine's clock."""

    since: int
    until: int
    off_us: int


def windows(deeds: Sequence[Deed]) -> list[Window]:
    """One for each jump; where the next one came before its end, they overlap."""
    ends = [deed.at for deed in deeds if deed.kind == CLOCK_HEALED]
    return [
        Window(
            jump.at,
            min((at for at in ends if at > jump.at), default=1 << 62) + _CACHED_US,
            round(float(jump.how) * US_PER_S),
        )
        for jump in deeds
        if jump.kind == CLOCK
    ]


def early_us_at(found: Sequence[Window]) -> Callable[[int], int]:
    """By how much a run may be early whose PENDING was appended at an instant."""

    def allowed(at: int) -> int:
        ahead = (each.off_us for each in found if each.since <= at <= each.until + _LANDS_WITHIN_US)
        return TRUE_US + max(0, max(ahead, default=0))

    return allowed


def felt(found: Sequence[Window], told: Sequence[tuple[int, Mapping[str, Any]]]) -> int:
    """How many of the jumps show: somebody's own time was off by as much, in an event that was appended then.

    ``told``: (append time, event). An event of a dispatcher bears the time by its clock.
    """
    return sum(
        any(
            window.since <= at <= window.until and abs(event["at"] - at - window.off_us) <= _FELT_WITHIN_US
            for at, event in told
        )
        for window in found
    )
