"""The window of a dispatcher that takes over: what its predecessor has written stands, what is missing is written."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from waterclock.dispatcher import window
from waterclock.dispatcher.pace import Pace

from tests.unit.dispatcher_world import World, every
from waterclock.model.errors import BackendDown
from waterclock.model.ids import US_PER_MINUTE, US_PER_S, Instant, make_run_id
from waterclock.model.job import CommandKind, Every, JobSpec
from waterclock.store.memory import MemoryStore
from waterclock.store.port import DueRow
from waterclock.store.tables import DUE

BEATS = {f"t:beat-{number}": 2 for number in range(5)}
JOBS = BEATS | {"t:slow": 150}
"""How often each fires, in seconds: the last one not in every minute."""


@pytest.fixture(autouse=True)
def looks_for_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "LOOKED_FOR_FROM", 1)


class Calls:
    """What is asked of the store, in order; away for ``refused``."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.refused = ""

    def __call__(self, _: str, operation: str) -> None:
        self.made.append(operation)
        if operation == self.refused:
            raise BackendDown("cassandra", "away")


def a_world() -> tuple[World, Instant, Calls]:
    """The jobs fire, and the window is full; when they were made, and the store's calls from now on."""
    world = World(partitions=1, pace=Pace(sweep_every_s=3_600.0))
    world.run(1)
    for job_id, seconds in JOBS.items():
        world.command(CommandKind.CREATE, job_id, every(seconds))
    created_at = world.clock.now()
    world.run(90)
    calls = Calls()
    world.tables.on_call = calls
    return world, created_at, calls


def until_it_fires(world: World) -> None:
    """As soon as it may: fires have been due for a while when it begins."""
    world.clock.advance(4 * US_PER_S)
    before = len(world.runs())
    for _ in range(2_000):
        world.steps(1)
        if len(world.runs()) > before:
            return
        world.clock.advance(10_000)
    raise AssertionError("nothing fires")


def rows_ahead(world: World, jobs: Collection[str] = tuple(BEATS)) -> list[DueRow]:
    """What stands of these jobs for the next minute and later ones."""
    store = MemoryStore(world.clock, world.tables, "onlooker")
    places = [place for place in world.tables.keys_of(DUE) if place[1] > world.clock.now() // US_PER_MINUTE]
    return [row for slot, minute in places for row in store.load_due([slot], minute) if row.job_id in jobs]


def lose(world: World, row: DueRow) -> None:
    key = (row.slot, row.minute, row.due_at, row.job_id, row.revision, row.entry)
    assert world.tables.forget_row(DUE, key)


def assert_none_is_missing(world: World, created_at: Instant) -> None:
    for job_id, seconds in JOBS.items():
        owed = range(created_at + seconds * US_PER_S, world.clock.now() - US_PER_S, seconds * US_PER_S)
        made = world.runs(job_id)
        assert made[: len(owed)] == [make_run_id(job_id, at) for at in owed]
        assert len(made) <= len(owed) + 1


def assert_it_writes_and_fires_on(world: World, created_at: Instant, calls: Calls) -> None:
    """What it missed it has written before its first fire, and no fire is missing later."""
    until_it_fires(world)
    assert "write_due" in calls.made
    world.run(400)
    assert_none_is_missing(world, created_at)


def test_a_successor_does_not_write_again_what_stands_before_it_fires() -> None:
    world, created_at, calls = a_world()
    world.crash()
    until_it_fires(world)
    assert "load_due" in calls.made
    assert "write_due" not in calls.made
    world.run(400)
    assert "write_due" in calls.made, "later minutes had no predecessor"
    assert_none_is_missing(world, created_at)


def test_a_successor_writes_what_its_predecessor_has_not_written() -> None:
    world, created_at, calls = a_world()
    world.crash()
    lost = rows_ahead(world)
    assert {row.job_id for row in lost} == set(BEATS)
    for row in lost:
        lose(world, row)
    assert_it_writes_and_fires_on(world, created_at, calls)


def test_a_successor_writes_the_one_row_that_is_missing_among_those_that_stand() -> None:
    world, created_at, calls = a_world()
    world.crash()
    lose(world, rows_ahead(world, ["t:beat-3"])[0])
    assert_it_writes_and_fires_on(world, created_at, calls)


def test_a_row_of_a_later_minute_is_written_beside_those_that_stand_in_the_next() -> None:
    """The job fires every 150 s; its only row is that of the present minute."""
    world, created_at, _ = a_world()
    world.run(62)
    world.crash()
    (row,) = rows_ahead(world, ["t:slow"])
    lose(world, row)
    until_it_fires(world)
    world.run(700)
    assert_none_is_missing(world, created_at)


@pytest.mark.parametrize("change", [{"env": b"x"}, {"fire_at": 1}, {"tenant": "other"}])
def test_a_row_that_says_something_else_is_written_anew(change: dict[str, object]) -> None:
    """Its key is the same, its content another: of other transitions of its zone, say."""
    world, created_at, calls = a_world()
    world.crash()
    changed = [row._replace(wts=row.wts - 1, **change) for row in rows_ahead(world)]  # type: ignore[arg-type]
    for row in changed:
        lose(world, row)
    MemoryStore(world.clock, world.tables, "onlooker").write_due(changed)
    calls.made.clear()
    assert_it_writes_and_fires_on(world, created_at, calls)


def test_a_store_that_is_away_between_the_look_and_the_write_leaves_the_slice_to_be_taken_again() -> None:
    world, created_at, calls = a_world()
    world.crash()
    for row in rows_ahead(world):
        lose(world, row)
    calls.refused = "write_due"
    world.run(3)
    assert calls.made.count("write_due") > 1
    (shard,) = world.dispatcher._shards.values()
    assert not any(shard.timeline.chains_of(job_id) for job_id in JOBS)
    calls.refused = ""
    world.run(400)
    assert_none_is_missing(world, created_at)


def test_a_crowd_in_the_next_minute_is_not_read_for_the_sake_of_a_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once an hour all fire; who takes over in the minute before writes its few rows, and does not read that crowd."""
    world, created_at, calls = a_world()
    in_next_at = (world.clock.now() // US_PER_MINUTE + 2) * US_PER_MINUTE
    crowd = [f"t:hour-{number}" for number in range(2_000)]
    for job_id in (f"t:few-{number}" for number in range(60)):
        world.command(CommandKind.CREATE, job_id, every(20))
    for job_id in crowd:
        world.command(CommandKind.CREATE, job_id, JobSpec("demo.noop", Every(3_600 * US_PER_S, in_next_at)))
    world.run(in_next_at / US_PER_S - 40 - world.clock.now() / US_PER_S, 0.25)
    world.crash()
    calls.made.clear()
    read: list[int] = []
    load_due = MemoryStore.load_due

    def counted(store: MemoryStore, slots: Sequence[int], minute: int, minutes: int = 1) -> list[DueRow]:
        found = load_due(store, slots, minute, minutes)
        read.append(len(found))
        return found

    monkeypatch.setattr(MemoryStore, "load_due", counted)
    until_it_fires(world)
    assert "write_due" in calls.made
    assert sum(read) < 250
    world.run(90, 0.25)
    assert sorted(world.runs("t:hour-")) == sorted(make_run_id(job_id, in_next_at) for job_id in crowd)
    assert_none_is_missing(world, created_at)
