"""One keyspace, one installation: its jobs go with the topics in which their commands stand."""

from __future__ import annotations

import pytest
from waterclock.dispatcher.installation import claim_keyspace

from waterclock.clock import ManualClock
from waterclock.model.errors import RequestError
from waterclock.store.cells import Put
from waterclock.store.memory import MemoryStore, MemoryTables
from waterclock.store.tables import UPKEEP
from waterclock.store.upkeep import INSTALLATION


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock, MemoryTables(clock), "dispatcher")


def test_a_dispatcher_of_another_prefix_does_not_start_over_a_keyspace_that_is_in_use(
    clock: ManualClock, store: MemoryStore
) -> None:
    for _ in range(3):
        claim_keyspace(store, "waterclock", clock.now())
        clock.advance(1_000_000)
    with pytest.raises(RequestError, match="whose topics begin with 'waterclock', not 'test'") as refused:
        claim_keyspace(store, "test", clock.now())
    assert "cassandra.keyspace" in refused.value.hint
    claim_keyspace(store, "waterclock", clock.now() - 10_000_000)


def test_a_note_that_cannot_be_read_keeps_nobody_out(clock: ManualClock, store: MemoryStore) -> None:
    store._cells.write("test", [Put(UPKEEP, (INSTALLATION, "topics", "{", clock.now()), clock.now())]).wait(1.0)
    clock.advance(1_000_000)
    claim_keyspace(store, "waterclock", clock.now())
    with pytest.raises(RequestError):
        claim_keyspace(store, "test", clock.now())
