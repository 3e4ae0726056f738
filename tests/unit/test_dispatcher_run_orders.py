"""Commands about one run: what a dispatcher puts out for a cancel, a redrive, a discard and a deferral."""

from __future__ import annotations

import pytest

from tests.oracle import books
from tests.unit.dispatcher_world import NAMES, START, World, every, raw
from tests.unit.test_dispatcher_keys import answers, one_shard, verdicts
from tests.unit.test_dispatcher_trouble import ID
from waterclock.log.memory import CommitFate
from waterclock.log.port import TopicPartition
from waterclock.model.events import ControlKind, EventKind, Origin, Pending, WorkRecord
from waterclock.model.ids import US_PER_S, make_run_id, ordinal
from waterclock.model.job import CommandKind, Tier
from waterclock.model.schedule import AT_MAX
from waterclock.store.memory import WriteFault
from waterclock.wire import codec

RUN = make_run_id("t:j", START)
HOUR_US = 3_600 * US_PER_S


def work(run_id: str = RUN, attempt: int = 2, **more: object) -> WorkRecord:
    marks = {"verify_from": 7, "verify_state": "[2,1]"} | more
    return WorkRecord(
        run_id, START, START, attempt, run_id.partition("@")[0], 5, Tier.HIGH, "default", "demo.noop", b"{}", **marks
    )  # type: ignore[arg-type]


def handed_out(world: World) -> list[WorkRecord]:
    return [
        codec.decode_work(record.value)  # type: ignore[attr-defined]
        for tier in Tier
        for record in world.records(NAMES.runs(tier))
    ]


def cancel(world: World, run_id: str = RUN, job_id: str = "t:j", **more: object) -> int:
    return world.command(CommandKind.CANCEL, job_id, run_id=run_id, **more)


def defer(world: World, after_s: float, what: WorkRecord | None = None, **more: object) -> None:
    what = what or work()
    due_at = world.clock.now() + round(after_s * US_PER_S)
    world.command(CommandKind.DEFER, what.job_id, work=codec.encode_work(what), due_at=due_at, **more)


# -- cancel


def test_control_is_told_of_a_cancel_before_run_events_are() -> None:
    world = one_shard()
    events, control = TopicPartition(NAMES.run_events, 0), TopicPartition(NAMES.control, 0)
    seen: list[tuple[int, int]] = []

    def look(_client: str, operation: str) -> None:
        if operation == "flush":
            seen.append((world.outside.high_watermark(control), world.outside.high_watermark(events)))

    cancel(world, note="not needed", answer=True)
    before = world.outside.high_watermark(events)
    world.cluster.faults.on_call = look
    world.run(1)
    assert (1, before) in seen
    (told,) = (codec.decode_control(record.value) for record in world.records(NAMES.control))  # type: ignore[attr-defined]
    (asked,) = world.events(EventKind.CANCEL_REQUESTED)
    assert (told.kind, told.run_id, told.job_id) == (ControlKind.CANCEL_REQUESTED, RUN, "t:j")
    assert (asked.run_id, asked.reason) == (RUN, "not needed")
    assert verdicts(world) == ["applied"]


@pytest.mark.parametrize("kind", [CommandKind.PAUSE, CommandKind.DELETE])
def test_runs_of_paused_and_deleted_jobs_can_be_cancelled(kind: CommandKind) -> None:
    world = one_shard()
    world.command(kind, "t:j")
    cancel(world)
    world.run(1)
    assert [event.run_id for event in world.events(EventKind.CANCEL_REQUESTED)] == [RUN]


def test_a_cancel_changes_no_row_of_its_job() -> None:
    world = one_shard()
    writes: list[str] = []
    world.tables.on_call = lambda _client, operation: writes.append(operation)  # type: ignore[assignment, func-returns-value]
    cancel(world)
    world.run(0.2)
    assert not [operation for operation in writes if operation.startswith("apply")]


@pytest.mark.parametrize("run_id", ["nonsense", "", make_run_id("t:other", START)])
def test_a_cancel_of_no_run_of_its_job_is_refused(run_id: str) -> None:
    world = one_shard()
    cancel(world, run_id, answer=True)
    world.run(1)
    assert world.events(EventKind.CANCEL_REQUESTED) == []
    (answer,) = answers(world)
    assert (answer.verdict, answer.pointer) == ("refused", "/run_id")
    assert len(world.records(NAMES.rejects)) == 1


def test_a_repeated_cancel_is_passed_on_once() -> None:
    world = one_shard()
    cancel(world, idempotency_key="k")
    world.crash()
    world.run(10)
    cancel(world, idempotency_key="k")
    world.run(1)
    assert len(world.events(EventKind.CANCEL_REQUESTED)) == 1
    assert verdicts(world) == ["repeated"]


