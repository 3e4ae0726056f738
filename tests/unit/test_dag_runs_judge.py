"""The judge of DagRuns (I10): a good history passes, and one with a single thing wrong does not."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.oracle import dag_runs, dags
from tests.unit.dag_world import FAILED, NAMES, World
from waterclock.log.port import Record
from waterclock.model.dag import MapOver, Node, TriggerRule, dag_to_json
from waterclock.model.dag_events import NodeEnd, NodeSkipped
from waterclock.model.events import EventKind, RunEvent
from waterclock.model.job import Tier
from waterclock.wire.codec import decode_event, decode_work, encode_event, encode_work

NODES = (
    Node("a", "h"),
    Node("each", "h", after=("a",), map_over=MapOver(of="a", concurrency=1)),
    Node("bad", "h", after=("a",)),
    Node("never", "h", after=("bad",)),
    Node("alarm", "h", after=("bad", "each"), trigger_rule=TriggerRule.ONE_FAILED),
)
Raw = dict[str, Any]


class Story:
    """A whole DagRun and a rerun of it, as it is dumped. ``meant``: what both are made of."""

    def __init__(self) -> None:
        world = World(*NODES)
        world.turn(engine := world.engine())
        first = world.fire()
        world.turn(engine)
        world.end(f"{first}/a", result=b'["x","y"]')
        world.turn(engine)
        for key in ("each.0", "each.1"):
            world.end(f"{first}/{key}")
            world.turn(engine)
        world.end(f"{first}/bad", FAILED)
        world.event(EventKind.RUN_FAILED, f"{first}/bad", 1)
        world.turn(engine)
        world.end(f"{first}/alarm")
        world.turn(engine)
        second = world.rerun(first, "bad")
        world.turn(engine)
        for key in ("bad", "never"):
            world.end(f"{second}/{key}")
            world.turn(engine)
        self.meant = {first: _meant(world), second: _meant(world)}
        self.events = [_raw(each) for each in world.records(NAMES.run_events)]
        self.work = [_raw(each) for tier in Tier for each in world.records(NAMES.runs(tier))]

    def complaints(self) -> list[str]:
        found: list[str] = dag_runs.check(self.events, self.work, self.meant)[0]
        return found

    def place(self, kind: EventKind, key: str) -> int:
        """Where the first such event of a node stands."""
        return next(
            at
            for at, each in enumerate(self.events)
            if (event := decode_event(each["value"])).kind is kind and event.run_id.endswith(f"/{key}")
        )

    def rewrite(self, kind: EventKind, key: str, change: Callable[[RunEvent], RunEvent]) -> None:
        at = self.place(kind, key)
        self.events[at] = self.events[at] | {"value": encode_event(change(decode_event(self.events[at]["value"])))}

    def renumber(self) -> None:
        self.events = [each | {"offset": offset} for offset, each in enumerate(self.events)]


def _raw(record: Record) -> Raw:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_us": record.timestamp_us,
        "value": record.value,
    }


def dropped(kind: EventKind, key: str) -> Callable[[Story], None]:
    def damage(story: Story) -> None:
        del story.events[story.place(kind, key)]

    return damage


def released_twice(story: Story) -> None:
    story.events.append(story.events[story.place(EventKind.PENDING, "bad")] | {"offset": 10_000})


def too_early(story: Story) -> None:
    """The child's PENDING goes before its parent's."""
    event = story.events.pop(story.place(EventKind.PENDING, "bad"))
    story.events.insert(story.place(EventKind.PENDING, "a"), event)
    tokens = {each["offset"]: at for at, each in enumerate(story.events)}
    story.events = [each | {"value": _moved(each["value"], tokens)} for each in story.events]
    story.renumber()


def _moved(value: bytes, places: dict[int, int]) -> bytes:
    event = decode_event(value)
    offset = event.token & ((1 << 48) - 1)
    return encode_event(event._replace(token=places[offset])) if event.token else value


def counted_otherwise(story: Story) -> None:
    detail = NodeSkipped(NodeEnd.SKIPPED)
    story.rewrite(EventKind.NODE_SKIPPED, "never", lambda event: event._replace(detail=detail))


def given_otherwise(story: Story) -> None:
    at = next(at for at, each in enumerate(story.work) if decode_work(each["value"]).run_id.endswith("/each.1"))
    work = decode_work(story.work[at]["value"])._replace(payload=b'{"item":"z"}')
    story.work[at] = story.work[at] | {"value": encode_work(work)}


def ended_otherwise(story: Story) -> None:
    story.events = [each | {"value": _with_another_end(each["value"])} for each in story.events]


def _with_another_end(value: bytes) -> bytes:
    event = decode_event(value)
    return encode_event(event._replace(kind=EventKind.DAG_SUCCEEDED)) if event.kind is EventKind.DAG_FAILED else value


def side_by_side(story: Story) -> None:
    for made in story.meant.values():
        made.dag = made.dag.replace('"nodes"', '"max_active_nodes":1,"nodes"', 1)


def kept_otherwise(story: Story) -> None:
    detail = NodeSkipped(NodeEnd.SUCCEEDED, b'["other"]')
    story.rewrite(EventKind.NODE_SKIPPED, "a", lambda event: event._replace(detail=detail))


def never_ended(story: Story) -> None:
    story.events = [each for each in story.events if decode_event(each["value"]).kind is not EventKind.DAG_FAILED]


def test_a_good_history_passes() -> None:
    assert Story().complaints() == []


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (released_twice, "bad: released 2 times"),
        (too_early, "began before a had ended"),
        (counted_otherwise, "never was skipped as K, and counts as U"),
        (given_otherwise, "each.1 was given"),
        (ended_otherwise, "its leaves say otherwise"),
        (never_ended, "at rest"),
        (side_by_side, "1 may be"),
        (kept_otherwise, "a was kept with another result"),
        (dropped(EventKind.PENDING, "alarm"), "alarm has not started or not ended"),
        (dropped(EventKind.NODE_SKIPPED, "each"), "each was to be kept, and was not"),
    ],
)
def test_one_thing_that_is_wrong_is_told(damage: Callable[[Story], None], said: str) -> None:
    story = Story()
    damage(story)
    assert any(said in complaint for complaint in story.complaints()), story.complaints()


def outliving(*, turns: int, is_told: bool = False) -> list[str]:
    """What is said of a DagRun that lived for 60 s with a time-out of 10 s, while the engine had so many turns."""
    world = World(Node("a", "h"), timeout_us=10_000_000)
    run_id, *others = world.fire(), world.fire(), world.fire()
    world.turn(world.engine(), 5)
    world.cluster.kill("dag-engine-1")
    for other in others:
        world.end(f"{other}/a")
    world.clock.advance(28_000_000)
    for other in others[:turns]:
        world.clock.advance(2_000_000)
        world.event(EventKind.DAG_SUCCEEDED, other)
    world.clock.advance(30_000_000)
    world.end(f"{run_id}/a")
    world.event(EventKind.DAG_SUCCEEDED, run_id)
    if is_told:
        world.event(EventKind.RUN_EXPIRED, run_id)
    for other in others[turns:]:
        world.event(EventKind.DAG_SUCCEEDED, other)
    dag = _meant(world)
    made = dict.fromkeys((run_id, *others), dag)
    return dag_runs.check([_raw(each) for each in world.records(NAMES.run_events)], [], made)[0]


def test_a_dag_run_that_outlives_its_timeout_is_told() -> None:
    complaints = outliving(turns=2)
    assert any("10 s are its timeout" in complaint for complaint in complaints), complaints


def test_a_timeout_that_nobody_was_there_to_see_or_that_came_too_late_is_none() -> None:
    for complaints in outliving(turns=0), outliving(turns=1), outliving(turns=2, is_told=True):
        assert not any("are its timeout" in complaint for complaint in complaints), complaints


@pytest.mark.parametrize(
    ("timeout_s", "after_s", "said"),
    [(10, 10, ""), (10, 9, "9 s after it went out, 10 s are its timeout"), (0, 90, "and it has no timeout")],
)
def test_a_dag_run_that_is_ended_for_its_time_before_that_is_over_is_told(
    timeout_s: int, after_s: int, said: str
) -> None:
    """It counts from when it went out: this one was held for a minute before."""
    world = World(Node("a", "h"), timeout_us=timeout_s * 1_000_000)
    world.fire(EventKind.HELD)
    world.clock.advance(60_000_000)
    world.made -= 1
    run_id = world.fire()
    world.clock.advance(after_s * 1_000_000)
    world.event(EventKind.RUN_EXPIRED, run_id, reason="expired")
    found = [each for each in _judged(world, run_id) if "expired at" in each]
    assert len(found) == bool(said)
    assert all(said in each for each in found)


def test_a_kept_node_that_made_no_result_is_told_from_one_whose_result_was_too_large() -> None:
    dag = {"nodes": [{"name": "a"}, {"name": "b", "after": ["a"], "inputs": ["a"]}]}
    ends, started, _ = dags.settle(dag, {"b": (True, None)}, kept={"a": ("S", None)})
    assert (ends["b"], started["b"]["upstream"]) == ("S", {"a": None})
    ends, started, _ = dags.settle(dag, {}, kept={"a": ("S", b"")})
    assert (ends["b"], started) == ("F", {})


def test_a_node_that_begins_while_its_dag_run_is_paused_is_told() -> None:
    world = World(Node("a", "h"), Node("b", "h", after=("a",)))
    world.turn(engine := world.engine())
    run_id = world.fire()
    world.turn(engine)
    world.event(EventKind.DAG_PAUSED, run_id)
    world.end(f"{run_id}/a")
    pending = decode_event(_raw(world.records(NAMES.run_events)[1])["value"])
    world.event(EventKind.PENDING, f"{run_id}/b", detail=pending.detail)
    world.end(f"{run_id}/b")
    world.event(EventKind.DAG_SUCCEEDED, run_id)
    assert f"{run_id}: b began while its DagRun was paused" in _judged(world, run_id)


def test_a_node_behind_a_skip_may_begin_by_what_was_read_before_the_pause() -> None:
    world = World(
        Node("a", "h"), Node("b", "h", after=("a",)), Node("c", "h", after=("b",), trigger_rule=TriggerRule.ALL_DONE)
    )
    world.turn(engine := world.engine())
    run_id = world.fire()
    world.turn(engine)
    world.end(f"{run_id}/a", FAILED)
    world.event(EventKind.RUN_FAILED, f"{run_id}/a", 1)
    world.event(EventKind.DAG_PAUSED, run_id)
    world.event(EventKind.NODE_SKIPPED, f"{run_id}/b", reason="upstream-failed", detail=NodeSkipped(NodeEnd.FAILED))
    pending = decode_event(_raw(world.records(NAMES.run_events)[1])["value"])
    world.event(EventKind.PENDING, f"{run_id}/c", detail=pending.detail)
    world.end(f"{run_id}/c")
    world.event(EventKind.DAG_SUCCEEDED, run_id)
    assert not [each for each in _judged(world, run_id) if "paused" in each]


def _meant(world: World) -> Any:
    """What the judge is told that its DagRuns are made of."""
    return SimpleNamespace(dag=dag_to_json(world.store.kept["acme:nightly", 7].spec.dag), payload=b'"job"')


def _judged(world: World, run_id: str) -> list[str]:
    """What the judge says of one DagRun, by its events alone."""
    events = [_raw(each) for each in world.records(NAMES.run_events)]
    complaints: list[str] = dag_runs.check(events, [], {run_id: _meant(world)})[0]
    return complaints
