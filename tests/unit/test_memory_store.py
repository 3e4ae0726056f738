"""The memory store's faults and its own promises; its likeness to Cassandra is the conformance suite's business."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.clock import ManualClock
from waterclock.model.errors import BackendDown, WriteUnknown
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import US_PER_MINUTE, US_PER_S
from waterclock.model.job import Every, JobSpec, JobStatus, JobVersion, Tier
from waterclock.store.cells import Mutation, Put, Remove, Select
from waterclock.store.memory import MemoryStore, MemoryTables, WriteFault
from waterclock.store.port import DueRow, History, JobChange, JobRow, RunRow
from waterclock.store.tables import DUE, JOBS

NOW = ManualClock().now()
MINUTE = NOW // US_PER_MINUTE + 1
SLOTS = range(256)


def due(slot: int, wts: int = NOW) -> DueRow:
    return DueRow(slot, MINUTE, MINUTE * US_PER_MINUTE, "a:b", 7, "", 5, 1, Tier.LOW, "a", b"env", wts)


def change() -> JobChange:
    spec = JobSpec("h", Every(2_000_000))
    job = JobRow("a:b", spec, JobStatus.ACTIVE, 7, 0, 7, NOW, NOW, 0, 7, NOW)
    return JobChange(job, JobVersion("a:b", 7, spec, JobStatus.ACTIVE, "ann", NOW, 0, 7, NOW), (due(1),))


def store_with(on_call: Callable[[str, str], WriteFault | None]) -> MemoryStore:
    clock = ManualClock()
    return MemoryStore(clock, MemoryTables(clock, on_call), "dispatcher-1")


def once(operation: str, fault: WriteFault) -> Callable[[str, str], WriteFault | None]:
    faults = {operation: fault}
    return lambda _client, called: faults.pop(called, None)


@pytest.mark.parametrize(
    ("fault", "landed"),
    [(WriteFault.APPLIED, 4), (WriteFault.LOST, 0), (WriteFault.HALF, 2), (WriteFault.LATER, 0)],
)
def test_an_unknown_write_may_have_landed_or_not_and_its_repetition_settles_it(fault: WriteFault, landed: int) -> None:
    store = store_with(once("write_due", fault))
    rows = [due(slot) for slot in range(4)]

    with pytest.raises(WriteUnknown):
        store.write_due(rows)
    assert len(store.load_due(SLOTS, MINUTE)) == landed

    store.write_due(rows)
    store.tables.land()
    assert store.load_due(SLOTS, MINUTE) == rows


def test_a_late_write_lands_when_it_is_told_to_and_loses_to_a_younger_one() -> None:
    store = store_with(once("write_due", WriteFault.LATER))
    with pytest.raises(WriteUnknown):
        store.write_due([due(1), due(2)])
    store.write_due([due(1, NOW + 9)])

    store.tables.land()

    assert store.load_due(SLOTS, MINUTE) == [due(1, NOW + 9), due(2)]


@pytest.mark.parametrize("stage", ["apply:versions", "apply:due", "apply:listing", "apply:jobs"])
def test_a_command_can_be_cut_between_any_two_stages_and_is_mended_by_its_replay(stage: str) -> None:
    store = store_with(once(stage, WriteFault.LOST))
    stages = ["apply:versions", "apply:due", "apply:listing", "apply:jobs"]
    with pytest.raises(WriteUnknown):
        store.apply([change()])
    done = stages.index(stage)

    assert bool(store.versions(["a:b"])) == (done > 0)
    assert bool(store.load_due(SLOTS, MINUTE)) == (done > 1)
    assert bool(store.jobs("a", 9)) == (done > 2)
    assert store.job("a:b") is None

    store.apply([change()])
    assert store.job("a:b") == change().job
    assert store.load_due(SLOTS, MINUTE) == [due(1)]


def test_a_fault_that_raises_stops_the_call_before_anything_is_done() -> None:
    def crash(client: str, operation: str) -> None:
        raise KeyboardInterrupt(f"{client} in {operation}")

    store = store_with(crash)

    with pytest.raises(KeyboardInterrupt, match="dispatcher-1 in write_due"):
        store.write_due([due(1)])
    assert MemoryStore(ManualClock(), store.tables, "other").tables is store.tables
    store.tables.on_call = None
    assert store.load_due(SLOTS, MINUTE) == []


def test_a_read_under_a_fault_finds_nobody_at_home() -> None:
    store = store_with(once("load_due", WriteFault.APPLIED))

    with pytest.raises(BackendDown):
        store.load_due(SLOTS, MINUTE)


def test_an_unknown_batch_of_history_is_told_at_the_wait() -> None:
    store = store_with(once("record", WriteFault.LOST))
    run = RunRow(
        "a:b",
        NOW,
        0,
        7,
        Tier.LOW,
        "",
        RunStatus.PENDING,
        Outcome.NONE,
        0,
        0,
        0,
        0,
        "",
        0,
        "",
        None,
        "",
        "",
        "",
        0,
        0,
        NOW,
    )

    writing = store.record(History([run]))

    with pytest.raises(WriteUnknown):
        writing.wait(1.0)
    assert store.run("a:b", NOW, 0) is None


def test_history_leaves_after_thirty_days() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    run = RunRow(
        "a:b",
        NOW,
        0,
        7,
        Tier.LOW,
        "",
        RunStatus.PENDING,
        Outcome.NONE,
        0,
        0,
        0,
        0,
        "",
        0,
        "",
        None,
        "",
        "",
        "",
        0,
        0,
        NOW,
    )
    store.record(History([run])).wait(1.0)

    clock.advance(30 * 86_400 * US_PER_S - 1)
    assert store.run("a:b", NOW, 0) == run
    clock.advance(1)
    assert store.run("a:b", NOW, 0) is None


KEYS = [(1, MINUTE, 5, "a:b", 1, ""), (1, MINUTE, 5, "a:b", 2, ""), (2, MINUTE, 5, "a:b", 1, "")]
STAMPS = st.integers(1, 4)
PUTS = st.builds(
    lambda key, attempt, env, wts, ttl_s: Put(DUE, (*key, 9, attempt, 1, "t", env), wts, ttl_s),
    st.sampled_from(KEYS),
    st.integers(-2, 2),
    st.sampled_from([b"", b"a", b"\xff", b"ab"]),
    STAMPS,
    st.sampled_from([None, 5, 6]),
)
REMOVES = st.builds(
    lambda key, width, wts: Remove(DUE, key[:width], wts), st.sampled_from(KEYS), st.sampled_from([2, 6]), STAMPS
)


def rows_after(mutations: list[Mutation], elapsed_s: int) -> list[object]:
    clock = ManualClock()
    tables = MemoryTables(clock)
    for mutation in mutations:
        tables.apply([mutation])
    clock.advance(elapsed_s * US_PER_S)
    return [tables.read(Select(DUE), key[:2]) for key in KEYS[1:]]


@given(st.data(), st.lists(PUTS | REMOVES, max_size=12), st.sampled_from([0, 5, 6]))
def test_any_order_and_any_repetition_end_in_the_same_rows(
    data: st.DataObject, mutations: list[Mutation], elapsed_s: int
) -> None:
    shuffled = data.draw(st.permutations(mutations))
    repeated = data.draw(st.lists(st.sampled_from(mutations), max_size=5)) if mutations else []

    assert rows_after(mutations, elapsed_s) == rows_after([*shuffled, *repeated], elapsed_s)


def test_a_partition_without_clustering_columns_is_one_row() -> None:
    tables = MemoryTables(ManualClock())
    values = ("a:b", "{}", *range(9), "a", "b", 0, "", 1, "")
    tables.apply([Put(JOBS, values, 5)])

    assert tables.read(Select(JOBS), ("a:b",)) == [values[1:]]
