"""One intention is served once for 24 hours, whoever repeats it and whatever happens to the shard in between."""

from __future__ import annotations

import pytest
from waterclock.dispatcher import keys

from tests.skewed_clock import SkewedClock
from tests.unit.dispatcher_world import NAMES, START, World, every
from tests.unit.test_dispatcher_trouble import ID, lose_metadata
from waterclock.log.memory import CommitFate
from waterclock.model.document import KEY_MAX
from waterclock.model.events import Answered, EventKind
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, JobSpec, Once

DAY_US = 24 * 3_600 * US_PER_S
LATER = JobSpec("demo.noop", Once(START + 900 * DAY_US))
"""A job that does not fire by itself."""


def one_shard() -> World:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:j", LATER)
    world.run(1)
    return world


def answers(world: World) -> list[Answered]:
    found = [event.detail for event in world.events(EventKind.ANSWERED)]
    return [each for each in found if isinstance(each, Answered)]


def verdicts(world: World) -> list[str]:
    return [answer.verdict for answer in answers(world)]


def test_a_repeated_trigger_makes_one_run_and_is_told_which() -> None:
    world = one_shard()
    first = world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k", answer=True)
    world.run(1)
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k")
    world.run(1)
    (run_id,) = world.runs()
    applied, repeated = answers(world)
    assert (applied.verdict, applied.offset, applied.run_id) == ("applied", first, run_id)
    assert (repeated.verdict, repeated.run_id, repeated.revision) == ("repeated", run_id, applied.revision)
    assert repeated.first_command_id == applied.command_id != repeated.command_id


def test_a_late_repeat_of_a_create_does_not_undo_what_came_after_it() -> None:
    world = one_shard()
    world.command(CommandKind.CREATE, "t:beat", every(5), idempotency_key="k")
    world.command(CommandKind.UPDATE, "t:beat", every(60))
    world.command(CommandKind.CREATE, "t:beat", every(5), idempotency_key="k")
    world.run(30)
    assert world.runs() == []
    assert verdicts(world) == ["repeated"]
    assert world.records(NAMES.rejects) == []


def test_a_record_sent_twice_is_known_by_its_id_where_it_has_no_key() -> None:
    world = one_shard()
    for _ in range(3):
        world.command(CommandKind.TRIGGER, "t:j", command_id="ce-1")
    world.run(1)
    assert len(world.runs()) == 1
    assert verdicts(world) == ["repeated", "repeated"]


def test_keys_of_different_jobs_and_keys_and_ids_do_not_meet() -> None:
    world = one_shard()
    world.command(CommandKind.CREATE, "t:k", LATER)
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="same")
    world.command(CommandKind.TRIGGER, "t:k", idempotency_key="same")
    world.command(CommandKind.TRIGGER, "t:j", command_id="same")
    world.run(1)
    assert len(world.runs()) == 3


def test_another_request_under_the_same_key_is_refused_and_kept() -> None:
    world = one_shard()
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k", payload=b"1", command_id="first")
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k", payload=b"2", answer=True)
    world.run(1)
    assert len(world.runs()) == 1
    assert len(world.records(NAMES.rejects)) == 1
    (refused,) = answers(world)
    assert (refused.verdict, refused.problem, refused.first_command_id) == ("refused", "key-reused", "first")
    assert refused.pointer == "/idempotency_key"
    assert refused.hint


def test_who_asked_and_why_is_no_part_of_the_request() -> None:
    world = one_shard()
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k", note="one")
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k", note="two")
    world.run(1)
    assert verdicts(world) == ["repeated"]


def test_a_refused_command_leaves_its_key_free() -> None:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k", answer=True)
    world.command(CommandKind.CREATE, "t:j", LATER)
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k", answer=True)
    world.run(1)
    assert verdicts(world) == ["refused", "applied"]
    assert len(world.runs()) == 1


