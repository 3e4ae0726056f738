"""The look for stuck nodes beside the recorder: told lap by lap, and what engines told, as figures and findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from structlog.testing import capture_logs
from waterclock.dag_engine.figures import Figures
from waterclock.dag_engine.told import EVERY_S, Telling

from tests.unit.api_world import ApiWorld
from tests.unit.dag_history import DagHistory
from waterclock.clock import ManualClock
from waterclock.clusters import doctor_upkeep
from waterclock.clusters.finding import State
from waterclock.model.dag_events import DagStart
from waterclock.model.errors import BackendDown, UndecodableRecord
from waterclock.model.events import EventKind, Origin, Pending, RunStatus
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Tier
from waterclock.model.stuck_nodes import Stuck, StuckReason
from waterclock.recorder import stuck_watch
from waterclock.recorder.stuck_watch import LAP_S, StuckWatch
from waterclock.store.memory import WriteFault
from waterclock.store.upkeep import DAG_ENGINE, RELEASE_BUCKETS_S, STUCK_DAGS

from .test_recorder import World

NOW = 1_795_000_020 * US_PER_S


class Known:
    """What the recorder would know."""

    shards = (0, 1)

    def __init__(self, *run_ids: str) -> None:
        self.run_ids = dict.fromkeys(run_ids, 1)

    def open_dag_runs(self) -> dict[str, int]:
        return dict(self.run_ids)

    def close_dag_run(self, run_id: str) -> None:
        self.run_ids.pop(run_id, None)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def history(clock: ManualClock) -> DagHistory:
    return DagHistory(clock)


def lap(watch: StuckWatch, clock: ManualClock) -> None:
    for _ in range(20):
        watch.step()
        clock.advance(int(LAP_S * US_PER_S / 10))


def test_a_lap_names_what_is_stuck_and_forgets_it_when_it_goes_on(clock: ManualClock, history: DagHistory) -> None:
    known = Known(history.run_id)
    watch = StuckWatch(history.store, clock, known, lambda: frozenset({"default"}))
    history.node("list", RunStatus.SUCCEEDED, 0.1, 4, result=b"[1]")
    history.run()
    lap(watch, clock)
    lap(watch, clock)  # patience is longer than a lap
    told = {each.place: each.parts for each in history.store.told_of_all(STUCK_DAGS)}
    assert told["0"] == {"by_reason": {}, "named": [], "looked_at": 0, "ended_at": told["0"]["ended_at"]}
    assert (told["1"]["by_reason"], told["1"]["looked_at"]) == ({"not-released": 2}, 1)
    assert [each["node"] for each in told["1"]["named"]] == ["load.0", "archive"]
    history.run(RunStatus.SUCCEEDED, ended_s=9, wts=history.began_at + 32)
    lap(watch, clock)
    assert history.store.told(STUCK_DAGS, "1").parts["by_reason"] == {}  # type: ignore[union-attr]
    assert known.run_ids == {}, "one that has ended is not looked at again"


def test_a_lap_says_nothing_of_a_partition_that_came_while_it_went_on(clock: ManualClock, history: DagHistory) -> None:
    known = Known(history.run_id)
    known.shards = (0,)
    watch = StuckWatch(history.store, clock, known, lambda: None)
    history.run()
    history.store.tell(STUCK_DAGS, "1", {"by_reason": {"no-worker": 3}}, clock.now())  # its owner before
    known.run_ids.clear()
    slice_of = watch._go_on

    def taken_over() -> None:
        slice_of()
        known.shards = (0, 1)

    with mock.patch("waterclock.recorder.stuck_watch.SLICE", 0), mock.patch.object(watch, "_go_on", taken_over):
        watch.step()
    clock.advance(US_PER_S)
    watch.step()
    assert history.store.told(STUCK_DAGS, "0") is not None
    assert history.store.told(STUCK_DAGS, "1").parts == {"by_reason": {"no-worker": 3}}  # type: ignore[union-attr]


def test_a_lap_keeps_no_more_findings_than_it_names(
    clock: ManualClock, history: DagHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[str]()
    many = [Stuck(f"load.{number}", StuckReason.NO_WORKER, NOW, "nobody serves its pool", 0) for number in range(100)]
    monkeypatch.setattr(stuck_watch, "stuck_in", lambda *_: many)
    monkeypatch.setattr(stuck_watch, "stuck_view", lambda _, stuck: made.append(stuck.node) or {"node": stuck.node})
    history.run()
    watch = StuckWatch(history.store, clock, Known(history.run_id), lambda: None)
    watch.step()
    watch.step()
    told = next(each.parts for each in history.store.told_of_all(STUCK_DAGS) if each.place == "1")
    assert (told["by_reason"], len(told["named"]), len(made)) == ({"no-worker": 100}, 20, 20)


def test_a_store_that_is_away_holds_the_look_up_and_does_not_end_it(clock: ManualClock, history: DagHistory) -> None:
    watch = StuckWatch(history.store, clock, Known(history.run_id), lambda: None)
    history.run()
    history.store.tables.on_call = lambda *_: WriteFault.LOST
    lap(watch, clock)
    history.store.tables.on_call = None
    lap(watch, clock)
    assert history.store.told(STUCK_DAGS, "1") is not None


def test_a_dag_run_that_cannot_be_read_hides_nothing_of_the_others(
    clock: ManualClock, history: DagHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = "acme:zwide@20260101T000000Z"  # reading its many nodes takes too long, each time
    asked = _fails_where(monkeypatch, lambda job_id: job_id == "acme:zwide")
    watch = StuckWatch(history.store, clock, Known(wide, history.run_id), lambda: frozenset({"default"}))
    history.node("list", RunStatus.SUCCEEDED, 0.1, 4, result=b"[1]")
    history.run()
    clock.advance(int(2 * LAP_S * US_PER_S))
    with capture_logs() as logs:
        for _ in range(3):
            watch.step()
            clock.advance(5 * US_PER_S)
    told = {each.place: each.parts for each in history.store.told_of_all(STUCK_DAGS)}
    assert (told["1"]["by_reason"], told["1"]["looked_at"]) == ({"not-released": 2}, 1)
    assert asked.count("acme:zwide") == 2, "a store may fail once"
    assert [each["run_id"] for each in logs if each["log_level"] == "warning"] == [wide]


def test_a_lap_ends_although_the_store_does_not_answer_now_and_then(
    clock: ManualClock, history: DagHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [f"acme:a{number}@20260101T000000Z" for number in range(200)]
    asked = _fails_where(monkeypatch, lambda _: len(asked) % 50 == 0)
    watch = StuckWatch(history.store, clock, Known(*many), frozenset)
    for _ in range(100):
        watch.step()
        clock.advance(5 * US_PER_S)
    assert history.store.told(STUCK_DAGS, "1") is not None


def test_no_dag_run_is_passed_over_while_the_store_is_away(
    clock: ManualClock, history: DagHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.node("list", RunStatus.SUCCEEDED, 0.1, 4, result=b"[1]")
    history.run()
    watch = StuckWatch(history.store, clock, Known(history.run_id), lambda: frozenset({"default"}))
    clock.advance(int(2 * LAP_S * US_PER_S))
    with monkeypatch.context() as away:
        _fails_where(away, lambda _: True)
        away.setattr(history.store, "told", _away)
        for _ in range(10):
            watch.step()
            clock.advance(5 * US_PER_S)
    watch.step()
    watch.step()
    assert history.store.told(STUCK_DAGS, "1").parts["looked_at"] == 1  # type: ignore[union-attr]


def _fails_where(monkeypatch: pytest.MonkeyPatch, fails: Callable[[str], bool]) -> list[str]:
    """The jobs whose DagRuns are read, as they are."""
    read, asked = stuck_watch.read_dag_run, list[str]()

    def reads(store: Any, run: Any) -> Any:
        asked.append(run.job_id)
        return _away() if fails(run.job_id) else read(store, run)

    monkeypatch.setattr(stuck_watch, "read_dag_run", reads)
    return asked


def _away(*_: object) -> None:
    raise BackendDown("cassandra", "OperationTimedOut")


def test_where_nobody_can_tell_who_works_the_lap_is_taken_again(clock: ManualClock, history: DagHistory) -> None:
    answers: list[Exception | None] = [BackendDown("kafka", "away"), None]

    def serving() -> frozenset[str]:
        if (trouble := answers.pop(0) if answers else None) is not None:
            raise trouble
        return frozenset()

    history.run()
    watch = StuckWatch(history.store, clock, Known(history.run_id), serving)
    lap(watch, clock)
    lap(watch, clock)
    assert history.store.told(STUCK_DAGS, "1") is not None


def test_the_recorder_knows_its_open_dag_runs() -> None:
    world = World()
    fire_at = world.clock.now() // US_PER_S * US_PER_S
    run_ids = [make_run_id("acme:nightly", fire_at, series) for series in (0, 1 << 49)]
    for run_id in run_ids:
        detail = Pending(9, fire_at, None, Tier.HIGH, Origin.SCHEDULE, dag=DagStart())
        world.event(EventKind.PENDING, run_id, detail=detail)
    world.pending()
    recorder = world.recorder()
    world.turn(recorder)
    assert recorder.open_dag_runs() == dict.fromkeys(run_ids, 0)
    world.event(EventKind.DAG_SUCCEEDED, run_ids[0])
    world.turn(recorder)
    assert recorder.open_dag_runs() == {run_ids[1]: 0}
    recorder.close_dag_run(run_ids[1])
    assert recorder.open_dag_runs() == {}


def test_releases_are_counted_by_how_long_they_took_once_their_round_has_landed() -> None:
    figures = Figures()
    figures.release(3, NOW)
    figures.release(0, NOW)
    assert figures.released == 0
    figures.landed(NOW + 20_000)
    figures.release(1, NOW)
    figures.landed(NOW + 60 * US_PER_S)
    parts = figures.parts(7)
    assert (parts["released"], parts["open"], parts["latency_sum_s"]) == (4, 7, 60.06)
    assert [count for count in parts["latency_counts"] if count] == [3, 1]
    assert parts["latency_counts"][2] == 3, "more than 10 ms, at most 25"
    assert parts["latency_counts"][-1] == 1
    assert len(parts["latency_counts"]) == len(RELEASE_BUCKETS_S) + 1


def test_an_engine_tells_its_figures_now_and_then(clock: ManualClock, history: DagHistory) -> None:
    asked: list[int] = []

    def figures() -> dict[int, dict[str, object]]:
        asked.append(1)
        return {3: {"open": len(asked)}}

    telling = Telling(history.store, clock, figures)
    for _ in range(3):
        assert telling.step() is False
    assert len(asked) == 1
    clock.advance(int(EVERY_S * US_PER_S) + 1)
    telling.step()
    assert history.store.told(DAG_ENGINE, "3").parts == {"open": 2}  # type: ignore[union-attr]


def test_figures_and_findings_reach_people() -> None:
    with ApiWorld() as world:
        counts = [0] * (len(RELEASE_BUCKETS_S) + 1)
        counts[2], counts[-1] = 3, 1
        engine = {"open": 2, "released": 4, "skipped": 1, "latency_counts": counts, "latency_sum_s": 60.06}
        named = [{"run_id": "acme:nightly@20261121T050000Z", "node": "a", "reason": "no-worker"}]
        stuck = {"by_reason": {"no-worker": 2}, "named": named, "looked_at": 2, "ended_at": NOW}
        with world.lock:
            world.store.tell(DAG_ENGINE, "0", engine, NOW)
            world.store.tell(STUCK_DAGS, "0", stuck, NOW)
        lines = set(world.client.get("/metrics").text.splitlines())
        findings = {each.check: each for each in doctor_upkeep.examine(world.store, ManualClock(NOW))}
    assert {
        'waterclock_dag_runs_open{shard="0"} 2.0',
        'waterclock_dag_releases_total{shard="0"} 4.0',
        'waterclock_dag_skips_total{shard="0"} 1.0',
        'waterclock_dag_release_seconds_bucket{le="0.025",shard="0"} 3.0',
        'waterclock_dag_release_seconds_bucket{le="+Inf",shard="0"} 4.0',
        'waterclock_dag_release_seconds_sum{shard="0"} 60.06',
        'waterclock_dag_stuck_nodes{reason="no-worker"} 2.0',
        'waterclock_dag_stuck_nodes{reason="paused"} 0.0',
    } <= lines
    found = findings[doctor_upkeep.STUCK_CHECK]
    assert (found.state, "acme:nightly@20261121T050000Z/a (no-worker)" in found.found) == (State.WARN, True)


def test_a_dag_run_whose_row_is_of_a_later_release_is_looked_at_again(
    clock: ManualClock, history: DagHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = StuckWatch(history.store, clock, Known(history.run_id), lambda: None)
    history.run()
    with monkeypatch.context() as later:
        later.setattr(history.store, "run", mock.Mock(side_effect=UndecodableRecord("a status of a later release")))
        lap(watch, clock)
    for _ in range(3):
        lap(watch, clock)
    assert history.store.told(STUCK_DAGS, "1").parts["looked_at"] == 1  # type: ignore[union-attr]
