"""What a worker's round costs does not grow with all that it was ever told."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest
from waterclock.workers import control
from waterclock.workers.control import ControlTail
from waterclock.workers.executors.port import Attempt
from waterclock.workers.read_back import ReadBack
from waterclock.workers.slots import Slots

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
    """Every worker reads all of ``control``, which is kept for two weeks, before its first claim."""
    named = Control(ControlKind.CANCEL_REQUESTED, "acme:job", "", START)
    monkeypatch.setattr(control, "decode_control", lambda value: named._replace(run_id=value.decode()))
    monkeypatch.setattr(control, "KNOWN_MAX", MANY)
    tail = ControlTail(_Told(3 * MANY), "control")  # type: ignore[arg-type]
    read_s = []
    for _ in range(3):
        began_s = time.process_time()
        for _ in range(MANY // 1_000):
            assert tail.look()
        read_s.append(time.process_time() - began_s)
    assert read_s[2] < 4 * read_s[0]


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


def test_whoever_is_named_is_found_without_a_look_at_all_that_is_held() -> None:
    """Given a worker that holds thousands of runs, when cancels of others come, then it looks at none of its own."""
    slots = Slots(4_000)
    mine = [_claim(offset) for offset in range(4_000)]
    slots.hold(mine)
    began_s = time.process_time()
    for offset in range(4_000, 6_000):
        assert slots.held_of({_claim(offset).work.run_id}) == []
    assert time.process_time() - began_s < 0.3
    assert slots.held_of({mine[7].work.run_id, mine[3].work.run_id}) == [mine[3], mine[7]]
    slots.release(mine)
    assert slots.held_of({mine[3].work.run_id}) == []


def test_a_named_dag_run_finds_its_nodes_and_a_named_node_itself_alone() -> None:
    nodes = [_claim(0, node) for node in ("", "/a", "/b.1")]
    other = _claim(1, "/a")
    slots = Slots(8)
    slots.hold([*nodes, other])
    dag_run = nodes[0].work.run_id
    assert slots.held_of({dag_run}) == nodes
    assert slots.held_of({f"{dag_run}/b.1"}) == [nodes[2]]
    assert slots.held_of({f"{dag_run}/b.1", dag_run}) == nodes


def _claim(offset: int, node: str = "") -> Attempt:
    fire_at = START + offset
    run_id = make_run_id("acme:pay", fire_at) + node
    work = WorkRecord(run_id, fire_at, fire_at, 1, "acme:pay", 1, Tier.HIGH, "default", "pay", b"", at_most_once=True)
    return Attempt(work, START, token=ordinal(0, offset))