def test_a_command_that_changed_nothing_is_an_intention_too() -> None:
    world = one_shard()
    world.command(CommandKind.RESUME, "t:j", idempotency_key="k", answer=True)
    world.command(CommandKind.PAUSE, "t:j")
    world.command(CommandKind.RESUME, "t:j", idempotency_key="k")
    world.run(1)
    assert verdicts(world) == ["unchanged", "repeated"]


def test_within_24_hours_it_is_a_repeat_and_after_them_a_new_intention() -> None:
    world = one_shard()
    for wait_us in (0, DAY_US - 2 * US_PER_S, 4 * US_PER_S, US_PER_S):
        world.clock.advance(wait_us)
        world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k", answer=True)
        world.run(1, step_s=0.5)
    assert verdicts(world) == ["applied", "repeated", "applied", "repeated"]
    assert len(set(world.runs())) == 2


def test_a_successor_knows_the_intentions_of_its_predecessor() -> None:
    world = one_shard()
    for number in range(5):
        world.command(CommandKind.TRIGGER, "t:j", idempotency_key=f"k{number}")
        world.command(CommandKind.TRIGGER, "t:j", command_id=f"id{number}")
    world.run(1)
    world.crash()
    world.cluster.compact(NAMES.state("dispatcher"))
    world.run(10)
    for number in range(5):
        world.command(CommandKind.TRIGGER, "t:j", idempotency_key=f"k{number}")
        world.command(CommandKind.TRIGGER, "t:j", command_id=f"id{number}")
    world.run(1)
    assert len(world.runs()) == 10
    assert verdicts(world) == ["repeated"] * 10


@pytest.mark.parametrize("fate", [CommitFate.UNANSWERED, CommitFate.LOST, CommitFate.ABORTS])
def test_a_replayed_command_is_not_taken_for_its_own_repeat(fate: CommitFate) -> None:
    world = one_shard()
    for number in range(6):
        world.command(CommandKind.TRIGGER, "t:j", idempotency_key=f"k{number}", answer=True)
        world.cluster.faults.next_commit(ID, fate)
        world.run(2)
    assert verdicts(world) == ["applied"] * 6
    assert len(set(world.runs())) == len(world.runs()) == 6


@pytest.mark.parametrize("offsets", [False, True])
def test_where_the_position_is_lost_no_intention_is_served_again(offsets: bool) -> None:
    world = one_shard()
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k", answer=True)
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k")
    world.run(8)
    lose_metadata(world, offsets=offsets)
    world.run(8)
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k")
    world.run(1)
    assert verdicts(world) == ["applied", "repeated", "repeated"]
    assert len(world.runs()) == 1


def kept(world: World) -> list[str]:
    """Keys of the intentions that the state topic still holds."""
    world.cluster.compact(NAMES.state("dispatcher"))
    records = [(record.key.decode(), record.value) for record in world.records(NAMES.state("dispatcher"))]  # type: ignore[attr-defined]
    return [key for key, value in records if keys.is_key_of_state(key) and value is not None]


def test_what_is_over_is_forgotten_in_slices_in_memory_and_in_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "EXPIRE_SLICE", 2)
    world = one_shard()
    for number in range(5):
        world.command(CommandKind.TRIGGER, "t:j", idempotency_key=f"k{number}")
    world.run(1)
    assert len(kept(world)) == 6
    world.clock.advance(DAY_US + 3_600 * US_PER_S)
    left = []
    for _ in range(4):
        world.command(CommandKind.TRIGGER, "t:j", command_id="")
        world.run(1, step_s=0.5)
        left.append(len(kept(world)))
    # Two given keys each time, and with the first of them the id that stood in for the CREATE's.
    assert left == [3, 1, 0, 0]
    assert len(world.dispatcher._shards[0].keys) == 0


def test_a_key_that_is_over_and_served_again_in_the_same_round_is_kept() -> None:
    world = one_shard()
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k")
    world.run(1)
    world.clock.advance(DAY_US + 3_600 * US_PER_S)
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k")
    world.run(2, step_s=0.5)
    world.crash()
    world.run(10)
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k")
    world.run(1)
    assert len(world.runs()) == 2
    assert verdicts(world) == ["repeated"]


