"""Bugs of who is to stop and is not asked: patches of the product for the time of one play. See ``planted.py``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from unittest import mock

from waterclock.workers.attempts import Attempts
from waterclock.workers.executors.port import Attempt
from waterclock.workers.reading import Answer, Question, Reading
from waterclock.workers.slots import Slots
from waterclock.workers.stopping import Why
from waterclock.workers.timeouts import Timeouts

from .planted_failures import Planted


@contextmanager
def read_back_and_not_timed() -> Iterator[None]:
    """An attempt whose claim was read back before it began may take as long as it likes."""

    def heed(self: Attempts, answer: Answer) -> None:
        with mock.patch.object(Timeouts, "watch", return_value=None):
            right(self, answer)

    right = Attempts._heed
    with mock.patch.object(Attempts, "_heed", heed):
        yield


@contextmanager
def nodes_not_named() -> Iterator[None]:
    """A cancel of a DagRun is none of its nodes: what runs goes on."""

    def held_of(self: Slots, run_ids: Iterable[str]) -> list[Attempt]:
        named = set(run_ids)
        return [attempt for attempt in right(self, named) if attempt.work.run_id in named]

    right = Slots.held_of
    with mock.patch.object(Slots, "held_of", held_of):
        yield


@contextmanager
def time_asks_nobody() -> Iterator[None]:
    """A DagRun whose time is over waits for the nodes that run, as long as they like."""

    def answer(self: Reading, question: Question) -> Answer:
        found = right(self, question)
        return found._replace(ends_for=None) if found.ends_for is Why.DAG_RUN_OVER else found

    right = Reading._answer
    with mock.patch.object(Reading, "_answer", answer):
        yield


PLANTED_STOPS: dict[str, Planted] = {
    "attempts that were read back have no time-out": read_back_and_not_timed,
    "cancel of a DagRun misses nodes that run": nodes_not_named,
    "end of a DagRun's time asks no node to stop": time_asks_nobody,
}
