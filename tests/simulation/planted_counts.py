"""Bugs of what is counted of a job's runs, ``max_runs`` and failures in a row: patches of the product for one play.

See ``planted.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from waterclock.dispatcher import releasing, streak, telling
from waterclock.dispatcher.emit import Emitter
from waterclock.dispatcher.flow import FlowJob
from waterclock.dispatcher.run_count import RunCount
from waterclock.dispatcher.shard import Shard
from waterclock.dispatcher.streak import Streak

from waterclock.model.events import RunStatus
from waterclock.model.flow_state import JobFlow, RunFlow
from waterclock.model.ids import Instant
from waterclock.model.job import CommandKind, JobVersion

from .planted_failures import Planted


@contextmanager
def failures_forgotten() -> Iterator[None]:
    """Who takes a shard over begins to count failures anew."""

    def of(kept: JobFlow) -> Streak:
        return right(kept._replace(failures=0, failed_run="", pause_for=""))

    right = Streak.of
    with mock.patch.object(Streak, "of", of):
        yield


@contextmanager
def successes_passed_over() -> Iterator[None]:
    """Failures are counted, whatever succeeds between them."""

    def note(self: Streak, run: RunFlow, status: RunStatus) -> bool:
        return status is not RunStatus.SUCCEEDED and right(self, run, status)

    right = Streak.note
    with mock.patch.object(Streak, "note", note):
        yield


@contextmanager
def resumed_with_its_failures() -> Iterator[None]:
    """A resume does not begin anew."""
    with mock.patch.object(streak, "_RESUMED", "never"):
        yield


@contextmanager
def pause_not_asked_for() -> Iterator[None]:
    """Too many have failed, and nobody asks for the pause."""
    with mock.patch.object(FlowJob, "wanted", property(_only_ends)):
        yield


def _only_ends(job: FlowJob) -> CommandKind | None:
    return CommandKind.END if job.count.is_full and not job.ended else None


@contextmanager
def counted_apart() -> Iterator[None]:
    """A count is written while the run whose end it counts is kept, because the shard may not decide yet."""

    def forget_ended(shard: Shard, out: Emitter, now: Instant) -> None:
        if shard.may_decide:
            right(shard, out, now)

    right = releasing.forget_ended
    with mock.patch.object(releasing, "forget_ended", forget_ended):
        yield


@contextmanager
def runs_forgotten() -> Iterator[None]:
    """Who takes a shard over begins to count runs anew."""

    def of(kept: JobFlow) -> RunCount:
        return right(kept._replace(runs_made=0))

    right = RunCount.of
    with mock.patch.object(RunCount, "of", of):
        yield


@contextmanager
def counted_anew_after_an_edit() -> Iterator[None]:
    """Every version has its ``max_runs`` to itself."""

    def follow(self: RunCount, version: JobVersion) -> None:
        right(self, version)
        self.made, self.since = 0, version.revision

    right = RunCount.follow
    with mock.patch.object(RunCount, "follow", follow):
        yield


@contextmanager
def dropped_runs_count() -> Iterator[None]:
    """A run that waited, and was dropped for a newer one, still counts."""
    with mock.patch.object(RunCount, "take_back", return_value=False):
        yield


@contextmanager
def uncounted_in_gaps() -> Iterator[None]:
    """A catch-up makes the runs of a gap without asking how many there are."""

    def admit(shard: Shard, out: Emitter, version: JobVersion, **fire: Any) -> None:
        if fire["gap_to_at"] and not version.spec.is_followed:
            out.run(version, **fire)
        else:
            right(shard, out, version, **fire)

    right = telling.admit_fire
    with mock.patch.object(telling, "admit_fire", admit):
        yield


PLANTED_COUNTS: dict[str, Planted] = {
    "failures forgotten at a take-over": failures_forgotten,
    "failures counted across successes": successes_passed_over,
    "resume with the failures before it": resumed_with_its_failures,
    "pause after failures not asked for": pause_not_asked_for,
    "count written apart from the end it counts": counted_apart,
    "runs counted anew at a take-over": runs_forgotten,
    "runs counted anew after an edit": counted_anew_after_an_edit,
    "dropped runs count": dropped_runs_count,
    "runs of a gap not counted": uncounted_in_gaps,
}