def test_at_the_bound_a_further_key_is_refused_as_busy_and_none_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "KEYS_MAX", 6)
    world = one_shard()
    for number in range(5):
        world.command(CommandKind.TRIGGER, "t:j", idempotency_key=f"k{number}", answer=True)
    world.command(CommandKind.TRIGGER, "t:j", answer=True)
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k0")
    world.run(1)
    assert verdicts(world) == [*["applied"] * 3, *["refused"] * 2, "applied", "repeated"]
    assert {answer.problem for answer in answers(world)} == {"", "busy"}
    world.clock.advance(DAY_US + 3_600 * US_PER_S)
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k3", answer=True)
    world.run(1, step_s=0.5)
    assert verdicts(world)[-1] == "applied"


def test_a_tenant_that_holds_half_of_the_keys_locks_nobody_else_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "KEYS_MAX", 8)
    world = one_shard()
    world.command(CommandKind.CREATE, "u:j", LATER)
    for number in range(3):
        world.command(CommandKind.TRIGGER, "t:j", idempotency_key=f"a{number}", answer=True)
    world.run(1)
    world.crash()
    world.run(10)
    for number in range(3):
        world.command(CommandKind.TRIGGER, "t:j", idempotency_key=f"b{number}", answer=True)
    for number in range(5):
        world.command(CommandKind.TRIGGER, "u:j", idempotency_key=f"c{number}", answer=True)
    world.run(1)
    assert verdicts(world) == [*["applied"] * 4, *["refused"] * 2, *["applied"] * 4, "refused"]
    assert {answer.problem for answer in answers(world)} == {"", "busy"}
    world.clock.advance(DAY_US + 3_600 * US_PER_S)
    world.command(CommandKind.TRIGGER, "t:j", answer=True)
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="d", answer=True)
    world.run(1, step_s=0.5)
    assert verdicts(world)[-2:] == ["applied", "applied"]
    assert set(world.dispatcher._shards[0].keys._given_by_tenant) == {"t"}


def test_the_revision_that_it_was_asked_of_is_no_part_of_the_request() -> None:
    world = one_shard()
    world.command(CommandKind.UPDATE, "t:j", every(60), expected_revision=0, idempotency_key="k", answer=True)
    world.run(1)
    (applied,) = answers(world)
    for revision in (applied.revision, applied.revision + 1):
        world.command(CommandKind.UPDATE, "t:j", every(60), expected_revision=revision, idempotency_key="k")
    world.run(1)
    assert verdicts(world) == ["applied", "repeated", "repeated"]


@pytest.mark.parametrize("successor", [False, True])
def test_the_same_http_request_is_a_repeat_whatever_the_api_makes_of_it_by_then(*, successor: bool) -> None:
    world = one_shard()
    asked = {"idempotency_key": "k", "request_hash": b"h" * 16}
    world.command(CommandKind.UPDATE, "t:j", every(60), answer=True, **asked)
    world.run(1)
    (applied,) = answers(world)
    if successor:
        world.crash()
        world.cluster.compact(NAMES.state("dispatcher"))
        world.run(10)
    # On the condition of a revision that no longer stands: keys are looked at first.
    world.command(CommandKind.UPDATE, "t:j", every(5), expected_revision=applied.revision - 1, **asked)
    world.run(1)
    repeated = answers(world)[-1]
    assert (repeated.verdict, repeated.revision) == ("repeated", applied.revision)
    assert world.records(NAMES.rejects) == []


