"""What becomes of fires that find other runs of their job open: what people see in the log, policy by policy."""

from __future__ import annotations

from unittest import mock

import pytest
from waterclock.dispatcher import applying, flow, releasing, window

from tests.unit.dispatcher_world import NAMES, START, World
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.errors import BackendDown, UndecodableRecord
from waterclock.model.events import (
    Answered,
    ControlKind,
    Ended,
    EventKind,
    Pending,
    RunEvent,
    Skipped,
    Started,
    WorkRecord,
)
from waterclock.model.ids import US_PER_S, job_of_run, ordinal
from waterclock.model.job import CommandKind, Every, JobSpec
from waterclock.wire import codec
from waterclock.wire.messages import event_message

JOB = "t:job"
EVERY_US = 10 * US_PER_S


@pytest.fixture
def world():
    with mock.patch.object(window, "SLOTS_PER_SLICE", 256):
        yield World(partitions=1)


def define(world: World, overlap: Overlap = Overlap.ALLOW, **limits: object) -> None:
    define_job(world, JOB, Concurrency(overlap, **limits))  # type: ignore[arg-type]


def define_job(world: World, job_id: str, concurrency: Concurrency, kind: CommandKind = CommandKind.CREATE) -> None:
    spec = JobSpec("demo.noop", Every(EVERY_US, START), payload=b'{"k":"own"}', concurrency=concurrency)
    world.command(kind, job_id, spec)
    rest(world)


def rest(world: World) -> None:
    quiet = 0
    for _ in range(300):
        quiet = 0 if world.dispatcher.step() else quiet + 1
        if quiet > 5:
            return
    raise AssertionError("the dispatcher does not come to rest")


def fire(world: World, times: int = 1) -> None:
    """The next fires of every job, one after the other."""
    for _ in range(times):
        now = world.clock.now()
        world.clock.advance(EVERY_US - (now - START) % EVERY_US + 1_000)
        rest(world)


def say(world: World, run_id: str, kind: EventKind, *, attempt: int = 1, token: int = 0, **more: object) -> int:
    """As a worker or the retry router would."""
    owner = {"worker": "w", "incarnation": 1, "token": token} if kind.value.startswith(("STARTED", "ATTEMPT")) else {}
    event = RunEvent(kind, job_of_run(run_id), run_id, world.clock.now(), attempt=attempt, **owner, **more)  # type: ignore[arg-type]
    appender = world.outside.appender()
    ticket = appender.append(event_message(NAMES, event))
    appender.flush(1.0)
    assert ticket.offset is not None
    return ordinal(1, ticket.offset)


def start(world: World, run_id: str, attempt: int = 1) -> int:
    return say(world, run_id, EventKind.STARTED, attempt=attempt, detail=Started("x", 0, 0))


def end(world: World, run_id: str, kind: EventKind = EventKind.ATTEMPT_SUCCEEDED) -> None:
    say(world, run_id, kind, token=start(world, run_id), detail=Ended(0))
    rest(world)


def told(world: World, job_id: str = JOB) -> list[str]:
    """The decisions, each as its kind, the number of its fire, and why."""
    kinds = (EventKind.PENDING, EventKind.HELD, EventKind.SKIPPED, EventKind.CANCEL_REQUESTED)
    mine = (event for event in world.events() if event.job_id == job_id and event.kind in kinds)
    return [f"{event.kind.value} {number_of(event.run_id)} {event.reason}".strip() for event in mine]


def number_of(run_id: str) -> str:
    second = run_id.partition("@")[2][9:15]
    minutes, seconds = int(second[2:4]), int(second[4:6])
    began = START // US_PER_S % 3_600
    number = (minutes * 60 + seconds - began) // (EVERY_US // US_PER_S)
    return f"{number}~" if "~" in run_id else str(number)


def run(world: World, number: int) -> str:
    """The run of a fire, by its number."""
    ids = {event.run_id for event in world.events() if event.kind in (EventKind.PENDING, EventKind.HELD)}
    return next(run_id for run_id in sorted(ids) if number_of(run_id) == str(number) and run_id.startswith(JOB))


