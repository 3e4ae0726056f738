"""What a DAG engine meets that it cannot go on with: it says so, and everything else goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from waterclock.dag_engine import loop
from waterclock.dag_engine.earlier import Earlier
from waterclock.dag_engine.shard import Shard

from tests.unit import dag_world
from tests.unit.dag_world import JOB, NAMES, REVISION, World
from waterclock.log.memory_faults import CommitFate
from waterclock.model.dag import DagSpec, MapOver, Node
from waterclock.model.dag_events import DagStart
from waterclock.model.errors import BackendDown
from waterclock.model.events import ControlKind, Ended, EventKind, Origin, Pending, RunEvent, Skipped
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import JobVersion, Tier
from waterclock.model.stored_spec import spec_from_json, spec_to_json
from waterclock.transact import Round, Rounds
from waterclock.wire.codec import decode_control, decode_work
from waterclock.wire.messages import event_message
from waterclock.wire.names import topic_specs

ENDS = (EventKind.DAG_SUCCEEDED, EventKind.DAG_FAILED)


def chain(**limits: int) -> World:
    return World(Node("a", "h"), Node("b", "h", after=("a",)), **limits)


def test_a_dag_run_waits_for_the_release_that_understands_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not said to be gone, and DagRuns of other versions go on."""
    world = chain()
    world.store.kept[JOB, 8] = world.store.kept[JOB, REVISION]._replace(revision=8)
    later = spec_to_json(world.store.kept[JOB, 8].spec).replace(b'"after":["a"]', b'"trigger_rule":"most_success"')
    right = world.store.versions_below

    def versions_below(wanted: Sequence[tuple[str, int]]) -> list[JobVersion | None]:
        if (JOB, 9) in wanted:
            spec_from_json(later)
        return right(wanted)

    monkeypatch.setattr(world.store, "versions_below", versions_below)
    waiting, going = world.fire(revision=8), world.fire()
    world.turn(world.engine())
    assert [each.run_id for each in world.events(EventKind.PENDING)] == [waiting, going, f"{going}/a"]
    assert world.events(*ENDS) == []
    monkeypatch.undo()
    world.cluster.kill("dag-engine-1")
    world.turn(world.engine("dag-engine-2"), 60)
    assert world.released() == ["a", "a"]


def redriven(world: World, linked_run: str, revision: int = REVISION, payload: bytes | None = None, *begin: str) -> str:
    """A rerun as some command might make it; returns its id."""
    run_id = make_run_id(JOB, 1_000_000, series=99)
    start = DagStart(payload, begin)
    detail = Pending(revision, 1_000_000, None, Tier.HIGH, Origin.REDRIVE, linked_run=linked_run, dag=start)
    world.event(EventKind.PENDING, run_id, detail=detail)
    return run_id


def test_a_rerun_of_what_is_no_run_ends_and_others_go_on() -> None:
    world = chain()
    run_id = redriven(world, "nonsense", REVISION, None, "a")
    world.fire()
    world.turn(world.engine())
    assert [(each.run_id, each.reason) for each in world.events(*ENDS)] == [(run_id, "rerun-gone")]
    assert world.released() == ["a"]


def test_a_rerun_keeps_nothing_of_a_dag_run_of_another_version() -> None:
    world = chain()
    other_way_round = DagSpec((Node("b", "h"), Node("a", "h", after=("b",))))
    version = world.store.kept[JOB, REVISION]
    spec = replace(version.spec, dag=other_way_round)
    world.store.kept[JOB, 8] = version._replace(revision=8, spec=spec)
    earlier = world.fire()
    world.turn(engine := world.engine())
    for name in ("a", "b"):
        world.end(f"{earlier}/{name}")
        world.turn(engine)
    run_id = redriven(world, earlier, 8, None, "a")
    world.turn(engine, 60)
    assert [(each.run_id, each.reason) for each in world.events(EventKind.DAG_FAILED)] == [(run_id, "rerun-gone")]


def test_a_whole_rerun_with_its_own_payload_needs_nothing_of_the_older_one() -> None:
    world = chain()
    redriven(world, f"{JOB}@19710101T000000Z", REVISION, b"1")
    world.turn(world.engine())
    assert [(work.payload, work.run_id.partition("/")[2]) for work in world.works()] == [(b"1", "a")]


