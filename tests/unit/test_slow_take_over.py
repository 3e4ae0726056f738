"""A take-over for which much is kept: it is made part by part, so that nobody takes who is at it for dead."""

from __future__ import annotations

from typing import Any

import pytest
from waterclock.dag_engine import kept
from waterclock.dag_engine.loop import DagEngine
from waterclock.dag_engine.open_dag import OpenDag

from waterclock import kept_runs, taking_over
from waterclock.cores import STILL_S
from waterclock.kept_runs import KeptRuns
from waterclock.log.port import Outgoing, TopicPartition
from waterclock.log.reading import newest_by_key
from waterclock.model.dag import Node
from waterclock.model.events import EventKind, RunStatus, Started
from waterclock.model.fold import Fold
from waterclock.role import Role

from .dag_world import World as DagWorld
from .router_world import JOB, NAMES, World
from .test_recorder import World as HistoryWorld

KEPT = 100


@pytest.fixture
def world() -> World:
    return World(partitions=4)


@pytest.fixture
def waiting(world: World) -> list[tuple[str, Started]]:
    """Runs that a predecessor has kept, with the places of their work."""
    runs = [world.pending(f"{JOB}-{number}") for number in range(KEPT)]
    before = world.router(kept_behind=1, window=1)
    for _ in range(4):  # each round moves what the next one may keep
        for number in range(KEPT):
            run_id, token = world.claimed(f"{JOB}-{number}")
            world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, token)
        world.turn(before)
    before.close()
    state = [TopicPartition(NAMES.state("retry-router"), number) for number in range(4)]
    assert {run_id for place in state for run_id in newest_by_key(world.log, place)} >= {run_id for run_id, _ in runs}
    return runs


def make_slow(world: World | HistoryWorld, monkeypatch: pytest.MonkeyPatch, us: int) -> None:
    """From now on each kept run takes so long, and after each two of them somebody looks at the time."""
    read = KeptRuns._read

    def slowly(self: KeptRuns[Any], run_id: str, value: bytes) -> object:
        world.clock.advance(us)
        return read(self, run_id, value)

    monkeypatch.setattr(kept_runs, "PART", 2)
    monkeypatch.setattr(KeptRuns, "_read", slowly)


def longest_step_s(world: World | HistoryWorld | DagWorld, role: Role) -> float:
    longest_s = 0.0
    for _ in range(60):
        began_s = world.clock.monotonic_s()
        is_busy = role.step()
        assert is_busy >= role._taking_over.is_under_way, "it says that nothing is left to do"  # type: ignore[attr-defined]
        longest_s = max(longest_s, world.clock.monotonic_s() - began_s)
        world.clock.advance(200_000)
    return longest_s