def test_a_job_without_a_policy_has_its_runs_beside_one_another_and_nothing_is_followed(world: World) -> None:
    define(world)
    fire(world, 3)
    assert told(world) == ["PENDING 1", "PENDING 2", "PENDING 3"]
    assert not world.dispatcher._tail._flows
    assert not [record for record in world.records(NAMES.state("dispatcher")) if record.key.startswith(b"flow/")]  # type: ignore[attr-defined]


def test_skip_drops_a_fire_while_a_run_is_open_and_no_longer(world: World) -> None:
    define(world, Overlap.SKIP)
    fire(world, 2)
    end(world, run(world, 1))
    fire(world)
    assert told(world) == ["PENDING 1", "SKIPPED 2 overlap", "PENDING 3"]


def test_buffer_one_holds_the_first_and_drops_the_others(world: World) -> None:
    define(world, Overlap.BUFFER_ONE)
    fire(world, 3)
    end(world, run(world, 1))
    assert told(world) == ["PENDING 1", "HELD 2 overlap", "SKIPPED 3 overlap", "PENDING 2"]


def test_buffer_all_holds_up_to_its_cap_and_names_it(world: World) -> None:
    define(world, Overlap.BUFFER_ALL, max_held=2)
    fire(world, 4)
    assert told(world) == ["PENDING 1", "HELD 2 overlap", "HELD 3 overlap", "SKIPPED 4 overlap"]
    (dropped,) = [event.detail for event in world.events(EventKind.SKIPPED)]
    assert isinstance(dropped, Skipped)
    assert dropped.cap == "max_held"


@pytest.mark.parametrize("overlap", [Overlap.CANCEL_OTHER, Overlap.TERMINATE_OTHER])
def test_the_newest_fire_stops_the_other_and_starts_only_after_its_end(world: World, overlap: Overlap) -> None:
    define(world, overlap)
    fire(world)
    token = start(world, run(world, 1))
    fire(world, 2)
    assert told(world)[1:] == [f"CANCEL_REQUESTED 1 {overlap}", "HELD 2 overlap", "SKIPPED 2 overlap", "HELD 3 overlap"]
    say(world, run(world, 1), EventKind.ATTEMPT_CANCELLED, token=token, detail=Ended(0))
    rest(world)
    assert told(world)[-1] == "PENDING 3"
    (order,) = [codec.decode_control(record.value) for record in world.records(NAMES.control)]  # type: ignore[attr-defined]
    assert (order.kind, order.hard) == (ControlKind.CANCEL_REQUESTED, overlap is Overlap.TERMINATE_OTHER)


def test_sequential_waits_for_the_final_status_and_a_failed_attempt_is_none(world: World) -> None:
    define(world, Overlap.SEQUENTIAL)
    fire(world, 3)
    first = run(world, 1)
    say(world, first, EventKind.ATTEMPT_FAILED, token=start(world, first), detail=Ended(0, "Odd"))
    say(world, first, EventKind.RETRYING, attempt=2)
    rest(world)
    assert told(world) == ["PENDING 1", "HELD 2 overlap", "HELD 3 overlap"]
    token = start(world, first, attempt=2)
    say(world, first, EventKind.ATTEMPT_FAILED, attempt=2, token=token, detail=Ended(0, "Odd"))
    rest(world)
    assert told(world)[3:] == []
    say(world, first, EventKind.RUN_FAILED, attempt=2)
    rest(world)
    assert told(world)[3:] == ["PENDING 2"]


def test_a_limit_holds_what_is_beyond_it(world: World) -> None:
    define(world, max_concurrent=2)
    fire(world, 4)
    assert told(world) == ["PENDING 1", "PENDING 2", "HELD 3 concurrency", "HELD 4 concurrency"]
    end(world, run(world, 2))
    assert told(world)[4:] == ["PENDING 3"]


def test_runs_with_one_key_are_limited_together_and_others_go_beside_them(world: World) -> None:
    define(world, key="/k")
    fire(world)
    for value in (b'{"k":"a"}', b'{"k":"a"}', b'{"other":1}', b"no json"):
        world.command(CommandKind.TRIGGER, JOB, payload=value)
    rest(world)
    kinds = [line.split()[0] for line in told(world)]
    assert kinds == ["PENDING", "PENDING", "HELD", "PENDING", "HELD"]  # own, a, a, null, null


