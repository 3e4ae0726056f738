"""Attempts of dead workers are called lost, by level, and only once their workers can say nothing any more."""

from __future__ import annotations

from collections import Counter

import pytest

from waterclock.log.memory import CommitFate
from waterclock.log.port import Outgoing
from waterclock.model.errors import LostResource
from waterclock.model.events import Ended, EventKind
from waterclock.model.failure_policy import FailurePolicy, policy_to_json
from waterclock.model.ids import US_PER_S
from waterclock.transact import Rounds
from waterclock.wire.messages import event_message

from .router_world import JOB, NAMES, OTHER, World

LOST = EventKind.ATTEMPT_LOST


def lost(world: World) -> Counter[str]:
    return Counter(event.run_id for event in world.events(LOST))


def test_an_attempt_is_lost_only_after_its_worker_was_fenced() -> None:
    world = World()
    incarnation = world.hello()
    router, keeper = world.router(), world.keeper(default_lease_s=5.0)
    run_id, token = world.claimed(incarnation=incarnation)
    for _ in range(20):
        router.step()
        keeper.step()
        world.clock.advance(200_000)
    assert not lost(world), "it is silent for four seconds of its five"
    for _ in range(20):
        keeper.step()
        world.clock.advance(200_000)
    assert world.fenced() == ["w-1"]
    world.turn(router)
    [event] = world.events(LOST)
    assert (event.run_id, event.attempt, event.worker, event.incarnation, event.token) == (
        run_id,
        1,
        "w-1",
        incarnation,
        token,
    )
    assert isinstance(event.detail, Ended)
    assert event.detail.error_class == "lost"
    assert world.verdicts() == {run_id: 1}, "a lost attempt counts"


def test_a_newer_hello_of_the_same_worker_is_a_death_too() -> None:
    world = World()
    run_id, _ = world.claimed(incarnation=world.hello())
    world.turn(router := world.router())
    assert not lost(world)
    world.hello()
    world.turn(router, steps=2)
    assert lost(world) == {run_id: 1}


def test_what_the_living_hold_is_left_to_them() -> None:
    world = World()
    world.claimed(worker="w-1", incarnation=world.hello("w-1"))
    dead, _ = world.claimed(worker="w-2", incarnation=world.hello("w-2"))
    world.turn(router := world.router())
    world.hello("w-2")
    newer, _ = world.claimed(worker="w-2", incarnation=world.hello("w-2"))
    world.turn(router)
    assert lost(world) == {dead: 1}
    assert newer not in lost(world)


def test_a_completed_attempt_before_the_death_stays_completed() -> None:
    world = World()
    run_id, token = world.claimed(incarnation=(incarnation := world.hello()))
    world.turn(router := world.router())
    world.event(
        EventKind.ATTEMPT_SUCCEEDED, run_id, 1, worker="w-1", incarnation=incarnation, token=token, detail=Ended(0)
    )
    world.hello()
    world.turn(router)
    assert not lost(world)


@pytest.mark.parametrize("held_up_s", [0.0, 3.0])
def test_an_outcome_behind_somebodys_open_transaction_is_waited_for_and_counts_in_any_case(held_up_s: float) -> None:
    """The log is read to its high watermark, a second long; what stands hidden longer than that is before the LOST."""
    world = World()
    incarnation = world.hello()
    run_id, token = world.claimed(incarnation=incarnation)
    world.turn(router := world.router())
    other = world.log.producer("somebody")
    other.init(1.0)
    other.begin()
    other.append(Outgoing(NAMES.run_events, JOB.encode(), b"not yet"))
    outcome = world.event(
        EventKind.ATTEMPT_SUCCEEDED, run_id, 1, worker="w-1", incarnation=incarnation, token=token, detail=Ended(0)
    )
    world.hello()
    world.turn(router, steps=3)
    place = world.cluster.place_of(Outgoing(NAMES.run_events, JOB.encode(), b""))
    assert world.cluster.partition(place).high == outcome + 1, "nobody was called lost at once"
    world.clock.advance(round(held_up_s * US_PER_S))
    world.turn(router, steps=1)
    other.abort(1.0)
    world.turn(router, steps=10)
    assert lost(world) == ({run_id: 1} if held_up_s else {})
    assert not world.events(EventKind.RETRYING, EventKind.RUN_FAILED), "the attempt has succeeded"


def test_what_a_predecessor_has_said_behind_somebodys_open_transaction_is_not_said_again() -> None:
    """Its LOST is committed, and hidden from whoever takes over until that transaction ends."""
    world = World()
    run_id, _ = world.claimed(incarnation=world.hello())
    world.turn(router := world.router())
    other = world.log.producer("somebody")
    other.init(1.0)
    other.begin()
    other.append(Outgoing(NAMES.run_events, JOB.encode(), b"not yet"))
    world.hello()
    world.turn(router, steps=10)
    place = world.cluster.place_of(Outgoing(NAMES.run_events, JOB.encode(), b""))
    said_to = world.cluster.partition(place).high
    world.cluster.kill("retry-router-1")
    world.turn(heir := world.router(), steps=20)
    assert world.cluster.partition(place).high == said_to, "it does not know yet what was said"
    other.abort(1.0)
    world.turn(heir, steps=10)
    assert lost(world) == {run_id: 1}
    assert world.verdicts() == {run_id: 1}


