"""What the recorder writes of DagRuns and their nodes: one row each, the same at every replay."""

from __future__ import annotations

import pytest

from waterclock.log.port import Isolation
from waterclock.log.reading import read_range
from waterclock.model.dag_events import DagStart, NodeEnd, NodeSkipped
from waterclock.model.events import EventKind, Origin, Outcome, Pending, RunStatus, Skipped
from waterclock.model.ids import make_run_id, parse_run_id
from waterclock.model.job import Tier
from waterclock.store.dag_port import NodeRow
from waterclock.store.memory import MemoryStore
from waterclock.wire.codec import decode_event
from waterclock.wire.messages import event_message

from .test_recorder import EVENTS, JOB, NAMES, World


def dag_run(world: World, *, series: int = 0, **start: object) -> str:
    fire_at = world.clock.now() // 1_000_000 * 1_000_000
    run_id = make_run_id(JOB, fire_at, series)
    origin, linked = (Origin.REDRIVE, make_run_id(JOB, fire_at)) if series else (Origin.SCHEDULE, "")
    detail = Pending(9, fire_at, None, Tier.HIGH, origin, linked_run=linked, dag=DagStart(**start))  # type: ignore[arg-type]
    world.event(EventKind.PENDING, run_id, detail=detail)
    return run_id


def node(world: World, run_id: str, key: str) -> str:
    detail = Pending(9, parse_run_id(run_id).fire_at, None, Tier.LOW, Origin.RELEASE)
    world.event(EventKind.PENDING, f"{run_id}/{key}", detail=detail)
    return f"{run_id}/{key}"


def rows(world: World, run_id: str) -> dict[str, NodeRow]:
    run = parse_run_id(run_id)
    return {row.node: row for row in world.store.dag_nodes(run.job_id, run.fire_at, run.series, 100)}


def test_a_dag_run_and_each_of_its_nodes_has_a_row() -> None:
    world = World()
    run_id = dag_run(world)
    ok, bad = node(world, run_id, "a"), node(world, run_id, "b.0")
    world.ended(EventKind.ATTEMPT_SUCCEEDED, ok, world.started(ok), result=b"[7]")
    token = world.started(bad)
    world.ended(EventKind.ATTEMPT_FAILED, bad, token, error_class="ValueError", error_message="no 7")
    world.event(EventKind.RUN_FAILED, bad, 1, reason="attempts")
    detail = NodeSkipped(NodeEnd.UPSTREAM_FAILED)
    world.event(EventKind.NODE_SKIPPED, f"{run_id}/c", reason="upstream-failed", detail=detail)
    world.event(EventKind.DAG_FAILED, run_id, reason="nodes-failed: c")
    world.turn(world.recorder())
    whole = world.row(run_id)
    assert (whole.status, whole.is_dag, whole.paused, whole.reason) == (
        RunStatus.FAILED,
        True,
        False,
        "nodes-failed: c",
    )
    assert whole.started_at
    assert whole.ended_at
    found = rows(world, run_id)
    assert (found["a"].status, found["a"].result, found["a"].counts_as) == (RunStatus.SUCCEEDED, b"[7]", 1)
    assert (found["b.0"].outcome, found["b.0"].error, found["b.0"].tier) == (
        Outcome.FAILED,
        "ValueError: no 7",
        Tier.LOW,
    )
    assert (found["c"].status, found["c"].reason, found["c"].counts_as, found["c"].attempt) == (
        RunStatus.SKIPPED,
        "upstream-failed",
        NodeEnd.UPSTREAM_FAILED,
        0,
    )


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_dag_run_that_was_held_and_is_dropped_still_tells_what_it_was(*, is_behind: bool) -> None:
    world, cap = World(), "max_held"
    first = make_run_id(JOB, world.clock.now())
    run_id = make_run_id(JOB, world.clock.now(), 7)
    fire_at = parse_run_id(run_id).fire_at
    start = DagStart(rerun_from=("b",))
    detail = Pending(9, fire_at, None, Tier.HIGH, Origin.REDRIVE, linked_run=first, is_last=True, dag=start)
    world.event(EventKind.HELD, run_id, reason="overlap", detail=detail)
    recorder = world.recorder()
    if not is_behind:
        world.turn(recorder)
        assert world.row(run_id).status is RunStatus.PENDING
    world.event(
        EventKind.SKIPPED, run_id, reason="overlap", detail=Skipped(9, fire_at, fire_at, 1, Tier.HIGH, 0, cap=cap)
    )
    world.turn(recorder)

    row = world.row(run_id)
    assert (row.status, row.reason, row.skipped_count, row.skipped_to) == (
        RunStatus.SKIPPED,
        "overlap: max_held",
        1,
        fire_at,
    )
    assert (row.is_dag, row.origin, row.linked_run, row.rerun_from) == (True, Origin.REDRIVE, first, ("b",))
    assert row.ended_at
    assert not row.is_last, "a dropped run does not count"