def test_a_router_that_takes_much_over_never_stays_away_for_long(
    world: World, waiting: list[tuple[str, Started]], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_slow(world, monkeypatch, 1_000_000)
    router = world.router(kept_behind=1, window=1)
    assert longest_step_s(world, router) < STILL_S
    assert router.ready
    for run_id, claim in waiting:
        world.ended(EventKind.ATTEMPT_FAILED, run_id, world.started(run_id, claim))
    world.turn(router)
    assert world.verdicts() == {run_id: 1 for run_id, _ in waiting}


def test_a_partition_that_is_taken_away_in_the_middle_is_taken_over_by_its_next_owner_alone(
    world: World, waiting: list[tuple[str, Started]], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_slow(world, monkeypatch, 50_000)
    monkeypatch.setattr(taking_over, "STEP_S", 0.2)
    router, other = world.router(), world.router("retry-router-2")
    world.turn(router, steps=4)
    assert not router.ready
    for _ in range(60):
        world.turn(router, other, steps=1)
    assert router.ready
    assert other.ready
    for run_id, claim in waiting:
        world.ended(EventKind.ATTEMPT_FAILED, run_id, world.started(run_id, claim))
    world.turn(router, other)
    assert world.verdicts() == {run_id: 1 for run_id, _ in waiting}


def test_who_dies_while_a_router_takes_over_is_called_lost_on_every_partition(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given partitions on which nothing is left to be read but what is kept of one run of that worker."""
    by_partition = {place_of(world, job): job for job in (f"{JOB}-{number}" for number in range(KEPT))}
    assert len(by_partition) == 4
    life = world.hello()
    runs = [world.claimed(job, incarnation=life)[0] for job in by_partition.values()]
    before = world.router(kept_behind=1, window=1)
    for _ in range(4):
        for job in by_partition.values():
            run_id, token = world.claimed(job)
            world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, token)
        world.turn(before)
    before.close()
    for number in by_partition:
        place = TopicPartition(NAMES.run_events, number)
        world.cluster.delete_records(place, world.log.high_watermark(place))
    make_slow(world, monkeypatch, 6_000_000)
    monkeypatch.setattr(kept_runs, "PART", 1)
    router = world.router(kept_behind=1, window=1)
    while not router._taking_over.is_under_way:
        world.turn(router, steps=1)
    world.turn(router, steps=1)
    world.hello()
    world.turn(router, steps=1)
    assert router._taking_over.is_under_way, "some stood already when it was read, and some did not"
    world.turn(router)
    assert sorted(event.run_id for event in world.events(EventKind.ATTEMPT_LOST)) == sorted(runs)


def place_of(world: World, job_id: str) -> int:
    return world.cluster.place_of(Outgoing(NAMES.run_events, job_id.encode(), None)).partition


def kept_dag_runs() -> tuple[DagWorld, list[str]]:
    """DagRuns that a predecessor has kept, each with a node under way."""
    world = DagWorld(Node("a", "h"), Node("b", "h", after=("a",)))
    runs = [world.fire() for _ in range(KEPT // 4)]
    before = world.engine()
    world.turn(before)
    before.close()
    assert len(world.kept()) == 2 * len(runs)
    return world, runs


def make_engines_slow(world: DagWorld, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, us: int) -> None:
    right = getattr(owner, name)

    def slowly(*words: Any) -> object:
        world.clock.advance(us)
        return right(*words)

    monkeypatch.setattr(kept, "PART", 2)
    monkeypatch.setattr(owner, name, slowly)


def check_all_go_on(world: DagWorld, engine: DagEngine, runs: list[str]) -> None:
    for run_id in runs:
        world.end(f"{run_id}/a")
    world.turn(engine)
    assert sorted(world.released()) == ["a"] * len(runs) + ["b"] * len(runs)


@pytest.mark.parametrize(
    "what", [(kept, "_read_dag_run"), (kept, "_read_node"), (OpenDag, "restored"), (Fold, "restore")]
)
def test_a_dag_engine_that_takes_much_over_never_stays_away_for_long(
    what: tuple[object, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, runs = kept_dag_runs()
    make_engines_slow(world, monkeypatch, *what, 1_000_000)
    engine = world.engine()
    assert longest_step_s(world, engine) < STILL_S
    assert engine.ready
    check_all_go_on(world, engine, runs)


def test_a_dag_engine_that_ends_in_the_middle_of_a_take_over_leaves_all_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, runs = kept_dag_runs()
    make_engines_slow(world, monkeypatch, Fold, "restore", 3_000_000)
    engine = world.engine()
    world.turn(engine, 3)
    assert not engine.ready
    engine.drain()
    engine.close()
    monkeypatch.undo()
    successor = world.engine()
    world.turn(successor)
    assert successor.ready
    check_all_go_on(world, successor, runs)


def test_a_recorder_that_takes_much_over_never_stays_away_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    world = HistoryWorld(partitions=2)
    before = world.recorder(kept_behind=3, window=3, commit_every_s=0.0)
    runs = [world.pending(f"{JOB}-{number}") for number in range(KEPT)]
    for _ in range(3):
        for number in range(10):
            world.succeeded(f"{JOB}-{number}")
        world.turn(before)
    before.close()
    make_slow(world, monkeypatch, 1_000_000)
    recorder = world.recorder()
    assert longest_step_s(world, recorder) < STILL_S
    assert recorder.ready
    for run_id in runs:
        world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, world.started(run_id))
    world.turn(recorder)
    assert {world.row(run_id).status for run_id in runs} == {RunStatus.SUCCEEDED}
