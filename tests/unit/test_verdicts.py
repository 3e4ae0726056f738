"""Verdicts on the Log in memory: RETRYING with the next attempt's work, or the end of the run, in one round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from waterclock.retry_router.hops import DUE, HOP, wait_of
from waterclock.retry_router.ladder import Ladder

from tests.unit.router_world import JOB, NAMES, World
from waterclock.log.memory import CommitFate, Killed, MemoryLog
from waterclock.log.port import Isolation, Record, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.events import Ended, EventKind, Retrying, RunEvent, Started, WorkRecord
from waterclock.model.failure_policy import Backoff, FailurePolicy, policy_to_json
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Command, CommandKind, Tier
from waterclock.model.known_state import state_from_text
from waterclock.model.reduce import RunState, reduce
from waterclock.wire.codec import decode_any, decode_work
from waterclock.wire.messages import work_message
from waterclock.wire.names import RUNGS

S = US_PER_S
TIER = NAMES.runs(Tier.HIGH)


def fixed(delay_us: int, **parts: int) -> str:
    return policy_to_json(FailurePolicy(backoff=Backoff.FIXED, delays_us=(delay_us,), **parts))


def records(world: World, topic: str) -> list[Record]:
    found: list[Record] = []
    for partition in range(world.log.partitions(topic)):
        place = TopicPartition(topic, partition)
        end = world.log.high_watermark(place)
        low = world.log.low_watermark(place)
        found += read_range(world.log, Isolation.COMMITTED, place, low, end, headers=True)
    return found


def waiting(world: World) -> dict[str, list[Record]]:
    """By rung, what was ever placed there."""
    return {word: found for word in RUNGS if (found := records(world, NAMES.delay(word)))}


def ladder(world: World) -> Ladder:
    return Ladder(MemoryLog(world.cluster, "ladder"), world.clock, NAMES, "ladder")


@pytest.mark.parametrize(
    ("delay_us", "rung"),
    [(1, "1s"), (S // 2, "1s"), (S, "1s"), (7 * S, "5s"), (30 * S, "30s"), (599 * S, "2m"), (3_600 * S, "1h")],
)
def test_the_next_attempt_waits_on_the_largest_rung_not_longer_than_its_wait(delay_us: int, rung: str) -> None:
    world = World()
    world.policy = fixed(delay_us)
    run_id = world.failed()
    world.turn(world.router())
    [event] = world.events(EventKind.RETRYING)
    assert isinstance(event.detail, Retrying)
    assert (event.run_id, event.attempt, event.detail.delay_us) == (run_id, 2, delay_us)
    assert event.detail.due_at == event.at + delay_us
    [(word, [record])] = waiting(world).items()
    wait = wait_of(record.headers)
    assert wait is not None
    assert (word, wait.due_at) == (rung, event.detail.due_at)
    assert wait.ends_at == min(event.at + RUNGS[rung] * S, wait.due_at)
    assert not world.verdicts()


def test_the_next_attempts_work_differs_in_its_attempt_alone() -> None:
    world = World()
    world.policy = fixed(S)
    world.turn(waits := ladder(world))  # what stood there before its first position would be marked
    run_id, claim = world.pending()
    [before] = records(world, TIER)
    token = world.started(run_id, claim)
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(world.router(), waits)
    after = records(world, TIER)[-1]
    assert decode_work(after.value or b"") == decode_work(before.value or b"")._replace(attempt=2)
    assert after.key == before.key
    old, new = dict(before.headers), dict(after.headers)
    assert len(new) == len(after.headers)
    assert {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)} == {
        "ce_id", "waterclock-attempt"
    }  # fmt: skip
    assert new["ce_id"] == f"{run_id}/2/work".encode()


def test_the_key_and_foreign_headers_of_the_work_are_kept() -> None:
    world = World()
    world.policy = fixed(0)
    run_id, claim = world.pending()
    [first] = records(world, TIER)
    message = work_message(NAMES, decode_work(first.value or b""))._replace(key=f"{JOB}/load".encode())
    message = message._replace(headers=(*message.headers, ("traceparent", b"00-1"), (DUE, b"x"), (HOP, b"x")))
    place = world.cluster.place_of(message)
    token = world.started(run_id, Started(place.topic, place.partition, world.append(message)))
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(world.router())
    again = records(world, TIER)[-1]
    assert again.key == message.key
    names = [name for name, _ in again.headers]
    assert "traceparent" in names
    assert DUE not in names
    assert HOP not in names
    assert claim.topic == TIER


@pytest.mark.parametrize("drained", [False, True])
def test_what_waits_for_nothing_goes_to_its_tier_at_once(drained: bool) -> None:
    world = World()
    world.policy = fixed(3_600 * S) if drained else fixed(0)
    run_id, token = world.claimed()
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token, error_class="drained" if drained else "ValueError")
    world.turn(world.router())
    assert [decode_work(record.value or b"").attempt for record in records(world, TIER)] == [1, 2]
    assert not waiting(world)


def test_a_wait_beyond_the_ladder_goes_to_the_dispatcher_marked_to_be_verified() -> None:
    world = World()
    world.policy = fixed(3_600 * S + 1)
    world.turn(router := world.router(), steps=2)
    for _ in range(3):
        world.claimed("acme:other")
    run_id = world.failed()
    world.turn(router)
    [command] = [each for each in world.dump(NAMES.commands) if isinstance(each, Command)]
    [event] = world.events(EventKind.RETRYING)
    assert isinstance(event.detail, Retrying)
    assert (command.kind, command.due_at, command.actor) == (CommandKind.DEFER, event.detail.due_at, "retry-router")
    assert len(command.command_id) <= 300
    assert not waiting(world)
    work = decode_work(command.work or b"")
    assert (work.run_id, work.attempt) == (run_id, 2)
    log = records(world, NAMES.run_events)
    assert state_from_text(work.verify_state) == _fold(log, run_id, work.verify_from)
    assert event.run_id == run_id
    assert work.verify_from <= max(each.offset for each in log)


def _fold(log: list[Record], run_id: str, to: int) -> RunState | None:
    state: RunState | None = None
    for record in log:
        event = decode_any(record.value or b"")
        assert isinstance(event, RunEvent)
        if event.run_id == run_id and record.offset < to:
            state = reduce(state, event, 1 << 48 | record.offset).state
    return state


def test_a_run_is_tried_four_times_by_default_and_then_given_up_once() -> None:
    world = World()
    world.policy = ""
    run_id, claim = world.pending()
    router, steps = world.router(), ladder(world)
    for attempt in range(1, 5):
        token = world.started(run_id, claim, attempt)
        detail = Ended(world.clock.now(), "ValueError", "no invoice")
        world.event(EventKind.ATTEMPT_FAILED, run_id, attempt, worker="w-1", incarnation=3, token=token, detail=detail)
        world.turn(router, steps, steps=40)
        last = records(world, TIER)[-1]
        claim = Started(last.topic, last.partition, last.offset)
    assert [decode_work(record.value or b"").attempt for record in records(world, TIER)] == [1, 2, 3, 4]
    assert world.verdicts() == {run_id: 1}
    assert [(letter.attempts, letter.reason) for letter in world.letters()] == [(4, "ValueError")]
    assert len(world.events(EventKind.RETRYING)) == 3


def test_work_that_is_gone_or_another_runs_ends_the_run_and_says_so() -> None:
    world = World()
    world.policy = fixed(S)
    world.turn(router := world.router())
    other, _ = world.claimed()
    swapped, _ = world.pending()
    token = world.started(swapped, Started(TIER, 0, 0))  # a topic made anew: somebody else's work stands there now
    world.ended(EventKind.ATTEMPT_FAILED, swapped, token)
    world.turn(router)
    assert [event.reason for event in world.events(EventKind.RUN_FAILED)] == ["work-record-gone"]
    assert not waiting(world)
    assert other != swapped


def test_a_run_that_was_cancelled_meanwhile_gets_no_more_work() -> None:
    world = World()
    world.policy = fixed(0)
    world.turn(router := world.router(), steps=2)
    run_id = world.failed()
    world.event(EventKind.CANCEL_REQUESTED, run_id)
    world.turn(router)
    assert not world.events(EventKind.RETRYING)
    assert len(records(world, TIER)) == 1


def _attempts(world: World) -> Counter[tuple[str, int]]:
    """Every work record that waits or is handed out for a second attempt."""
    found: Counter[tuple[str, int]] = Counter()
    for topic in (TIER, *(NAMES.delay(word) for word in RUNGS)):
        works = [work for work in world.dump(topic) if isinstance(work, WorkRecord)]
        found.update((work.run_id, work.attempt) for work in works if work.attempt > 1)
    return found


def crash_at(call: int) -> Callable[[str, str], None]:
    """A plan: the router's process dies at its n-th port call."""
    calls = 0

    def on_call(client_id: str, _operation: str) -> None:
        nonlocal calls
        if client_id == "retry-router-1":
            calls += 1
            if calls == call:
                raise Killed("planned")

    return on_call