def test_nodes_that_end_with_their_dag_run_are_not_left_waiting() -> None:
    world = World()
    run_id = dag_run(world)
    runs, waits = node(world, run_id, "a"), node(world, run_id, "b")
    token = world.started(runs)
    world.event(EventKind.CANCEL_REQUESTED, run_id, reason="too late")
    world.turn(world.recorder())
    found = rows(world, run_id)
    assert (found["b"].status, found["b"].reason) == (RunStatus.CANCELLED, "too late")
    assert (found["a"].status, found["a"].cancel_requested) == (RunStatus.RUNNING, True)
    assert waits.endswith("/b")
    world.ended(EventKind.ATTEMPT_CANCELLED, runs, token)
    world.turn(world.recorder())
    assert (world.row(run_id).status, world.row(run_id).reason) == (RunStatus.CANCELLED, "too late")
    assert rows(world, run_id)["a"].status is RunStatus.CANCELLED


@pytest.mark.parametrize("end", [EventKind.ATTEMPT_FAILED, EventKind.ATTEMPT_CANCELLED])
def test_a_dag_run_that_is_over_its_time_says_so_after_its_last_node_has_ended_and_so_does_that(end: EventKind) -> None:
    world = World()
    run_id = dag_run(world)
    slow = node(world, run_id, "a")
    token = world.started(slow)
    world.event(EventKind.RUN_EXPIRED, run_id, reason="expired")
    world.ended(end, slow, token, error_class="E")
    world.turn(world.recorder())
    assert (world.row(run_id).status, world.row(run_id).reason) == (RunStatus.FAILED, "expired")
    assert (rows(world, run_id)["a"].status, rows(world, run_id)["a"].reason) == (RunStatus.FAILED, "expired")


def test_every_pause_and_resume_has_a_stamp_of_its_own() -> None:
    world = World()
    run_id = dag_run(world)
    node(world, run_id, "a")
    seen = []
    for kind in (EventKind.DAG_PAUSED, EventKind.DAG_RESUMED, EventKind.DAG_PAUSED):
        world.event(kind, run_id)
        world.turn(world.recorder())
        seen.append((world.row(run_id).paused, world.row(run_id).wts))
    assert [paused for paused, _ in seen] == [True, False, True]
    assert [wts for _, wts in seen] == sorted({wts for _, wts in seen})


def test_a_rerun_says_where_it_began_and_what_it_kept() -> None:
    world = World()
    run_id = dag_run(world, series=1 << 49, rerun_from=("b", "c"))
    world.event(EventKind.NODE_SKIPPED, f"{run_id}/a", reason="kept", detail=NodeSkipped(NodeEnd.SUCCEEDED, b"1"))
    world.turn(world.recorder())
    assert world.row(run_id).rerun_from == ("b", "c")
    assert world.row(run_id).linked_run == run_id.partition("~")[0]
    kept = rows(world, run_id)["a"]
    assert (kept.counts_as, kept.result, kept.revision) == (NodeEnd.SUCCEEDED, b"1", 9)


def test_rows_of_dags_are_the_same_in_whatever_batches_they_are_written() -> None:
    """A row is a function of the run and of its stamp alone: one event at a time, or all at once."""
    whole, bit_by_bit = World(), World()
    run_id = dag_run(whole)
    a = node(whole, run_id, "a")
    whole.event(EventKind.DAG_PAUSED, run_id)
    token = whole.started(a)
    whole.event(EventKind.DAG_RESUMED, run_id)
    whole.ended(EventKind.ATTEMPT_SUCCEEDED, a, token, result=b"7")
    whole.event(EventKind.CANCEL_REQUESTED, run_id, reason="why")
    whole.turn(whole.recorder())
    seen: dict[tuple[str, int], set[object]] = {}
    recorder = bit_by_bit.recorder(batch_records=1)
    end = whole.log.high_watermark(EVENTS)
    for record in read_range(whole.log, Isolation.COMMITTED, EVENTS, 0, end):
        bit_by_bit.append(event_message(NAMES, decode_event(record.value or b"")))
        bit_by_bit.turn(recorder)
        note(seen, run_id, bit_by_bit.store)
    note(seen, run_id, whole.store)
    assert all(len(found) == 1 for found in seen.values()), seen


def note(seen: dict[tuple[str, int], set[object]], run_id: str, store: MemoryStore) -> None:
    run = parse_run_id(run_id)
    found = store.run(run.job_id, run.fire_at, run.series)
    nodes = store.dag_nodes(run.job_id, run.fire_at, run.series, 100)
    for row in [*([found] if found else []), *nodes]:
        wts = row.wts - row.dispatched_at
        seen.setdefault((getattr(row, "node", ""), wts), set()).add(row._replace(wts=0, dispatched_at=0))