def test_reruns_do_not_wait_for_each_others_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "SLICE", 2)
    world = World(Node("a", "h"))
    world.turn(engine := world.engine(window=1))
    looked: list[str] = []
    right = Earlier.look
    monkeypatch.setattr(Earlier, "look", lambda self, most: (looked.append(self.run_id), right(self, most))[1])
    earlier = [world.fire(), world.fire()]
    world.turn(engine)
    for each in earlier:
        world.end(f"{each}/a")
    world.turn(engine)
    for each in earlier:
        world.rerun(each, "a")
    world.turn(engine, 5)
    assert set(looked[:2]) == set(earlier)


@pytest.mark.parametrize("is_taken_over", [False, True])
@pytest.mark.parametrize("is_running", [False, True])
def test_a_node_that_the_dag_does_not_have_keeps_nothing_open(*, is_running: bool, is_taken_over: bool) -> None:
    """Its DagRun is cancelled: control hears of it, should the node run."""
    world = World(Node("a", "h"))
    run_id = world.fire()
    world.turn(engine := world.engine())
    world.event(EventKind.PENDING, f"{run_id}/stranger", detail=Pending(7, 1, None, Tier.HIGH, Origin.RELEASE))
    token = 0
    if is_running:
        token = world.claim(f"{run_id}/stranger")
    if is_taken_over:
        world.cluster.kill("dag-engine-1")
        engine = world.engine("dag-engine-2")
    world.turn(engine, 80)
    assert [decode_control(each.value or b"").kind for each in world.records(NAMES.control)] == [
        ControlKind.CANCEL_REQUESTED
    ]
    if is_running:
        outcome = Ended(world.clock.now())
        world.event(EventKind.ATTEMPT_SUCCEEDED, f"{run_id}/stranger", 1, worker="w-1", incarnation=3, token=token,
                    detail=outcome)  # fmt: skip
    world.turn(engine)
    (shard,) = engine._shards.values()
    assert (len(world.events(EventKind.CANCEL_REQUESTED)), shard.dags, world.kept()) == (1, {}, {})


def test_a_dag_run_that_is_paused_at_a_take_over_keeps_its_time_out() -> None:
    world = chain(timeout_us=20 * US_PER_S)
    run_id = world.fire()
    world.turn(engine := world.engine())
    world.event(EventKind.DAG_PAUSED, run_id)
    world.turn(engine, 5)
    world.cluster.kill("dag-engine-1")
    world.turn(world.engine("dag-engine-2", window=1), 200)
    assert [each.run_id for each in world.events(EventKind.RUN_EXPIRED)] == [run_id]


def test_a_dag_run_that_waits_for_a_pool_keeps_its_time_out() -> None:
    world = World(Node("a", "h", pool="gone"), timeout_us=10 * US_PER_S)
    run_id = world.fire()
    world.turn(world.engine(), 100)
    assert [each.run_id for each in world.events(EventKind.RUN_EXPIRED)] == [run_id]


def test_a_pool_that_is_taken_away_holds_up_no_round() -> None:
    """Given a pool that the engine has released nodes to: what begins afterwards waits until it is there again."""
    world = World(Node("a", "h", pool="side"))
    topic = NAMES.runs(Tier.MEDIUM, "side")
    world.cluster.create_topic(topic, 1)
    world.fire()
    world.turn(engine := world.engine())
    assert len(world.records(topic)) == 1
    world.cluster.delete_topic(topic)
    waiting = world.fire()
    world.turn(engine, 60)
    assert world.lag() == 0
    world.cluster.create_topic(topic, 1)
    world.turn(engine, 100)
    assert [decode_work(record.value or b"").run_id for record in world.records(topic)] == [f"{waiting}/a"]


def test_a_wide_dag_run_of_one_partition_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dag_world, "topic_specs", lambda names, _partitions: topic_specs(names, 2))
    world = World(Node("a", "h", map_over=MapOver(count=2_000)))
    world.turn(engine := world.engine(releases_max=10), 5)
    for partition, fire_at in enumerate((1_000_000, 2_000_000)):
        run_id = make_run_id(JOB, fire_at)
        detail = Pending(REVISION, fire_at, None, Tier.HIGH, Origin.SCHEDULE, dag=DagStart())
        message = event_message(NAMES, RunEvent(EventKind.PENDING, JOB, run_id, 1, detail=detail))
        world.append(message._replace(partition=partition))
    world.turn(engine, 40)
    released = [shard.figures.released for shard in engine._shards.values()]
    assert min(released) > 100


