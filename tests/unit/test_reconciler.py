"""The reconciler repairs what a torn claim lost, and touches nothing else."""

from __future__ import annotations

import pytest
from waterclock.retry_router import reconciler
from waterclock.retry_router.loop import RetryRouter
from waterclock.retry_router.shard import Shard

from tests.skewed_clock import SkewedClock
from waterclock.log.memory import MemoryLog
from waterclock.log.port import Committed, Isolation, Outgoing, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.events import Ended, EventKind, Origin, Pending, Retrying, Started, WorkRecord
from waterclock.model.failure_policy import Backoff, FailurePolicy, policy_to_json
from waterclock.model.fold import parse_repairs
from waterclock.model.ids import US_PER_S, Instant, make_run_id
from waterclock.model.job import Tier
from waterclock.model.known_state import state_from_text
from waterclock.model.reduce import RunState
from waterclock.wire.messages import work_message
from waterclock.wire.names import RUNGS

from .router_world import GENERATION, NAMES, OTHER, World

TIER = NAMES.runs(Tier.HIGH)


def consumed(world: World) -> None:
    """The workers have taken everything that stands on the tier."""
    place = TopicPartition(TIER, 0)
    world.cluster.group(NAMES.worker_group(Tier.HIGH)).commit({place: Committed(world.log.high_watermark(place))})


def handed_on(world: World) -> None:
    """The ladder has moved everything that stood on its rungs."""
    for rung in RUNGS:
        place = TopicPartition(NAMES.delay(rung), 0)
        group = world.cluster.group(f"{NAMES.group('retry-ladder')}.{rung}")
        group.commit({place: Committed(world.log.high_watermark(place))})


def decided(world: World, until: Instant, applied: int | None = None) -> None:
    """The dispatcher has applied the commands (``applied`` of them) and decided everything due before ``until``."""
    place = TopicPartition(NAMES.commands, 0)
    offset = world.log.high_watermark(place) if applied is None else applied
    world.cluster.group(NAMES.group("dispatcher")).commit({place: Committed(offset, f"1|{until}|0||")})


def failed(world: World, delay_us: int) -> str:
    """A run whose first attempt has failed, and whose next one waits for so long."""
    world.policy = policy_to_json(FailurePolicy(delays_us=(delay_us,), jitter=False))
    return world.failed()


def wait(world: World, router: RetryRouter, seconds: int) -> None:
    for _ in range(seconds):
        world.turn(router, steps=2)
        world.clock.advance(600_000)


def work(world: World) -> list[WorkRecord]:
    return [each for each in world.dump(TIER) if isinstance(each, WorkRecord)]


def repairs(world: World) -> int:
    committed = world.cluster.group(NAMES.group("retry-router")).committed(TopicPartition(NAMES.run_events, 0))
    assert committed is not None
    return parse_repairs(committed.metadata)


def test_work_that_was_consumed_without_a_claim_is_handed_out_again_marked() -> None:
    world = World()
    run_id, _ = world.pending()
    consumed(world)
    wait(world, world.router(), 300)
    first, again = work(world)
    assert again.run_id == run_id
    assert again._replace(verify_from=-1, verify_state="") == first
    assert again.verify_from > 0
    assert state_from_text(again.verify_state) == RunState(0)  # type: ignore[arg-type]
    assert repairs(world) == 1, "what was handed out again stands on its tier, and is left there"


def test_work_without_a_claim_is_handed_out_again_also_while_every_poll_is_full() -> None:
    """Given a router that reads as much as comes, and is always two polls behind."""
    world = World()
    world.turn(router := world.router(round_records=3))
    run_id, _ = world.pending()
    consumed(world)
    for step in range(150):
        for _ in range(3 if step < 2 else 1):
            other, token = world.claimed(OTHER)
            world.ended(EventKind.ATTEMPT_SUCCEEDED, other, token)
        consumed(world)
        router.step()
        world.clock.advance(US_PER_S)
    assert world.lag() >= 6
    assert [each.run_id for each in work(world) if each.verify_from >= 0] == [run_id]
    assert repairs(world) == 1


