"""What becomes of one command, and of those of one round, decided and not yet carried out (``applying.py``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from waterclock.log.port import Record
from waterclock.model.errors import RequestError
from waterclock.model.ids import Instant, ordinal
from waterclock.model.job import Command, CommandKind, JobVersion
from waterclock.model.role_state import KeyState
from waterclock.store.port import DueDelete, DueRow

from . import commands
from .backfill_orders import Turned
from .envelope import weight_of
from .gap_owed import OwedInGap
from .reruns import Rerun
from .rows import Ahead
from .run_orders import Order, speaks_of_a_run
from .shard import Shard


@dataclass(slots=True)
class Plan:
    """What one command will change, not yet carried out. ``served``: what is kept of its intention."""

    record: Record
    command: Command
    applied: commands.Applied
    edge_at: Instant
    gaps: tuple[OwedInGap, ...] = ()
    """In which the job's older fires stay owed, or were until this pause or delete."""
    caught_up: tuple[OwedInGap, ...] = ()
    """What it owes in gaps, if this command decides that at once."""
    grace_us: int = 0
    before: tuple[JobVersion, ...] = ()
    ahead: Ahead = field(default_factory=lambda: Ahead([], []))
    deletes: list[DueDelete] = field(default_factory=list)
    served: KeyState | None = None

    @property
    def is_stored(self) -> bool:
        """Whether the store is told. Not of a run alone: its job stands as it stood, and was written then."""
        return self.applied.version is not None or self.applied.run_at is None

    @property
    def weight(self) -> int:
        """For how many fires what it makes counts, beyond one for each run: a command that brings no payload is small,
        and its run has its job's."""
        triggered = self.applied.series > 0 and self.command.payload is None
        return (triggered + len(self.applied.behind)) * (weight_of(self.applied.row.spec) - 1)


@dataclass(slots=True)
class Refusal:
    """A command that is not carried out. ``command`` None: it cannot be read. ``revision``: what stands."""

    record: Record
    error: RequestError
    command: Command | None = None
    revision: int = 0


@dataclass(slots=True)
class Passed:
    """A command about one run, passed on."""

    record: Record
    command: Command
    order: Order
    rerun: Rerun | None = None
    served: KeyState | None = None


@dataclass(slots=True)
class Repeat:
    """A command whose intention was served already."""

    record: Record
    command: Command
    first: KeyState


@dataclass(slots=True)
class Asked:
    """A command about a backfill, and what it makes of it."""

    record: Record
    command: Command
    turned: Turned
    served: KeyState | None = None


Decision: TypeAlias = Plan | Passed | Refusal | Repeat | Asked


@dataclass(slots=True)
class Batch:
    """What one shard takes from its inbox, and what becomes of it. ``room``: for how many fires what is made may count,
    beyond one for each run."""

    shard: Shard
    records: list[Record]
    read: list[tuple[Record, Command]]
    decisions: list[Decision]
    room: int

    def limits(self) -> dict[str, int]:
        """By job, the revision that its first command here would have. Commands about runs ask no version."""
        found: dict[str, int] = {}
        for record, command in self.read:
            if not speaks_of_a_run(command) or command.kind is CommandKind.RERUN:
                found.setdefault(command.job_id, ordinal(self.shard.generation, record.offset))
        return found

    def add(self, decision: Decision) -> None:
        """The next command is decided."""
        self.decisions.append(decision)
        if isinstance(decision, Plan):
            self.room -= decision.weight

    def end_before(self, record: Record) -> None:
        """Leave this one, and what stands behind it, for the next round."""
        self.records = [each for each in self.records if each.offset < record.offset]
        self.decisions = [each for each in self.decisions if each.record.offset < record.offset]

    def rows(self) -> list[DueRow]:
        """What its deferrals write."""
        orders = (decision.order for decision in self.decisions if isinstance(decision, Passed))
        return [order.row for order in orders if order.row is not None]
