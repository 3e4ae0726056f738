"""One run of a job whose runs wait for one another, as its shard's owner holds it: HELD, or open (``flow.py``)."""

from __future__ import annotations

from waterclock.model.concurrency import Concurrency
from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import EventKind, Pending, RunEvent, RunStatus
from waterclock.model.flow_state import RunFlow
from waterclock.model.ids import ordinal
from waterclock.model.job import JobVersion
from waterclock.model.reduce import RunState, reduce
from waterclock.wire import codec

from .dag_flow import DagFlow

NEW = RunState(RunStatus.PENDING)

UNREAD = "?"
"""The group of a run that waits, where its key has changed and its payload is still to be read; no pointer is so."""


class Held:
    """A run that waits. ``version``: what it is made of, None where a predecessor has held it (``admitting.py``).

    What stands in the log before its own HELD is no event of it, as with one that is open. Of one that a predecessor
    held (``is_restored``) nobody knows where that stands, until all was read that stood there at the take-over:
    ``early_end`` says that an end was read meanwhile, which counts if no HELD comes behind it.
    """

    __slots__ = ("early_end", "is_read", "is_restored", "kept", "version")

    def __init__(self, kept: RunFlow, version: JobVersion | None, *, is_restored: bool = False) -> None:
        self.kept = kept
        self.version = version
        self.is_restored = is_restored
        self.is_read = False
        self.early_end = False

    @property
    def size(self) -> int:
        """Bytes that are its own."""
        return len(self.kept.payload or b"") + len(self.kept.work or b"")

    def regroup(self, limits: Concurrency) -> bool:
        """Put it into the group that these limits say; False where its work cannot be read. No record is written: a
        successor finds the same, and a record that is written anew would stand behind those of runs that came later."""
        try:
            if limits.key or self.kept.group:
                self.kept = self.kept._replace(group=self._group(limits) if limits.key else "")
        except UndecodableRecord:
            return False
        return True

    def _group(self, limits: Concurrency) -> str:
        kept, payload = self.kept, self.kept.payload
        if kept.work is not None:
            payload = codec.decode_work(kept.work).payload
        elif payload is None and self.version is not None:
            payload = self.version.spec.payload
        if payload is not None:
            return limits.group(payload)
        return kept.group if kept.group.startswith(f"{limits.key}=") else UNREAD


class Open:
    """A run that was handed out. ``kept``: as the state topic holds it; ``dag``: of a DagRun, once that is read.

    What stands in the log before a run is made is no event of it: the arbiter refuses that, and so it moves nothing
    here until the run's own PENDING was read (``is_read``). A run that was HELD is on the log already.
    """

    __slots__ = ("asked_by_us", "dag", "is_read", "kept", "state")

    def __init__(self, kept: RunFlow, state: RunState | None = None) -> None:
        """``state``: None: of its events none was read."""
        self.kept = kept
        self.state = state or NEW
        self.is_read = state is not None
        self.asked_by_us = False
        self.dag: DagFlow | None = None

    def follow(self, event: RunEvent, offset: int, generation: int) -> None:
        """An event of it, or of one of its nodes. Raises RequestError where that names no run."""
        if not self.is_read:
            self.is_read = event.kind is EventKind.PENDING and event.run_id == self.kept.run_id
            if not self.is_read:
                return
        detail = event.detail
        if self.dag is None and isinstance(detail, Pending) and detail.dag is not None:
            self.dag = DagFlow(event.run_id, generation)
        if self.dag is not None:
            self.state = self.dag.apply(event, offset) or self.state
        elif event.run_id == self.kept.run_id:
            verdict = reduce(self.state, event, ordinal(generation, offset))
            self.state = verdict.state or self.state

    @property
    def asked(self) -> bool:
        """Its end was asked for: by whoever, as the log says, or in this very round."""
        return self.asked_by_us or self.state.cancel_requested
