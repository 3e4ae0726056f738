"""Bugs of fixed delays: patches of the product for one play. See ``planted.py``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from waterclock.dispatcher import flow, run_delay
from waterclock.dispatcher.delays import DelayChain
from waterclock.dispatcher.flow import Flow, FlowJob
from waterclock.dispatcher.misfire import PAUSED

from waterclock.model.flow_state import JobFlow
from waterclock.model.ids import Instant
from waterclock.model.job import JobVersion

from .planted_failures import Planted


@contextmanager
def counted_from_the_start() -> Iterator[None]:
    """The delay counts from when the run was due, as that of an interval would."""

    def counted(_at: Instant, _stamped_at: Instant, fire_at: Instant, _now: Instant) -> Instant:
        return fire_at

    with mock.patch.object(flow, "counted_end", counted):
        yield


@contextmanager
def workers_clock_trusted() -> Iterator[None]:
    """An end counts from whatever its worker's clock says, also from before its run was due.

    A clock that is ahead is believed anyway, for the stamp that would show it is its own.
    """

    def counted(at: Instant, _stamped_at: Instant, _fire_at: Instant, _now: Instant) -> Instant:
        return at

    with mock.patch.object(flow, "counted_end", counted):
        yield


@contextmanager
def chain_forgotten() -> Iterator[None]:
    """Who takes a shard over knows nothing of chains, and waits for a command that begins one."""

    def of(_kept: JobFlow) -> DelayChain:
        return DelayChain()

    with mock.patch.object(DelayChain, "of", of):
        yield


@contextmanager
def chain_begun_anew() -> Iterator[None]:
    """Who takes a shard over begins every chain anew, whatever is open."""

    def of(kept: JobFlow) -> DelayChain:
        return right(kept._replace(delay_from_at=0, delay_run=""))

    right = DelayChain.of
    with mock.patch.object(DelayChain, "of", of):
        yield


@contextmanager
def chain_not_kept() -> Iterator[None]:
    """What becomes of a chain stays in memory: its record is written when something else asks for it."""

    def note(self: Flow, job: FlowJob) -> None:
        self.look_at_delay(job)

    with mock.patch.object(Flow, "note_delay", note):
        yield


@contextmanager
def any_end_counts() -> Iterator[None]:
    """The end of any run of the job counts, be it a trigger's, or of a chain before."""

    def ended(self: DelayChain, _run_id: str, at: Instant) -> bool:
        return right(self, self.run_id, at)

    right = DelayChain.ended
    with mock.patch.object(DelayChain, "ended", ended):
        yield


@contextmanager
def skip_ends_the_chain() -> Iterator[None]:
    """A fire that makes no run has no end, so nothing ever follows it."""

    def skipped(self: DelayChain, to_at: Instant) -> None:
        right(self, to_at)
        self.until_at = 1

    right = DelayChain.skipped
    with mock.patch.object(DelayChain, "skipped", skipped):
        yield


@contextmanager
def edit_begins_anew() -> Iterator[None]:
    """An edit begins a chain of its own, beside the run that is open."""

    def follow(self: DelayChain, version: JobVersion, edge_at: Instant) -> None:
        self.counts_from, self.run_id = 0, ""
        right(self, version, edge_at)

    right = DelayChain.follow
    with mock.patch.object(DelayChain, "follow", follow):
        yield


@contextmanager
def paused_fires_untold() -> Iterator[None]:
    """What a pause keeps from firing is recorded nowhere."""

    def skip(*words: object) -> None:
        if PAUSED not in words:
            right(*words)  # type: ignore[arg-type]

    right = run_delay._skip
    with mock.patch.object(run_delay, "_skip", skip):
        yield


PLANTED_DELAYS: dict[str, Planted] = {
    "delay counted from the start": counted_from_the_start,
    "delay by a worker's clock": workers_clock_trusted,
    "chain forgotten at a take-over": chain_forgotten,
    "chain begun anew at a take-over": chain_begun_anew,
    "chain not kept with its runs": chain_not_kept,
    "any end counts for a chain": any_end_counts,
    "skipped fire ends its chain": skip_ends_the_chain,
    "edit begins a second chain": edit_begins_anew,
    "paused fires of a chain untold": paused_fires_untold,
}
