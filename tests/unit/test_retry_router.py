"""The retry router on the Log in memory: one verdict for each failed attempt, one letter for each verdict."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from waterclock.log.memory import CommitFate, Killed
from waterclock.log.port import Outgoing, TopicPartition
from waterclock.model.errors import Fenced
from waterclock.model.events import EventKind, Origin, Pending, Reject, WorkRecord
from waterclock.model.failure_policy import FailurePolicy, policy_to_json
from waterclock.model.fold import parse_fold_from
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Tier
from waterclock.transact import Round
from waterclock.wire.codec import decode_any

from .router_world import HOSTILE, JOB, NAMES, OTHER, World


def test_a_failed_attempt_gets_one_verdict_and_its_run_one_dead_letter() -> None:
    world = World()
    run_id, token = world.claimed()
    router = world.router()
    world.turn(router)
    assert not world.verdicts()
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(router)
    assert world.verdicts() == {run_id: 1}
    [letter] = world.letters()
    assert (letter.run_id, letter.reason, letter.error_class) == (run_id, "ValueError", "ValueError")
    assert (letter.error_message, letter.attempts) == ("no invoice 4711", 1)
    assert letter.work is not None
    assert letter.work.topic == NAMES.runs(Tier.HIGH)
    work = decode_any(letter.work.value or b"")
    assert isinstance(work, WorkRecord)
    assert (work.run_id, work.payload) == (run_id, b"payload")
    assert ("ce_subject", run_id.encode()) in letter.work.headers


def test_a_timed_out_attempt_is_given_up_with_its_outcome_as_the_reason() -> None:
    world = World()
    run_id, token = world.claimed()
    world.ended(EventKind.ATTEMPT_TIMED_OUT, run_id, token, error_class="")
    world.turn(world.router())
    assert world.verdicts() == {run_id: 1}
    assert [letter.reason for letter in world.letters()] == ["timed-out"]


def test_a_success_asks_for_nothing() -> None:
    world = World()
    run_id, token = world.claimed()
    world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, token)
    world.turn(world.router())
    assert not world.verdicts()
    assert not world.letters()


def test_stale_and_repeated_failures_get_no_verdict_of_their_own() -> None:
    world = World()
    run_id, token = world.claimed()
    router = world.router()
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token - 1)
    world.turn(router)
    assert not world.verdicts()
    for _ in range(3):
        world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(router)
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(router)
    assert world.verdicts() == {run_id: 1}
    assert len(world.letters()) == 1


def test_a_cancelled_run_needs_no_verdict() -> None:
    world = World()
    run_id, token = world.claimed()
    world.event(EventKind.CANCEL_REQUESTED, run_id)
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(world.router())
    assert not world.verdicts()
    assert not world.letters()


def test_no_letter_for_a_verdict_that_is_not_accepted() -> None:
    world = World()
    run_id, _ = world.claimed()
    world.turn(router := world.router())
    world.event(EventKind.RUN_FAILED, run_id, 1, reason="forged")
    world.turn(router)
    assert not world.letters()


def test_an_expired_run_that_was_never_claimed_gets_a_letter_that_says_so() -> None:
    world = World()
    fire_at = world.clock.now()
    run_id = make_run_id(JOB, fire_at)
    world.event(EventKind.PENDING, run_id, detail=Pending(1, fire_at, fire_at, Tier.LOW, Origin.SCHEDULE))
    world.turn(router := world.router())
    world.event(EventKind.RUN_EXPIRED, run_id, reason="expired")
    world.turn(router)
    assert [(each.reason, each.work, each.attempts) for each in world.letters()] == [
        ("expired; never-claimed", None, 0)
    ]


def test_work_that_retention_removed_is_named_as_gone() -> None:
    world = World()
    world.turn(router := world.router())
    run_id, token = world.claimed()
    world.turn(router)
    world.cluster.partition(TopicPartition(NAMES.runs(Tier.HIGH), 0)).delete_before(1)
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(router)
    assert world.verdicts() == {run_id: 1}
    assert [(each.reason, each.error_class, each.work) for each in world.letters()] == [
        ("work-record-gone", "ValueError", None)
    ]


def test_many_letters_of_one_round_find_each_its_own_work() -> None:
    world = World()
    runs = [world.failed(JOB if number % 2 else OTHER) for number in range(50)]
    world.turn(world.router())
    letters = world.letters()
    assert sorted(each.run_id for each in letters) == sorted(runs)
    for each in letters:
        assert each.work is not None
        work = decode_any(each.work.value or b"")
        assert isinstance(work, WorkRecord)
        assert work.run_id == each.run_id


def test_undecodable_bytes_go_to_rejects_once_and_reading_goes_on() -> None:
    world = World()
    world.turn(router := world.router())
    world.append(Outgoing(NAMES.run_events, JOB.encode(), HOSTILE))
    run_id = world.failed()
    world.turn(router)
    world.turn(world.router())
    [reject] = world.dump(NAMES.rejects)
    assert isinstance(reject, Reject)
    assert (reject.role, reject.source.value) == ("retry-router", HOSTILE)
    assert world.verdicts() == {run_id: 1}


def test_a_first_start_answers_only_what_is_still_undecided() -> None:
    world = World()
    decided = world.failed()
    world.event(EventKind.RUN_FAILED, decided, 1, reason="ValueError")
    waiting = world.failed()
    world.turn(world.router())
    assert world.verdicts() == {decided: 1, waiting: 1}
    assert [letter.run_id for letter in world.letters()] == [waiting]


def test_a_first_start_decides_nothing_before_it_has_read_to_the_end() -> None:
    world = World()
    decided = world.failed()
    for _ in range(5):
        world.claimed(OTHER)
    world.event(EventKind.RUN_FAILED, decided, 1, reason="ValueError")
    world.turn(world.router(round_records=1), steps=60)
    assert world.verdicts() == {decided: 1}


def test_a_successor_knows_the_runs_that_began_before_the_committed_position() -> None:
    world = World()
    first = world.router()
    run_id, token = world.claimed()
    world.turn(first)
    assert world.lag() == 0
    world.cluster.kill("retry-router-1")
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(world.router())
    assert world.verdicts() == {run_id: 1}
    assert len(world.letters()) == 1


def test_lag_reads_zero_at_rest_and_the_metadata_is_never_erased() -> None:
    world = World()
    run_id, _ = world.claimed()
    world.failed()
    router = world.router()
    world.turn(router)
    assert world.lag() == 0
    committed = world.cluster.group(NAMES.group("retry-router")).committed(TopicPartition(NAMES.run_events, 0))
    assert committed is not None
    assert parse_fold_from(committed.metadata) == 0
    world.event(EventKind.CANCEL_REQUESTED, run_id, 1)
    router.step()
    router.drain()
    assert world.lag() == 0


def test_lost_metadata_makes_a_successor_read_everything_kept() -> None:
    world = World()
    run_id, token = world.claimed()
    world.turn(world.router())
    place = TopicPartition(NAMES.run_events, 0)
    group = world.cluster.group(NAMES.group("retry-router"))
    committed = group.committed(place)
    assert committed is not None
    world.cluster.kill("retry-router-1")
    group.commit({place: committed._replace(metadata="")})
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
    world.turn(world.router())
    assert world.verdicts() == {run_id: 1}


@pytest.mark.parametrize(
    "fate", [CommitFate.UNANSWERED, CommitFate.LOST, CommitFate.ABORTS, CommitFate.DOUBLED], ids=lambda fate: fate.name
)
@pytest.mark.parametrize("commit", range(4))
def test_doubtful_commits_neither_lose_nor_double_a_verdict_or_a_letter(fate: CommitFate, commit: int) -> None:
    world = World()
    world.turn(router := world.router())
    fates = world.cluster.faults
    for _ in range(commit):
        fates.next_commit("waterclock.retry-router.retry-router-1", CommitFate.LANDS)
    fates.next_commit("waterclock.retry-router.retry-router-1", fate)
    runs = [world.failed() for _ in range(3)]
    world.turn(router, steps=10)
    runs.append(world.failed())
    world.turn(router, steps=80)
    assert world.verdicts() == dict.fromkeys(runs, 1)
    assert sorted(letter.run_id for letter in world.letters()) == sorted(runs)


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


@pytest.mark.parametrize("call", range(1, 60))
def test_a_crash_at_any_call_neither_loses_nor_doubles_a_verdict_or_a_letter(call: int) -> None:
    world = World()
    before = world.failed()
    world.cluster.faults.on_call = crash_at(call)
    during: list[str] = []

    def live() -> None:
        router = world.router()
        world.turn(router, steps=3)
        during.extend([world.failed(), world.failed()])
        world.turn(router, steps=60)

    with pytest.raises(Killed):
        live()
    world.cluster.kill("retry-router-1")
    world.cluster.faults.on_call = None
    during = during or [world.failed(), world.failed()]
    world.turn(world.router(), steps=80)
    assert world.verdicts() == dict.fromkeys([before, *during], 1)
    assert sorted(letter.run_id for letter in world.letters()) == sorted([before, *during])
    assert world.lag() == 0


def test_partitions_that_move_to_another_router_are_answered_once() -> None:
    world = World(partitions=4)
    jobs = [f"acme:job-{number}" for number in range(12)]
    runs = [world.failed(job) for job in jobs]
    one = world.router("retry-router-1", round_records=3)
    world.turn(one, steps=4)
    runs += [world.failed(job) for job in jobs]
    two = world.router("retry-router-2", round_records=3)
    world.turn(one, two, steps=60)
    runs += [world.failed(job) for job in jobs]
    world.turn(one, two, steps=60)
    assert world.verdicts() == dict.fromkeys(runs, 1)
    assert sorted(letter.run_id for letter in world.letters()) == sorted(runs)
    assert one.ready
    assert two.ready


def test_a_router_that_lost_a_quiet_partition_unawares_can_say_nothing_about_it() -> None:
    """Given a round that expires a run, held up until another owns the partition and the run goes on there."""
    world = World()
    world.policy = policy_to_json(FailurePolicy(delays_us=(30 * US_PER_S,), jitter=False))
    run_id, claim = world.pending(queue_timeout_us=60 * US_PER_S)
    world.turn(stale := world.router("retry-router-1"))
    world.turn(stale)  # its position is committed, and does not move any more
    commit, paused = stale._rounds.commit, list[int]()

    def held_up(draft: Round) -> None:
        if not paused and any(message.topic == NAMES.run_events for message in draft.messages):
            paused.append(1)
            token = world.started(run_id, claim)
            world.turn(other := world.router("retry-router-2"), steps=300)  # the session of the stale one is over
            world.ended(EventKind.ATTEMPT_FAILED, run_id, token)
            world.turn(other)
        commit(draft)

    stale._rounds.commit = held_up  # type: ignore[method-assign]
    stale._offsets_every_s = 1e9
    with contextlib.suppress(Fenced):
        world.turn(stale, steps=320)
    assert paused
    assert [event.attempt for event in world.events(EventKind.RETRYING)] == [2]
    assert not world.events(EventKind.RUN_EXPIRED)
