"""The doctor notices attempts that a living worker has forgotten."""

from __future__ import annotations

from collections.abc import Callable

from waterclock.clock import Clock
from waterclock.clusters.doctor_forgotten import Beats, examine, judge
from waterclock.clusters.doctor_runs import Seen
from waterclock.clusters.finding import Finding, State
from waterclock.model.events import EventKind, Heartbeat, RunStatus
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.reduce import RunState
from waterclock.wire.messages import heartbeat_message

from .router_world import GENERATION, NAMES, World

LIFE = ("w-1", 3)
FIRST_AT = 1_000


def seen(number: int, token: int = 0, *, incarnation: int = 3, since: Instant = 0) -> Seen:
    state = RunState(RunStatus.RUNNING, 1, worker="w-1", incarnation=incarnation, token=token or number)
    return Seen(f"acme:j@{number}", state, "tier", 0, since)


def beat(held_count: int, held_xor: int, at: Instant = FIRST_AT) -> Heartbeat:
    return Heartbeat("w-1", 3, at, "id", held_count, held_xor, 8)


def judged(before: list[Seen], after: list[Seen], last: Heartbeat) -> Finding:
    return judge(before, after, {LIFE: Beats(beat(9, 0), last)})


def test_fewer_held_than_are_open_is_told_with_their_names() -> None:
    both = [seen(5), seen(9)]
    found = judged(both, both, beat(1, 5))
    assert found.state is State.FAIL
    assert "w-1" in found.found
    assert "acme:j@5, acme:j@9" in found.found
    assert "Restart" in found.next_step


def test_as_many_but_others_is_told_too() -> None:
    both = [seen(5), seen(9)]
    assert judged(both, both, beat(2, 5 ^ 9)).state is State.OK
    assert judged(both, both, beat(2, 5 ^ 8)).state is State.FAIL


def test_what_more_is_held_was_claimed_since_or_has_ended_since() -> None:
    assert judged([seen(5)], [seen(5), seen(9)], beat(2, 5 ^ 9)).state is State.OK
    assert judged([seen(5), seen(9)], [seen(5)], beat(1, 5)).state is State.OK


def test_a_claim_that_is_on_its_way_is_not_forgotten() -> None:
    """Given a claim from after the first beat, or one seen once, then no beat need hold it."""
    late = seen(5, since=FIRST_AT)
    assert judged([late], [late], beat(0, 0)).state is State.OK
    assert judged([], [seen(5)], beat(0, 0)).state is State.OK


def test_another_try_of_a_run_is_another_attempt() -> None:
    assert judged([seen(5, token=50)], [seen(5, token=60)], beat(0, 0)).state is State.OK


def test_another_incarnation_answers_for_its_own() -> None:
    both = [seen(5, incarnation=2)]
    assert judged(both, both, beat(0, 0)).state is State.OK


class Passing(Clock):
    """A second goes by at each look, and then ``meanwhile`` happens."""

    def __init__(self, world: World, meanwhile: Callable[[], None]) -> None:
        self._world, self._meanwhile = world, meanwhile

    def now(self) -> Instant:
        return self._world.clock.now()

    def monotonic_s(self) -> float:
        self._world.clock.advance(US_PER_S)
        self._meanwhile()
        return self._world.clock.monotonic_s()


def found_while_it_beats(world: World, incarnation: int, *tokens: int) -> list[Finding]:
    def beats() -> None:
        held_xor = 0
        for token in tokens:
            held_xor ^= token
        at = world.clock.now()
        said = Heartbeat("w-1", incarnation, at, "id", len(tokens), held_xor, 8)
        world.append(heartbeat_message(NAMES, said))

    return list(examine(world.log, NAMES, Passing(world, beats), GENERATION))


def test_a_run_whose_worker_lives_and_does_not_hold_it_is_found_in_the_log() -> None:
    world = World(partitions=2)
    incarnation = world.hello()
    kept, token = world.claimed(incarnation=incarnation)
    (found,) = found_while_it_beats(world, incarnation, token)
    assert found.state is State.OK
    lost, _ = world.claimed("acme:hourly", incarnation=incarnation)
    (found,) = found_while_it_beats(world, incarnation, token)
    assert found.state is State.FAIL
    assert kept in found.found
    assert lost in found.found


def test_what_ends_while_it_looks_is_not_forgotten() -> None:
    world = World()
    incarnation = world.hello()
    run_id, token = world.claimed(incarnation=incarnation)
    ends = iter([run_id])

    def meanwhile() -> None:
        for each in ends:
            world.event(EventKind.ATTEMPT_SUCCEEDED, each, 1, worker="w-1", incarnation=incarnation, token=token)
        said = Heartbeat("w-1", incarnation, world.clock.now(), "id", 0, 0, 8)
        world.append(heartbeat_message(NAMES, said))

    (found,) = examine(world.log, NAMES, Passing(world, meanwhile), GENERATION)
    assert found.state is State.OK


def test_who_does_not_beat_is_left_to_its_lease() -> None:
    world = World()
    world.claimed(incarnation=world.hello())
    began_at_s = world.clock.monotonic_s()
    (found,) = examine(world.log, NAMES, Passing(world, lambda: None), GENERATION)
    assert found.state is State.OK
    assert world.clock.monotonic_s() - began_at_s < 15.0, "and the waiting has an end"


def test_nothing_open_is_nothing_to_wait_for() -> None:
    world = World()
    world.pending()
    began_at_s = world.clock.monotonic_s()
    (found,) = examine(world.log, NAMES, Passing(world, lambda: None), GENERATION)
    assert found.state is State.OK
    assert world.clock.monotonic_s() == began_at_s
