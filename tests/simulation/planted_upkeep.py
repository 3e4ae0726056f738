"""Bugs of the work that goes on for ever: patches of the product for the time of one play. See ``planted.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from waterclock.dispatcher import rows, sweep
from waterclock.dispatcher.rebuild import Held, Rebuilds
from waterclock.dispatcher.shard import Shard
from waterclock.dispatcher.sweep import Missing, Sweep

from waterclock.model import timetable
from waterclock.model.ids import US_PER_S, Instant

Planted = Callable[[], AbstractContextManager[None]]


@contextmanager
def rows_not_made_anew() -> Iterator[None]:
    """After an absence longer than rows live, the window is read on from the cursor, and finds nothing."""
    with mock.patch.object(Rebuilds, "held", return_value=Held.NOTHING):
        yield


@contextmanager
def sweep_only_counts() -> Iterator[None]:
    """A missing row is told, and not written."""
    right = Sweep._repair

    def repair(self: Sweep, shard: Any, lap: Any, found: Sequence[Missing], now: Instant) -> None:
        with mock.patch.object(self._index, "write_due", return_value=None):
            right(self, shard, lap, found, now)

    with mock.patch.object(Sweep, "_repair", repair):
        yield


@contextmanager
def sweep_looks_from_the_beginning() -> Iterator[None]:
    """Whoever looks for a missing row forgets that the window has loaded some: rows that were consumed seem missing."""
    with (
        mock.patch.object(Sweep, "_is_there", return_value=False),
        mock.patch("waterclock.dispatcher.timeline.Timeline.has", return_value=False),
    ):
        yield


@contextmanager
def sweep_waits_to_be_on_time() -> Iterator[None]:
    """A shard that has a backlog is left alone, and one that always has a backlog for ever."""
    right = sweep._can_tell

    def can_tell(shard: Any, now: Instant) -> bool:
        return right(shard, now) and not shard.inbox and shard.cursor.due_at > now - 5 * US_PER_S

    with mock.patch.object(sweep, "_can_tell", can_tell):
        yield


@contextmanager
def errand_not_given_up() -> Iterator[None]:
    """What was read of the store counts, whatever commands have done to it until the answer came."""
    with mock.patch.object(Shard, "mark", ()):
        yield


@contextmanager
def old_fires_asked_for() -> Iterator[None]:
    """Whoever changes or deletes a job asks for the fires of its old schedule, though its zone is gone."""
    with mock.patch.object(
        rows, "next_of", lambda version, after: timetable.next_fire(version.spec, version.anchor_at, after)
    ):
        yield


PLANTED_UPKEEP: dict[str, Planted] = {
    "rows not made anew after a long absence": rows_not_made_anew,
    "the sweep only counts": sweep_only_counts,
    "the sweep sees no chains": sweep_looks_from_the_beginning,
    "the sweep waits to be on time": sweep_waits_to_be_on_time,
    "an errand goes on with what is old": errand_not_given_up,
    "a job in a zone that is gone cannot be changed": old_fires_asked_for,
}