def test_a_round_ends_at_some_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few nodes it has released; and each of them is released once."""
    sizes: list[int] = []
    right = Rounds.commit

    def commit(self: Rounds, draft: Round) -> None:
        sizes.append(sum(len(message.value or b"") for message in draft.messages))
        right(self, draft)

    monkeypatch.setattr(Rounds, "commit", commit)
    world = World(Node("a", "h", map_over=MapOver(count=400)), payload=b'"%b"' % (b"x" * 60_000))
    world.fire()
    world.turn(world.engine(), 20)
    assert (len(world.works()), len(set(world.released()))) == (400, 400)
    assert 6_000_000 < max(sizes) < 12_000_000


def test_a_skipped_fire_looks_at_the_dag_runs_of_its_job_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = chain()
    world.turn(engine := world.engine())
    (shard,) = engine._shards.values()
    for _ in range(10):
        world.fire(EventKind.HELD)
    world.turn(engine)
    assert len(shard.dags) == 10
    looked: list[str] = []
    right = Shard._forget_if_ended
    monkeypatch.setattr(Shard, "_forget_if_ended", lambda self, run_id: (looked.append(run_id), right(self, run_id))[1])
    for job_id in ("acme:other", JOB):
        skipped = Skipped(REVISION, 1_000_000, 3_000_000, 3, Tier.HIGH, 0)
        world.event(EventKind.SKIPPED, make_run_id(job_id, 1_000_000), detail=skipped)
        world.turn(engine)
        assert any(JOB in each for each in looked) is (job_id == JOB)
    assert len(shard.dags) == 7


def be_silent(world: World, monkeypatch: pytest.MonkeyPatch, silent_s: float) -> list[float]:
    """From now on the store says nothing for so long, and then that it is away; answers when it was asked."""
    asked_at_s: list[float] = []

    def versions_below(_wanted: Sequence[tuple[str, int]]) -> list[JobVersion | None]:
        asked_at_s.append(world.clock.monotonic_s())
        world.clock.advance(round(silent_s * US_PER_S))
        raise BackendDown("cassandra", "no answer")

    monkeypatch.setattr(world.store, "versions_below", versions_below)
    return asked_at_s


def test_dag_runs_of_versions_that_are_known_go_on_while_the_store_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(*(Node(f"n{i}", "h", after=(f"n{i - 1}",) if i else ()) for i in range(10)))
    engine = world.engine()
    known = world.fire()
    world.turn(engine)
    be_silent(world, monkeypatch, 6.0)
    world.fire(revision=8)
    began_s = world.clock.monotonic_s()
    for number in range(10):  # each node takes a second
        done_s = world.clock.monotonic_s() + 1.0
        while world.clock.monotonic_s() < done_s:
            world.turn(engine, 1)
        world.end(f"{known}/n{number}")
    world.turn(engine, 5)
    assert [each.run_id for each in world.events(*ENDS)] == [known]
    assert world.clock.monotonic_s() - began_s < 20, "of ten seconds of work"


@pytest.mark.parametrize(("silent_s", "most_s", "rest_s"), [(0.0, 60.0, 1.0), (6.0, 60.0, 24.0), (6.0, 15.0, 15.0)])
def test_a_store_that_is_silent_for_longer_is_left_alone_for_longer_up_to_a_bound(
    silent_s: float, most_s: float, rest_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_STORE_WAIT_S_MAX", most_s)
    world = chain()
    engine = world.engine()
    world.turn(engine)
    asked_at_s = be_silent(world, monkeypatch, silent_s)
    world.fire()
    while len(asked_at_s) < 3:
        world.turn(engine, 1)
    assert asked_at_s[2] - asked_at_s[1] == pytest.approx(silent_s + rest_s, abs=0.5)


def test_who_takes_over_asks_a_store_at_once_that_was_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been this very machine that stood still, and lost its partitions meanwhile."""
    world = chain()
    engine = world.engine()
    world.turn(engine)
    asked_at_s = be_silent(world, monkeypatch, 3_600.0)
    run_id = world.fire()
    while not asked_at_s:
        world.turn(engine, 1)
    monkeypatch.undo()
    world.cluster.faults.next_commit(NAMES.transactional_id("dag-engine", "dag-engine-1"), CommitFate.LOST)
    world.event(EventKind.STARTED, "acme:other@20260101T000000Z", 1)
    world.turn(engine, 40)
    assert [each.run_id for each in world.events(EventKind.PENDING)] == [run_id, f"{run_id}/a"]
