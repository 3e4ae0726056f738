"""Jobs that are Dags, at their dispatcher: a fire is a DagRun without work; limits, reruns and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from waterclock.dispatcher.emit import Emitter, Templates
from waterclock.dispatcher.envelope import seal, unseal

from tests.unit.dispatcher_world import NAMES, START, World, every
from tests.unit.test_dispatcher_keys import answers, one_shard
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.dag import DagSpec, Node
from waterclock.model.dag_events import DagStart
from waterclock.model.events import Ended, EventKind, Origin, Pending, RunEvent, Started
from waterclock.model.ids import US_PER_S, make_run_id, ordinal
from waterclock.model.job import CommandKind, Every, JobSpec, JobStatus, JobVersion
from waterclock.wire.codec import decode_event
from waterclock.wire.messages import event_message, id_of_event

JOB = "t:j"
NODES = (Node("a", "h"), Node("b", "h", after=("a",)))


def dag(seconds: int = 3_600, **more: object) -> JobSpec:
    return JobSpec("", Every(seconds * US_PER_S), payload=b"1", dag=DagSpec(NODES), **more)  # type: ignore[arg-type]


def pending(world: World) -> list[tuple[str, Pending]]:
    return [(each.run_id, each.detail) for each in world.events(EventKind.PENDING) if isinstance(each.detail, Pending)]


def dag_runs(world: World) -> list[str]:
    return [run_id for run_id, _ in pending(world) if "/" not in run_id]


def tell(world: World, kind: EventKind, run_id: str, attempt: int = 0, **parts: object) -> int:
    event = RunEvent(kind, JOB, run_id, world.clock.now(), attempt)._replace(**parts)
    appender = world.outside.appender()
    offset = appender.append(event_message(NAMES, event)).offset
    appender.close()
    assert offset is not None
    return offset


def test_a_fire_of_a_dag_is_a_dag_run_without_work() -> None:
    world = one_shard()
    world.command(CommandKind.CREATE, JOB, dag(2))
    world.run(5)
    (_, first), *_ = pending(world)
    assert (first.dag, first.handler, first.origin) == (DagStart(), "dag", Origin.SCHEDULE)
    assert len(pending(world)) == 2
    assert world.work() == []


def test_a_triggers_payload_goes_to_the_nodes() -> None:
    world = one_shard()
    world.command(CommandKind.CREATE, JOB, dag())
    world.command(CommandKind.TRIGGER, JOB, payload=b"2")
    world.run(1)
    assert [detail.dag for _, detail in pending(world)] == [DagStart(b"2")]
    assert world.work() == []


def test_the_catch_up_of_a_gap_makes_dag_runs_like_any_other() -> None:
    version = JobVersion(JOB, 7, dag(), JobStatus.ACTIVE, "", 1)
    emitter = Emitter(Templates(NAMES))
    run_id = emitter.run(version, fire_at=5, due_at=5, now=9, gap_to_at=8)
    (message,) = emitter.messages
    event = decode_event(message.value or b"")
    detail = event.detail
    assert isinstance(detail, Pending)
    assert (event.run_id, detail.gap_to_at, detail.dag, detail.due_at) == (run_id, 8, DagStart(), 5)


def test_the_due_rows_of_a_dag_are_without_its_nodes() -> None:
    version = JobVersion(JOB, 7, dag(), JobStatus.ACTIVE, "", 1)
    spec = unseal(seal(version, 1)).spec
    assert spec.dag == DagSpec(())
    assert replace(spec, dag=None) == replace(version.spec, dag=None)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (replace(dag(), dag=DagSpec((Node("a", "h", after=("b",)), Node("b", "h", after=("a",))))), "a -> b -> a"),
        (replace(dag(), dag=DagSpec((Node("a", "h", pool="nowhere"),))), "no pool 'nowhere'"),
        (replace(dag(), handler="h"), "a job has a handler, an executor or a Dag"),
        (replace(dag(), dag=DagSpec((Node("a"),))), ""),
    ],
)
def test_a_dag_that_no_door_would_let_pass_is_refused(spec: JobSpec, said: str) -> None:
    world = one_shard()
    world.command(CommandKind.CREATE, JOB, spec, answer=True)
    world.run(1)
    (answer,) = answers(world)
    assert answer.verdict == "refused"
    assert said in answer.message


def test_a_limit_counts_dag_runs_and_a_cancelled_one_is_over_when_its_nodes_are() -> None:
    world = one_shard()
    world.command(CommandKind.CREATE, JOB, dag(concurrency=Concurrency(Overlap.BUFFER_ALL)))
    for _ in range(2):
        world.command(CommandKind.TRIGGER, JOB)
    world.run(1)
    ((run_id, _),) = pending(world)
    node = f"{run_id}/a"
    tell(world, EventKind.PENDING, node, detail=Pending(1, START, None, dag().tier, Origin.RELEASE))
    started = tell(world, EventKind.STARTED, node, 1, worker="w", incarnation=3, detail=Started("t", 0, 0))
    world.command(CommandKind.CANCEL, JOB, run_id=run_id)
    world.run(1)
    world.crash()
    world.run(10)
    assert len(dag_runs(world)) == 1  # its attempt is still open
    ended = Ended(world.clock.now())
    tell(world, EventKind.ATTEMPT_FAILED, node, 1, worker="w", incarnation=3, token=ordinal(1, started), detail=ended)
    world.run(2)
    assert len(dag_runs(world)) == 2


def test_a_long_dag_run_is_followed_from_its_record_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.dispatcher.releasing.KEPT_BEHIND", 0)
    world = one_shard()
    world.command(CommandKind.CREATE, JOB, dag(concurrency=Concurrency(Overlap.BUFFER_ALL)))
    for _ in range(2):
        world.command(CommandKind.TRIGGER, JOB)
    world.run(1)
    ((run_id, _),) = pending(world)
    tell(world, EventKind.PENDING, f"{run_id}/a", detail=Pending(1, START, None, dag().tier, Origin.RELEASE))
    world.run(2)
    world.crash()
    world.run(10)
    tell(world, EventKind.DAG_SUCCEEDED, run_id)  # claimed too early: its node is open
    world.run(1)
    assert len(dag_runs(world)) == 1
    tell(world, EventKind.CANCEL_REQUESTED, f"{run_id}/a")
    tell(world, EventKind.DAG_FAILED, run_id)
    world.run(2)
    assert len(dag_runs(world)) == 2


def test_a_dag_run_is_paused_and_goes_on_each_time_with_an_id_of_its_own() -> None:
    world, run_id, _ = with_a_dag_run()
    for kind in (CommandKind.PAUSE_RUN, CommandKind.RESUME_RUN) * 2:
        world.command(kind, JOB, run_id=run_id, note="stock-taking")
        world.run(1)
    told = world.events(EventKind.DAG_PAUSED) + world.events(EventKind.DAG_RESUMED)
    assert {(each.run_id, each.reason) for each in told} == {(run_id, "stock-taking")}
    assert len({id_of_event(each) for each in told}) == 4


def test_a_node_cannot_be_paused_by_itself() -> None:
    world, run_id, _ = with_a_dag_run()
    world.command(CommandKind.PAUSE_RUN, JOB, run_id=f"{run_id}/a", answer=True)
    world.run(1)
    assert [(answer.verdict, answer.hint) for answer in answers(world)] == [("refused", "Pause its DagRun")]


# Reruns ---------------------------------------------------------------------------------------------------------------


def with_a_dag_run(**more: object) -> tuple[World, str, int]:
    """A world, a DagRun, and the revision that it is made of."""
    world = one_shard()
    world.command(CommandKind.CREATE, JOB, dag(**more))
    world.command(CommandKind.TRIGGER, JOB)
    world.run(1)
    ((run_id, detail),) = pending(world)
    return world, run_id, detail.revision


def test_a_rerun_is_a_new_series_of_the_version_that_it_names() -> None:
    world, run_id, revision = with_a_dag_run()
    world.command(CommandKind.UPDATE, JOB, replace(dag(), payload=b"new"))
    world.command(CommandKind.PAUSE, JOB)
    offset = world.command(CommandKind.RERUN, JOB, run_id=run_id, to_revision=revision, rerun_from=("b",), answer=True)
    world.run(1)
    made, detail = pending(world)[-1]
    assert made == make_run_id(JOB, detail.fire_at, ordinal(1, offset))
    assert (detail.linked_run, detail.revision, detail.origin) == (run_id, revision, Origin.REDRIVE)
    assert detail.dag == DagStart(None, ("b",))
    assert [answer.run_id for answer in answers(world)] == [made]


@pytest.mark.parametrize(
    ("more", "pointer", "hint"),
    [
        ({"rerun_from": ("bb",)}, "/rerun_from", "Do you mean 'b'?"),
        ({"to_revision": 1}, "/to_revision", "Name the revision that the DagRun is made of"),
        ({"run_id": "t:other@20261121T090000Z"}, "/run_id", "Key it by the run's job"),
        ({"run_id": "t:j@20261121T090000Z/a"}, "/run_id", "Run its DagRun again, from this node on"),
    ],
)
def test_a_rerun_of_what_cannot_be_is_refused(more: dict[str, object], pointer: str, hint: str) -> None:
    world, run_id, revision = with_a_dag_run()
    asked = {"run_id": run_id, "to_revision": revision} | more
    world.command(CommandKind.RERUN, JOB, answer=True, **asked)
    world.run(1)
    (answer,) = answers(world)
    assert (answer.verdict, answer.pointer, answer.hint) == ("refused", pointer, hint)
    assert len(pending(world)) == 1


def test_a_rerun_waits_as_its_jobs_limits_say_and_goes_out_as_it_was_asked_for() -> None:
    world, run_id, revision = with_a_dag_run(concurrency=Concurrency(Overlap.BUFFER_ALL))
    world.command(CommandKind.RERUN, JOB, run_id=run_id, to_revision=revision, rerun_from=("b",), payload=b"3")
    world.run(1)
    (held,) = world.events(EventKind.HELD)
    assert len(pending(world)) == 1
    world.crash()
    tell(world, EventKind.DAG_SUCCEEDED, run_id)
    world.run(12)
    made, detail = pending(world)[-1]
    assert (made, detail.dag, detail.linked_run) == (held.run_id, DagStart(b"3", ("b",)), run_id)


def test_a_plain_job_has_no_reruns() -> None:
    world = one_shard()
    offset = world.command(CommandKind.CREATE, JOB, every(3_600))
    run_id = make_run_id(JOB, START)
    world.command(CommandKind.RERUN, JOB, run_id=run_id, to_revision=ordinal(1, offset), answer=True)
    world.run(1)
    assert [answer.verdict for answer in answers(world)] == ["refused"]


def test_an_event_that_names_no_node_stops_no_dispatcher() -> None:
    world, run_id, _ = with_a_dag_run(concurrency=Concurrency(Overlap.BUFFER_ALL))
    tell(world, EventKind.PENDING, f"{run_id}/BAD NAME!", detail=Pending(1, START, None, dag().tier, Origin.RELEASE))
    world.run(2)
    world.command(CommandKind.TRIGGER, JOB)
    world.run(2)
    assert len(world.events(EventKind.HELD)) == 1, "it goes on, and knows of the DagRun that is open"
