"""What a handler emits leaves with its success and not otherwise, and takes nobody else's round down."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from waterclock.workers import outcomes
from waterclock.workers.executors.emitting import Emissions, Outlet
from waterclock.workers.executors.port import Attempt, EndedAttempt
from waterclock.workers.loop import Worker
from worker_world import PARTITIONS, HandExecutors, World

from waterclock.log.memory import CommitFate
from waterclock.log.port import Isolation, Outgoing, Record
from waterclock.model.events import Ended, EventKind, Outcome
from waterclock.model.job import Tier

ID = "t.worker.worker-1"
MAIL = "shop.mail"


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create_topic(MAIL, PARTITIONS)
    return world


def emitted(world: World, attempt: Attempt, values: Sequence[object], topic: str = MAIL) -> tuple[Outgoing, ...]:
    """What a handler's calls of ``emit`` come to."""
    emissions = Emissions(Outlet("t", lambda _: True), attempt.work)
    for value in values:
        emissions.emit(topic, "k", value)
    return emissions.close()


def end(executors: HandExecutors, attempt: Attempt, records: tuple[Outgoing, ...]) -> None:
    executors.running.remove(attempt)
    executors.ended.append(EndedAttempt(attempt, Outcome.SUCCEEDED, emitted=records))


def ids(records: Sequence[Record]) -> list[str]:
    return sorted(dict(record.headers)["ce_id"].decode() for record in records)


def claimed(world: World, count: int, slots: int = 8) -> tuple[Worker, HandExecutors]:
    worker, executors = world.worker(slots=slots)
    world.fire(count)
    world.settle(worker)
    assert len(executors.running) == count
    return worker, executors


def test_records_leave_in_the_round_that_records_the_success(world: World) -> None:
    worker, executors = claimed(world, 1)
    attempt = executors.running[0]
    end(executors, attempt, emitted(world, attempt, ["one", {"n": 2}, None]))
    world.cluster.faults.next_commit(ID, CommitFate.ABORTS)
    world.turn(worker)
    assert (world.dump(MAIL), world.succeeded()) == ([], [])
    world.turn(worker, count=4)
    run_id = attempt.work.run_id
    assert world.succeeded() == [run_id]
    assert ids(world.dump(MAIL)) == [f"{run_id}/out/0", f"{run_id}/out/1", f"{run_id}/out/2"]
    assert sorted(str(record.value) for record in world.dump(MAIL)) == ["None", "b'one'", "b'{\"n\":2}'"]


def test_the_outcome_says_how_many_records_left_with_it(world: World) -> None:
    worker, executors = claimed(world, 1)
    attempt = executors.running[0]
    end(executors, attempt, emitted(world, attempt, ["one", "two"]))
    world.settle(worker)
    (outcome,) = world.events(EventKind.ATTEMPT_SUCCEEDED)
    assert isinstance(outcome.detail, Ended)
    assert outcome.detail.emitted == 2


@pytest.mark.parametrize("fate", [CommitFate.ABORTS, CommitFate.LOST, CommitFate.UNANSWERED, CommitFate.DOUBLED])
@pytest.mark.parametrize("round_number", [0, 1, 2])
def test_each_record_is_seen_once_whatever_becomes_of_one_commit(
    world: World, fate: CommitFate, round_number: int
) -> None:
    worker, executors = claimed(world, 4)
    for _ in range(round_number):
        world.cluster.faults.next_commit(ID, CommitFate.LANDS)
    world.cluster.faults.next_commit(ID, fate)
    run_ids = sorted(attempt.work.run_id for attempt in executors.running) + world.fire(2)
    for _ in range(14):
        for attempt in list(executors.running):
            end(executors, attempt, emitted(world, attempt, ["x"]))
        world.turn(worker)
    assert world.succeeded() == sorted(run_ids)
    assert ids(world.dump(MAIL)) == sorted(f"{run_id}/out/0" for run_id in run_ids)


