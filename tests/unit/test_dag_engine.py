"""The DAG engine: it releases each node once, when its rule holds, whatever happens to it on the way."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from waterclock.dag_engine import loop, shard

from tests.unit.dag_world import FAILED, JOB, NAMES, OK, World
from waterclock.log.memory import CommitFate
from waterclock.model.dag import MapOver, Node, TriggerRule
from waterclock.model.events import EventKind, RunEvent, RunStatus
from waterclock.model.ids import US_PER_S
from waterclock.model.known_state import state_from_text
from waterclock.wire.codec import decode_control, decode_dag_node, decode_event

ENDS = (EventKind.DAG_SUCCEEDED, EventKind.DAG_FAILED)


def chain() -> World:
    return World(Node("a", "h"), Node("b", "h", after=("a",), inputs=("a",)))


def test_a_dag_run_goes_from_its_roots_to_its_end() -> None:
    world = chain()
    world.turn(engine := world.engine())
    run_id = world.fire()
    world.turn(engine)
    assert world.released() == ["a"]
    (work,) = world.works()
    assert (work.run_id, work.payload, work.dag_from, work.attempt) == (f"{run_id}/a", b'"job"', 0, 1)
    world.end(f"{run_id}/a", result=b"[1]")
    world.turn(engine)
    assert world.released() == ["a", "b"]
    assert json.loads(world.works()[1].payload) == {"payload": "job", "upstream": {"a": [1]}}
    world.end(f"{run_id}/b")
    world.turn(engine)
    assert [(each.kind, each.run_id) for each in world.events(*ENDS)] == [(EventKind.DAG_SUCCEEDED, run_id)]
    assert (world.lag(), world.kept()) == (0, {})


def test_of_other_runs_events_no_more_is_read_than_their_kind_and_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all that an engine reads is of runs that are no DagRuns: it keeps up with them by not decoding them."""
    decoded: list[tuple[EventKind, str]] = []

    def noted(value: bytes) -> RunEvent:
        event = decode_event(value)
        decoded.append((event.kind, event.run_id.partition("@")[0]))
        return event

    monkeypatch.setattr(loop, "decode_event", noted)
    world = chain()
    world.turn(engine := world.engine())
    run_id, other = world.fire(), "acme:other@20261121T090000Z"
    world.event(EventKind.PENDING, other)
    world.end(other)
    world.turn(engine)
    world.end(f"{run_id}/a")
    world.event(EventKind.CANCEL_REQUESTED, run_id)
    world.turn(engine)
    assert world.lag() == 0
    assert [kind for kind, job_id in decoded if job_id == "acme:other"] == [EventKind.PENDING]
    assert {kind for kind, job_id in decoded if job_id == JOB} >= {
        EventKind.PENDING, EventKind.STARTED, OK, EventKind.CANCEL_REQUESTED,
    }  # fmt: skip


def test_a_node_is_done_by_its_runs_end_and_not_by_an_attempts() -> None:
    world = chain()
    run_id = world.fire()
    world.turn(engine := world.engine())
    world.end(f"{run_id}/a", FAILED)
    world.turn(engine)
    world.event(EventKind.RETRYING, f"{run_id}/a", 2)
    world.turn(engine)
    assert world.released() == ["a"]
    assert world.events(EventKind.NODE_SKIPPED, *ENDS) == []
    world.end(f"{run_id}/a", FAILED, attempt=2)
    world.event(EventKind.RUN_FAILED, f"{run_id}/a", 2)
    world.turn(engine)
    told = world.events(EventKind.NODE_SKIPPED, *ENDS)
    assert [(each.kind, each.reason) for each in told] == [
        (EventKind.NODE_SKIPPED, "upstream-failed"),
        (EventKind.DAG_FAILED, "nodes-failed: b"),
    ]


