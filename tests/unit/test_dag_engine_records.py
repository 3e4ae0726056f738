"""What a DAG engine finds in its state topic: ends that were told late, records that it cannot read."""

from __future__ import annotations

import pytest
from waterclock.dag_engine import kept
from waterclock.dag_engine.loop import ROLE

from tests.unit.dag_world import NAMES, World
from waterclock.log.port import Outgoing, TopicPartition
from waterclock.model.dag import MapOver, Node
from waterclock.model.events import EventKind
from waterclock.model.fold import parse_fold_from
from waterclock.wire.codec import decode_dag_node, decode_dag_run
from waterclock.wire.messages import dag_node_message, dag_run_message


def read_from(world: World) -> int | None:
    """From where a successor would read run-events."""
    committed = world.cluster.group(NAMES.group(ROLE)).committed(TopicPartition(NAMES.run_events, 0))
    return None if committed is None else parse_fold_from(committed.metadata)


def others(world: World, count: int = 20) -> None:
    """Runs of which the engine knows nothing: the log goes on."""
    for number in range(count):
        world.event(EventKind.PENDING, f"acme:other@20261121T0900{number:02}Z")


def test_no_successor_finds_a_dag_run_open_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many nodes are still to be forgotten before it."""
    monkeypatch.setattr(kept, "FORGOTTEN_PER_ROUND", 1)
    world = World(Node("a", "h", map_over=MapOver(count=40)))
    first, second = world.fire(), world.fire()
    world.turn(engine := world.engine(window=1), 60)
    world.event(EventKind.CANCEL_REQUESTED, first)
    world.event(EventKind.CANCEL_REQUESTED, second)
    others(world)
    world.turn(engine, 5)
    world.cluster.kill("dag-engine-1")
    assert any("/" in key for key in world.kept())
    world.turn(successor := world.engine("dag-engine-2", window=1), 200)
    (shard,) = successor._shards.values()
    assert (shard.dags, world.kept()) == ({}, {})


def test_what_is_only_to_be_forgotten_waits_for_a_round_that_says_something_and_not_for_long() -> None:
    """A round for each DagRun that ended would be as many again as those that release."""
    world = World(Node("a", "h"))
    first, second = world.fire(), world.fire()
    world.turn(engine := world.engine())
    world.end(f"{first}/a")
    for _ in range(4):  # it says that the first has ended, and reads that
        engine.step()
    assert [each.run_id for each in world.events(EventKind.DAG_SUCCEEDED)] == [first]
    assert world.kept().keys() == {first, f"{first}/a", second, f"{second}/a"}
    world.end(f"{second}/a")
    for _ in range(4):
        engine.step()
    assert world.kept().keys() == {second, f"{second}/a"}
    world.clock.advance(100_000)
    engine.step()
    assert world.kept() == {}


def test_a_dag_run_that_ends_soon_leaves_no_record() -> None:
    """The log tells all of it: a record of each step would be half of what the engine writes."""
    world = World(Node("a", "h"), Node("b", "h", after=("a",)))
    run_id = world.fire()
    world.turn(engine := world.engine(kept_behind=kept.KEPT_BEHIND))
    for node in "ab":
        world.end(f"{run_id}/{node}")
        world.turn(engine)
    assert [each.kind for each in world.events(EventKind.DAG_SUCCEEDED)] == [EventKind.DAG_SUCCEEDED]
    assert world.records(NAMES.state(ROLE)) == []


@pytest.mark.parametrize("behind", range(0, 40, 3))
def test_a_node_that_has_ended_does_not_begin_again_however_late_records_are_written(behind: int) -> None:
    """Its end is in a record, or a successor reads it; the fold alone holds nothing back for a node that has ended."""
    world = World(Node("a", "h"), Node("b", "h", after=("a",)), Node("c", "h", after=("b",)))
    run_id = world.fire()
    world.turn(engine := world.engine(window=1, kept_behind=behind))
    for node in "ab":
        others(world, 5)
        world.end(f"{run_id}/{node}", result=b"1")
        world.turn(engine)
        others(world, 5)
        world.turn(engine)
        world.cluster.kill("dag-engine-1")
        world.turn(engine := world.engine(window=1, kept_behind=behind), 80)
    world.end(f"{run_id}/c")
    world.turn(engine)
    assert world.released() == ["a", "b", "c"]
    assert len(world.events(EventKind.DAG_SUCCEEDED)) == 1
    assert world.kept() == {}


def test_a_dag_run_that_rests_on_a_quiet_partition_is_kept_before_retention_takes_it() -> None:
    """However few offsets lie behind it."""
    world = World(Node("a", "h"), Node("b", "h", after=("a",)))
    run_id = world.fire()
    world.turn(engine := world.engine(window=1, kept_behind=kept.KEPT_BEHIND))
    world.end(f"{run_id}/a", result=b"1")
    world.turn(engine)
    assert (world.kept(), read_from(world)) == ({}, 0)
    for _ in range(20):
        world.clock.advance(5_000_000)
        engine.step()
    assert world.kept().keys() == {run_id, f"{run_id}/a", f"{run_id}/b"}
    last = [each.offset for each in world.records(NAMES.run_events)][-1]
    assert read_from(world) == last  # the window of one


def test_a_claim_that_is_in_no_record_is_read_again() -> None:
    """The node was written while it waited, and ends later: without its claim the outcome would count for nothing."""
    world = World(Node("a", "h"), Node("b", "h", after=("a",)))
    run_id = world.fire()
    world.turn(engine := world.engine(window=1, kept_behind=15))
    others(world)
    world.turn(engine)
    assert f"{run_id}/a" in world.kept()
    world.end(f"{run_id}/a")
    others(world, 10)
    world.turn(engine)
    world.cluster.kill("dag-engine-1")
    world.turn(world.engine("dag-engine-2", window=1, kept_behind=15), 80)
    assert world.released() == ["a", "b"]


def test_records_that_are_due_go_out_over_several_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """And until the last one did, a successor reads what is not written yet."""
    monkeypatch.setattr(kept, "KEPT_PER_ROUND", 7)
    world = World(Node("each", "h", map_over=MapOver(count=50)))
    run_id = world.fire()
    world.turn(engine := world.engine(window=1, kept_behind=60), 5)
    assert world.kept() == {}
    others(world, 70)
    world.clock.advance(2_000_000)
    for _ in range(4):
        before = len(world.kept())
        engine.step()
        world.clock.advance(100_000)  # the next is due so soon, where there is more
        assert len(world.kept()) <= before + 7
    world.cluster.kill("dag-engine-1")
    assert 7 < len(world.kept()) < 51
    world.turn(engine := world.engine("dag-engine-2", window=1, kept_behind=60), 80)
    assert len(world.released()) == 50
    for number in range(50):
        world.end(f"{run_id}/each.{number}")
    world.turn(engine, 80)
    assert len(world.events(EventKind.DAG_SUCCEEDED)) == 1
    assert world.kept() == {}


def chain_of_which_a_has_ended() -> tuple[World, str]:
    """A DagRun whose events are all below the offset from which a successor reads."""
    world = World(Node("a", "h"), Node("b", "h", after=("a",)))
    run_id = world.fire()
    world.turn(engine := world.engine(window=1))
    world.end(f"{run_id}/a")
    world.turn(engine)
    others(world)
    world.turn(engine)
    world.cluster.kill("dag-engine-1")
    return world, run_id


def of_a_later_release(value: bytes) -> list[bytes]:
    """A node's record: one in another form, one with a status, one with an end that nobody here knows."""
    node = decode_dag_node(value)
    changed = [node._replace(state='[99,0,0,"",0,0,false,false]'), node._replace(counts_as=9), node._replace(state="")]
    return [b"\xff\xfe", *(dag_node_message(NAMES, ROLE, 0, each).value or b"" for each in changed)]


