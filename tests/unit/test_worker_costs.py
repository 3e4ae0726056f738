"""What a worker's round costs does not grow with all that it was ever told."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest
from waterclock.workers import control
from waterclock.workers.control import ControlTail
from waterclock.workers.executors.port import Attempt
from waterclock.workers.read_back import ReadBack

from tests.unit.worker_world import START, World
from waterclock.log.port import Record
from waterclock.model.events import Control, ControlKind, WorkRecord
from waterclock.model.ids import make_run_id, ordinal
from waterclock.model.job import Tier

MANY = 100_000


class _Told:
    """A log whose ``control`` names one run after the other; the value of a record is the run's id."""

    def __init__(self, count: int) -> None:
        self._numbers: Iterator[int] = iter(range(count))

    def partitions(self, _topic: str) -> int:
        return 1

    def low_watermark(self, _place: object) -> int:
        return 0

    def reader(self, _isolation: object) -> _Told:
        return self

    def assign(self, _starts: object) -> None:
        """It is read from its beginning."""

    def poll(self, most: int, _wait_s: float) -> Sequence[Record]:
        batch = zip(range(most), self._numbers, strict=False)
        return [Record("control", 0, n, START, b"", f"acme:job@{n}".encode(), ()) for _, n in batch]


def test_a_worker_that_has_read_more_cancels_than_it_remembers_reads_the_next_as_quickly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every worker reads all of ``control``, which is kept for a week, before its first claim."""
    named = Control(ControlKind.CANCEL_REQUESTED, "acme:job", "", START)
    monkeypatch.setattr(control, "decode_control", lambda value: named._replace(run_id=value.decode()))
    monkeypatch.setattr(control, "KNOWN_MAX", MANY)
    tail = ControlTail(_Told(3 * MANY), "control")  # type: ignore[arg-type]
    began_s = time.process_time()
    while tail.look():
        pass
    assert time.process_time() - began_s < 6.0


def test_what_is_asked_about_is_handed_back_as_quickly_however_much_of_that_there_is() -> None:
    """Given claims that somebody's open transaction hides from a worker that reads them back, when it is shut down."""
    world = World()
    asked = ReadBack(world.outside, world.names.run_events, 0)
    claims = [_claim(offset) for offset in range(10_000)]
    asked.ask(claims, to_end=False)
    assert asked.look() == []
    began_s = time.process_time()
    for claim in reversed(claims):
        asked.drop(claim)
    assert all(asked.asks(claim) for claim in claims), "each is being read for, and its answer still comes"
    assert time.process_time() - began_s < 0.3


def _claim(offset: int) -> Attempt:
    fire_at = START + offset
    run_id = make_run_id("acme:pay", fire_at)
    work = WorkRecord(run_id, fire_at, fire_at, 1, "acme:pay", 1, Tier.HIGH, "default", "pay", b"", at_most_once=True)
    return Attempt(work, START, token=ordinal(0, offset))