@pytest.mark.parametrize("fate", list(CommitFate))
def test_a_round_in_doubt_releases_nobody_twice(fate: CommitFate) -> None:
    world = chain()
    world.turn(engine := world.engine())
    run_id = world.fire()
    world.cluster.faults.next_commit("waterclock.dag-engine.dag-engine-1", fate)
    world.turn(engine)
    world.end(f"{run_id}/a")
    world.cluster.faults.next_commit("waterclock.dag-engine.dag-engine-1", fate)
    world.turn(engine)
    assert world.released() == ["a", "b"]
    assert Counter(work.run_id for work in world.works()).most_common(1)[0][1] == 1


@pytest.mark.parametrize("steps", range(1, 9))
def test_whoever_takes_over_releases_what_is_left_and_nothing_twice(steps: int) -> None:
    """Killed after so many steps, with nothing remembered but what the state topic holds."""
    world = World(
        *(Node(f"r{number}", "h") for number in range(5)), Node("last", "h", after=("r0", "r1"), inputs=("r1",))
    )
    run_id = world.fire()
    world.turn(world.engine(releases_max=1, window=1), steps)
    world.cluster.kill("dag-engine-1")
    world.turn(second := world.engine("dag-engine-2", releases_max=2, window=1), 80)
    assert sorted(world.released()) == ["r0", "r1", "r2", "r3", "r4"]
    for name in ("r0", "r1"):
        world.end(f"{run_id}/{name}", result=b'"made"')
    world.turn(second, steps)
    world.cluster.kill("dag-engine-2")
    world.turn(world.engine("dag-engine-3", window=1), 80)
    assert Counter(world.released()).most_common(1)[0][1] == 1
    assert json.loads(next(work for work in world.works() if work.run_id.endswith("/last")).payload)["upstream"] == {
        "r1": "made"
    }


def test_while_the_store_is_away_known_dags_go_on_and_others_wait() -> None:
    world = chain()
    first = world.fire()
    world.turn(engine := world.engine())
    world.store.is_away = True
    world.end(f"{first}/a")
    world.store.kept[JOB, 8] = replace_revision(world)
    second = world.fire(revision=8)
    world.turn(engine)
    assert world.released() == ["a", "b"]
    world.store.is_away = False
    world.turn(engine)
    assert world.released() == ["a", "b", "a"]
    assert world.works()[-1].run_id == f"{second}/a"


def replace_revision(world: World):
    return world.store.kept[JOB, 7]._replace(revision=8)


def test_a_version_is_read_once_for_all_its_dag_runs() -> None:
    world = chain()
    for _ in range(5):
        world.fire()
    world.turn(world.engine())
    assert (world.released(), world.store.asked) == (["a"] * 5, 1)


def test_a_dag_run_of_a_version_that_is_gone_fails_and_says_so() -> None:
    world = chain()
    world.fire(revision=9)
    world.turn(world.engine())
    (end,) = world.events(*ENDS)
    assert (end.kind, end.reason) == (EventKind.DAG_FAILED, "revision-gone")
    assert world.kept() == {}


def test_nothing_is_released_to_a_pool_that_was_taken_away() -> None:
    world = World(Node("a", "h", pool="gone"))
    world.fire()
    world.turn(engine := world.engine())
    assert world.released() == []
    world.cluster.create_topic(NAMES.runs(world.store.kept[JOB, 7].spec.tier, "gone"), 1)
    world.turn(engine, 80)
    assert world.released() == ["a"]


def test_a_cancelled_dag_run_releases_nothing_more_and_is_forgotten() -> None:
    world = World(Node("a", "h"), Node("b", "h", after=("a",)), max_active_nodes=1)
    run_id = world.fire()
    world.turn(engine := world.engine())
    token = world.claim(f"{run_id}/a")
    world.turn(engine)
    world.event(EventKind.CANCEL_REQUESTED, run_id)
    world.turn(engine)
    world.cluster.kill("dag-engine-1")
    world.turn(second := world.engine("dag-engine-2", window=1))
    assert world.kept() != {}  # the attempt is still open
    world.event(OK, f"{run_id}/a", 1, worker="w-1", incarnation=3, token=token)
    world.turn(second)
    assert (world.released(), world.events(*ENDS), world.kept()) == (["a"], [], {})


