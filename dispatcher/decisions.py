"""What becomes of one command, decided and not yet carried out (``applying.py``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from waterclock.log.port import Record
from waterclock.model.errors import RequestError
from waterclock.model.ids import Instant
from waterclock.model.job import Command, JobVersion
from waterclock.model.role_state import KeyState
from waterclock.store.port import DueDelete

from . import commands
from .backfill_orders import Turned
from .gap_owed import OwedInGap
from .reruns import Rerun
from .rows import Ahead
from .run_orders import Order


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
