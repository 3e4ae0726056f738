"""The recorder on Log and Store in memory: rows repeat themselves, and no offset runs ahead of its rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from waterclock.clock import ManualClock
from waterclock.log.memory import Killed, MemoryCluster, MemoryLog
from waterclock.log.port import Outgoing, TopicPartition
from waterclock.model.errors import BackendDown
from waterclock.model.events import (
    Ended,
    EventKind,
    Origin,
    Outcome,
    Pending,
    Retrying,
    RunEvent,
    RunStatus,
    Skipped,
    Started,
)
from waterclock.model.fingerprint import fingerprint
from waterclock.model.fold import FoldFull
from waterclock.model.ids import US_PER_S, make_run_id, ordinal, parse_run_id
from waterclock.model.job import Command, CommandKind, Every, JobSpec, Tier
from waterclock.recorder.loop import Recorder
from waterclock.store.memory import MemoryStore, MemoryTables, WriteFault
from waterclock.store.port import History, LetterAction, RunRow, Writing
from waterclock.wire.messages import command_message, event_message
from waterclock.wire.names import Names, topic_specs

JOB = "acme:nightly"
NAMES = Names()
GENERATION = 1
EVENTS = TopicPartition(NAMES.run_events, 0)
COMMANDS = TopicPartition(NAMES.commands, 0)


class World:
    """A cluster with a store, and a hand that writes what the other roles would."""

    def __init__(self, partitions: int = 1) -> None:
        self.clock = ManualClock()
        self.cluster = MemoryCluster(self.clock)
        for spec in topic_specs(NAMES, partitions):
            self.cluster.create_topic(spec.name, spec.partitions, append_time=spec.name == NAMES.commands)
        self.log = MemoryLog(self.cluster, "hand")
        self.appender = self.log.appender()
        self.tables = MemoryTables(self.clock)
        self.store = MemoryStore(self.clock, self.tables)
        self.made = 0

    def append(self, message: Outgoing) -> int:
        self.clock.advance(1_000)
        offset = self.appender.append(message).offset
        assert offset is not None
        return offset

    def event(self, kind: EventKind, run_id: str, attempt: int = 0, **parts: object) -> int:
        event = RunEvent(kind, run_id.partition("@")[0], run_id, self.clock.now(), attempt)._replace(**parts)
        return self.append(event_message(NAMES, event))

    def pending(self, job_id: str = JOB, series: int = 0) -> str:
        self.made += 1
        fire_at = self.clock.now() // 1_000_000 * 1_000_000 + self.made * 1_000_000
        run_id = make_run_id(job_id, fire_at, series)
        origin = Origin.TRIGGER if series else Origin.SCHEDULE
        detail = Pending(9, fire_at, fire_at, Tier.HIGH, origin, handler="invoice", zone="UTC", tzdata="2026a")
        self.event(EventKind.PENDING, run_id, detail=detail)
        return run_id

    def started(self, run_id: str, attempt: int = 1) -> int:
        claim = Started(NAMES.runs(Tier.HIGH), 0, self.made)
        offset = self.event(EventKind.STARTED, run_id, attempt, worker="w-1", incarnation=3, detail=claim)
        return ordinal(GENERATION, offset)

    def ended(self, kind: EventKind, run_id: str, token: int, attempt: int = 1, **parts: object) -> int:
        detail = Ended(self.clock.now() - 500)._replace(**parts)
        return self.event(kind, run_id, attempt, worker="w-1", incarnation=3, token=token, detail=detail)

    def succeeded(self, job_id: str = JOB) -> str:
        run_id = self.pending(job_id)
        self.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, self.started(run_id), result=b"42")
        return run_id

    def failed(self) -> str:
        run_id = self.pending()
        token = self.started(run_id)
        self.ended(
            EventKind.ATTEMPT_FAILED, run_id, token, error_class="ValueError", error_message="no 7", error_trace="at x"
        )
        self.event(EventKind.RUN_FAILED, run_id, 1, reason="ValueError")
        return run_id

    def recorder(self, instance: str = "recorder-1", store: object = None, **parts: float) -> Recorder:
        own = MemoryStore(self.clock, self.tables, instance)
        return Recorder(
            MemoryLog(self.cluster, instance), store or own, self.clock, NAMES, instance, generation=GENERATION, **parts
        )

    def turn(self, *recorders: Recorder, steps: int = 20) -> None:
        for _ in range(steps):
            for recorder in recorders:
                recorder.step()
            self.clock.advance(100_000)

    def row(self, run_id: str) -> RunRow:
        run = parse_run_id(run_id)
        row = self.store.run(run.job_id, run.fire_at, run.series)
        assert row is not None, run_id
        return row

    def committed(self, place: TopicPartition) -> int:
        committed = self.cluster.group(NAMES.group("recorder")).committed(place)
        return -1 if committed is None else committed.offset


class Counting:
    """A store that counts the rows it is given."""

    def __init__(self, inner: MemoryStore) -> None:
        self.inner = inner
        self.histories: list[History] = []

    def record(self, history: History) -> Writing:
        self.histories.append(history)
        return self.inner.record(history)


def test_a_run_becomes_one_row_that_tells_its_whole_story() -> None:
    world = World()
    run_id = world.pending()
    dispatched_at = world.clock.now()
    token = world.started(run_id)
    world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, token, result=b"42")
    world.turn(world.recorder())
    row = world.row(run_id)
    assert (row.status, row.outcome, row.attempt) == (RunStatus.SUCCEEDED, Outcome.SUCCEEDED, 1)
    assert (row.revision, row.tier, row.origin, row.zone, row.tzdata) == (9, Tier.HIGH, "SCHEDULE", "UTC", "2026a")
    assert (row.worker, row.fence, row.result, row.error) == ("w-1", token, b"42", "")
    assert row.dispatched_at == dispatched_at // 1_000 * 1_000
    assert row.dispatched_at < row.started_at <= row.ended_at


def test_at_the_bound_of_open_runs_it_ends_until_the_bound_is_raised_and_goes_on_from_there() -> None:
    world = World()
    run_ids = [world.pending() for _ in range(3)]
    for number in range(2):
        with pytest.raises(FoldFull, match="WATERCLOCK_OPEN_RUNS_MAX"):
            world.turn(world.recorder(open_runs_max=2))
        world.cluster.kill("recorder-1")
        for run_id in run_ids if number else ():  # they end meanwhile, behind the event that it cannot pass
            world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, world.started(run_id))
    world.turn(world.recorder(open_runs_max=3))
    assert {world.row(run_id).status for run_id in run_ids} == {RunStatus.SUCCEEDED}


def test_the_row_follows_the_run_through_every_status() -> None:
    world = World()
    recorder = world.recorder()
    run_id = world.pending()
    world.turn(recorder)
    assert world.row(run_id).status is RunStatus.PENDING
    token = world.started(run_id)
    world.turn(recorder)
    assert (world.row(run_id).status, world.row(run_id).worker) == (RunStatus.RUNNING, "w-1")
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token, error_class="ValueError", error_message="no 7")
    world.turn(recorder)
    waiting = world.row(run_id)
    assert (waiting.status, waiting.outcome, waiting.error) == (RunStatus.RUNNING, Outcome.FAILED, "ValueError: no 7")
    world.event(EventKind.RETRYING, run_id, 2)
    world.turn(recorder)
    assert world.row(run_id).status is RunStatus.RETRYING
    token = world.started(run_id, 2)
    world.turn(recorder)
    again = world.row(run_id)
    assert (again.status, again.attempt, again.ended_at, again.error) == (RunStatus.RUNNING, 2, 0, "")
    world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, token, attempt=2)
    world.turn(recorder)
    assert (world.row(run_id).status, world.row(run_id).attempt) == (RunStatus.SUCCEEDED, 2)
    run = parse_run_id(run_id)
    [first] = world.store.attempts(run.job_id, run.fire_at, 0)
    assert (first.attempt, first.outcome, first.error) == (1, Outcome.FAILED, "ValueError: no 7")


def test_a_failure_is_listed_under_the_fingerprint_of_its_error() -> None:
    world = World()
    run_id = world.failed()
    world.turn(world.recorder())
    row = world.row(run_id)
    assert (row.status, row.outcome, row.reason) == (RunStatus.FAILED, Outcome.FAILED, "ValueError")
    assert row.error == "ValueError: no 7\nat x"
    [line] = world.store.failures("acme", 10)
    assert (line.job_id, line.fire_at, line.reason) == (JOB, row.fire_at, "ValueError")
    assert line.ended_at == row.ended_at
    assert line.fingerprint == fingerprint("ValueError", "no 8")


def test_a_skipped_range_is_one_row_with_its_reason_and_count() -> None:
    world = World()
    start = world.clock.now()
    detail = Skipped(9, start, start + 5_000_000, 6, Tier.LOW, start + 5_000_000)
    world.event(EventKind.SKIPPED, make_run_id(JOB, start), reason="misfire", detail=detail)
    world.turn(world.recorder())
    row = world.row(make_run_id(JOB, start))
    assert (row.status, row.reason, row.skipped_count) == (RunStatus.SKIPPED, "misfire", 6)
    assert (row.skipped_to, row.tier) == (start + 5_000_000, Tier.LOW)


def test_a_triggered_run_has_a_row_of_its_own() -> None:
    world = World()
    run_id = world.pending(series=77)
    world.turn(world.recorder())
    assert (world.row(run_id).series, world.row(run_id).origin) == (77, "TRIGGER")


def test_every_command_leaves_a_line_in_the_audit() -> None:
    world = World()
    store = Counting(world.store)
    command = Command(
        CommandKind.CREATE, JOB, "c-1", "eve", world.clock.now(), spec=JobSpec("invoice", Every(5_000_000)), note="why"
    )
    world.append(command_message(NAMES, command))
    world.append(command_message(NAMES, command._replace(kind=CommandKind.PAUSE, spec=None, expected_revision=5)))
    world.turn(world.recorder(store=store))
    rows = [row for history in store.histories for row in history.audit]
    assert [(row.actor, row.action, row.partition, row.offset) for row in rows] == [
        ("eve", "create", 0, 0),
        ("eve", "pause", 0, 1),
    ]
    assert rows[0].detail == '{"command_id":"c-1","handler":"invoice","note":"why"}'
    assert world.committed(COMMANDS) == 2


def test_a_batch_writes_one_row_for_each_run() -> None:
    world = World()
    runs = [world.succeeded() for _ in range(10)]
    store = Counting(world.store)
    world.turn(world.recorder(store=store))
    rows = [row for history in store.histories for row in history.runs]
    assert len(rows) == len(runs)
    assert {row.status for row in rows} == {RunStatus.SUCCEEDED}


def test_refused_events_leave_no_trace() -> None:
    world = World()
    run_id = world.succeeded()
    recorder = world.recorder()
    world.turn(recorder)
    before = world.row(run_id)
    world.started(run_id)
    world.ended(EventKind.ATTEMPT_FAILED, run_id, before.fence)
    world.event(EventKind.RUN_FAILED, run_id, 1)
    world.turn(recorder)
    assert world.row(run_id) == before
    assert not world.store.failures("acme", 10)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_any_cut_into_batches_ends_in_the_same_rows(size: int) -> None:
    def story(world: World) -> list[str]:
        runs = [world.succeeded(), world.failed(), world.pending()]
        token = world.started(runs[2])
        world.event(EventKind.CANCEL_REQUESTED, runs[2], reason="asked")
        world.ended(EventKind.ATTEMPT_CANCELLED, runs[2], token)
        return runs

    whole, cut = World(), World()
    runs = story(whole)
    assert story(cut) == runs
    whole.turn(whole.recorder())
    cut.turn(cut.recorder(batch_records=size), steps=80)
    assert [whole.row(run) for run in runs] == [cut.row(run) for run in runs]
    assert whole.row(runs[2]).status is RunStatus.CANCELLED


@pytest.mark.parametrize("fault", list(WriteFault), ids=lambda fault: fault.name)
def test_no_offset_is_committed_before_its_rows_are_acknowledged(fault: WriteFault) -> None:
    world = World()
    recorder = world.recorder()
    world.turn(recorder)
    run_id = world.failed()
    world.tables.on_call = lambda client, _: fault if client == "recorder-1" else None
    world.turn(recorder)
    assert world.committed(EVENTS) == 0
    late = world.succeeded()
    world.tables.on_call = None
    world.turn(recorder)
    world.tables.land()
    assert world.row(run_id).status is RunStatus.FAILED
    assert world.row(late).status is RunStatus.SUCCEEDED
    assert len(world.store.failures("acme", 10)) == 1
    assert world.committed(EVENTS) == world.log.high_watermark(EVENTS)


def test_under_steady_load_positions_are_committed_without_waiting_for_rest() -> None:
    world = World()
    recorder = world.recorder()
    for _ in range(40):
        world.succeeded()
        assert recorder.step()
        world.clock.advance(100_000)
    behind = world.log.high_watermark(EVENTS) - world.committed(EVENTS)
    assert behind <= 3 * 15  # a batch gathers for 0.2 s, two are under way, a commit comes each 0.5 s


def test_a_repeated_write_carries_the_same_stamps() -> None:
    world = World()
    world.succeeded()
    attempts: list[History] = []

    class Deaf:
        def record(self, history: History) -> Writing:
            attempts.append(history)
            raise BackendDown("cassandra", "no answer")

    recorder = world.recorder(store=Deaf())
    world.turn(recorder)
    assert len(attempts) > 2
    assert all(history == attempts[0] for history in attempts)


def test_while_the_store_is_away_it_stays_in_its_group_and_reads_nothing() -> None:
    world = World()
    recorder = world.recorder()
    world.turn(recorder)
    world.tables.on_call = lambda client, _: WriteFault.LOST if client == "recorder-1" else None
    world.succeeded()
    # Far beyond the session: a member that did not poll would have lost its partitions and folded again.
    world.turn(recorder, steps=300)
    assert world.cluster.group(NAMES.group("recorder")).generation == 1
    assert recorder.drain()
    world.tables.on_call = None
    assert recorder.drain()
    assert not recorder.drain()
    assert world.committed(EVENTS) == world.log.high_watermark(EVENTS)


def crash_at(call: int) -> Callable[[str, str], None]:
    calls = 0

    def on_call(client_id: str, _operation: str) -> None:
        nonlocal calls
        if client_id == "recorder-1":
            calls += 1
            if calls == call:
                raise Killed("planned")

    return on_call


@pytest.mark.parametrize("call", range(1, 60))
def test_a_crash_at_any_call_leaves_the_same_rows(call: int) -> None:
    world = World()
    half = world.pending()
    done = world.succeeded()
    world.cluster.faults.on_call = crash_at(call)
    with pytest.raises(Killed):
        world.turn(world.recorder(batch_records=2), steps=60)
    world.cluster.faults.on_call = None
    world.cluster.kill("recorder-1")
    world.ended(EventKind.ATTEMPT_SUCCEEDED, half, world.started(half))
    lost = world.failed()
    world.turn(world.recorder(), steps=60)
    assert [world.row(run).status for run in (half, done, lost)] == [
        RunStatus.SUCCEEDED,
        RunStatus.SUCCEEDED,
        RunStatus.FAILED,
    ]
    assert world.row(half).zone == "UTC"
    assert len(world.store.failures("acme", 10)) == 1
    assert world.committed(EVENTS) == world.log.high_watermark(EVENTS)


def test_partitions_that_move_lose_no_row() -> None:
    world = World(partitions=4)
    jobs = [f"acme:job-{number}" for number in range(12)]
    runs = [world.succeeded(job) for job in jobs]
    one = world.recorder("recorder-1", batch_records=5)
    world.turn(one, steps=4)
    half = [world.pending(job) for job in jobs]
    two = world.recorder("recorder-2", batch_records=5)
    world.turn(one, two, steps=30)
    for run_id in half:
        world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, world.started(run_id))
    world.turn(one, two, steps=60)
    assert {world.row(run).status for run in runs + half} == {RunStatus.SUCCEEDED}
    assert one.ready
    assert two.ready


def test_bytes_that_are_no_event_are_passed_over() -> None:
    world = World()
    world.append(Outgoing(NAMES.run_events, JOB.encode(), b"\x00nonsense"))
    world.append(Outgoing(NAMES.commands, JOB.encode(), b"\x00nonsense"))
    run_id = world.succeeded()
    world.turn(world.recorder())
    assert world.row(run_id).status is RunStatus.SUCCEEDED
    assert world.committed(COMMANDS) == 1


# -- the failure path


def retried(world: World, run_id: str, token: int, attempt: int = 1) -> int:
    """The attempt fails and is to be tried again; returns when."""
    world.ended(EventKind.ATTEMPT_FAILED, run_id, token, attempt, error_class="ValueError", error_message="no 7")
    due_at = world.clock.now() + 5_000_000
    world.event(EventKind.RETRYING, run_id, attempt + 1, detail=Retrying(due_at, 5_000_000))
    return due_at


def test_a_retrying_run_says_when_its_next_attempt_is_due() -> None:
    world = World()
    run_id = world.pending()
    due_at = retried(world, run_id, world.started(run_id))
    world.turn(recorder := world.recorder())

    row = world.row(run_id)
    assert (row.status, row.attempt, row.next_attempt_at) == (RunStatus.RETRYING, 1, due_at)
    run = parse_run_id(run_id)
    (attempt,) = world.store.attempts(run.job_id, run.fire_at, run.series)
    assert (attempt.attempt, attempt.outcome) == (1, Outcome.FAILED)

    world.started(run_id, 2)
    world.turn(recorder)
    assert (world.row(run_id).status, world.row(run_id).next_attempt_at) == (RunStatus.RUNNING, 0)


@pytest.mark.parametrize("batch_records", [1, 100])
def test_a_run_that_was_asked_to_stop_says_so_and_why(batch_records: int) -> None:
    world = World()
    run_id = world.pending()
    token = world.started(run_id)
    world.event(EventKind.CANCEL_REQUESTED, run_id, reason="not needed")
    recorder = world.recorder(batch_records=batch_records)
    world.turn(recorder)
    row = world.row(run_id)
    assert (row.status, row.cancel_requested, row.reason) == (RunStatus.RUNNING, True, "not needed")

    world.ended(EventKind.ATTEMPT_CANCELLED, run_id, token)
    world.turn(recorder)
    row = world.row(run_id)
    assert (row.status, row.outcome, row.reason) == (RunStatus.CANCELLED, Outcome.CANCELLED, "not needed")


def test_a_run_that_is_cancelled_while_it_waits_ends_then() -> None:
    world = World()
    run_id = world.pending()
    retried(world, run_id, world.started(run_id))
    world.clock.advance(3_000_000)
    world.event(EventKind.CANCEL_REQUESTED, run_id)
    world.turn(world.recorder())

    row = world.row(run_id)
    assert (row.status, row.attempt, row.next_attempt_at) == (RunStatus.CANCELLED, 1, 0)
    assert row.ended_at - row.started_at >= 3_000_000


def test_a_failure_tells_class_error_and_attempts() -> None:
    world = World()
    world.failed()
    world.turn(world.recorder())

    (failure,) = world.store.failures("acme", 10)
    assert (failure.error_class, failure.error, failure.attempts) == ("ValueError", "no 7", 1)


def test_the_last_run_of_a_schedule_is_marked() -> None:
    world = World()
    runs = [make_run_id(JOB, world.clock.now() + number) for number in (0, 1)]
    for run_id, is_last in zip(runs, (False, True), strict=True):
        fire_at = parse_run_id(run_id).fire_at
        detail = Pending(9, fire_at, fire_at, Tier.HIGH, Origin.SCHEDULE, is_last=is_last)
        world.event(EventKind.PENDING, run_id, detail=detail)
    world.turn(world.recorder())

    assert [world.row(run_id).is_last for run_id in runs] == [False, True]


def test_what_is_done_about_a_dead_letter_is_told_whatever_is_replayed() -> None:
    world = World()
    first, second, untouched = world.failed(), world.failed(), world.failed()
    again = make_run_id(JOB, parse_run_id(first).fire_at, 77)
    detail = Pending(9, parse_run_id(first).fire_at, None, Tier.HIGH, Origin.REDRIVE, linked_run=first)
    world.event(EventKind.PENDING, again, detail=detail)
    for run_id in (second, "nonsense", "other:job@20261121T090000Z"):
        command = Command(CommandKind.DISCARD, JOB, f"c-{run_id}", "ann", world.clock.now(), run_id=run_id)
        world.append(command_message(NAMES, command))
    for instance in ("recorder-1", "recorder-2"):
        world.turn(world.recorder(instance), steps=120)

    redriven, discarded, nothing = world.store.letter_rows([parse_run_id(run) for run in (first, second, untouched)])
    assert redriven is not None
    assert discarded is not None
    assert (redriven.action, redriven.linked_run) == (LetterAction.REDRIVEN, again)
    assert (discarded.action, discarded.actor) == (LetterAction.DISCARDED, "ann")
    assert nothing is None
    assert world.row(again).linked_run == first
    assert world.row(again).origin == "REDRIVE"


def test_what_was_done_last_about_a_dead_letter_counts_though_the_dispatcher_is_ahead() -> None:
    """A discard counts by the brokers' clock, and so does the redrive before it, whatever its record is stamped."""
    world = World()
    given_up, at = world.failed(), world.clock.now()
    detail = Pending(9, at, None, Tier.HIGH, Origin.REDRIVE, linked_run=given_up)
    redrive = RunEvent(EventKind.PENDING, JOB, make_run_id(JOB, at, 77), at, detail=detail)
    ahead = ManualClock(at + 3 * US_PER_S)
    MemoryLog(world.cluster, "dispatcher-1", clock=ahead).appender().append(event_message(NAMES, redrive))
    world.clock.advance(US_PER_S)
    discard = Command(CommandKind.DISCARD, JOB, "c-2", "ann", world.clock.now(), run_id=given_up)
    world.append(command_message(NAMES, discard))
    world.turn(world.recorder(), steps=120)
    (row,) = world.store.letter_rows([parse_run_id(given_up)])
    assert row is not None
    assert row.action is LetterAction.DISCARDED


