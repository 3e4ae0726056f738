"""Node runs of DagRuns: one partition for each DagRun, settled on the last state, read in pages."""

from __future__ import annotations

from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import RunId
from waterclock.model.job import Tier
from waterclock.store.dag_port import NodeRow
from waterclock.store.port import AttemptRow, History

from .world import StoreWorld

WAIT_S = 30.0


def node(world: StoreWorld, key: str, **parts: object) -> NodeRow:
    row = NodeRow(
        world.job_id(), world.now, 1 << 50, key, 9, Tier.LOW, RunStatus.SUCCEEDED, Outcome.SUCCEEDED, 2, 5, 6, 7,
        "w-1", 1 << 50, "", b"[1]", "", world.now + 32, 0, False, 1,
    )  # fmt: skip
    return row._replace(**parts)  # type: ignore[arg-type]  # fields by name


def test_a_node_run_is_read_back_whole(world: StoreWorld) -> None:
    row = node(
        world,
        "load.3",
        status=RunStatus.RETRYING,
        outcome=Outcome.FAILED,
        error="E: nö",
        result=None,
        reason="x",
        next_attempt_at=8,
        cancel_requested=True,
        counts_as=0,
    )
    world.store.record(History(nodes=[row])).wait(WAIT_S)
    assert world.other.dag_node(RunId(row.job_id, row.fire_at, row.series, row.node)) == row
    assert world.other.dag_nodes(row.job_id, row.fire_at, row.series, 5) == [row]


def test_node_runs_of_a_dag_run_come_in_pages_and_those_of_others_do_not(world: StoreWorld) -> None:
    rows = [node(world, f"load.{number:03d}") for number in range(250)]
    others = [node(world, "load.000", series=0), node(world, "load.000", fire_at=world.now - 1)]
    world.store.record(History(nodes=[*rows[::-1], *others])).wait(WAIT_S)
    place = (rows[0].job_id, rows[0].fire_at, rows[0].series)
    assert world.store.dag_nodes(*place, 1_000) == rows
    assert world.store.dag_nodes(*place, 100) == rows[:100]
    assert world.store.dag_nodes(*place, 100, "load.199") == rows[200:]
    assert world.store.dag_nodes(*place, 100, "load.249") == []
    assert world.store.dag_node(RunId(*place, "gone")) is None


def test_an_older_state_of_a_node_run_loses(world: StoreWorld) -> None:
    newer = node(world, "a")
    older = node(world, "a", status=RunStatus.RUNNING, outcome=Outcome.NONE, worker="zzz", counts_as=0, wts=world.now)
    world.store.record(History(nodes=[newer])).wait(WAIT_S)
    world.other.record(History(nodes=[older])).wait(WAIT_S)
    assert world.store.dag_nodes(newer.job_id, newer.fire_at, newer.series, 5) == [newer]


def test_a_dag_run_says_that_it_is_one_and_whether_it_is_paused(world: StoreWorld) -> None:
    paused = world.run("dag", is_dag=True, paused=True, rerun_from=("a", "b"))
    world.store.record(History([paused, world.run("plain")])).wait(WAIT_S)
    assert world.store.run(paused.job_id, paused.fire_at, 0) == paused
    resumed = paused._replace(paused=False, wts=paused.wts + 64)
    world.store.record(History([resumed])).wait(WAIT_S)
    assert world.store.run(paused.job_id, paused.fire_at, 0) == resumed
    plain = world.store.run(world.job_id("plain"), world.now, 0)
    assert plain is not None
    assert not plain.is_dag


def test_attempts_of_a_node_are_its_own(world: StoreWorld) -> None:
    rows = [
        AttemptRow(world.job_id(), world.now, 0, key, 1, Outcome.FAILED, 5, 6, "w", 7, "E", world.now)
        for key in ("", "a", "b")
    ]
    world.store.record(History(attempts=rows)).wait(WAIT_S)
    for row in rows:
        assert world.store.attempts(row.job_id, row.fire_at, 0, row.node) == [row]