def test_a_successor_knows_what_was_held_in_its_order(world: World) -> None:
    define(world, Overlap.BUFFER_ALL)
    fire(world)
    world.command(CommandKind.TRIGGER, JOB, payload=b'{"k":"mine"}')
    fire(world)
    world.crash()
    rest(world)
    end(world, run(world, 1))
    assert told(world) == ["PENDING 1", "HELD 1~ overlap", "HELD 2 overlap", "PENDING 1~"]
    works = [codec.decode_work(record.value) for record in world.records("waterclock.runs.medium")]  # type: ignore[attr-defined]
    assert [work.payload for work in works] == [b'{"k":"own"}', b'{"k":"mine"}']


def test_a_held_run_that_was_cancelled_within_a_backlog_stays_cancelled_after_a_hand_over(world: World) -> None:
    """Its owner had applied the cancel and not yet the commands behind it, when the shard went to another one.

    The run before it had ended meanwhile, and of a job without open runs nobody reads the events.
    """
    define(world, Overlap.BUFFER_ALL)
    fire(world, 2)
    first = run(world, 1)
    say(world, first, EventKind.ATTEMPT_SUCCEEDED, token=start(world, first), detail=Ended(0))
    world.crash()
    world.command(CommandKind.CANCEL, JOB, run_id=run(world, 2))
    for _ in range(5):
        world.command(CommandKind.TRIGGER, "t:nobody")
    with mock.patch.object(applying, "BATCH", 1):
        while told(world)[2:] != ["CANCEL_REQUESTED 2"]:
            world.dispatcher.step()
        assert not world.dispatcher.ready, "the backlog is not applied yet"
        world.crash()
    rest(world)
    assert told(world)[2:] == ["CANCEL_REQUESTED 2"]


def test_who_leaves_before_a_look_at_run_events_keeps_them_for_the_successor(world: World) -> None:
    """A run was handed out, its attempt began, and its owner was asked to leave in that very moment."""
    define(world, Overlap.CANCEL_OTHER)
    world.clock.advance(EVERY_US)
    for _ in range(50):
        if not told(world):
            world.dispatcher.step()
    start(world, run(world, 1))
    with mock.patch.object(releasing, "KEPT_BEHIND", 1):
        world.dispatcher.drain()
    world.crash()
    fire(world)
    assert told(world) == ["PENDING 1", "CANCEL_REQUESTED 1 cancel_other", "HELD 2 overlap"]


def test_an_end_that_nobody_read_makes_room_after_a_take_over(world: World) -> None:
    define(world, Overlap.SKIP)
    fire(world)
    first = run(world, 1)
    say(world, first, EventKind.ATTEMPT_SUCCEEDED, token=start(world, first), detail=Ended(0))
    world.crash()
    fire(world)
    assert told(world) == ["PENDING 1", "PENDING 2"]


def test_a_released_run_is_due_when_it_is_released_and_keeps_its_fire_time(world: World) -> None:
    define(world, Overlap.BUFFER_ALL)
    fire(world, 3)
    released_at = world.clock.now()
    end(world, run(world, 1))
    held = next(event for event in world.events(EventKind.HELD))
    pending = world.events(EventKind.PENDING)[-1]
    work = codec.decode_work(world.records("waterclock.runs.medium")[-1].value)  # type: ignore[attr-defined]
    assert isinstance(held.detail, Pending)
    assert isinstance(pending.detail, Pending)
    assert held.run_id == pending.run_id == work.run_id
    assert held.detail.due_at == pending.detail.fire_at == work.fire_at
    assert (pending.detail.due_at, work.due_at) == (None, released_at)


def test_a_pause_keeps_what_the_schedule_made_and_people_go_on(world: World) -> None:
    define(world, Overlap.BUFFER_ALL)
    fire(world, 2)
    world.command(CommandKind.PAUSE, JOB)
    world.command(CommandKind.TRIGGER, JOB)
    rest(world)
    end(world, run(world, 1))
    assert told(world) == ["PENDING 1", "HELD 2 overlap", "HELD 2~ overlap", "PENDING 2~"]
    end(world, world.events(EventKind.PENDING)[-1].run_id)
    assert told(world)[4:] == []
    world.command(CommandKind.RESUME, JOB)
    rest(world)
    assert told(world)[4:] == ["PENDING 2"]


