"""The doctor says how much is still caught up after an outage, and when it will be over."""

from __future__ import annotations

import pytest

from tests.unit.dispatcher_world import NAMES, World
from waterclock.clusters.doctor_catch_up import CHECK, examine
from waterclock.clusters.finding import Finding, State
from waterclock.log.port import Committed, TopicPartition
from waterclock.model.catch_up_eta import CatchUpEta


def committed(world: World, *rows: int) -> None:
    """What stands in the metadata of the shards: with a gap of so many rows, or with none."""
    group = world.cluster.group(NAMES.group("dispatcher"))
    for number, count in enumerate(rows):
        text = f"2|500|0|||100|0|||400|||||{count}" if count else "1|500|0||"
        group.commit({TopicPartition(NAMES.commands, number): Committed(0, text)})


def finding(world: World, *later: int) -> Finding:
    """``later``: what stands there at the second look."""

    def wait(seconds: float) -> None:
        world.clock.advance(round(seconds * 1_000_000))
        committed(world, *later)

    (found,) = examine(world.outside, NAMES, world.clock, wait)
    return found


def world_of(*rows: int) -> World:
    world = World()
    world.cluster.kill("d1-1")
    committed(world, *rows)
    return world


def test_without_a_gap_there_is_nothing_to_catch_up() -> None:
    found = finding(world_of(0, 0))
    assert (found.check, found.state) == (CHECK, State.OK)
    assert "nothing" in found.found


def test_rows_still_to_come_are_told_with_their_speed_and_eta() -> None:
    found = finding(world_of(600, 400), 300, 400)
    assert found.state is State.OK
    assert "700 due rows in 2 gaps" in found.found
    assert "at 100 a second in about 7 s" in found.found


def test_a_catch_up_that_stands_still_is_a_warning() -> None:
    found = finding(world_of(600, 400), 600, 400)
    assert found.state is State.WARN
    assert "does a dispatcher run" in found.next_step


@pytest.mark.parametrize(("owed", "eta_s"), [([100], None), ([100, 100], None), ([100, 90], 90.0), ([10, 0], 0.0)])
def test_an_eta_needs_two_looks_between_which_it_became_less(owed: list[int], eta_s: float | None) -> None:
    eta = CatchUpEta()
    for second, rows in enumerate(owed):
        eta.look(rows, 10.0 * second)
    assert eta.eta_s == (eta_s if eta_s is None else pytest.approx(eta_s))


def test_a_gap_that_opens_meanwhile_makes_no_speed() -> None:
    eta = CatchUpEta()
    for second, rows in enumerate([100, 50, 400, 380]):
        eta.look(rows, float(second))
    assert eta.eta_s == pytest.approx(19.0)
