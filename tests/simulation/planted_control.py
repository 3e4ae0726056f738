"""Bugs of pauses that end by themselves and of rollbacks: patches of the product for one play. See ``planted.py``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from waterclock.dispatcher import behind, commands, edges, takeover
from waterclock.dispatcher.known import Known
from waterclock.dispatcher.look_times import LookTimes
from waterclock.dispatcher.shard import Shard

from waterclock.model.ids import Instant
from waterclock.model.job import Command, JobVersion

from .planted_failures import Planted


@contextmanager
def end_when_written() -> Iterator[None]:
    """The end of a pause counts when its command is written: some seconds of fires are owed that were not to be."""

    def stamp_of(command: Command, appended_at: Instant, before: JobVersion | None) -> Instant:
        return right(command._replace(resume_at=0), appended_at, before)

    right = commands.stamp_of
    with mock.patch.object(commands, "stamp_of", stamp_of):
        yield


@contextmanager
def end_forgotten() -> Iterator[None]:
    """Who takes a shard over knows of the pauses, and not when they end."""

    def take_over(*words: Any) -> Shard:
        shard = right(*words)
        shard.resumes = LookTimes()
        return shard

    right = takeover.take_over
    with mock.patch("waterclock.dispatcher.loop.take_over", take_over):
        yield


@contextmanager
def newest_brought_back() -> Iterator[None]:
    """A rollback finds the newest version below the one that it names, and not that one."""

    def version(self: Known, job_id: str, revision: int) -> JobVersion | None:
        named = right(self, job_id, revision)
        (before,) = self._index.versions_below([(job_id, revision)]) if named else (None,)
        return before or named

    right = Known.version
    with mock.patch.object(Known, "version", version):
        yield


@contextmanager
def late_resume_from_its_stamp() -> Iterator[None]:
    """A pause ends at the stamp of the next command, also where fires lie between that and the edge."""
    with mock.patch.object(commands, "pause_until", lambda _paused, stamp_at, _edge_at: stamp_at):
        yield


@contextmanager
def held_back_by_nobody() -> Iterator[None]:
    """An edit that narrows a jitter leaves alone what the wider one held back: it is over by the new one."""

    def nothing(*_: Any) -> list[Instant]:
        return []

    with mock.patch.object(behind, "moved_up", nothing), mock.patch.object(commands, "moved_up", nothing):
        yield


@contextmanager
def one_off_behind_a_pause() -> Iterator[None]:
    """When a paused one-off is changed, it counts as decided if it lies behind the edge; nobody did that."""
    with mock.patch.object(edges, "_waits", return_value=False):
        yield


PLANTED_CONTROL: dict[str, Planted] = {
    "end of a pause counts when it is written": end_when_written,
    "end of a pause forgotten at a take-over": end_forgotten,
    "fires behind a late resume are nobody's": late_resume_from_its_stamp,
    "one-off behind a change of its pause is nobody's": one_off_behind_a_pause,
    "rollback to the version before": newest_brought_back,
    "what a narrowed jitter held back is nobody's": held_back_by_nobody,
}
