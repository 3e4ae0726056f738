"""Failures of a job's runs in a row, up to the number after which it asks to be paused. Pure.

Counted are runs of the schedule and of triggers, made by the revision from which the count began or a later one, in the
order in which run-events has their ends: FAILED counts, SUCCEEDED begins anew, what is cancelled changes nothing. A
resume begins anew with its own revision, so what was made before it and fails after it pauses nothing; so does an edit
with which a job goes on that had ended. Once there were too many, nothing else takes that back but an edit of their
number, which goes by the count as it stands.
"""

from __future__ import annotations

from waterclock.model.events import Origin, RunStatus
from waterclock.model.flow_state import JobFlow, RunFlow
from waterclock.model.job import CommandKind, JobStatus, JobVersion

_RESUMED = CommandKind.RESUME.value.lower()
_COUNTED = frozenset({Origin.SCHEDULE, Origin.TRIGGER})


class Streak:
    """The count of one job. ``after`` 0: nothing is counted. ``failed_run``: the newest of ``count`` failures;
    ``pause_for``: the run with which there were too many, because of which the job is to be paused."""

    __slots__ = ("after", "count", "counts_from", "failed_run", "pause_for")

    def __init__(self) -> None:
        self.after = 0
        self.counts_from = 0
        self.count = 0
        self.failed_run = ""
        self.pause_for = ""

    @classmethod
    def of(cls, kept: JobFlow) -> Streak:
        """As a successor finds it."""
        streak = cls()
        streak.after, streak.counts_from, streak.count = kept.pause_after_failures, kept.counts_from, kept.failures
        streak.failed_run, streak.pause_for = kept.failed_run, kept.pause_for
        return streak

    def follow(self, version: JobVersion, *, from_end: bool) -> None:
        """A command has made this version, the job's newest. ``from_end``: the job had ended before."""
        is_gone = version.status is JobStatus.DELETED
        after = 0 if is_gone else version.spec.timing.pause_after_failures
        is_back = version.action == _RESUMED or (from_end and version.status is JobStatus.ACTIVE)
        if not self.after or not after or is_back:
            self.counts_from, self.count = version.revision if after else 0, 0
            self.failed_run = self.pause_for = ""
        elif after != self.after:
            self.pause_for = self.failed_run if self.count >= after else ""
        self.after = after

    def note(self, run: RunFlow, status: RunStatus) -> bool:
        """One of the job's runs has ended. True where that changes the count."""
        is_counted = run.origin in _COUNTED and run.revision >= self.counts_from
        if not self.after or not is_counted:
            return False
        if status is RunStatus.FAILED:
            self.count, self.failed_run = self.count + 1, run.run_id
            if self.count >= self.after:
                self.pause_for = self.pause_for or run.run_id
            return True
        if status is not RunStatus.SUCCEEDED or not self.count:
            return False
        self.count, self.failed_run = 0, ""
        return True