def test_work_that_stands_on_its_tier_is_left_there() -> None:
    world = World()
    world.pending()
    wait(world, world.router(), 300)
    assert len(work(world)) == 1
    assert repairs(world) == 0


def test_a_claim_that_lands_late_is_no_orphan() -> None:
    world = World()
    run_id, claim = world.pending()
    router = world.router()
    wait(world, router, 35)
    consumed(world)
    world.started(run_id, claim)
    wait(world, router, 120)
    assert len(work(world)) == 1
    assert repairs(world) == 0


def test_steady_work_is_never_repaired() -> None:
    world = World()
    router = world.router()
    for _ in range(20):
        run_id, claim = world.pending()
        wait(world, router, 10)
        world.started(run_id, claim)
        consumed(world)
    assert repairs(world) == 0


def test_a_retry_that_nobody_claims_is_handed_out_again_once_no_rung_can_hold_it() -> None:
    world = World()
    run_id = failed(world, 5 * US_PER_S)
    router = world.router()
    wait(world, router, 2)
    assert [event.run_id for event in world.events(EventKind.RETRYING)] == [run_id]
    consumed(world)
    wait(world, router, 200)
    assert repairs(world) == 0, "its rung was never moved on from"
    handed_on(world)
    consumed(world)
    wait(world, router, 120)
    found = work(world)[1:]
    assert {(each.run_id, each.attempt) for each in found} == {(run_id, 2)}
    assert all(each.verify_from > 0 for each in found)


@pytest.mark.parametrize("behind_s", [4, 60])
def test_a_retry_that_stands_on_its_rung_is_left_there_whatever_the_clocks_say(behind_s: int) -> None:
    """Given a rung on which what waits was placed after it was due, by its stamp, nobody else hands it out."""
    world = World()
    run_id = failed(world, US_PER_S)
    world.clock.advance(behind_s * US_PER_S)
    clock = SkewedClock(world.clock, -behind_s * US_PER_S)
    router = RetryRouter(MemoryLog(world.cluster, "r-1"), clock, NAMES, "r-1", generation=GENERATION)
    wait(world, router, 2)
    assert [event.run_id for event in world.events(EventKind.RETRYING)] == [run_id]
    assert world.log.high_watermark(TopicPartition(NAMES.delay("1s"), 0)), "it stands on its rung"
    consumed(world)
    wait(world, router, 200)
    assert repairs(world) == 0, "the ladder never moved on"


def test_a_retry_that_a_slow_ladder_moves_on_to_a_smaller_rung_is_left_there() -> None:
    world = World()
    run_id = failed(world, 30 * US_PER_S)
    router = world.router()
    wait(world, router, 200)
    large, small = (TopicPartition(NAMES.delay(rung), 0) for rung in ("30s", "5s"))
    end = world.log.high_watermark(large)
    (record,) = read_range(world.log, Isolation.COMMITTED, large, 0, end, headers=True)
    world.append(Outgoing(small.topic, record.key or b"", record.value, record.headers))
    world.cluster.group(f"{NAMES.group('retry-ladder')}.30s").commit({large: Committed(end)})
    consumed(world)
    wait(world, router, 200)
    assert repairs(world) == 0, "it stands on the smaller one"
    handed_on(world)
    consumed(world)
    wait(world, router, 120)
    assert {(each.run_id, each.attempt) for each in work(world)[1:]} == {(run_id, 2)}


def test_an_orphan_whose_work_is_gone_ends() -> None:
    world = World()
    run_id = failed(world, 5 * US_PER_S)
    router = world.router()
    wait(world, router, 2)
    world.cluster.partition(TopicPartition(TIER, 0)).delete_before(1)
    handed_on(world)
    consumed(world)
    wait(world, router, 150)
    assert [(event.run_id, event.reason) for event in world.events(EventKind.RUN_EXPIRED)] == [
        (run_id, "work-record-gone")
    ]
    assert [letter.run_id for letter in world.letters()] == [run_id]