def test_lost_is_appended_by_level_also_after_a_takeover() -> None:
    """The death was read by a router that died before it could say so."""
    world = World()
    run_id, _ = world.claimed(incarnation=world.hello())
    world.turn(world.router())
    world.cluster.kill("retry-router-1")
    world.hello()
    world.turn(world.router())
    assert lost(world) == {run_id: 1}


def test_a_started_of_the_dead_is_lost_as_soon_as_it_is_read() -> None:
    world = World()
    incarnation = world.hello()
    world.hello()
    world.turn(router := world.router())
    run_id, _ = world.claimed(incarnation=incarnation)
    world.turn(router)
    assert lost(world) == {run_id: 1}


@pytest.mark.parametrize(
    "fate", [CommitFate.UNANSWERED, CommitFate.LOST, CommitFate.ABORTS, CommitFate.DOUBLED], ids=lambda fate: fate.name
)
def test_a_loss_in_doubt_counts_once(fate: CommitFate) -> None:
    world = World()
    runs = [world.claimed(job, incarnation=0)[0] for job in (JOB, OTHER) for _ in range(3)]
    world.turn(router := world.router())
    world.hello()
    world.hello()
    world.cluster.faults.next_commit("waterclock.retry-router.retry-router-1", fate)
    world.turn(router, steps=60)
    assert set(lost(world)) == set(runs)
    assert world.verdicts() == dict.fromkeys(runs, 1)
    assert sorted(letter.run_id for letter in world.letters()) == sorted(runs)


def test_many_attempts_of_one_worker_are_lost_in_rounds_of_bounded_size() -> None:
    world = World()
    incarnation = world.hello()
    runs = [world.claimed(incarnation=incarnation)[0] for _ in range(50)]
    world.turn(router := world.router(round_records=7), steps=60)
    world.hello()
    world.turn(router, steps=60)
    assert lost(world) == dict.fromkeys(runs, 1)


def test_a_run_called_at_most_once_ends_where_its_worker_was_lost() -> None:
    world = World()
    world.policy = policy_to_json(FailurePolicy(max_attempts=4))
    world.at_most_once = True
    run_id, _ = world.claimed(incarnation=world.hello())
    world.turn(router := world.router())
    world.hello()
    world.turn(router)
    assert [(event.run_id, event.reason) for event in world.events(EventKind.RUN_FAILED)] == [
        (run_id, "outcome-unknown")
    ]


def test_a_zombies_outcome_after_its_loss_is_ignored() -> None:
    world = World()
    incarnation = world.hello()
    run_id, token = world.claimed(incarnation=incarnation)
    world.turn(router := world.router())
    zombie = Rounds(world.log, NAMES.transactional_id("worker", "w-1"))
    zombie.open()
    world.hello()
    world.turn(router)
    draft = zombie.draft()
    [late] = world.events(LOST)
    draft.append(event_message(NAMES, late._replace(kind=EventKind.ATTEMPT_SUCCEEDED, token=token)))
    with pytest.raises(LostResource):
        zombie.commit(draft)
    world.turn(router)
    assert world.verdicts() == {run_id: 1}


def test_whoever_says_hello_in_a_topic_that_was_made_anew_is_not_dead_by_what_the_old_one_said() -> None:
    world = World()
    for _ in range(5):
        world.hello()
    world.turn(router := world.router(), steps=2)
    partitions = world.log.partitions(NAMES.leases)
    world.cluster.delete_topic(NAMES.leases)
    world.cluster.create_topic(NAMES.leases, partitions, compact=True)
    world.turn(router, steps=2)
    living, _ = world.claimed(incarnation=world.hello())
    world.turn(router)
    assert not lost(world)
    world.hello()
    world.turn(router)
    assert lost(world) == {living: 1}


def test_what_was_open_when_leases_were_made_anew_is_lost_with_the_next_hello_of_its_worker() -> None:
    """Given a number that the new topic has not come to: no HELLO of it will stand behind that one for long."""
    world = World()
    before = [world.hello() for _ in range(5)]
    left, _ = world.claimed(incarnation=before[-1])
    world.turn(world.router(), steps=2)
    partitions = world.log.partitions(NAMES.leases)
    world.cluster.delete_topic(NAMES.leases)
    world.cluster.create_topic(NAMES.leases, partitions, compact=True)
    world.turn(router := world.router("retry-router-2"))
    assert not lost(world), "nobody knows whether it lives"
    living, _ = world.claimed(incarnation=world.hello())
    world.turn(router)
    assert lost(world) == {left: 1}
    assert living not in lost(world)