def test_a_key_of_another_runs_cancel_is_refused() -> None:
    world = one_shard()
    cancel(world, idempotency_key="k", answer=True)
    cancel(world, make_run_id("t:j", START + US_PER_S), idempotency_key="k", answer=True)
    world.run(1)
    assert [answer.problem for answer in answers(world)] == ["", "key-reused"]


# -- redrive


def redrive(world: World, what: WorkRecord | None = None, **more: object) -> int:
    what = what or work()
    more = {"run_id": RUN, "work": codec.encode_work(what)} | more
    return world.command(CommandKind.REDRIVE, "t:j", **more)


def test_a_redrive_makes_a_new_series_linked_to_the_run_that_was_given_up() -> None:
    world = one_shard()
    offset = redrive(world, work(redrives=3), answer=True)
    world.run(1)
    (event,) = world.events(EventKind.PENDING)
    assert event.run_id == make_run_id("t:j", START, ordinal(1, offset))
    assert isinstance(event.detail, Pending)
    assert (event.detail.origin, event.detail.linked_run, event.detail.due_at) == (Origin.REDRIVE, RUN, None)
    (again,) = handed_out(world)
    assert (again.run_id, again.attempt, again.redrives, again.verify_from) == (event.run_id, 1, 4, -1)
    assert again.payload == b"{}"
    assert [(answer.verdict, answer.run_id) for answer in answers(world)] == [("applied", event.run_id)]


def test_a_redrive_of_a_deleted_job_runs() -> None:
    world = one_shard()
    world.command(CommandKind.DELETE, "t:j")
    redrive(world)
    world.run(1)
    assert len(handed_out(world)) == 1


def test_a_replayed_redrive_makes_the_same_run() -> None:
    world = one_shard()
    world.cluster.faults.next_commit(ID, CommitFate.LOST)
    redrive(world)
    world.run(1)
    world.crash()
    world.run(10)
    assert len(world.runs()) == len(handed_out(world)) == 1


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"work": None}, "/work"),
        ({"work": b"nonsense"}, ""),
        ({"work": codec.encode_work(work(make_run_id("t:other", START)))}, "/work"),
        ({"work": codec.encode_work(work()._replace(pool="nowhere"))}, "/work"),
        ({"run_id": make_run_id("t:other", START)}, "/run_id"),
    ],
)
def test_a_redrive_that_no_worker_could_take_is_refused(more: dict[str, object], pointer: str) -> None:
    world = one_shard()
    redrive(world, answer=True, **more)
    world.run(1)
    assert world.runs() == handed_out(world) == []
    assert [(answer.verdict, answer.pointer) for answer in answers(world)] == [("refused", pointer)]


# -- discard


def test_a_discard_is_answered_and_changes_no_run() -> None:
    world = one_shard()
    before = len(world.events())
    world.command(CommandKind.DISCARD, "t:j", run_id=RUN, answer=True)
    world.run(1)
    assert len(world.events()) == before + 1
    assert verdicts(world) == ["applied"]


# -- defer


def test_a_deferred_attempt_goes_out_at_its_due_time_and_makes_no_run() -> None:
    world = one_shard()
    defer(world, 150)
    world.run(149)
    assert handed_out(world) == []
    world.run(2)
    assert handed_out(world) == [work()]
    assert world.runs() == []


@pytest.mark.parametrize("after_s", [-3_600, 0])
def test_an_attempt_whose_time_has_come_goes_out_in_the_round_of_its_command(after_s: float) -> None:
    world = one_shard()
    defer(world, after_s)
    world.run(1)
    assert handed_out(world) == [work()]
    world.run(120)
    assert len(handed_out(world)) == 1


def test_a_deferred_attempt_survives_crashes_and_goes_out_once() -> None:
    world = one_shard()
    defer(world, 200)
    for _ in range(12):
        world.run(20)
        world.crash()
    world.run(30)
    assert handed_out(world) == [work()]


def test_a_deferral_over_an_hour_ahead_waits_in_the_time_index() -> None:
    world = one_shard()
    defer(world, 5_400)
    world.run(1)
    world.crash()
    world.clock.advance(5_300 * US_PER_S)
    world.steps(3_200)  # a slice of the window each: 32 for a minute
    world.run(60)
    assert handed_out(world) == []
    world.run(60)
    assert handed_out(world) == [work()]


@pytest.mark.parametrize("kind", [CommandKind.PAUSE, CommandKind.DELETE])
def test_a_deferred_attempt_goes_out_though_its_job_was_paused_or_deleted(kind: CommandKind) -> None:
    world = one_shard()
    defer(world, 100)
    world.run(1)
    world.command(kind, "t:j")
    world.run(110)
    assert handed_out(world) == [work()]


def test_an_attempt_deferred_while_nobody_served_is_late_and_not_lost() -> None:
    world = one_shard()
    defer(world, 100)
    world.run(1)
    world.cluster.kill(f"d1-{world.lives}")
    world.clock.advance(3 * HOUR_US)
    world.dispatcher = world.start()
    world.run(30)
    assert handed_out(world) == [work()]