def test_a_topic_that_is_gone_fails_that_run_alone(world: World) -> None:
    """Given five runs of which one emits to a topic that was deleted since, then four succeed and one fails."""
    worker, executors = claimed(world, 5)
    *good, bad = list(executors.running)
    for attempt in good:
        end(executors, attempt, emitted(world, attempt, ["x"]))
    end(executors, bad, emitted(world, bad, ["x"], topic="shop.gone"))
    world.turn(worker, count=30)
    assert world.succeeded() == sorted(attempt.work.run_id for attempt in good)
    assert ids(world.dump(MAIL)) == sorted(f"{attempt.work.run_id}/out/0" for attempt in good)
    (failed,) = world.events(EventKind.ATTEMPT_FAILED)
    assert failed.run_id == bad.work.run_id
    assert isinstance(failed.detail, Ended)
    assert failed.detail.error_class == "EmitRefused"
    assert "shop.gone" in failed.detail.error_message
    assert executors.running == []


def test_a_record_that_no_broker_takes_fails_that_run_alone(world: World) -> None:
    """Given a record that is refused at the append, whoever it is, then its run is found among the others."""
    worker, executors = claimed(world, 6)
    *good, bad = list(executors.running)
    for attempt in good:
        end(executors, attempt, emitted(world, attempt, ["x"]))
    end(executors, bad, (Outgoing(MAIL, b"k", b"x" * (1 << 20)),))
    world.turn(worker, count=60)
    assert world.succeeded() == sorted(attempt.work.run_id for attempt in good)
    assert len(world.dump(MAIL)) == 5
    (failed,) = world.events(EventKind.ATTEMPT_FAILED)
    assert failed.run_id == bad.work.run_id


def test_claims_and_plain_outcomes_go_on_while_a_culprit_is_looked_for(world: World) -> None:
    worker, executors = claimed(world, 2)
    bad, plain = executors.running
    end(executors, bad, (Outgoing(MAIL, b"k", b"x" * (1 << 20)),))
    world.turn(worker)
    executors.end(plain)
    later = world.fire(3)
    world.turn(worker, count=2)
    assert world.succeeded() == [plain.work.run_id]
    assert sorted(attempt.work.run_id for attempt in executors.running) == sorted(later)


def test_a_round_carries_a_bounded_number_of_bytes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "ROUND_BYTES_MAX", 3_000)
    worker, executors = claimed(world, 4)
    for attempt in list(executors.running):
        end(executors, attempt, emitted(world, attempt, ["x" * 1_000]))
    world.turn(worker)
    assert len(world.succeeded()) == 2
    world.turn(worker)
    assert len(world.succeeded()) == 4


def test_one_outcome_over_the_bound_goes_by_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "ROUND_BYTES_MAX", 100)
    worker, executors = claimed(world, 2)
    for attempt in list(executors.running):
        end(executors, attempt, emitted(world, attempt, ["x" * 1_000]))
    world.turn(worker, count=3)
    assert len(world.succeeded()) == 2


def test_what_a_dead_incarnation_emitted_is_never_seen(world: World) -> None:
    worker, executors = claimed(world, 1)
    attempt = executors.running[0]
    end(executors, attempt, emitted(world, attempt, ["x"]))
    world.cluster.faults.next_commit(ID, CommitFate.LOST)
    world.turn(worker)
    twin, _ = world.worker(process="other", client="twin")
    world.turn(twin, count=3)
    assert world.dump(MAIL) == []
    assert world.dump(MAIL, Isolation.COMMITTED) == []


def test_a_drain_sends_what_was_emitted(world: World) -> None:
    worker, executors = claimed(world, 1)
    attempt = executors.running[0]
    assert worker.drain()
    end(executors, attempt, emitted(world, attempt, ["x"]))
    while worker.drain():
        world.clock.advance(10_000)
    worker.close()
    assert len(world.dump(MAIL)) == 1
    assert world.lag(Tier.MEDIUM) == 0
