"""What the ledger says of a shard: the sums of each hour, and what is wrong in it. Pure.

What must hold: the counts of faults are whole; names are at most ``names_max`` of each kind and hour.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from waterclock.model.ids import Instant

from .facts import hour_of


class FaultKind(StrEnum):
    """MISSING: owed, and neither made nor skipped. DOUBLED: decided twice. WRONG: decided otherwise than owed."""

    MISSING = "missing"
    DOUBLED = "doubled"
    WRONG = "wrong"


class Fault(NamedTuple):
    """One fire (or one record about fires) that is not as it must be. ``run_id`` names it; ``why`` is a phrase."""

    kind: FaultKind
    run_id: str
    why: str


@dataclass(slots=True)
class HourSum:
    """One hour of one shard. ``skipped`` by reason; a fire inside a pause that still stands is skipped as ``paused``.

    ``not_yet``: fires beyond the shard's cursor or in a gap, which are not due or not decided yet; in no other number.
    ``named``: the first of the faults.
    """

    owed: int = 0
    runs: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    not_yet: int = 0
    faults: Counter[FaultKind] = field(default_factory=Counter)
    named: list[Fault] = field(default_factory=list)

    @property
    def is_balanced(self) -> bool:
        """Nothing is missing, doubled or wrong."""
        return not self.faults


class Span(NamedTuple):
    """Judged are the fires in [``from_at``, ``decided_to``) that are due before ``due_before``, the shard's cursor.

    The others up to ``until_at`` are not due yet. ``decided_to`` is a fire time, and may lie before the cursor.
    ``open_gaps``: [from, to) of due times that are still to be caught up; not judged either.
    """

    from_at: Instant
    decided_to: Instant
    until_at: Instant
    due_before: Instant
    open_gaps: tuple[tuple[Instant, Instant], ...] = ()


class Sums:
    """The hours of one shard."""

    def __init__(self, names_max: int) -> None:
        self.hours: dict[int, HourSum] = {}
        self._names_max = names_max

    def at(self, instant: Instant) -> HourSum:
        """The hour of this instant."""
        return self.hours.setdefault(hour_of(instant), HourSum())

    def fault(self, kind: FaultKind, at: Instant, run_id: str, why: str, count: int = 1) -> None:
        """Count ``count`` faults in the hour of ``at``, and name the first of them while there is room."""
        hour = self.at(at)
        hour.faults[kind] += count
        if sum(fault.kind is kind for fault in hour.named) < self._names_max:
            hour.named.append(Fault(kind, run_id, why))
