"""Planted bugs that only hours show: see ``planted.py``, and ``long_plan.py`` for the seeds that catch them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from waterclock.dispatcher.shard import Shard
from waterclock.retry_router import reconciler

from waterclock.model.ids import Instant

from .planted_failures import Planted


@contextmanager
def rows_as_far_as_we_look() -> Iterator[None]:
    """An edit voids the rows that this owner may have written, and not those of one that looked further ahead."""

    def horizon(self: Shard, now: Instant) -> Instant:
        return max(now, self.horizon_at)

    with mock.patch.object(Shard, "rows_end", horizon):
        yield


@contextmanager
def rungs_unasked() -> Iterator[None]:
    """A retry that nobody claims is handed out again, whatever still stands on the delay topics."""
    with mock.patch.object(reconciler, "_LARGEST_FIRST", ()):
        yield


PLANTED_IN_HOURS: dict[str, Planted] = {
    "rows of an owner that looked further ahead stay": rows_as_far_as_we_look,
    "reconciler does not ask the rungs": rungs_unasked,
}