def test_a_delete_drops_what_waits_and_a_cancel_ends_it(world: World) -> None:
    define(world, Overlap.BUFFER_ALL)
    fire(world, 3)
    world.command(CommandKind.CANCEL, JOB, run_id=run(world, 2))
    rest(world)
    world.command(CommandKind.DELETE, JOB)
    rest(world)
    assert told(world)[3:] == ["CANCEL_REQUESTED 2", "SKIPPED 3 withdrawn"]
    end(world, run(world, 1))
    assert told(world)[5:] == []


def test_a_cancel_ends_what_waits_however_its_command_spells_the_instant(world: World) -> None:
    define(world, Overlap.BUFFER_ONE)
    fire(world, 2)
    world.command(CommandKind.PAUSE, JOB)
    rest(world)
    end(world, run(world, 1))
    world.command(CommandKind.CANCEL, JOB, run_id=run(world, 2).replace("Z", ".000000Z"))
    world.command(CommandKind.RESUME, JOB)
    rest(world)
    fire(world)
    assert told(world) == ["PENDING 1", "HELD 2 overlap", "CANCEL_REQUESTED 2", "PENDING 3"]


def test_an_edit_counts_at_once_for_what_waits_and_each_run_stays_what_it_was_made_of(world: World) -> None:
    define(world, Overlap.BUFFER_ALL)
    fire(world, 4)
    define_job(world, JOB, Concurrency(Overlap.BUFFER_ALL, max_concurrent=2), CommandKind.UPDATE)
    assert told(world)[4:] == ["PENDING 2"]
    world.crash()
    rest(world)
    define_job(world, JOB, Concurrency(), CommandKind.UPDATE)
    assert told(world)[5:] == ["PENDING 3", "PENDING 4"]
    made = [event.detail for event in world.events(EventKind.PENDING)]
    assert len({each.revision for each in made if isinstance(each, Pending)}) == 1


def test_the_answer_to_a_trigger_says_whether_it_waits_or_was_dropped(world: World) -> None:
    define(world, Overlap.BUFFER_ONE)
    fire(world)
    for number in range(2):
        world.command(CommandKind.TRIGGER, JOB, command_id=f"now{number}", answer=True)
    rest(world)
    said = [event.detail for event in world.events(EventKind.ANSWERED) if isinstance(event.detail, Answered)]
    assert [(each.held, each.skipped) for each in said] == [("overlap", ""), ("", "overlap")]
    assert all("~" in each.run_id for each in said)


def redrive_that_waits(world: World) -> None:
    """Of the first run of a job, while its second one is open."""
    define(world, Overlap.BUFFER_ALL)
    fire(world)
    work = world.records("waterclock.runs.medium")[0].value  # type: ignore[attr-defined]
    end(world, run(world, 1))
    fire(world)
    world.command(CommandKind.REDRIVE, JOB, run_id=run(world, 1), work=work)
    rest(world)


def test_a_redrive_waits_for_the_limits_of_its_job(world: World) -> None:
    redrive_that_waits(world)
    world.crash()
    rest(world)
    assert told(world) == ["PENDING 1", "PENDING 2", "HELD 1~ overlap"]
    end(world, run(world, 2))
    released = world.events(EventKind.PENDING)[-1]
    assert isinstance(released.detail, Pending)
    assert released.detail.linked_run == run(world, 1)
    assert world.work()[-1] == released.run_id


