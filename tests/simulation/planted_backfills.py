"""Bugs of backfills: patches of the product for the time of one play. See ``planted.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from waterclock.dispatcher import applying, backfill_lanes, backfill_reading, backfills
from waterclock.dispatcher.applying import Plan
from waterclock.dispatcher.backfills import Backfills
from waterclock.dispatcher.emit import Emitter
from waterclock.dispatcher.flow import Flow
from waterclock.dispatcher.shard import Shard

from waterclock.model.events import RunStatus
from waterclock.model.ids import Instant
from waterclock.model.job import JobStatus
from waterclock.store.made_runs import MadeRun

Planted = Callable[[], AbstractContextManager[None]]


@contextmanager
def begun_anew() -> Iterator[None]:
    """Whoever takes over begins every backfill anew, and what has run meanwhile is not looked at."""

    def restore(self: Backfills, records: Any) -> list[str]:
        strange = right(self, records)
        for backfill in self:
            backfill.told = backfill.told._replace(position_at=backfill.told.from_at - 1, made_count=0, left_count=0)
            backfill.existing = backfill_reading.Found(frozenset(), frozenset(), 0)
        return strange

    right = Backfills.restore
    with mock.patch.object(Backfills, "restore", restore):
        yield


@contextmanager
def history_alone() -> Iterator[None]:
    """What has run is what history shows, however far behind it is."""
    with mock.patch.object(backfill_reading.Reading, "_read_events", return_value=True):
        yield


@contextmanager
def log_alone() -> Iterator[None]:
    """Only what the recorder has not written yet counts as having run."""
    with mock.patch.object(backfill_reading.Reading, "_take_row", return_value=None):
        yield


@contextmanager
def skips_have_run() -> Iterator[None]:
    """A fire that was skipped stands in history, so it counts as run."""

    def take(self: Any, run: MadeRun) -> None:
        right(self, run._replace(status=RunStatus.PENDING) if run.status is RunStatus.SKIPPED else run)

    right = backfill_reading.Reading._take_row
    with mock.patch.object(backfill_reading.Reading, "_take_row", take):
        yield


@contextmanager
def no_bound() -> Iterator[None]:
    """Nobody counts how many of its runs are open."""
    with mock.patch.object(backfill_lanes, "open_count", return_value=0):
        yield


@contextmanager
def open_runs_forgotten() -> Iterator[None]:
    """Whoever takes over does not know which open runs are a backfill's."""

    def opened(self: Flow, job: Any, run: Any) -> None:
        if run.kept.state:  # restored
            run.kept = run.kept._replace(backfill=0)
        right(self, job, run)

    right = Flow.opened
    with mock.patch.object(Flow, "opened", opened):
        yield


@contextmanager
def limits_ignored() -> Iterator[None]:
    """The job's own policy and limits do not count for a backfill."""
    with mock.patch.object(backfill_lanes, "_has_room", return_value=True):
        yield


@contextmanager
def position_apart() -> Iterator[None]:
    """Its record is written when its progress is told, and not with each run."""
    with mock.patch.object(backfill_lanes, "keep", return_value=None):
        yield


@contextmanager
def unverified() -> Iterator[None]:
    """Its work is like any other."""

    def run(self: Emitter, *args: Any, **more: Any) -> None:
        right(self, *args, **more | {"known_to": -1})

    right = Emitter.run_of_backfill
    with mock.patch.object(Emitter, "run_of_backfill", run):
        yield


@contextmanager
def cancelled_by_the_end() -> Iterator[None]:
    """A job that has come to the end of its runs cancels its backfills, as one that is deleted."""

    def change_course(shard: Shard, out: Emitter, plan: Plan, now: Instant) -> Any:
        admission = right(shard, out, plan, now)
        version = plan.applied.version
        if version is not None and version.status is JobStatus.ENDED:
            backfills.cancel_of_job(shard, out, version.job_id, backfills.DELETED, now)
        return admission

    right = applying._change_course
    with mock.patch.object(applying, "_change_course", change_course):
        yield


PLANTED_BACKFILLS: dict[str, Planted] = {
    "backfill begun anew at a take-over": begun_anew,
    "backfill goes by history alone": history_alone,
    "backfill goes by the log alone": log_alone,
    "backfill leaves out what was skipped": skips_have_run,
    "backfill without its bound": no_bound,
    "open runs of a backfill forgotten": open_runs_forgotten,
    "backfill ignores limits": limits_ignored,
    "backfill's record apart from its runs": position_apart,
    "backfill's work not verified": unverified,
    "backfill cancelled by the end of its job": cancelled_by_the_end,
}
