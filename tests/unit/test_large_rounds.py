"""Rounds of the retry router and of its ladder that are too much for the brokers: smaller ones come through."""

from __future__ import annotations

import pytest
from waterclock.retry_router.round_size import LEAST, RoundSize

from tests.unit import test_ladder as ladder
from tests.unit.router_world import NAMES, World
from waterclock.listeners import Listeners
from waterclock.log.memory_faults import CommitFate
from waterclock.log.port import Outgoing
from waterclock.model.errors import RoundInDoubt
from waterclock.model.events import EventKind
from waterclock.model.failure_policy import FailurePolicy, policy_to_json
from waterclock.model.ids import US_PER_S
from waterclock.transact import Round, Rounds

JOBS = [f"acme:job-{number}" for number in range(20)]
MANY = 400
BYTES_MAX = 20_000


@pytest.fixture
def slow_brokers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """They take so many bytes before a round's time is over, and no more. How many each round had that was too much."""
    refused: list[int] = []
    commit = Rounds.commit

    def committed(self: Rounds, draft: Round) -> None:
        size = sum(len(message.value or b"") for message in draft.messages)
        if size > BYTES_MAX:
            refused.append(size)
            raise RoundInDoubt(f"{size} bytes were not acknowledged in time")
        commit(self, draft)

    monkeypatch.setattr(Rounds, "commit", committed)
    return refused


def test_many_failures_at_once_are_all_decided_where_one_round_cannot_hold_them(slow_brokers: list[int]) -> None:
    world = World()
    world.policy = policy_to_json(FailurePolicy(max_attempts=2))
    router = world.router()
    world.failed()
    world.turn(router, steps=5)
    for _ in range(MANY):
        world.failed()
    world.turn(router, steps=200)
    assert slow_brokers, "or this proves nothing"
    assert len(slow_brokers) < 20, "most of the work is not done twice"
    assert world.lag() <= 1
    assert len(world.events(EventKind.RETRYING)) == MANY + 1


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each round had."""
    sizes: list[int] = []
    commit = Rounds.commit

    def committed(self: Rounds, draft: Round) -> None:
        sizes.append(len(draft.messages))
        commit(self, draft)

    monkeypatch.setattr(Rounds, "commit", committed)
    return sizes


@pytest.mark.parametrize("partitions", [1, 8])
def test_what_failed_while_no_router_was_there_is_decided_part_by_part(sizes: list[int], partitions: int) -> None:
    """Given weeks without a router, so that its position is gone, when one starts, then each round is bounded."""
    world = World(partitions)
    for number in range(MANY):
        world.failed(f"acme:job-{number}")
    sizes.clear()
    world.turn(world.router(round_records=50), steps=100)
    assert set(world.verdicts().values()) == {1}
    assert len(world.verdicts()) == len(world.letters()) == MANY
    assert max(sizes) <= 2 * 50


def test_what_a_first_router_left_undecided_is_decided_part_by_part(sizes: list[int]) -> None:
    """Given that it died after its first round, whose position stands behind them all, when the next one starts."""
    world = World()
    for _ in range(MANY):
        world.failed()
    first = world.router("retry-router-1", round_records=10)
    while not world.verdicts():
        first.step()
    first.close()
    sizes.clear()
    world.turn(world.router("retry-router-2", round_records=10), steps=1_000)
    assert set(world.verdicts().values()) == {1}
    assert len(world.verdicts()) == len(world.letters()) == MANY
    assert max(sizes) <= 2 * 10


def test_a_take_over_after_rounds_that_did_not_land_reads_as_much_in_a_step_as_any() -> None:
    """Given two partitions: one with much to be read again, of which nothing is decided, and one that is live."""
    world = World(2)
    place = {world.cluster.place_of(Outgoing(NAMES.run_events, job.encode(), None)).partition: job for job in JOBS}
    router = world.router(round_records=100, window=3_000)
    for _ in range(1_000):
        run_id, token = world.claimed(place[0])
        world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, token)
    world.turn(router, steps=60)
    for _ in range(8):
        world.cluster.faults.next_commit(NAMES.transactional_id("retry-router", "retry-router-1"), CommitFate.LOST)
    world.failed(place[1])
    steps = 0
    while router._size.now > LEAST or not router.ready:
        world.turn(router, steps=1)
        steps += 1
        assert steps < 200
    assert world.lag() <= 1
    world.turn(router, steps=2)
    assert len(world.verdicts()) == 1


def test_partitions_that_are_taken_away_make_rounds_no_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given that they go while it is not known yet what the ends that were read start: the turn is given up."""
    world = World(2)
    router = world.router()
    world.turn(router)
    begun_again: list[Exception] = []
    met = RoundSize.met

    def noted(self: RoundSize, trouble: Exception) -> None:
        begun_again.append(trouble)
        met(self, trouble)

    monkeypatch.setattr(RoundSize, "met", noted)
    monkeypatch.setattr(Listeners, "caught_up", False)
    world.turn(router, world.router("retry-router-2"), steps=10)
    assert begun_again
    assert router._size.now == 1_000


def test_nothing_expires_of_which_the_claim_stands_behind_what_small_rounds_have_read() -> None:
    world = World()
    router = world.router(round_records=20)
    world.turn(router, steps=5)
    run_id, claim = world.pending(queue_timeout_us=US_PER_S)
    world.turn(router, steps=4)
    router._size.now = 10
    for _ in range(20):
        world.pending()
    token = world.started(run_id, claim)  # in time
    world.turn(router, steps=10)
    world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, token)
    world.turn(router, steps=5)
    assert not world.events(EventKind.RUN_EXPIRED)


def test_many_waits_that_end_at_once_are_all_handed_on_where_one_round_cannot_hold_them(
    slow_brokers: list[int],
) -> None:
    world = ladder.World()
    for _ in range(MANY):
        world.place(US_PER_S)
    mover = world.ladder()
    world.turn(mover, for_us=30 * US_PER_S)
    assert slow_brokers, "or this proves nothing"
    assert len(slow_brokers) < 20
    assert len(world.lateness_us()) == MANY, "each has arrived once"