def test_a_held_redrive_that_this_release_cannot_read_stops_no_shard_and_goes_out_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a release that was taken back, and is there again."""
    redrive_that_waits(world)
    with monkeypatch.context() as before:
        before.setattr(codec, "decode_work", _of_a_later_release)
        world.crash()
        rest(world)
        end(world, run(world, 2))
        fire(world)
        assert told(world) == ["PENDING 1", "PENDING 2", "HELD 1~ overlap", "PENDING 3"]
    world.crash()
    rest(world)
    end(world, run(world, 3))
    assert told(world)[-1] == "PENDING 1~"


@pytest.mark.parametrize("kind", [CommandKind.CANCEL, CommandKind.DELETE])
def test_a_held_redrive_that_this_release_cannot_read_ends_as_any_other(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: CommandKind
) -> None:
    """Given that it was cancelled, or its job deleted, before the release which can read it was there again."""
    redrive_that_waits(world)
    held = world.events(EventKind.HELD)[-1].run_id
    with monkeypatch.context() as before:
        before.setattr(codec, "decode_work", _of_a_later_release)
        world.crash()
        rest(world)
        world.command(kind, JOB, run_id=held if kind is CommandKind.CANCEL else "")
        rest(world)
        end(world, run(world, 2))
        rest(world)
    world.crash()
    rest(world)
    ended_by = EventKind.CANCEL_REQUESTED if kind is CommandKind.CANCEL else EventKind.SKIPPED
    assert [event.kind for event in world.events() if event.run_id == held] == [EventKind.HELD, ended_by]
    assert held not in world.work()


def _of_a_later_release(_value: bytes) -> WorkRecord:
    raise UndecodableRecord("a later release wrote it")


def test_a_shard_that_is_full_drops_and_says_why(world: World) -> None:
    define(world, Overlap.BUFFER_ALL)
    with mock.patch("waterclock.dispatcher.admitting.RUNS_MAX", 2):
        fire(world, 3)
    (dropped,) = world.events(EventKind.SKIPPED)
    assert isinstance(dropped.detail, Skipped)
    assert (dropped.reason, dropped.detail.cap) == ("overlap", "held_per_shard")


def test_payloads_that_wait_keep_no_run_back_that_finds_room(world: World) -> None:
    define_job(world, "u:other", Concurrency(Overlap.BUFFER_ALL))
    define(world, Overlap.BUFFER_ALL)
    with mock.patch("waterclock.dispatcher.admitting.HELD_BYTES_MAX", 100):
        for payload in (b"1", b"1" * 100):
            world.command(CommandKind.TRIGGER, "u:other", payload=payload)
        for _ in range(2):
            world.command(CommandKind.TRIGGER, JOB, payload=b"1")
        rest(world)
    kinds = [[line.split()[0] for line in told(world, job_id)] for job_id in ("u:other", JOB)]
    assert kinds == [["PENDING", "HELD"], ["PENDING", "SKIPPED"]]
    (dropped,) = world.events(EventKind.SKIPPED)
    assert isinstance(dropped.detail, Skipped)
    assert dropped.detail.cap == "held_per_shard"


def test_what_was_held_waits_for_the_store_and_others_go_on(world: World) -> None:
    define(world, Overlap.BUFFER_ALL)
    define_job(world, "t:other", Concurrency(Overlap.BUFFER_ALL))
    fire(world, 2)
    world.crash()
    rest(world)
    with mock.patch.object(type(world.dispatcher._index), "versions_below", side_effect=_away):
        end(world, run(world, 1))
        assert told(world) == ["PENDING 1", "HELD 2 overlap"]
    world.run(2.0)
    assert told(world) == ["PENDING 1", "HELD 2 overlap", "PENDING 2"]


def _away(*_: object) -> None:
    raise BackendDown("cassandra", "away")


def test_a_run_that_stays_open_for_long_does_not_make_a_successor_read_from_its_beginning(world: World) -> None:
    define(world, Overlap.SKIP)
    fire(world)
    first = run(world, 1)
    token = start(world, first)
    with mock.patch.object(releasing, "KEPT_BEHIND", 5):
        for _ in range(20):
            say(world, "t:stranger@20261118T110700Z", EventKind.STARTED)
        world.run(12.0)
    world.crash()
    seen: list[int] = []
    restore = flow.Flow.restore

    def spy(self: flow.Flow, *rest_of: object) -> list[str]:
        strange = restore(self, *rest_of)  # type: ignore[arg-type]
        seen.append(self.position)
        return strange

    with mock.patch.object(flow.Flow, "restore", spy):
        rest(world)
    assert seen[-1] > 20
    say(world, first, EventKind.ATTEMPT_SUCCEEDED, token=token, detail=Ended(0))
    fire(world)
    assert told(world)[-1].startswith("PENDING")