def test_a_dag_run_over_its_time_is_told_so_and_control_before() -> None:
    world = World(Node("a", "h"), Node("b", "h", after=("a",)), timeout_us=10 * US_PER_S)
    run_id = world.fire()
    world.turn(engine := world.engine())
    assert world.events(EventKind.RUN_EXPIRED) == []
    world.turn(engine, 60)
    (expired,) = world.events(EventKind.RUN_EXPIRED)
    (told,) = [decode_control(record.value or b"") for record in world.records(NAMES.control)]
    assert (expired.run_id, expired.reason, told.run_id) == (run_id, "expired", run_id)
    assert world.kept() == {}


@pytest.mark.parametrize("is_over", [False, True])
def test_a_dag_run_over_its_time_is_told_so_also_while_every_poll_is_full(*, is_over: bool) -> None:
    """Given an engine that reads as much as comes, and is always two polls behind; the other DagRun has ended in time,
    as it has not read yet when its time is over."""
    world = World(Node("a", "h"), timeout_us=10 * US_PER_S)
    world.turn(engine := world.engine(round_records=4))
    run_id = world.fire()
    world.turn(engine, 5)
    for _ in range(8 if is_over else 60):
        world.event(EventKind.STARTED, "acme:other@20260101T000000Z", 1)
    if not is_over:
        world.end(f"{run_id}/a")
    for _ in range(30):
        for _ in range(4 if is_over or world.lag() < 20 else 0):
            world.event(EventKind.STARTED, "acme:other@20260101T000000Z", 1)
        engine.step()
        world.clock.advance(US_PER_S)
    assert 8 <= world.lag() < 30
    assert [each.run_id for each in world.events(EventKind.RUN_EXPIRED)] == [run_id] * is_over


@pytest.mark.parametrize("is_taken_over", [False, True])
def test_the_age_of_a_dag_run_counts_from_when_it_went_out(*, is_taken_over: bool) -> None:
    """However long it waited for others before (docs/dags.md)."""
    world = World(Node("a", "h"), timeout_us=10 * US_PER_S)
    run_id = world.fire(EventKind.HELD)
    world.turn(engine := world.engine(window=1), 80)
    world.made -= 1
    world.fire()
    world.turn(engine, 5)
    if is_taken_over:
        world.cluster.kill("dag-engine-1")
        engine = world.engine("dag-engine-2", window=1)
    world.turn(engine, 20)
    assert world.released() == ["a"]
    assert world.events(EventKind.RUN_EXPIRED) == []
    world.turn(engine, 60)
    assert [each.run_id for each in world.events(EventKind.RUN_EXPIRED)] == [run_id]


def test_a_paused_dag_run_releases_nothing_until_it_goes_on() -> None:
    world = chain()
    run_id = world.fire()
    world.turn(engine := world.engine())
    world.event(EventKind.DAG_PAUSED, run_id)
    world.end(f"{run_id}/a")
    world.turn(engine)
    world.cluster.kill("dag-engine-1")
    world.turn(second := world.engine("dag-engine-2", window=1), 80)
    assert world.released() == ["a"]
    world.event(EventKind.DAG_RESUMED, run_id)
    world.turn(second)
    assert world.released() == ["a", "b"]


def test_a_pause_does_not_hold_the_time_of_a_dag_run() -> None:
    world = World(Node("a", "h"), Node("b", "h", after=("a",)), timeout_us=10 * US_PER_S)
    run_id = world.fire()
    world.turn(engine := world.engine())
    world.event(EventKind.DAG_PAUSED, run_id)
    world.turn(engine, 60)
    assert [each.run_id for each in world.events(EventKind.RUN_EXPIRED)] == [run_id]


