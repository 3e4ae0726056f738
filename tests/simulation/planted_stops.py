"""Bugs of who is to stop and is not asked: patches of the product for the time of one play. See ``planted.py``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from waterclock.workers.attempts import Attempts
from waterclock.workers.read_back import Answer
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


PLANTED_STOPS: dict[str, Planted] = {
    "attempts that were read back have no time-out": read_back_and_not_timed,
}
