"""Chains of fixed delays: what the owner of a shard keeps of one, and what moves it. Pure (``delay_rules.py``).

A chain waits for the end of its run, or it has a next fire. There is no row of it in ``due``: its fires follow from
ends that the owner itself reads, so it stands in the job's record in the state topic (``flow.py``), in the very round
that makes a run, counts an end or applies a command. So a take-over goes on exactly, and nobody makes a second chain.

What must hold: only the end of the run that the chain has made counts, once; not that of a trigger, a redrive, or of a
chain from before the job was deleted or had another schedule.
"""

from __future__ import annotations

from typing import NamedTuple

from waterclock.model.delay_rules import next_after
from waterclock.model.flow_state import JobFlow
from waterclock.model.ids import Instant
from waterclock.model.job import Delay, JobStatus, JobVersion


class KeptChain(NamedTuple):
    """What a successor has to know."""

    delay_us: int = 0
    counts_from: Instant = 0
    floor_at: Instant = 0
    until_at: Instant = 0
    run_id: str = ""


class DelayChain:
    """The chain of one job. ``delay_us`` 0: the job has none. ``counts_from``: the newest end, or a skipped fire; 0:
    its first fire is still to come. ``run_id``: the run that is open. ``version``: the newest; None: not read yet."""

    __slots__ = ("counts_from", "delay_us", "floor_at", "run_id", "until_at", "version")

    def __init__(self, kept: KeptChain = KeptChain()) -> None:  # noqa: B008 - a value
        self.delay_us, self.counts_from, self.floor_at, self.until_at, self.run_id = kept
        self.version: JobVersion | None = None

    @classmethod
    def of(cls, kept: JobFlow) -> DelayChain:
        """As a successor finds it."""
        where = kept.delay_from_at, kept.delay_floor_at, kept.delay_until_at
        return cls(KeptChain(kept.delay_us, *where, kept.delay_run))

    @property
    def kept(self) -> KeptChain:
        return KeptChain(self.delay_us, self.counts_from, self.floor_at, self.until_at, self.run_id)

    def put_into(self, flow: JobFlow) -> JobFlow:
        """The job's record, with this."""
        delay_us, from_at, floor_at, until_at, run_id = self.kept
        return flow._replace(
            delay_us=delay_us,
            delay_from_at=from_at,
            delay_floor_at=floor_at,
            delay_until_at=until_at,
            delay_run=run_id,
        )

    @property
    def next_at(self) -> Instant | None:
        """Its next fire; None while a run is open, and where no fire comes any more."""
        if not self.delay_us or self.run_id:
            return None
        found = next_after(self.counts_from, self.delay_us, self.floor_at)
        return None if 0 < self.until_at <= found else found

    def follow(self, version: JobVersion, edge_at: Instant) -> None:
        """A command has made this version, the newest. ``edge_at``: what was due by then was decided.

        An edit goes on with the chain: its delay counts from the last end. A delete, and any other schedule, ends it;
        what comes after that begins anew, whatever is still open.
        """
        schedule, timing = version.spec.schedule, version.spec.timing
        if version.status is JobStatus.DELETED or not isinstance(schedule, Delay):
            self.delay_us, self.counts_from, self.floor_at, self.until_at, self.run_id = KeptChain()
            self.version = None
            return
        self.delay_us, self.until_at, self.version = schedule.delay_us, timing.until_at, version
        self.floor_at = max(version.stamp_at + 1, edge_at + 1, timing.from_at)

    def fired(self, run_id: str) -> None:
        """Its next fire has made this run."""
        self.run_id = run_id

    def skipped(self, to_at: Instant) -> None:
        """Its fires up to this one make no run: it goes on from there."""
        self.counts_from = to_at

    def ended(self, run_id: str, at: Instant) -> bool:
        """A run has come to its end, which counts from ``at``. True where it is the chain's own."""
        if not self.delay_us or run_id != self.run_id:
            return False
        self.run_id, self.counts_from = "", at
        return True
