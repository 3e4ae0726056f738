"""Planted bugs in what is kept of runs that stay open for long (``waterclock/kept_runs.py``)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from waterclock.kept_runs import KeptRuns
from waterclock.log.port import Polled
from waterclock.model.fold import Fold
from waterclock.recorder import open_runs
from waterclock.recorder.projection import Known
from waterclock.taking_over import TakingOver

Planted = Callable[[], AbstractContextManager[None]]


def _forgotten_by(role: str) -> Planted:
    right = KeptRuns.restoring

    def restoring(self: KeptRuns[Any], *where: Any, **more: Any) -> Generator[None, None, dict[str, int]]:
        if self._role == role:
            return {}
        return (yield from right(self, *where, **more))

    @contextmanager
    def planted() -> Iterator[None]:
        with mock.patch.object(KeptRuns, "restoring", restoring):
            yield

    return planted


@contextmanager
def kept_without_a_word() -> Iterator[None]:
    """The fold takes runs for kept, and nothing is written of them."""
    right = KeptRuns.messages

    def messages(self: KeptRuns[Any], fold: Fold[Any], now_s: float) -> Iterator[Any]:
        return (each for each in right(self, fold, now_s) if each.value is None or self._role != "recorder")

    with mock.patch.object(KeptRuns, "messages", messages):
        yield


@contextmanager
def no_tombstones() -> Iterator[None]:
    """A kept run that ends stays in the state topic."""
    with mock.patch.object(KeptRuns, "ended", return_value=None):
        yield


@contextmanager
def failure_forgotten() -> Iterator[None]:
    """A kept run does not say how its last attempt ended: its failure has no error."""
    right = open_runs._known

    def known(*words: Any) -> Known:
        found = right(*words)
        found.ended = None
        return found

    with mock.patch.object(open_runs, "_known", known):
        yield


@contextmanager
def taken_over_for_others() -> Iterator[None]:
    """A take-over that was begun goes on although partitions have come or gone since."""

    def note(self: TakingOver, polled: Polled) -> None:
        self.places = self.places.difference(polled.revoked).union(polled.assigned)

    with mock.patch.object(TakingOver, "note", note):
        yield


PLANTED_KEPT: dict[str, Planted] = {
    "runs that the recorder has kept are forgotten": _forgotten_by("recorder"),
    "runs that the router has kept are forgotten": _forgotten_by("retry-router"),
    "runs kept without a word": kept_without_a_word,
    "kept runs stay when they have ended": no_tombstones,
    "kept runs forget how they failed": failure_forgotten,
    "a take-over goes on for partitions that have changed": taken_over_for_others,
}
