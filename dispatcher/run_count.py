"""How many runs a job's schedule has made, where ``max_runs`` bounds them. Pure.

Counted is what a fire comes to: a run, also one that waits; what is SKIPPED does not count, and a run that waited and
is dropped is taken back. The count begins with the first revision that has a ``max_runs`` and goes on over edits,
pauses and rollbacks for as long as each has one; a revision without it, or a delete, forgets it. A fire goes by the
number of the revision that it belongs to; one of a revision from before the count is not counted, and not bounded.
"""

from __future__ import annotations

from waterclock.model.flow_state import JobFlow
from waterclock.model.job import JobStatus, JobVersion

MAX_RUNS = "max_runs"
"""Why a fire is skipped that comes when the job has made all its runs."""


class RunCount:
    """The count of one job. ``most``: of its newest revision, 0: nothing is counted. ``since``: where that began."""

    __slots__ = ("made", "most", "since")

    def __init__(self) -> None:
        self.most = 0
        self.made = 0
        self.since = 0

    @classmethod
    def of(cls, kept: JobFlow) -> RunCount:
        """As a successor finds it."""
        count = cls()
        count.most, count.made, count.since = kept.max_runs, kept.runs_made, kept.runs_since
        return count

    @property
    def is_full(self) -> bool:
        """The newest revision makes no more runs."""
        return 0 < self.most <= self.made

    def follow(self, version: JobVersion) -> None:
        """A command has made this version, the job's newest."""
        most = 0 if version.status is JobStatus.DELETED else version.spec.timing.max_runs
        if not most or not self.most:
            self.made, self.since = 0, version.revision if most else 0
        self.most = most

    def has_room(self, version: JobVersion) -> bool:
        """Whether a fire of this version may make a run."""
        return not self._bounds(version) or self.made < version.spec.timing.max_runs

    def is_last(self, version: JobVersion) -> bool:
        """Whether the run that a fire of this version makes is the last one."""
        return self._bounds(version) and self.made + 1 == version.spec.timing.max_runs

    def note_made(self, revision: int) -> bool:
        """A fire of this revision has made a run. True where that counts."""
        is_counted = self._counts(revision)
        self.made += is_counted
        return is_counted

    def take_back(self, revision: int) -> bool:
        """A run of this revision that waited is dropped. True where it had counted.

        Not once all are made: the job's end is asked for by then, and nobody takes that back.
        """
        is_counted = self._counts(revision) and 0 < self.made < self.most
        self.made -= is_counted
        return is_counted

    def _counts(self, revision: int) -> bool:
        return self.most > 0 and revision >= self.since

    def _bounds(self, version: JobVersion) -> bool:
        return self._counts(version.revision) and version.spec.timing.max_runs > 0
