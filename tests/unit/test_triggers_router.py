"""What the ends of runs start: each end once, for those who wait for it, whatever happens to the router."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from waterclock.retry_router import loop as router_loop
from waterclock.retry_router.triggering import weight

from tests.unit.router_world import JOB, NAMES, OTHER, World
from waterclock.log.memory import MemoryLog
from waterclock.log.port import Outgoing
from waterclock.model.dag_events import DagStart
from waterclock.model.events import EventKind, Origin, Pending
from waterclock.model.ids import make_run_id
from waterclock.model.job import Command, CommandKind, Tier
from waterclock.model.triggers import Ended, JobTriggers, RunEnds, Triggers
from waterclock.transact import Rounds
from waterclock.wire.messages import job_triggers_message, triggers_tombstone

REPORT = "acme:report"


def listens(world: World, *conditions: RunEnds, job_id: str = REPORT, since: int | None = None) -> None:
    stood = (world.clock.now() - 1 if since is None else since,) * len(conditions)
    world.append(job_triggers_message(NAMES, JobTriggers(job_id, 7, stood[0], Triggers(conditions, stood))))


def succeeded(world: World, job_id: str = JOB, **parts: int) -> str:
    run_id, token = world.claimed(job_id, **parts)
    world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, token)
    return run_id


def commands(world: World) -> list[Command]:
    found = world.dump(NAMES.commands)
    return [each for each in found if isinstance(each, Command)]


def sources(world: World) -> list[tuple[str, str]]:
    return sorted((each.job_id, each.triggered_by) for each in commands(world))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def started(world: World) -> Iterator[World]:
    """Where a router has acted before, so that it acts on all that comes."""
    router = world.router()
    world.turn(router)
    router.close()
    return world


def test_an_end_starts_those_who_wait_for_it_once(started: World) -> None:
    listens(started, RunEnds("nightly"), RunEnds("nightly", Ended.ANY))
    listens(started, RunEnds("nightly", Ended.FAILED), job_id="acme:clean-up")
    listens(started, RunEnds("nightly"), job_id="other:report")
    run_id = succeeded(started)
    succeeded(started, OTHER)
    started.turn(started.router())
    (command,) = commands(started)
    assert (command.kind, command.job_id, command.triggered_by) == (CommandKind.TRIGGER, REPORT, run_id)
    assert (command.command_id, command.hops, command.payload) == (f"{run_id}/succeeded", 1, None)


def test_a_failure_counts_when_it_is_final_and_not_before(started: World) -> None:
    listens(started, RunEnds("nightly", Ended.FAILED))
    run_id = started.failed()
    router = started.router()
    router.step()
    started.turn(router)
    (command,) = commands(started)
    assert command.command_id == f"{run_id}/failed"


def test_an_end_that_the_arbiter_refuses_starts_nothing(started: World) -> None:
    listens(started, RunEnds("nightly", Ended.ANY))
    run_id, token = started.claimed()
    started.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, token + 1)
    started.turn(started.router())
    assert commands(started) == []


def test_a_run_that_began_before_the_condition_was_saved_counts(started: World) -> None:
    run_id, token = started.claimed()
    router = started.router()
    started.turn(router)
    listens(started, RunEnds("nightly"), since=started.clock.now())
    started.clock.advance(1_000)
    started.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, token)
    started.turn(router)
    assert sources(started) == [(REPORT, run_id)]


def test_an_end_before_the_condition_stood_starts_nothing(started: World) -> None:
    succeeded(started)
    listens(started, RunEnds("nightly"), since=started.clock.now())
    started.turn(started.router())
    assert commands(started) == []


def test_what_was_answered_is_not_answered_again_by_a_successor(started: World) -> None:
    listens(started, RunEnds("nightly"))
    first = succeeded(started)
    router = started.router()
    started.turn(router)
    router.close()
    second = succeeded(started)
    started.turn(started.router())
    assert sources(started) == [(REPORT, first), (REPORT, second)]


def test_what_nobody_has_answered_is_answered_by_a_successor(started: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was read, and known, but its round never landed."""
    listens(started, RunEnds("nightly"))
    run_id = succeeded(started)
    with monkeypatch.context() as patch:
        patch.setattr(Rounds, "commit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        router = started.router()
        with pytest.raises(KeyboardInterrupt):
            started.turn(router)
    started.turn(started.router())
    assert sources(started) == [(REPORT, run_id)]


def test_a_first_router_answers_no_old_ends(world: World) -> None:
    listens(world, RunEnds("nightly"))
    succeeded(world)
    router = world.router()
    world.turn(router)
    assert commands(world) == []
    run_id = succeeded(world)
    world.turn(router)
    assert sources(world) == [(REPORT, run_id)]


def test_who_listens_no_more_is_not_started(started: World) -> None:
    listens(started, RunEnds("nightly"))
    started.append(triggers_tombstone(NAMES, REPORT))
    succeeded(started)
    listens(started, RunEnds("hourly"), job_id="acme:b")
    listens(started, RunEnds("nightly"), job_id="acme:b")
    run_id = succeeded(started, OTHER)
    started.turn(started.router())
    assert run_id not in {source for _, source in sources(started)}
    assert REPORT not in {listener for listener, _ in sources(started)}


def test_ends_wait_for_conditions_that_are_being_saved(started: World) -> None:
    """A shard owner's round is open: nothing is answered or committed past the end, and then it is started."""
    router = started.router()
    started.turn(router)
    owner = MemoryLog(started.cluster, "owner").producer("waterclock.dispatcher.d1")
    owner.init(1.0)
    owner.begin()
    stood = started.clock.now() - 1
    owner.append(job_triggers_message(NAMES, JobTriggers(REPORT, 7, stood, Triggers((RunEnds("nightly"),), (stood,)))))
    run_id = succeeded(started)
    failed = started.failed()
    started.turn(router, steps=5)
    assert (commands(started), EventKind.RUN_FAILED in kinds(started)) == ([], False)
    router.drain()
    owner.commit(1.0)
    started.turn(router)
    assert sources(started) == [(REPORT, run_id)]
    assert failed in {event.run_id for event in started.dump(NAMES.run_events) if event.kind is EventKind.RUN_FAILED}  # type: ignore[attr-defined]


def kinds(world: World) -> set[EventKind]:
    return {event.kind for event in world.dump(NAMES.run_events)}  # type: ignore[attr-defined]


def test_the_end_of_a_dag_run_counts_and_those_of_its_nodes_do_not(started: World) -> None:
    listens(started, RunEnds("nightly", Ended.ANY))
    run_id = make_run_id(JOB, started.clock.now())
    dag = Pending(1, started.clock.now(), None, Tier.HIGH, Origin.SCHEDULE, dag=DagStart())
    started.event(EventKind.PENDING, run_id, detail=dag)
    node = f"{run_id}/load"
    started.event(EventKind.PENDING, node, detail=Pending(1, started.clock.now(), None, Tier.HIGH, Origin.RELEASE))
    claim = started.pending(OTHER)[1]
    token = started.started(node, claim)
    started.ended(EventKind.ATTEMPT_SUCCEEDED, node, token)
    router = started.router()
    started.turn(router)
    assert commands(started) == []
    started.event(EventKind.DAG_SUCCEEDED, run_id)
    started.turn(router)
    assert sources(started) == [(REPORT, run_id)]


def test_each_run_of_a_chain_knows_how_many_stood_before_it_also_after_a_take_over(started: World) -> None:
    listens(started, RunEnds("nightly"))
    run_id, token = started.claimed(hops=4)
    router = started.router(kept_behind=0)
    started.turn(router)
    router.close()
    started.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, token)
    started.turn(started.router(kept_behind=0))
    assert [command.hops for command in commands(started)] == [5]


