"""Going through all jobs: every shelf is named, and its pages miss nothing."""

from __future__ import annotations

from waterclock.model.job import JobStatus
from waterclock.store.port import JobChange
from waterclock.store.shelves import Shelf
from waterclock.store.tabular import TabularStore

from .world import StoreWorld


def test_every_shelf_that_holds_a_job_is_named_and_its_pages_miss_nothing(world: StoreWorld) -> None:
    changes = [world.change(f"n{i:02d}", created_at=world.now + i // 3) for i in range(50)]
    world.store.apply(changes)
    store = world.other
    assert isinstance(store, TabularStore)
    shelves = [shelf for shelf in store.shelves() if shelf.tenant == world.tenant]
    assert {shelf.pshard for shelf in shelves} == {world.slot(f"n{i:02d}") % 16 for i in range(50)}

    found = []
    for shelf in shelves:
        after = None
        while page := store.on_shelf(shelf, 3, after):
            found += [line.job_id for line in page]
            after = (page[-1].created_at, page[-1].job_id)

    assert sorted(found) == sorted(change.job.job_id for change in changes)


def test_a_shelf_tells_of_a_deleted_job_that_it_is_deleted(world: StoreWorld) -> None:
    world.store.apply([JobChange(world.job(status=JobStatus.DELETED), None)])
    store = world.other
    assert isinstance(store, TabularStore)
    lines = store.on_shelf(Shelf(world.tenant, world.slot("job") % 16), 10)
    assert [line.status for line in lines] == [JobStatus.DELETED]