@pytest.mark.parametrize("call", range(1, 80, 2))
def test_a_verdict_and_its_work_are_one_round_whenever_the_router_dies(call: int) -> None:
    world = World()
    world.policy = fixed(5 * S)
    runs = [world.failed(), world.failed("acme:other")]
    world.cluster.faults.on_call = crash_at(call)
    try:
        router = world.router()
        world.turn(router, steps=5)
        runs.append(world.failed())
        world.turn(router, steps=5)
    except Killed:
        world.cluster.kill("retry-router-1")
    world.cluster.faults.on_call = None
    world.turn(world.router(), steps=80)
    expected = dict.fromkeys(runs, 1)
    assert Counter(event.run_id for event in world.events(EventKind.RETRYING)) == expected
    assert _attempts(world) == {(run_id, 2): 1 for run_id in runs}


@pytest.mark.parametrize(
    "fate", [CommitFate.UNANSWERED, CommitFate.LOST, CommitFate.ABORTS, CommitFate.DOUBLED], ids=lambda fate: fate.name
)
@pytest.mark.parametrize("commit", range(4))
def test_a_doubtful_commit_neither_loses_nor_doubles_an_attempt(fate: CommitFate, commit: int) -> None:
    world = World()
    world.policy = fixed(0)
    world.turn(router := world.router())
    fates = world.cluster.faults
    for _ in range(commit):
        fates.next_commit("waterclock.retry-router.retry-router-1", CommitFate.LANDS)
    fates.next_commit("waterclock.retry-router.retry-router-1", fate)
    runs = [world.failed() for _ in range(3)]
    world.turn(router, steps=10)
    runs.append(world.failed())
    world.turn(router, steps=80)
    assert _attempts(world) == {(run_id, 2): 1 for run_id in runs}
    assert len(world.events(EventKind.RETRYING)) == 4


def test_a_thousand_failures_of_one_round_find_each_its_own_work() -> None:
    world = World(partitions=4)
    world.policy = fixed(0)
    runs = [world.failed(f"acme:job-{number % 30}") for number in range(1_000)]
    world.turn(world.router())
    assert _attempts(world) == {(run_id, 2): 1 for run_id in runs}


def test_a_work_place_beyond_the_end_of_its_topic_stops_nobody() -> None:
    """Given a topic that was made anew: the claim names an offset that is not there yet."""
    world = World()
    run_id, _ = world.pending()
    token = world.started(run_id, Started(TIER, 0, 5_000))
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    other = world.failed()
    world.turn(world.router())
    assert world.verdicts() == {run_id: 1, other: 1}
    assert {letter.run_id: letter.reason for letter in world.letters()}[run_id] == "work-record-gone"