def test_repairs_are_remembered_by_a_successor() -> None:
    world = World()
    run_id, _ = world.pending()
    consumed(world)
    wait(world, world.router(), 100)
    made = repairs(world)
    assert made
    place = work(world)[-1]
    world.started(run_id, Started(TIER, 0, 1), worker="w-9")
    assert place.run_id == run_id
    consumed(world)
    world.cluster.kill("retry-router-1")
    wait(world, world.router(), 100)
    assert repairs(world) == made


def test_a_reconciler_that_cannot_ask_waits() -> None:
    world = World()
    world.pending()
    router = world.router()
    group = world.cluster.group(NAMES.worker_group(Tier.HIGH))
    group.hold("somebody", {TopicPartition(TIER, 0): Committed(1)})
    wait(world, router, 200)
    assert repairs(world) == 0
    group.settle("somebody", commit=True)
    wait(world, router, 60)
    assert repairs(world) > 0


def test_a_worker_that_nobody_knows_is_found_fenced_and_its_attempt_lost() -> None:
    """Given an open attempt of a worker of which neither leases nor heartbeats tell."""
    world = World()
    lives = [world.hello("w-other"), world.hello("w-other")]
    run_id, _ = world.claimed(worker="w-forgotten", incarnation=lives[0] + 1)
    router, keeper = world.router(), world.keeper()
    for _ in range(500):
        router.step()
        keeper.step()
        world.clock.advance(200_000)
    assert world.fenced().count("w-forgotten") == 1
    assert [event.run_id for event in world.events(EventKind.ATTEMPT_LOST)] == [run_id]


def failed_once(world: World, router: RetryRouter) -> str:
    """A run of which attempt 1 has failed and may be repeated at once."""
    world.policy = policy_to_json(FailurePolicy(delays_us=(0,), jitter=False))
    run_id, token = world.claimed()
    world.turn(router)
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    return run_id


def test_a_verdict_behind_an_open_transaction_stands_and_is_not_asked_for_again() -> None:
    """However long it is hidden: it cannot be read yet, and neither could a second one."""
    world = World()
    run_id = failed_once(world, router := world.router())
    other = MemoryLog(world.cluster, "other", transaction_timeout_s=1e6).producer("somebody")
    other.init(1.0)
    other.begin()
    other.append(Outgoing(NAMES.run_events, b"acme:nightly", b"x"))
    wait(world, router, 200)
    other.abort(1.0)
    wait(world, router, 200)
    assert [(each.run_id, each.attempt, each.verify_from) for each in work(world)[1:]] == [(run_id, 2, -1)]
    assert repairs(world) == 0


