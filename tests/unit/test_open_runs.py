"""Runs that stay open for long pin no take-over: they are kept in the state topic, and told when they have ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from waterclock.retry_router.open_runs import _TrailForm
from waterclock.retry_router.reconciler import _is_deferred
from waterclock.retry_router.trail import Trail, trail_of

from tests.unit.earlier_release import written_without
from waterclock.log.memory import CommitFate
from waterclock.log.port import Isolation, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.events import Ended, EventKind, RunStatus, Skipped, Started
from waterclock.model.failure_policy import FailurePolicy, policy_to_json
from waterclock.model.fold import Fold, parse_fold_from
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Tier
from waterclock.model.known_state import state_to_text
from waterclock.model.reduce import RunState
from waterclock.model.role_state import OpenRunState
from waterclock.wire import records
from waterclock.wire.codec import decode_open_run

from .router_world import JOB, NAMES, OTHER, World

BEHIND = 20


def kept(world: World) -> dict[str, OpenRunState]:
    place = TopicPartition(NAMES.state("retry-router"), 0)
    found: dict[str, OpenRunState] = {}
    for record in read_range(world.log, Isolation.COMMITTED, place, 0, world.log.high_watermark(place)):
        run_id = (record.key or b"").decode()
        if record.value is None:
            found.pop(run_id)
        else:
            found[run_id] = decode_open_run(record.value)
    return found


def pass_by(world: World, runs: int = 10) -> None:
    """Other runs come and go."""
    for _ in range(runs):
        run_id, token = world.claimed(OTHER)
        world.event(EventKind.ATTEMPT_SUCCEEDED, run_id, 1, worker="w-1", incarnation=3, token=token, detail=Ended(0))


@pytest.fixture(autouse=True)
def no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the memory of finished runs would pin more than any of these tests writes."""
    init = Fold.__init__
    monkeypatch.setattr(
        Fold, "__init__", lambda fold, *, generation=0, **_: init(fold, generation=generation, window=5)
    )


def fold_from(world: World) -> int:
    committed = world.cluster.group(NAMES.group("retry-router")).committed(TopicPartition(NAMES.run_events, 0))
    assert committed is not None
    found = parse_fold_from(committed.metadata)
    assert found is not None
    return found


def test_a_run_that_is_open_for_long_is_kept_once_and_pins_nothing_any_more() -> None:
    world = World()
    run_id, _ = world.claimed()
    pass_by(world)
    world.turn(world.router(kept_behind=BEHIND))
    assert list(kept(world)) == [run_id]
    assert fold_from(world) > BEHIND
    place = TopicPartition(NAMES.state("retry-router"), 0)
    before = world.log.high_watermark(place)
    pass_by(world)
    world.turn(world.router("retry-router-1", kept_behind=BEHIND))
    assert world.log.high_watermark(place) == before


def test_a_run_that_waits_on_a_quiet_partition_is_kept_before_retention_takes_it() -> None:
    """However few offsets lie behind it."""
    world = World()
    run_id, _ = world.claimed()
    pass_by(world)
    world.turn(router := world.router())
    assert (kept(world), fold_from(world)) == ({}, 0)
    for _ in range(240):  # each well within the session
        world.clock.advance(4 * US_PER_S)
        router.step()
    assert list(kept(world)) == [run_id]
    assert fold_from(world) > 20
    world.cluster.kill("retry-router-1")
    world.cluster.partition(TopicPartition(NAMES.run_events, 0)).delete_before(fold_from(world))
    world.turn(successor := world.router())
    assert run_id in successor._shards[0].fold.open


def test_a_successor_knows_a_kept_run_without_reading_its_events() -> None:
    world = World()
    world.policy = policy_to_json(FailurePolicy(delays_us=(600 * US_PER_S,), jitter=False))
    run_id, token = world.claimed()
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    running, running_token = world.claimed(worker="w-2", incarnation=world.hello("w-2"))
    world.turn(first := world.router(kept_behind=BEHIND))
    pass_by(world)
    world.turn(first)
    assert set(kept(world)) == {run_id, running}
    world.cluster.kill("retry-router-1")
    world.cluster.partition(TopicPartition(NAMES.run_events, 0)).delete_before(fold_from(world))
    world.hello("w-2")
    world.turn(second := world.router(kept_behind=BEHIND))
    assert [(event.run_id, event.token) for event in world.events(EventKind.ATTEMPT_LOST)] == [(running, running_token)]
    trail = second._shards[0].fold.open[run_id].note
    assert (trail.error_class, trail.counted, trail.work is not None) == ("ValueError", 1, True)
    assert trail.delay_us == 600 * US_PER_S


