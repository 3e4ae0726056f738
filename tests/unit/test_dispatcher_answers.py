"""What is asked for is answered in the round that decides it; what a job names travels to its work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from waterclock.dispatcher import commands

from tests.unit.dispatcher_world import NAMES, START, World, every
from waterclock.log.memory import CommitFate
from waterclock.model.document import KEY_MAX
from waterclock.model.errors import BackendDown, Fenced, WriteUnknown
from waterclock.model.events import Answered, EventKind, Pending, RunStatus, WorkRecord
from waterclock.model.executor import HttpCall, ShellCommand, executor_from_json
from waterclock.model.fold import Fold
from waterclock.model.ids import US_PER_S, ordinal
from waterclock.model.job import Command, CommandKind, Every, JobSpec, Once, Tier
from waterclock.wire import codec
from waterclock.wire.pools import ASK_AGAIN_S

LATER = JobSpec("demo.noop", Once(START + 900 * 86_400 * US_PER_S))
CALL = HttpCall("https://billing.example/hooks?token=s", "POST", (("x-team", "billing"),), 30.0, "billing")


def one_shard() -> World:
    world = World(partitions=1)
    world.run(1)
    return world


def answers(world: World) -> list[Answered]:
    found = [event.detail for event in world.events(EventKind.ANSWERED)]
    return [each for each in found if isinstance(each, Answered)]


def work(world: World, topic: str = "waterclock.runs.medium") -> list[WorkRecord]:
    return [codec.decode_work(record.value) for record in world.records(topic)]  # type: ignore[attr-defined]


def test_nobody_is_answered_who_did_not_ask() -> None:
    world = one_shard()
    world.command(CommandKind.CREATE, "t:j", LATER)
    world.command(CommandKind.PAUSE, "t:nobody")
    world.run(1)
    assert answers(world) == []


def test_an_answer_tells_what_became_of_the_command() -> None:
    world = one_shard()
    created = world.command(CommandKind.CREATE, "t:j", LATER, answer=True)
    world.command(CommandKind.CREATE, "t:j", LATER, answer=True)
    deleted = world.command(CommandKind.DELETE, "t:j", answer=True)
    world.run(1)
    first, again, gone = answers(world)
    assert first == Answered(first.command_id, created, "applied", ordinal(1, created))
    assert (again.verdict, again.revision) == ("unchanged", ordinal(1, created))
    assert (gone.verdict, gone.revision) == ("applied", ordinal(1, deleted))


def test_a_refusal_is_answered_with_what_where_and_what_to_do() -> None:
    world = one_shard()
    created = world.command(CommandKind.CREATE, "t:j", LATER)
    world.command(CommandKind.UPDATE, "t:j", every(5), expected_revision=ordinal(1, created) + 1, answer=True)
    world.command(CommandKind.TRIGGER, "t:nobody", answer=True)
    world.command(CommandKind.UPDATE, "t:j", JobSpec("", Every(5 * US_PER_S)), answer=True)
    world.run(1)
    conflict, missing, invalid = answers(world)
    assert (conflict.problem, conflict.revision, conflict.pointer) == (
        "conflict",
        ordinal(1, created),
        "/expected_revision",
    )
    assert (missing.problem, missing.revision) == ("not-found", 0)
    assert (invalid.problem, invalid.pointer) == ("invalid", "/spec/handler")
    assert all(answer.verdict == "refused" and answer.message and answer.hint for answer in answers(world))
    assert len(world.records(NAMES.rejects)) == 3


def test_an_answer_stands_in_the_round_of_its_command() -> None:
    world = one_shard()
    world.command(CommandKind.CREATE, "t:j", LATER, answer=True)
    world.cluster.faults.next_commit(NAMES.transactional_id("dispatcher", "d1"), CommitFate.ABORTS)
    world.steps(1)
    assert world.events() == []
    world.run(1)
    assert [event.kind for event in world.events()] == [EventKind.REVISED, EventKind.ANSWERED]


def test_an_answer_touches_no_run() -> None:
    world = one_shard()
    world.command(CommandKind.CREATE, "t:j", LATER, answer=True)
    world.command(CommandKind.TRIGGER, "t:j", answer=True)
    world.run(1)
    fold: Fold[None] = Fold(generation=1)
    verdicts = [fold.apply(event, offset) for offset, event in enumerate(world.events())]
    assert all(verdict.accepted for verdict in verdicts)
    assert [run.state.status for run in fold.open.values()] == [RunStatus.PENDING]


# Executors ------------------------------------------------------------------------------------------------------------


def test_a_jobs_executor_travels_to_the_work_of_its_schedule_and_of_its_triggers() -> None:
    world = one_shard()
    spec = JobSpec("", Every(60 * US_PER_S), payload=b"{}", executor=CALL, at_most_once=True)
    world.command(CommandKind.CREATE, "t:call", spec)
    world.command(CommandKind.TRIGGER, "t:call", payload=b"[]")
    world.run(30)
    world.crash()  # the successor has it from the due rows
    world.run(200)
    carried = work(world)
    assert [record.payload for record in carried] == [b"[]", *[b"{}"] * 3]
    assert {executor_from_json(record.executor) for record in carried} == {CALL}
    assert {(record.handler, record.at_most_once) for record in carried} == {("", True)}


def test_people_read_where_the_call_goes_and_no_secret() -> None:
    world = one_shard()
    world.command(CommandKind.CREATE, "t:call", JobSpec("", Every(5 * US_PER_S), executor=CALL))
    world.run(6)
    (pending,) = [event.detail for event in world.events(EventKind.PENDING)]
    assert isinstance(pending, Pending)
    assert pending.handler == "http POST https://billing.example/hooks"


@pytest.mark.parametrize(
    "spec",
    [
        JobSpec("", Every(5 * US_PER_S)),
        JobSpec("h", Every(5 * US_PER_S), executor=CALL),
        JobSpec("", Every(5 * US_PER_S), executor=HttpCall("file:///etc/passwd")),
        JobSpec("", Every(5 * US_PER_S), executor=HttpCall("https://a.example/" + "x" * 9_000)),
        JobSpec("", Every(5 * US_PER_S), executor=HttpCall("https://a.example/", headers=(("a", "b\r\nc: d"),))),
        JobSpec("", Every(5 * US_PER_S), executor=ShellCommand(())),
        JobSpec("", Every(5 * US_PER_S), executor=ShellCommand(("x" * 9_000,))),
        JobSpec("", Every(5 * US_PER_S), executor=ShellCommand(("a",), timeout_s=1e9)),
        JobSpec("h", Every(5 * US_PER_S), pool="Not A Pool"),
    ],
)
def test_an_executor_that_no_door_lets_in_is_refused_and_the_shard_goes_on(spec: JobSpec) -> None:
    world = one_shard()
    world.command(CommandKind.CREATE, "t:bad", spec, answer=True)
    world.command(CommandKind.CREATE, "t:good", every(5))
    world.run(6)
    (refused,) = answers(world)
    assert (refused.verdict, refused.problem) == ("refused", "invalid")
    assert len(world.runs()) == 1


# Pools ----------------------------------------------------------------------------------------------------------------


def test_a_pool_whose_topics_exist_gets_its_work() -> None:
    world = one_shard()
    world.cluster.create_topic(NAMES.runs(Tier.LOW, "gpu"), 1)
    world.command(CommandKind.CREATE, "t:j", every(5, pool="gpu", tier=Tier.LOW), answer=True)
    world.run(6)
    assert [answer.verdict for answer in answers(world)] == ["applied"]
    (record,) = work(world, NAMES.runs(Tier.LOW, "gpu"))
    assert record.pool == "gpu"


def test_a_pool_without_topics_is_refused_and_found_soon_after_it_was_made() -> None:
    world = one_shard()
    spec = every(5, pool="gpu", tier=Tier.LOW)
    world.command(CommandKind.CREATE, "t:j", spec, answer=True)
    world.run(1)
    (refused,) = answers(world)
    assert (refused.verdict, refused.problem, refused.pointer) == ("refused", "invalid", "/pool")
    assert refused.hint
    world.cluster.create_topic(NAMES.runs(Tier.LOW, "gpu"), 1)
    world.run(ASK_AGAIN_S)
    world.command(CommandKind.CREATE, "t:j", spec, answer=True)
    world.run(6)
    assert [answer.verdict for answer in answers(world)] == ["refused", "applied"]
    assert len(world.runs()) == 1


# Commands that only somebody with the right to write `commands` could send -------------------------------------------


@pytest.mark.parametrize("timeout_s", [1e305, "a" * 100_000])
def test_an_executor_that_no_door_lets_through_stops_nobody(timeout_s: Any) -> None:
    world = one_shard()
    world.command(CommandKind.CREATE, "t:bad", replace(LATER, handler="", executor=replace(CALL, timeout_s=timeout_s)))
    world.command(CommandKind.CREATE, "t:good", LATER, answer=True)
    world.run(1)
    assert [answer.verdict for answer in answers(world)] == ["applied"]
    assert len(world.records(NAMES.rejects)) == 1


def test_an_id_as_long_as_a_record_is_refused_and_the_answer_fits() -> None:
    world = one_shard()
    world.command(CommandKind.TRIGGER, "t:j", command_id="c" * 261_900, answer=True)
    world.command(CommandKind.CREATE, "t:j", LATER, answer=True)
    world.run(1)
    refused, applied = answers(world)
    assert (refused.verdict, refused.command_id) == ("refused", "c" * KEY_MAX)
    assert applied.verdict == "applied"


def test_a_bug_that_one_command_brings_out_rejects_that_command_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = one_shard()
    sound = commands.apply

    def apply(command: Command, *more: Any) -> Any:
        if command.job_id == "t:bad":
            raise ZeroDivisionError("a bug")
        return sound(command, *more)

    monkeypatch.setattr(commands, "apply", apply)
    for job_id in ("t:a", "t:bad", "t:b"):
        world.command(CommandKind.CREATE, job_id, LATER, answer=True)
    world.run(1)
    assert [(answer.verdict, answer.revision > 0) for answer in answers(world)] == [
        ("applied", True),
        ("refused", False),
        ("applied", True),
    ]
    assert "ZeroDivisionError" in answers(world)[1].message
    assert len(world.records(NAMES.rejects)) == 1


@pytest.mark.parametrize("fault", [BackendDown, WriteUnknown])
def test_a_store_that_goes_away_while_one_command_is_decided_refuses_nothing(
    monkeypatch: pytest.MonkeyPatch, fault: type[BackendDown]
) -> None:
    world = one_shard()
    sound, times = commands.apply, [0]

    def apply(*args: Any) -> Any:
        times[0] += 1
        if times[0] == 1:
            raise fault("store", "away")
        return sound(*args)

    monkeypatch.setattr(commands, "apply", apply)
    world.command(CommandKind.CREATE, "t:a", LATER, answer=True)
    world.run(30)
    assert [answer.verdict for answer in answers(world)] == ["applied"]
    assert world.records(NAMES.rejects) == []


def test_what_is_no_longer_ours_is_given_up_and_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = one_shard()

    def apply(*_: Any) -> Any:
        raise Fenced("somebody else's")

    monkeypatch.setattr(commands, "apply", apply)
    world.command(CommandKind.CREATE, "t:a", LATER, answer=True)
    with pytest.raises(Fenced):
        world.steps(5)
    assert world.records(NAMES.rejects) == []
