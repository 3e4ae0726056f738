"""Behind, a recorder leaves the rows of open runs to the next batch: fewer rows, none lost, none later than that."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.test_recorder import EVENTS, JOB, Counting, World, retried
from waterclock.log.memory import Killed
from waterclock.model.errors import BackendDown, RoundInDoubt
from waterclock.model.events import EventKind, Origin, Pending, RunStatus, Skipped
from waterclock.model.ids import make_run_id, parse_run_id
from waterclock.model.job import Tier
from waterclock.store.memory import WriteFault
from waterclock.store.port import History

BATCH = 10
IN_A_ROUND = frozenset({"begin", "append", "send_offsets", "commit"})


def written(histories: list[History], run_id: str) -> list[tuple[int, RunStatus]]:
    """In which batches the run's row was written, and how it stood."""
    run = parse_run_id(run_id)
    place = run.job_id, run.fire_at, run.series
    return [(at, row.status) for at, each in enumerate(histories) for row in each.runs if row[:3] == place]


def behind(world: World) -> Counting:
    """A recorder that reads ``BATCH`` records a batch, and has turned until it was at rest."""
    store = Counting(world.store)
    recorder = world.recorder(store=store, batch_records=BATCH)
    world.turn(recorder, steps=3)
    world.turn(recorder, steps=60)
    return store


def test_a_run_that_ends_in_the_next_batch_is_written_once() -> None:
    world = World()
    runs = [world.pending() for _ in range(BATCH)]
    for run_id in runs[:5]:
        world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, world.started(run_id))
    for run_id in runs[5:]:
        world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, world.started(run_id))

    store = behind(world)

    first = store.histories[:2]
    assert not first[0].runs, "all of them are open"
    assert [status for _, status in written(store.histories, runs[0])] == [RunStatus.SUCCEEDED]
    assert [len(written(store.histories, run_id)) for run_id in runs[:5]] == [1] * 5
    assert {world.row(run_id).status for run_id in runs} == {RunStatus.SUCCEEDED}


def test_a_run_to_which_nothing_happens_is_written_with_the_next_batch() -> None:
    world = World()
    idle = world.pending()
    for _ in range(4 * BATCH):
        world.succeeded()

    store = behind(world)

    assert written(store.histories, idle) == [(1, RunStatus.PENDING)]


def test_each_picture_of_a_run_that_stays_open_is_left_out_of_one_batch_at_most() -> None:
    world = World()
    run_id = world.pending()
    for attempt in range(1, 6):
        for _ in range(BATCH):
            world.succeeded()
        token = world.started(run_id, attempt)
        for _ in range(BATCH):
            world.succeeded()
        retried(world, run_id, token, attempt)
    store = behind(world)

    wanted = [RunStatus.PENDING, *[RunStatus.RUNNING, RunStatus.RETRYING] * 5]
    assert [status for _, status in written(store.histories, run_id)] == wanted
    assert world.row(run_id).status is RunStatus.RETRYING


@pytest.mark.parametrize("written_count", [1, 2, 3, 4, 5, 6, 100])
@pytest.mark.parametrize("away_at_call", [0, 10, 11, 20, 30, 41, 52])
def test_no_position_is_committed_while_a_row_below_it_is_left_out(written_count: int, away_at_call: int) -> None:
    """The store takes so many batches and then no more; the log fails once."""
    world = World()
    places: list[tuple[int, str]] = []
    for _ in range(60):
        run_id = world.pending()
        places.append((world.log.high_watermark(EVENTS) - 1, run_id))
        if len(places) % 3:
            world.started(run_id)
    calls: Counter[str] = Counter()

    def store_fails(_client: str, operation: str) -> WriteFault | None:
        calls[operation] += operation == "record"
        return WriteFault.LOST if calls["record"] > written_count else None

    def log_fails(_client: str, operation: str) -> None:
        calls["log"] += 1
        if calls["log"] == away_at_call:
            raise RoundInDoubt("planned") if operation in IN_A_ROUND else BackendDown("kafka", "planned")

    world.tables.on_call, world.cluster.faults.on_call = store_fails, log_fails
    recorder = world.recorder(batch_records=BATCH, commit_every_s=0.0, writes_in_flight=1)
    seen = set()
    for _ in range(90):
        recorder.step()
        world.clock.advance(100_000)
        committed = world.committed(EVENTS)
        seen.add(committed)
        assert_rows_below(world, places, committed)
    assert written_count < 100 or (len(seen) > 5 and committed == world.log.high_watermark(EVENTS))