@pytest.mark.parametrize(
    ("first", "then", "same_body", "other_body"),
    [
        (b"", b"", "repeated", "refused"),  # job events, and an API of an earlier release
        (b"", b"h" * 16, "repeated", "refused"),  # a job event, then the API
        (b"h" * 16, b"", "repeated", "refused"),  # the API, then a job event
        (b"h" * 16, b"g" * 16, "repeated", "refused"),  # two requests
        (b"h" * 16, b"h" * 16, "repeated", "repeated"),
    ],
)
def test_what_is_no_repetition_of_an_http_request_is_told_by_its_body(
    first: bytes, then: bytes, same_body: str, other_body: str
) -> None:
    world = one_shard()
    for every_s, request_hash in ((60, first), (60, then), (5, then)):
        asked = {"idempotency_key": "k", "request_hash": request_hash, "answer": True}
        world.command(CommandKind.UPDATE, "t:j", every(every_s), **asked)
    world.run(1)
    assert verdicts(world) == ["applied", same_body, other_body]
    assert {answer.problem for answer in answers(world)} == {"", *(["key-reused"] if other_body == "refused" else [])}


@pytest.mark.parametrize("fate", [CommitFate.UNANSWERED, CommitFate.LOST, CommitFate.ABORTS])
def test_a_replayed_command_with_a_hash_decides_alike(fate: CommitFate) -> None:
    world = one_shard()
    for number, every_s in enumerate((60, 5, 30)):
        asked = {"idempotency_key": f"k{min(number, 1)}", "request_hash": b"h" * 16}
        world.command(CommandKind.UPDATE, "t:j", every(every_s), answer=True, **asked)
        world.cluster.faults.next_commit(ID, fate)
        world.run(2)
    assert verdicts(world) == ["applied", "applied", "repeated"]


def test_an_id_that_stands_in_reaches_back_a_bounded_way_and_a_key_all_24_hours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keys, "ID_OFFSETS", 10)
    world = one_shard()
    world.command(CommandKind.TRIGGER, "t:j", command_id="id")
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="key")
    for _ in range(20):
        world.command(CommandKind.RESUME, "t:j")
        world.run(0.1)
    world.command(CommandKind.TRIGGER, "t:j", command_id="id")
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="key")
    world.run(1)
    assert len(world.runs()) == 3
    assert verdicts(world) == ["repeated"]
    assert len(world.dispatcher._shards[0].keys) < 16


def test_a_key_too_long_to_be_kept_is_refused() -> None:
    world = one_shard()
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k" * (KEY_MAX + 1), answer=True)
    world.command(CommandKind.TRIGGER, "t:j", command_id="c" * (KEY_MAX + 1), answer=True)
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="h", request_hash=b"h" * (KEY_MAX + 1), answer=True)
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="é" * KEY_MAX, answer=True)
    world.run(1)
    assert verdicts(world) == ["refused", "refused", "refused", "applied"]


@pytest.mark.parametrize("ahead_us", [2 * DAY_US, 400 * DAY_US])
def test_a_broker_whose_clock_was_ahead_has_no_key_forgotten_early(ahead_us: int) -> None:
    world = one_shard()
    world.cluster.clock = brokers = SkewedClock(world.clock)
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k", answer=True)
    world.run(1)
    brokers.skew_us = ahead_us
    world.command(CommandKind.TRIGGER, "t:j", answer=True)
    world.run(1)
    brokers.skew_us = 0
    world.crash()
    world.run(10)
    world.command(CommandKind.TRIGGER, "t:j", idempotency_key="k")
    world.run(1)
    assert verdicts(world) == ["applied", "applied", "repeated"]


def test_a_key_that_was_stamped_ahead_holds_up_no_other_that_is_over() -> None:
    world = one_shard()
    world.cluster.clock = brokers = SkewedClock(world.clock)
    for ahead_us, key in ((400 * DAY_US, "ahead"), (0, "k1"), (0, "k2")):
        brokers.skew_us = ahead_us
        world.command(CommandKind.TRIGGER, "t:j", idempotency_key=key)
        world.run(1)
    world.clock.advance(DAY_US + 3_600 * US_PER_S)
    for _ in range(3):
        world.command(CommandKind.TRIGGER, "t:j", command_id="")
        world.run(1, step_s=0.5)
    assert len(kept(world)) == 1
    assert len(world.dispatcher._shards[0].keys) == 1