def test_a_run_that_is_cancelled_while_it_waits_knows_how_many_stood_before_it(started: World) -> None:
    listens(started, RunEnds("nightly", Ended.ANY))
    run_id = make_run_id(JOB, started.clock.now())
    held = Pending(1, started.clock.now(), None, Tier.HIGH, Origin.TRIGGER, hops=4)
    started.event(EventKind.HELD, run_id, detail=held)
    router = started.router(kept_behind=0)
    started.turn(router)
    router.close()
    started.event(EventKind.CANCEL_REQUESTED, run_id)
    started.turn(started.router())
    assert [(command.triggered_by, command.hops) for command in commands(started)] == [(run_id, 5)]


def told_by_turns(world: World, turns: int = 40) -> list[int]:
    """How many commands came of each turn that brought any."""
    router = world.router()
    found, before = [], len(commands(world))
    for _ in range(turns):
        world.turn(router, steps=1)
        now = len(commands(world))
        found += [now - before] * (now > before)
        before = now
    return found


def test_one_end_for_many_is_told_whole_and_others_wait_their_turn(
    started: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_loop, "COMMANDS_MAX", 10)
    for number in range(25):
        listens(started, RunEnds("nightly"), job_id=f"acme:r{number}")
    first, second = succeeded(started), succeeded(started)
    assert told_by_turns(started) == [25, 25]
    assert {source for _, source in sources(started)} == {first, second}


