"""What works tell of themselves, what stands in ``due``, and shelves in pages: alike on both sides."""

from __future__ import annotations

from waterclock.store.shelves import JobPages, Shelf
from waterclock.store.tabular import TabularStore
from waterclock.store.upkeep import Told

from .world import StoreWorld


def both(world: StoreWorld) -> tuple[TabularStore, TabularStore]:
    assert isinstance(world.store, TabularStore)
    assert isinstance(world.other, TabularStore)
    return world.store, world.other


def test_the_newer_word_of_a_place_wins_and_places_are_told_in_order(world: StoreWorld) -> None:
    one, other = both(world)
    what = f"work-{world.tenant}"
    assert other.told(what, "1") is None
    one.tell(what, "1", {"reached": 5}, world.now + 2)
    one.tell(what, "0", {"named": ["a", {"b": 1}]}, world.now)
    other.tell(what, "1", {"reached": 4}, world.now + 1)
    assert other.told(what, "1") == Told("1", {"reached": 5}, world.now + 2)
    assert [each.place for each in other.told_of_all(what)] == ["0", "1"]


def test_rows_that_stand_are_told_from_those_that_do_not(world: StoreWorld) -> None:
    one, other = both(world)
    row = world.due(minute=world.minute + 60)
    one.write_due([row])
    absent = row._replace(revision=row.revision + 1)
    assert other.standing_due([absent, row, row._replace(entry="x#1")]) == [False, True, False]
    assert other.standing_due([]) == []


def test_a_row_that_is_due_long_since_is_written_where_it_is_said_from_when_it_is_kept(world: StoreWorld) -> None:
    one, other = both(world)
    old = world.due(minute=world.minute - 5 * 24 * 60)
    one.write_due([old])
    assert other.standing_due([old]) == [False]
    one.write_due([old], kept_from=world.now)
    assert other.standing_due([old]) == [True]


def test_the_row_of_a_command_that_is_applied_late_stands_all_the_same(world: StoreWorld) -> None:
    one, other = both(world)
    old = world.due(minute=world.minute - 5 * 24 * 60)
    one.apply([world.change("late")._replace(due_writes=[old])])
    assert other.standing_due([old]) == [True]


def test_shelves_come_in_pages_and_every_job_of_the_slots_is_met_once(world: StoreWorld) -> None:
    one, other = both(world)
    changes = [world.change(f"p{i:02d}", created_at=world.now + i // 3) for i in range(60)]
    one.apply(changes)
    slots = range(0, 256, 2)
    wanted = sorted(each.job.job_id for each in changes if world.slot(each.job.job_id.partition(":")[2]) % 2 == 0)

    pages, met = JobPages(slots), []
    while (page := pages.onward(other, 3)) is not None:
        met += [line.job_id for line in page if line.job_id.startswith(f"{world.tenant}:")]
    assert sorted(met) == wanted

    pages, met = JobPages(slots), []
    while (page := pages.onward(other, 3)) is not None:
        met += [line.job_id for line in page if line.job_id.startswith(f"{world.tenant}:")]
        if page:
            pages = JobPages(slots, pages.place)  # somebody else goes on
    assert sorted(met) == wanted

    named: list[Shelf] = []
    while found := other.shelves_after(named[-1] if named else None, 4):
        named += found
    assert len(named) == len(set(named))
    assert {shelf for shelf in named if shelf.tenant == world.tenant} == {
        shelf for shelf in other.shelves() if shelf.tenant == world.tenant
    }