def assert_rows_below(world: World, places: list[tuple[int, str]], committed: int) -> None:
    on_call, world.tables.on_call = world.tables.on_call, None
    for offset, run_id in places:
        run = parse_run_id(run_id)
        assert offset >= committed or world.store.run(run.job_id, run.fire_at, run.series), (offset, committed)
    world.tables.on_call = on_call


def test_whoever_leaves_writes_what_was_left_out() -> None:
    world = World()
    runs = [world.pending() for _ in range(BATCH)]
    recorder = world.recorder(batch_records=BATCH)
    while not any(shard.fold.open for shard in recorder._shards.values()):
        recorder.step()
    assert not world.store.run(*parse_run_id(runs[0])[:3]), "its row is left to the next batch"

    assert not recorder.drain()

    assert {world.row(run_id).status for run_id in runs} == {RunStatus.PENDING}
    assert world.committed(EVENTS) == world.log.high_watermark(EVENTS)


@pytest.mark.parametrize("call", range(1, 90, 2))
def test_a_crash_between_a_batch_and_the_one_that_writes_its_open_runs_loses_none(call: int) -> None:
    world = World()
    runs = [world.pending() for _ in range(25)]
    for run_id in runs[:12]:
        world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, world.started(run_id))
    calls = 0

    def on_call(client_id: str, _operation: str) -> None:
        nonlocal calls
        calls += client_id == "recorder-1"
        if calls == call:
            raise Killed("planned")

    world.cluster.faults.on_call = on_call
    try:
        world.turn(world.recorder(batch_records=BATCH, commit_every_s=0.0), steps=40)
    except Killed:
        world.cluster.faults.on_call = None
        world.cluster.kill("recorder-1")
    world.cluster.faults.on_call = None
    world.turn(world.recorder("recorder-2", batch_records=BATCH), steps=400)

    assert [world.row(run_id).status for run_id in runs] == [RunStatus.SUCCEEDED] * 12 + [RunStatus.PENDING] * 13
    assert world.committed(EVENTS) == world.log.high_watermark(EVENTS)


@pytest.mark.parametrize("fault", list(WriteFault), ids=lambda fault: fault.name)
def test_while_the_store_is_away_what_was_left_out_is_kept(fault: WriteFault) -> None:
    world = World()
    recorder = world.recorder(batch_records=BATCH, commit_every_s=0.0)
    world.turn(recorder, steps=3)
    runs = [world.pending() for _ in range(3 * BATCH + 5)]
    world.tables.on_call = lambda client, _: fault if client == "recorder-1" else None
    world.turn(recorder, steps=30)
    assert world.committed(EVENTS) == 0

    world.tables.on_call = None
    world.turn(recorder, steps=60)
    world.tables.land()
    assert {world.row(run_id).status for run_id in runs} == {RunStatus.PENDING}
    assert world.committed(EVENTS) == world.log.high_watermark(EVENTS)


def test_a_held_run_that_was_left_out_and_is_then_skipped_has_the_row_of_the_skip() -> None:
    world = World()
    at = world.clock.now() + 500_000
    held = make_run_id(JOB, at)
    detail = Pending(9, at, at, Tier.HIGH, Origin.SCHEDULE, handler="invoice", zone="UTC", tzdata="2026a")
    world.event(EventKind.HELD, held, reason="overlap", detail=detail)
    for _ in range(BATCH):
        world.pending()
    world.event(EventKind.SKIPPED, held, reason="overlap", detail=Skipped(9, at, at, 1, Tier.HIGH, at))
    for _ in range(BATCH):
        world.pending()

    store = behind(world)

    assert [status for _, status in written(store.histories, held)] == [RunStatus.SKIPPED]
    assert world.row(held).reason == "overlap"