def test_ends_that_few_wait_for_are_read_together_though_many_wait_for_another(
    started: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_loop, "COMMANDS_MAX", 10)
    for number in range(25):
        listens(started, RunEnds("nightly"), job_id=f"acme:r{number}")
    listens(started, RunEnds("hourly"), job_id="acme:few")
    for _ in range(30):
        succeeded(started, OTHER)
    assert max(told_by_turns(started)) == 10
    assert len(commands(started)) == 30


def test_what_waits_for_its_turn_is_answered_by_a_successor(started: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_loop, "COMMANDS_MAX", 2)
    listens(started, RunEnds("nightly"))
    ends = [succeeded(started) for _ in range(7)]
    for _ in range(12):
        router = started.router()
        started.turn(router, steps=2)
        router.close()
    assert sources(started) == [(REPORT, each) for each in sorted(ends)]


def test_who_waits_longest_is_started_and_who_is_left_out_is_told(
    started: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_loop, "LISTENERS_MAX", 3)
    began = started.clock.now() - 1_000
    for number in range(5):
        listens(started, RunEnds("nightly"), job_id=f"acme:r{number}", since=began - number)
    run_id = succeeded(started)
    started.turn(started.router())
    assert sources(started) == [(f"acme:r{number}", run_id) for number in (2, 3, 4)]
    (reject,) = started.dump(NAMES.rejects)
    assert (
        reject.reason
        == f"{run_id} ended, and 2 jobs that wait for that are not started by it, such as acme:r1, acme:r0"
    )  # type: ignore[attr-defined]
    assert reject.source.topic == NAMES.run_events  # type: ignore[attr-defined]


def test_who_waits_for_another_end_of_the_job_takes_nobodys_place(
    started: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_loop, "LISTENERS_MAX", 3)
    began = started.clock.now() - 1_000
    for number in range(5):
        listens(started, RunEnds("nightly", Ended.FAILED), job_id=f"acme:f{number}", since=began - number)
    listens(started, RunEnds("nightly"))
    run_id = succeeded(started)
    started.turn(started.router())
    assert sources(started) == [(REPORT, run_id)]
    assert started.dump(NAMES.rejects) == []


def test_an_end_that_very_many_wait_for_leaves_less_room_in_its_round() -> None:
    assert [weight(each) for each in (0, 7, 1_000)] == [0, 7, 1_000]
    assert router_loop.COMMANDS_MAX // weight(200_000) == 1


def test_a_run_with_an_odd_name_stops_nobody(started: World) -> None:
    listens(started, RunEnds("nightly"))
    detail = Pending(1, 1, None, Tier.HIGH, Origin.SCHEDULE)
    started.event(EventKind.PENDING, "odd", detail=detail)
    started.event(EventKind.CANCEL_REQUESTED, "odd")
    run_id = succeeded(started)
    started.turn(started.router())
    assert sources(started) == [(REPORT, run_id)]


def test_what_cannot_be_read_starts_nothing_and_stops_nobody(started: World) -> None:
    started.append(Outgoing(NAMES.triggers, b"acme:odd", b"\xc3\x01 of a later release", partition=0))
    listens(started, RunEnds("nightly"))
    run_id = succeeded(started)
    started.turn(started.router())
    assert sources(started) == [(REPORT, run_id)]
