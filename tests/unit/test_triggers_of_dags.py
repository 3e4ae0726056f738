"""Dags that are started by the end of a run, or by a record on a topic: saved, started once, given what they should."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.dag_chain_world import FAILED, LATER, LOAD, NIGHTLY, NODES, ORDERS, REPORT, Chain, dag
from tests.unit.dispatcher_world import NAMES
from tests.unit.intake_world import ACME, IntakeWorld
from waterclock.intake.avro_form import from_record
from waterclock.log.port import Outgoing
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.dag_events import DagStart
from waterclock.model.document import spec_from_document, spec_to_document
from waterclock.model.events import EventKind, Origin
from waterclock.model.job import NEVER, Command, CommandKind, JobStatus
from waterclock.model.job_event import event_of
from waterclock.model.stored_spec import spec_from_json, spec_to_json
from waterclock.model.triggers import HOPS_MAX, Ended, RecordComes, RunEnds, Triggers
from waterclock.store.memory import MemoryStore
from waterclock.wire import codec

NODES_OF_TWO = [{"name": "a", "handler": "h"}, {"name": "b", "handler": "h", "after": ["a"]}]
ENDS = [{"job": "load"}, {"job": "items", "ended": "any"}]
DOCUMENT: dict[str, Any] = {
    "dag": {"nodes": NODES_OF_TWO, "timeout": "1h"},
    "on": {"any": [*ENDS, {"topic": ORDERS, "headers": {"type": "placed"}}]},
}
STARTS = Triggers((RunEnds("load"), RunEnds("items", Ended.ANY), RecordComes(ORDERS, (("type", "placed"),))))
ON_ORDERS = (RecordComes(ORDERS, (("type", "placed"),)),)
PLACED = (("type", b"placed"),)


@pytest.fixture
def world() -> Chain:
    chain = Chain()
    chain.create(LOAD, LATER)
    return chain


def node_runs(world: Chain, dag_run_id: str) -> list[str]:
    """Its nodes that were released."""
    found = (each.run_id for each in world.events(EventKind.PENDING))
    return [run_id.partition("/")[2] for run_id in found if run_id.startswith(f"{dag_run_id}/")]


# Saved ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", [{}, {"cron": "0 9 * * *"}])
def test_a_dag_and_what_starts_it_come_back_by_every_way(schedule: dict[str, Any]) -> None:
    spec = spec_from_document(DOCUMENT | schedule, job_id=NIGHTLY)
    assert spec.dag is not None
    assert ([node.name for node in spec.dag.nodes], spec.on) == (["a", "b"], STARTS)
    assert (spec.schedule == NEVER) == (not schedule)
    assert spec_from_document(spec_to_document(spec)) == spec
    assert spec_from_json(spec_to_json(spec)) == spec
    command = Command(CommandKind.CREATE, NIGHTLY, "c", "a", 0, spec=spec)
    assert codec.decode_command(codec.encode_command(command)) == command
    event = codec.decode_job_event(codec.encode_job_event(event_of(command)))
    assert spec_from_document(from_record(event).document) == spec


def test_a_job_event_brings_a_dag_together_with_what_starts_it() -> None:
    world = IntakeWorld()
    on = {"any": ENDS}
    world.send_json({"name": "nightly", "dag": DOCUMENT["dag"], "on": on}, topic=ACME)
    world.turn(world.intake())
    (command,) = world.commands()
    assert (world.rejects(), command.job_id) == ([], NIGHTLY)
    assert command.spec == spec_from_document({"dag": DOCUMENT["dag"], "on": on})


def test_a_dag_that_others_start_is_kept_whole_and_its_owner_says_what_starts_it(world: Chain) -> None:
    spec = dag(RunEnds("load"))
    world.create(NIGHTLY, spec)
    row = MemoryStore(world.clock, world.tables, "looker").job(NIGHTLY)
    assert row is not None
    assert (row.status, row.spec, row.spec.dag, row.spec.on) == (JobStatus.ACTIVE, spec, spec.dag, spec.on)
    (said,) = [codec.decode_job_triggers(each.value) for each in world.records(NAMES.triggers)]  # type: ignore[attr-defined]
    assert (said.job_id, said.on, said.on.since) == (NIGHTLY, spec.on, (said.stamp_at,))
    world.run(130)
    assert (world.made(NIGHTLY), world.events(EventKind.SKIPPED)) == ([], [])


def test_an_edit_of_the_nodes_leaves_what_starts_a_dag_as_it_stands(world: Chain) -> None:
    world.create(NIGHTLY, dag(RunEnds("load")))
    source = world.triggered(LOAD)
    world.command(CommandKind.UPDATE, NIGHTLY, dag(RunEnds("load"), nodes=NODES[:1]))
    world.run(1)
    assert len(world.records(NAMES.triggers)) == 1
    world.works(source)
    ((run_id, _),) = world.made(NIGHTLY)
    world.works(f"{run_id}/a")
    assert [each.run_id for each in world.events(EventKind.DAG_SUCCEEDED)] == [run_id]


# Started by an end ---------------------------------------------------------------------------------------------------


def test_a_dag_starts_when_the_job_that_it_waits_for_ends(world: Chain) -> None:
    world.create(NIGHTLY, dag(RunEnds("load")))
    source = world.triggered(LOAD)
    assert world.made(NIGHTLY) == []
    world.works(source)
    ((run_id, detail),) = world.made(NIGHTLY)
    assert (detail.dag, detail.handler, detail.origin) == (DagStart(), "dag", Origin.TRIGGER)
    assert (detail.triggered_by, detail.hops) == (source, 1)
    assert node_runs(world, run_id) == ["a", "b"]
    world.works_off(run_id)
    assert world.given() == {source: b""} | {f"{run_id}/{name}": b'"own"' for name in "abc"}
    assert [each.run_id for each in world.events(EventKind.DAG_SUCCEEDED)] == [run_id]
    assert world.starts() == [(NIGHTLY, source, "succeeded")]
    assert world.judged() == []


@pytest.mark.parametrize(("how", "count"), [(Ended.SUCCEEDED, 0), (Ended.FAILED, 1), (Ended.ANY, 1)])
def test_a_dag_starts_by_the_final_status_that_it_waits_for_and_by_no_other(
    world: Chain, how: Ended, count: int
) -> None:
    world.create(NIGHTLY, dag(RunEnds("load", how)))
    source = world.triggered(LOAD)
    world.works(source, kind=FAILED)
    assert [each.run_id for each in world.events(EventKind.RUN_FAILED)] == [source]
    assert world.causes(NIGHTLY) == [(source, 1)] * count
    assert world.judged() == []


def test_an_end_that_is_told_again_starts_no_second_dag_run(world: Chain) -> None:
    world.create(NIGHTLY, dag(RunEnds("load")))
    source = world.triggered(LOAD)
    world.works(source)
    for _ in range(2):
        world.command(CommandKind.TRIGGER, NIGHTLY, triggered_by=source, hops=1, command_id=f"{source}/succeeded")
        world.run(0.5)
        world.crash()
    world.run(1)
    assert world.causes(NIGHTLY) == [(source, 1)]


def test_a_dag_that_is_paused_is_not_started_by_others_and_that_is_told(world: Chain) -> None:
    world.create(NIGHTLY, dag(RunEnds("load")))
    world.command(CommandKind.PAUSE, NIGHTLY)
    world.works(world.triggered(LOAD))
    assert [each.reason for each in world.events(EventKind.SKIPPED)] == ["paused"]
    assert world.made(NIGHTLY) == []
    world.command(CommandKind.RESUME, NIGHTLY)
    source = world.triggered(LOAD)
    world.works(source)
    assert world.causes(NIGHTLY) == [(source, 1)]


def test_a_dag_that_is_deleted_is_started_by_nothing_any_more(world: Chain) -> None:
    world.create(NIGHTLY, dag(RunEnds("load"), *ON_ORDERS))
    world.command(CommandKind.DELETE, NIGHTLY)
    world.run(1)
    world.works(world.triggered(LOAD))
    world.record(b"1", PLACED)
    assert (world.made(NIGHTLY), world.starts(), world.records(NAMES.rejects)) == ([], [], [])


def test_a_dag_run_that_waits_for_another_goes_out_as_what_its_end_has_started(world: Chain) -> None:
    world.create(NIGHTLY, dag(RunEnds("load"), concurrency=Concurrency(Overlap.BUFFER_ALL)))
    sources = [world.triggered(LOAD), world.triggered(LOAD)]
    world.works(*sources)
    ((held_id, held),) = world.made(NIGHTLY, EventKind.HELD)
    assert (held.dag, held.triggered_by, held.hops) == (DagStart(), sources[1], 1)
    world.crash()
    ((first_id, _),) = world.made(NIGHTLY)
    world.works_off(first_id)
    world.run(12)
    _, (run_id, detail) = world.made(NIGHTLY)
    assert (run_id, detail.dag, detail.triggered_by, detail.hops) == (held_id, DagStart(), sources[1], 1)
    assert node_runs(world, run_id) == ["a", "b"]
    assert world.judged() == []


def test_a_ring_that_leads_through_a_dag_comes_to_an_end_that_says_why(world: Chain) -> None:
    world.create(NIGHTLY, dag(RunEnds("report")))
    world.waits(REPORT, RunEnds("nightly"))
    run_id = world.triggered(NIGHTLY)
    for _ in range(HOPS_MAX // 2):
        world.works_off(run_id)
        world.works(world.made(REPORT)[-1].run_id)
        run_id = world.made(NIGHTLY)[-1].run_id
    world.works_off(run_id)
    assert [hops for _, hops in world.causes(NIGHTLY)] == list(range(0, HOPS_MAX + 1, 2))
    assert [hops for _, hops in world.causes(REPORT)] == list(range(1, HOPS_MAX, 2))
    (refused,) = world.records(NAMES.rejects)
    reject = codec.decode_reject(refused.value)  # type: ignore[attr-defined]
    assert (reject.pointer, run_id in reject.reason) == ("/hops", True)
    assert world.judged() == []


# Started by a record -------------------------------------------------------------------------------------------------


def test_a_record_on_a_topic_starts_a_dag_and_its_nodes_are_given_its_value(world: Chain) -> None:
    world.create(NIGHTLY, dag(*ON_ORDERS))
    world.record(b'{"n": 0}', (("type", b"returned"),))
    assert world.made(NIGHTLY) == []
    place = world.record(b'{"n": 1}', PLACED)
    ((run_id, detail),) = world.made(NIGHTLY)
    assert (detail.dag, detail.origin) == (DagStart(b'{"n": 1}'), Origin.TRIGGER)
    assert (detail.triggered_by, detail.hops) == (place, 0)
    world.works_off(run_id)
    assert world.given() == {f"{run_id}/{name}": b'{"n": 1}' for name in "abc"}
    assert [each.run_id for each in world.events(EventKind.DAG_SUCCEEDED)] == [run_id]


def test_a_record_without_a_value_starts_a_dag_with_its_own_payload(world: Chain) -> None:
    world.create(NIGHTLY, dag(*ON_ORDERS))
    world.append(Outgoing(ORDERS, b"k", None, PLACED))
    world.run(1)
    ((run_id, detail),) = world.made(NIGHTLY)
    assert detail.dag == DagStart(None)
    assert world.given() == {f"{run_id}/a": b'"own"', f"{run_id}/b": b'"own"'}


def test_a_dag_run_that_waits_for_another_keeps_the_value_of_its_record(world: Chain) -> None:
    world.create(NIGHTLY, dag(*ON_ORDERS, concurrency=Concurrency(Overlap.BUFFER_ALL)))
    places = [world.record(value, PLACED) for value in (b"1", b"2")]
    ((held_id, held),) = world.made(NIGHTLY, EventKind.HELD)
    assert (held.dag, held.triggered_by) == (DagStart(b"2"), places[1])
    world.crash()
    world.works_off(world.made(NIGHTLY)[0].run_id)
    world.run(12)
    _, (run_id, detail) = world.made(NIGHTLY)
    assert (run_id, detail.dag, detail.triggered_by) == (held_id, DagStart(b"2"), places[1])
    assert world.given()[f"{run_id}/a"] == b"2"


def test_a_rerun_of_what_a_record_has_started_is_given_the_same_value_again(world: Chain) -> None:
    world.create(NIGHTLY, dag(*ON_ORDERS))
    world.record(b"1", PLACED)
    ((first, detail),) = world.made(NIGHTLY)
    world.works_off(first)
    world.command(CommandKind.RERUN, NIGHTLY, run_id=first, to_revision=detail.revision, rerun_from=("c",))
    world.run(1)
    again, rerun = world.made(NIGHTLY)[-1]
    assert (node_runs(world, again), world.given()[f"{again}/c"]) == (["c"], b"1")
    assert (rerun.linked_run, rerun.triggered_by) == (first, "")


def test_a_job_starts_by_the_end_of_a_dag_run_that_a_record_has_started(world: Chain) -> None:
    world.create(NIGHTLY, dag(*ON_ORDERS, RunEnds("load")))
    world.waits(REPORT, RunEnds("nightly"))
    world.record(b"1", PLACED)
    source = world.triggered(LOAD)
    world.works(source)
    (by_record, _), (by_end, _) = world.made(NIGHTLY)
    world.works_off(by_record)
    world.works_off(by_end)
    assert world.causes(REPORT) == [(by_record, 1), (by_end, 2)]
    assert world.judged() == []