def test_a_retry_that_was_kept_without_its_wait_may_be_the_dispatchers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a record as it was written before records held that."""
    state = state_to_text(RunState(RunStatus.RETRYING, 1))
    run = OpenRunState("acme:a@20261121T050000Z", 0, state, Started("runs", 0, 7), counted=1, delay_us=5)
    value = written_without("delay_us", "open_run", records.OPEN_RUN.to_record(run), monkeypatch)
    read = _TrailForm(NAMES, "retry-router").read(value)
    assert read.note == Trail(Started("runs", 0, 7), counted=1)
    assert _is_deferred(trail_of(read.note))


def test_a_kept_run_that_ends_leaves_a_tombstone() -> None:
    world = World()
    run_id, token = world.claimed()
    pass_by(world)
    world.turn(router := world.router(kept_behind=BEHIND))
    world.event(EventKind.ATTEMPT_SUCCEEDED, run_id, 1, worker="w-1", incarnation=3, token=token, detail=Ended(0))
    world.turn(router)
    assert not kept(world)
    world.cluster.kill("retry-router-1")
    world.turn(again := world.router(kept_behind=BEHIND))
    assert run_id not in again._shards[0].fold.open


def test_what_happens_to_a_kept_run_is_read_again_or_kept_again() -> None:
    world = World()
    run_id, claim = world.pending()
    pass_by(world)
    world.turn(router := world.router(kept_behind=BEHIND))
    state_before = kept(world)[run_id].state
    token = world.started(run_id, claim)
    world.turn(router)
    assert kept(world)[run_id].state == state_before, "not yet: it is read again from there"
    assert fold_from(world) <= token & 0xFFFFFFFF
    pass_by(world)
    world.turn(router)
    assert kept(world)[run_id].state != state_before


@pytest.mark.parametrize("fate", [CommitFate.UNANSWERED, CommitFate.LOST, CommitFate.ABORTS], ids=lambda f: f.name)
def test_a_round_in_doubt_loses_no_kept_run(fate: CommitFate) -> None:
    world = World()
    run_id, token = world.claimed()
    pass_by(world)
    world.cluster.faults.next_commit("waterclock.retry-router.retry-router-1", fate)
    world.turn(router := world.router(kept_behind=BEHIND), steps=60)
    assert list(kept(world)) == [run_id]
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(router)
    assert world.verdicts() == {run_id: 1}
    assert not kept(world)


def test_an_expiry_that_came_behind_a_claim_decides_nothing_at_a_take_over_either() -> None:
    """Given a RUN_EXPIRED that was refused, and a kept run that waits again: whoever reads it a second time."""
    world = World()
    world.policy = policy_to_json(FailurePolicy(delays_us=(30 * US_PER_S,), jitter=False))
    run_id, claim = world.pending()
    pass_by(world, 30)
    world.turn(first := world.router(kept_behind=BEHIND))
    token = world.started(run_id, claim)
    refused_at = world.event(EventKind.RUN_EXPIRED, run_id, reason="expired")
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(first)
    pass_by(world, BEHIND)
    world.turn(first)
    before = first._shards[0].fold.state(run_id)
    assert before is not None
    assert not before.final
    assert run_id in kept(world)
    world.cluster.kill("retry-router-1")
    group, place = world.cluster.group(NAMES.group("retry-router")), TopicPartition(NAMES.run_events, 0)
    committed = group.committed(place)
    assert committed is not None
    group.commit({place: committed._replace(metadata=f"fold-from={refused_at}")})
    world.turn(second := world.router(kept_behind=BEHIND))
    assert second._shards[0].fold.state(run_id) == before


def test_a_skip_over_kept_runs_that_were_held_leaves_their_tombstones() -> None:
    """Given a SKIPPED of a range whose first fire nobody knows, over another that is held and kept."""
    world = World()
    start = world.clock.now()
    run_id = make_run_id(JOB, start + US_PER_S)
    world.event(EventKind.HELD, run_id, reason="overlap")
    pass_by(world, 20)
    world.turn(router := world.router(kept_behind=BEHIND))
    assert list(kept(world)) == [run_id]
    skipped = Skipped(1, start, start + 2 * US_PER_S, 3, Tier.HIGH, start + 2 * US_PER_S)
    world.event(EventKind.SKIPPED, make_run_id(JOB, start), reason="misfire", detail=skipped)
    world.turn(router)
    assert not kept(world)


class Unscanned(set[str]):
    """What nobody may go through: it may hold hundreds of thousands."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all kept runs were looked at")


def test_skips_look_at_no_kept_run_but_those_that_they_end() -> None:
    """Given kept runs, held ones of the same job beside the range, and skips of one fire and of several."""
    world = World()
    start = world.clock.now()
    held = [make_run_id(JOB, start + number * US_PER_S) for number in range(1, 6)]
    for run_id in held:
        world.event(EventKind.HELD, run_id, reason="overlap")
    running, _ = world.claimed()
    pass_by(world, 20)
    world.turn(router := world.router(kept_behind=BEHIND))
    assert set(kept(world)) == {*held, running}
    known = router._shards[0].kept
    known._kept = Unscanned(known._kept)

    def skip(first: int, last: int) -> None:
        first_at, last_at = start + first * US_PER_S, start + last * US_PER_S
        detail = Skipped(1, first_at, last_at, last - first + 1, Tier.HIGH, last_at)
        world.event(EventKind.SKIPPED, make_run_id(JOB, first_at), reason="misfire", detail=detail)

    skip(2, 2)
    skip(9, 9)
    world.turn(router)
    assert set(kept(world)) == {*held, running} - {held[1]}
    skip(3, 4)  # of which the first one is held and known
    world.turn(router)
    assert set(kept(world)) == {held[0], held[4], running}
    skip(0, 1)
    world.turn(router)
    assert set(kept(world)) == {held[4], running}