@pytest.mark.parametrize("is_first_known", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
def test_a_held_run_that_a_skipped_range_covers_has_the_row_of_a_skip(*, is_first_known: bool, at_once: bool) -> None:
    world = World()
    recorder = world.recorder()
    first = world.pending() if is_first_known else make_run_id(JOB, world.clock.now() // US_PER_S * US_PER_S)
    start = parse_run_id(first).fire_at
    at, end = start + US_PER_S, start + 3 * US_PER_S
    held = make_run_id(JOB, at)
    detail = Pending(9, at, at, Tier.HIGH, Origin.SCHEDULE, handler="invoice")
    world.event(EventKind.HELD, held, reason="overlap", detail=detail)
    if not at_once:
        world.turn(recorder)
        assert (world.row(held).status, world.row(held).reason) == (RunStatus.PENDING, "overlap")
    world.event(EventKind.SKIPPED, first, reason="misfire", detail=Skipped(9, start, end, 4, Tier.HIGH, end))
    world.turn(recorder)
    row = world.row(held)
    assert (row.status, row.reason, row.ended_at > 0) == (RunStatus.SKIPPED, "misfire", True)
    assert (row.skipped_count, row.skipped_to) == (1, at)
    assert world.row(first).status is (RunStatus.PENDING if is_first_known else RunStatus.SKIPPED)