@pytest.mark.parametrize("form", range(4))
def test_a_dag_run_rests_whole_where_the_record_of_a_node_cannot_be_read(form: int) -> None:
    """Without that node it would begin again; and all other DagRuns go on."""
    world, run_id = chain_of_which_a_has_ended()
    key = f"{run_id}/a"
    odd = of_a_later_release(world.kept()[key])[form]
    world.append(Outgoing(NAMES.state(ROLE), key.encode(), odd, (), 0))
    world.turn(engine := world.engine("dag-engine-2", window=1), 60)
    assert world.released() == ["a", "b"]
    world.fire()
    world.turn(engine)
    assert (world.released(), world.kept()[key]) == (["a", "b", "a"], odd)


def test_a_dag_run_rests_where_its_own_state_cannot_be_read() -> None:
    world, run_id = chain_of_which_a_has_ended()
    kept = decode_dag_run(world.kept()[run_id])
    world.append(dag_run_message(NAMES, ROLE, 0, kept._replace(state="[99,0,0]")))
    world.turn(engine := world.engine("dag-engine-2", window=1), 60)
    (shard,) = engine._shards.values()
    assert (world.released(), shard.dags, f"{run_id}/a" in world.kept()) == (["a", "b"], {}, True)


@pytest.mark.parametrize("window", [1, 1_000])
@pytest.mark.parametrize("which", ["", "/a"])
def test_a_dag_run_rests_also_where_its_beginning_is_read_again_and_nothing_of_it_is_lost(
    which: str, window: int
) -> None:
    """A release that cannot read its record takes over and gives way again: what it passed over stands in no record."""
    world = World(Node("a", "h"), Node("b", "h", after=("a",)), Node("c", "h", after=("b",)))
    run_id = world.fire()
    world.turn(engine := world.engine(window=window, kept_behind=10))
    others(world)
    world.turn(engine)
    good = world.kept()[f"{run_id}{which}"]
    world.end(f"{run_id}/a")
    world.turn(engine)
    assert world.released() == ["a", "b"]
    world.cluster.kill("dag-engine-1")
    world.append(Outgoing(NAMES.state(ROLE), f"{run_id}{which}".encode(), b"\xff\xfe", (), 0))
    world.turn(other := world.engine("dag-engine-2", window=window, kept_behind=10))
    world.end(f"{run_id}/b")
    others(world)
    world.turn(other)
    assert world.released() == ["a", "b"]
    world.cluster.kill("dag-engine-2")
    world.append(Outgoing(NAMES.state(ROLE), f"{run_id}{which}".encode(), good, (), 0))
    world.turn(engine := world.engine("dag-engine-3", window=window, kept_behind=10), 80)
    assert world.released() == ["a", "b", "c"]
    world.end(f"{run_id}/c")
    world.turn(engine)
    assert len(world.events(EventKind.DAG_SUCCEEDED)) == 1
    assert world.kept() == {}


def test_a_record_that_can_be_read_again_counts() -> None:
    world, run_id = chain_of_which_a_has_ended()
    key = f"{run_id}/a"
    good = world.kept()[key]
    for value in (b"\xff\xfe", good):
        world.append(Outgoing(NAMES.state(ROLE), key.encode(), value, (), 0))
    world.turn(engine := world.engine("dag-engine-2", window=1), 60)
    world.end(f"{run_id}/b")
    world.turn(engine)
    assert [each.run_id for each in world.events(EventKind.DAG_SUCCEEDED)] == [run_id]