def test_deferred_attempts_keep_their_order_among_fires_and_no_fire_is_lost() -> None:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(5, tier=Tier.HIGH))
    world.run(1)
    for number in range(20):
        defer(world, 3 * number, work(make_run_id("t:beat", START + number)))
    for _ in range(6):
        world.run(15)
        world.crash()
    world.run(15)
    outs = [each for each in handed_out(world) if each.verify_from >= 0]
    assert [each.run_id for each in outs] == [make_run_id("t:beat", START + number) for number in range(20)]
    fires = world.runs("t:beat")
    assert len(fires) == len(set(fires)) == 21


def test_a_deferral_whose_row_is_in_doubt_is_written_again_alike() -> None:
    world = one_shard()
    faults = iter([WriteFault.LOST, WriteFault.APPLIED])
    world.tables.on_call = lambda _client, operation: next(faults, None) if operation == "write_due" else None
    defer(world, 100)
    world.run(120)
    assert handed_out(world) == [work()]


@pytest.mark.parametrize("due_at", [-1, 0, AT_MAX, 2**31 * 60 * US_PER_S, 2**63 - 1])
def test_a_deferral_to_no_instant_is_refused_and_stops_no_shard(due_at: int) -> None:
    world = one_shard()
    world.command(CommandKind.DEFER, "t:j", work=codec.encode_work(work()), due_at=due_at)
    world.command(CommandKind.CREATE, "t:beat", every(1))
    world.run(3)
    (reject,) = [codec.decode_reject(record.value) for record in world.records(NAMES.rejects)]  # type: ignore[attr-defined]
    assert (reject.pointer, bool(reject.hint)) == ("/due_at", True)
    assert len(world.runs("t:beat")) == 3


@pytest.mark.parametrize("kind", [CommandKind.DEFER, CommandKind.REDRIVE])
@pytest.mark.parametrize(
    "more",
    [
        {"attempt": 0},
        {"attempt": 2**31},
        {"redrives": 2**31 - 1},
        {"redrives": -1},
        {"fire_at": -1},
        {"fire_at": AT_MAX},
        {"due_at": 2**62},
    ],
)
def test_work_whose_numbers_fit_no_column_is_refused_and_stops_no_shard(
    kind: CommandKind, more: dict[str, int]
) -> None:
    world = one_shard()
    broken = codec.encode_work(work()._replace(**more))  # type: ignore[arg-type]  # fields by name
    world.command(kind, "t:j", work=broken, due_at=START + HOUR_US, run_id=RUN)
    world.command(CommandKind.CREATE, "t:beat", every(1))
    world.run(3)
    (reject,) = [codec.decode_reject(record.value) for record in world.records(NAMES.rejects)]  # type: ignore[attr-defined]
    assert reject.pointer == "/work"
    assert len(world.runs("t:beat")) == 3


def test_a_redrive_whose_policy_fits_no_event_is_refused() -> None:
    world = one_shard()
    broken = codec.encode_work(work(policy='{"queue_timeout_us":18446744073709551615}'))
    world.command(CommandKind.REDRIVE, "t:j", work=broken, run_id=RUN)
    world.run(1)
    assert len(world.records(NAMES.rejects)) == 1
    assert world.events(EventKind.PENDING) == []


def test_a_letter_whose_policy_was_made_by_wider_rules_can_be_redriven() -> None:
    world = one_shard()
    old = codec.encode_work(work(policy=f'{{"max_delay_us":{30 * 24 * HOUR_US}}}'))
    world.command(CommandKind.REDRIVE, "t:j", work=old, run_id=RUN)
    world.run(1)
    assert world.records(NAMES.rejects) == []
    assert len(handed_out(world)) == 1


def test_work_without_marks_is_verified_from_the_beginning() -> None:
    world = one_shard()
    defer(world, 0, work(verify_from=-1, verify_state=""))
    world.run(1)
    (out,) = handed_out(world)
    assert (out.verify_from, out.verify_state) == (0, "")


def test_the_books_balance_with_commands_about_runs_among_the_others() -> None:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:j", every(5), answer=True)
    world.run(7)
    for number in range(4):
        cancel(world, idempotency_key=f"k{number % 2}", answer=True)
        redrive(world, idempotency_key=f"r{number % 3}", answer=True)
        redrive(world, work=None, answer=True)
        defer(world, 10, answer=True)
        world.command(CommandKind.DISCARD, "t:j", run_id=RUN, answer=True)
        world.command(CommandKind.CANCEL, "t:j", run_id="nonsense", answer=True)
        world.run(9)
        world.crash()
    world.run(10)
    commands, events = world.records(NAMES.commands), world.records(NAMES.run_events)
    complaints, counts = books.balance([raw(each) for each in commands], [raw(each) for each in events], START)
    assert complaints == []
    assert counts["redriven"] == 3
