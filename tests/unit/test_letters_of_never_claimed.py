"""Letters of runs that were never claimed: their work is searched for, and that must cost little for many of them."""

from __future__ import annotations

import pytest
from waterclock.retry_router import made_work
from waterclock.retry_router.loop import RetryRouter

from waterclock.log.memory import MemoryLog
from waterclock.log.port import Reader
from waterclock.model.ids import US_PER_S

from .router_world import World

MINUTE = 60 * US_PER_S


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[Reader]:
    """All that were made."""
    made: list[Reader] = []
    right = MemoryLog.reader

    def reader(self: MemoryLog, *of_what: object, **more: object) -> Reader:
        made.append(right(self, *of_what, **more))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(MemoryLog, "reader", reader)
    return made


def most_in_a_step(world: World, router: RetryRouter, readers: list[Reader]) -> int:
    most = 0
    for _ in range(40):
        before = len(readers)
        router.step()
        most = max(most, len(readers) - before)
        world.clock.advance(US_PER_S // 5)
    return most


def have_their_work(world: World, runs: list[str]) -> bool:
    letters = world.letters()
    assert sorted(letter.run_id for letter in letters) == sorted(runs)
    return all(letter.work is not None and letter.run_id.encode() in (letter.work.value or b"") for letter in letters)


def test_those_that_were_made_over_hours_and_end_together_are_searched_for_together(readers: list[Reader]) -> None:
    """A router that was away while nobody served a pool, say."""
    world = World()
    runs = []
    for _ in range(300):
        runs.append(world.pending(queue_timeout_us=30 * MINUTE)[0])
        world.clock.advance(MINUTE)
    world.clock.advance(60 * MINUTE)
    assert most_in_a_step(world, world.router(), readers) <= 5
    assert have_their_work(world, runs)


def test_what_lies_between_those_that_are_far_apart_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it takes nothing from the bound on what is searched."""
    world = World()
    runs = []
    for _ in range(3):
        runs.append(world.pending(queue_timeout_us=30 * MINUTE)[0])
        world.clock.advance(MINUTE)
        for _ in range(400):
            world.claimed()
        world.clock.advance(MINUTE)
    world.clock.advance(60 * MINUTE)
    monkeypatch.setattr(made_work, "SEARCHED_MAX", 3)
    world.turn(world.router())
    assert have_their_work(world, runs)