def test_deadlines_of_dag_runs_that_have_ended_take_no_memory_until_they_are_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shard, "_DEADLINES_SPARE", 4)
    world = World(Node("a", "h"), timeout_us=10 * US_PER_S)
    world.turn(engine := world.engine())
    first = world.fire()
    for _ in range(12):
        run_id = world.fire()
        world.turn(engine, 2)
        world.end(f"{run_id}/a")
        world.turn(engine, 2)
    assert len(world.events(EventKind.DAG_SUCCEEDED)) == 12
    (partition,) = [each for each in engine._shards.values() if each.dags]
    assert len(partition._deadlines) <= 7
    world.turn(engine, 60)
    assert [each.run_id for each in world.events(EventKind.RUN_EXPIRED)] == [first]


def test_a_wide_dag_goes_out_over_many_rounds_each_item_once() -> None:
    world = World(Node("each", "h", map_over=MapOver(count=250)), Node("last", "h", after=("each",)))
    run_id = world.fire()
    world.turn(engine := world.engine(releases_max=20))
    assert sorted(world.released()) == sorted(f"each.{number}" for number in range(250))
    for number in range(250):
        world.end(f"{run_id}/each.{number}")
    world.turn(engine)
    world.end(f"{run_id}/last")
    world.turn(engine)
    assert [each.kind for each in world.events(*ENDS)] == [EventKind.DAG_SUCCEEDED]
    assert world.kept() == {}


@pytest.mark.parametrize("count", [5, 500])
def test_an_end_of_a_node_writes_as_much_in_a_wide_dag_as_in_a_small_one(count: int) -> None:
    world = World(Node("each", "h", map_over=MapOver(count=count)))
    run_id = world.fire()
    world.turn(engine := world.engine())
    before = len(world.records(NAMES.state("dag-engine")))
    world.end(f"{run_id}/each.3")
    world.turn(engine)
    (record,) = world.records(NAMES.state("dag-engine"))[before:]
    state = state_from_text(decode_dag_node(record.value or b"").state)
    assert state is not None
    assert (record.key, state.status) == (f"{run_id}/each.3".encode(), RunStatus.SUCCEEDED)


def test_a_held_dag_run_begins_when_it_is_released() -> None:
    world = chain()
    run_id = world.fire(EventKind.HELD)
    world.turn(world.engine(window=1))
    assert world.released() == []
    world.cluster.kill("dag-engine-1")
    world.turn(second := world.engine("dag-engine-2", window=1))
    world.made -= 1
    assert world.fire() == run_id
    world.turn(second)
    assert world.released() == ["a"]


def test_plain_runs_cost_the_engine_no_memory() -> None:
    world = chain()
    engine = world.engine()
    for number in range(50):
        world.event(EventKind.PENDING, f"acme:other@20261121T0900{number:02}Z")
    world.turn(engine)
    (shard,) = engine._shards.values()
    assert (len(shard.fold.open), shard.dags, world.lag()) == (0, {}, 0)


def test_a_rule_holds_as_soon_as_it_can() -> None:
    one = TriggerRule.ONE_SUCCESS
    world = World(Node("a", "h"), Node("b", "h"), Node("c", "h", after=("a", "b"), trigger_rule=one))
    run_id = world.fire()
    world.turn(engine := world.engine())
    world.end(f"{run_id}/b")
    world.turn(engine)
    assert world.released() == ["a", "b", "c"]


# Reruns ---------------------------------------------------------------------------------------------------------------


def test_a_crowd_of_dag_runs_is_over_its_time_over_many_rounds() -> None:
    world = World(Node("a", "h"), timeout_us=10 * US_PER_S)
    engine = world.engine(releases_max=3)
    runs = [world.fire() for _ in range(8)]
    world.turn(engine)
    told = []
    for _ in range(60):
        before = len(world.events(EventKind.RUN_EXPIRED))
        world.turn(engine, steps=1)
        told.append(len(world.events(EventKind.RUN_EXPIRED)) - before)

    assert {each.run_id for each in world.events(EventKind.RUN_EXPIRED)} == set(runs)
    assert [count for count in told if count] == [3, 3, 2]