def test_a_verdict_that_is_asked_for_again_marks_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a verdict that was never written."""
    world = World()
    run_id = failed_once(world, router := world.router())
    take_undecided = Shard.take_undecided
    with monkeypatch.context() as patched:
        patched.setattr(Shard, "take_undecided", lambda shard: take_undecided(shard) and [])
        wait(world, router, 2)
    assert work(world)[1:] == [], "the bug that this repairs"
    wait(world, router, 200)
    (again,) = work(world)[1:]
    assert (again.run_id, again.attempt) == (run_id, 2)
    assert again.verify_from > 0
    state = state_from_text(again.verify_state)
    assert state is not None
    assert (state.attempt, state.undecided) == (1, True)
    assert repairs(world) == 1


def unclaimed(world: World, tier: Tier, pool: str = "default") -> str:
    """A run of another tier or pool, with its work."""
    world.made += 1
    fire_at = world.clock.now() + world.made * 1_000
    run_id = make_run_id(OTHER, fire_at)
    world.event(EventKind.PENDING, run_id, detail=Pending(1, fire_at, fire_at, tier, Origin.SCHEDULE, pool=pool))
    return run_id


def test_a_tier_from_which_nobody_takes_hides_no_orphan_of_another() -> None:
    world = World()
    for _ in range(30):
        unclaimed(world, Tier.LOW)
    world.pending()
    consumed(world)
    wait(world, world.router(), 120)
    assert repairs(world) == 1


def test_an_orphan_behind_many_open_runs_is_come_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler, "_LOOKED_AT_MAX", 10)
    world = World()
    lives = world.hello("w-1")
    for _ in range(35):
        world.claimed(OTHER, incarnation=lives)
    world.pending()
    consumed(world)
    wait(world, world.router(), 300)
    assert repairs(world) == 1


def test_an_orphan_behind_many_that_cost_a_look_each_is_come_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler, "_COST_MAX", 1_010)
    world = World()
    for _ in range(50):
        unclaimed(world, Tier.LOW)
    world.pending()
    consumed(world)
    wait(world, world.router(), 500)
    assert repairs(world) == 1


def test_a_search_that_its_bound_has_ended_goes_on_and_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler, "SEARCHED_MAX", 10)
    world = World()
    late, _ = world.pending()
    place = TopicPartition(TIER, 0)
    world.cluster.partition(place).delete_before(1)
    for _ in range(25):
        world.claimed(OTHER, incarnation=world.hello("w-1"))
    run_id, _ = world.pending()
    consumed(world)
    wait(world, world.router(), 300)
    assert [each.run_id for each in work(world)].count(run_id) == 2
    assert [event.run_id for event in world.events(EventKind.RUN_EXPIRED)] == [late], "its work is really gone"


def test_a_pool_that_was_taken_away_hides_no_orphan() -> None:
    world = World()
    gone = unclaimed(world, Tier.HIGH, pool="gone")
    run_id, _ = world.pending()
    consumed(world)
    wait(world, world.router(), 120)
    assert [each.run_id for each in work(world)] == [run_id, run_id]
    assert not world.events(EventKind.RUN_EXPIRED), gone


@pytest.mark.parametrize("delay_us", [5 * US_PER_S, 7_200 * US_PER_S])
def test_a_retry_whose_pool_was_taken_away_ends_and_hides_no_orphan(delay_us: int) -> None:
    """Given that its work was refused: by the ladder, or by the dispatcher where it was to wait for over an hour."""
    world = World()
    place = TopicPartition(NAMES.runs(Tier.HIGH, "side"), 0)
    world.cluster.create_topic(place.topic, 1)
    gone = unclaimed(world, Tier.HIGH, pool="side")
    policy = policy_to_json(FailurePolicy(backoff=Backoff.FIXED, delays_us=(delay_us,), jitter=False))
    head = (gone, 1, 1, 1, OTHER, 1, Tier.HIGH, "side", "invoice", b"payload")
    offset = world.append(work_message(NAMES, WorkRecord(*head, policy=policy)))
    token = world.started(gone, Started(*place, offset))
    world.ended(EventKind.ATTEMPT_FAILED, gone, token)
    world.turn(router := world.router())
    world.cluster.delete_topic(place.topic)
    handed_on(world)
    world.clock.advance(delay_us + 3_600 * US_PER_S)
    decided(world, world.clock.now())
    run_id, _ = world.pending()
    consumed(world)
    wait(world, router, 300)
    assert [each.run_id for each in work(world)] == [run_id, run_id]
    assert [(each.run_id, each.reason) for each in world.events(EventKind.RUN_EXPIRED)] == [(gone, "work-record-gone")]


def test_a_deferred_retry_is_left_alone_while_the_dispatcher_may_be_late() -> None:
    world = World()
    world.policy = policy_to_json(FailurePolicy(backoff=Backoff.FIXED, delays_us=(7_200 * US_PER_S,)))
    run_id, token = world.claimed()
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(router := world.router())
    handed_on(world)
    consumed(world)
    world.clock.advance(7_200 * US_PER_S)
    decided(world, world.clock.now() + US_PER_S)
    wait(world, router, 300)
    assert repairs(world) == 0
    world.clock.advance(3_600 * US_PER_S)
    wait(world, router, 120)
    assert repairs(world) == 1


def test_a_deferred_retry_is_left_alone_until_the_dispatcher_has_passed_it() -> None:
    world = World()
    world.policy = policy_to_json(FailurePolicy(backoff=Backoff.FIXED, delays_us=(7_200 * US_PER_S,), jitter=False))
    run_id, token = world.claimed()
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(router := world.router())
    handed_on(world)
    consumed(world)
    due_at = next(each.detail.due_at for each in world.events(EventKind.RETRYING) if isinstance(each.detail, Retrying))
    world.clock.advance(12_000 * US_PER_S)
    wait(world, router, 120)
    assert repairs(world) == 0, "nobody knows where the dispatcher stands"
    decided(world, due_at - US_PER_S)
    wait(world, router, 120)
    assert repairs(world) == 0, "it stands before the retry"
    decided(world, due_at + US_PER_S, applied=0)
    wait(world, router, 120)
    assert repairs(world) == 0, "it has not read the command that asks for it"
    decided(world, due_at + US_PER_S)
    wait(world, router, 120)
    assert repairs(world) == 1


@pytest.mark.parametrize("ahead_s", [10, 600])
def test_a_long_wait_is_left_to_the_dispatcher_whatever_the_workers_clock_says(ahead_s: int) -> None:
    """Given a wait just above an hour, after a failure whose stamp is ahead."""
    world = World()
    world.policy = policy_to_json(FailurePolicy(backoff=Backoff.FIXED, delays_us=(3_605 * US_PER_S,)))
    run_id, token = world.claimed()
    failed_at = world.clock.now() + ahead_s * US_PER_S
    end = {"worker": "w-1", "incarnation": 3, "token": token, "detail": Ended(0, "ValueError", "no invoice 4711")}
    world.event(EventKind.ATTEMPT_FAILED, run_id, 1, at=failed_at, **end)
    world.turn(router := world.router())
    assert len(world.dump(NAMES.commands)) == 1, "the dispatcher was asked to hold it"
    handed_on(world)
    consumed(world)
    world.clock.advance(3_605 * US_PER_S)
    wait(world, router, 300)
    assert repairs(world) == 0, "nobody knows where the dispatcher stands"


def test_a_wait_of_an_hour_that_was_lost_is_repaired_as_the_ladders() -> None:
    """Given a verdict that came a little after the failure, no dispatcher is waited for."""
    world = World()
    run_id = failed(world, 3_600 * US_PER_S)
    world.clock.advance(50_000)
    world.turn(router := world.router())
    assert world.log.high_watermark(TopicPartition(NAMES.delay("1h"), 0)), "it stands on its rung"
    world.clock.advance(3_600 * US_PER_S)
    handed_on(world)
    consumed(world)
    wait(world, router, 300)
    assert repairs(world) == 1
    assert [(each.run_id, each.attempt) for each in work(world)[1:]] == [(run_id, 2)]


def test_a_look_does_a_little_in_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deaths of workers and verdicts wait behind it: with eight shards a whole look once stopped them for 10 s."""
    world, parts = World(), 0
    monkeypatch.setattr(reconciler, "_SEEK", 0)  # every PENDING is far from the one before
    runs = [world.pending()[0] for _ in range(12)]
    router = world.router()
    wait(world, router, 40)
    consumed(world)
    asked: list[int] = []
    births = reconciler.MadeWork.births

    def counted(
        self: reconciler.MadeWork, partition: TopicPartition, offsets: list[int]
    ) -> dict[int, reconciler.Birth]:
        asked.append(len(offsets))
        return births(self, partition, offsets)

    monkeypatch.setattr(reconciler.MadeWork, "births", counted)
    most = 0
    for _ in range(300):
        asked.clear()
        world.turn(router, steps=1)
        most, parts = max(most, sum(asked)), parts + len(asked)
        world.clock.advance(600_000)
    assert most == 1
    assert parts >= len(runs)
