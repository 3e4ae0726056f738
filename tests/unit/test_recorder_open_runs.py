"""The recorder keeps runs that stay open for long: whoever takes over writes the same rows without their events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from structlog.testing import capture_logs

from waterclock import kept_runs
from waterclock.log.memory import CommitFate
from waterclock.log.port import Committed, Isolation, Outgoing, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.dag_events import DagStart
from waterclock.model.events import EventKind, Origin, Pending, Retrying, RunEvent, RunStatus, Skipped
from waterclock.model.fold import parse_fold_from
from waterclock.model.ids import US_PER_S, make_run_id, parse_run_id
from waterclock.model.job import Tier
from waterclock.model.role_state import RecordedRunState
from waterclock.recorder.loop import Recorder
from waterclock.store.memory import MemoryStore, MemoryTables, WriteFault
from waterclock.wire.codec import decode_recorded_run, encode_event
from waterclock.wire.framing import RECORD_MAX
from waterclock.wire.messages import event_message

from .test_recorder import EVENTS, JOB, NAMES, World

BEHIND = 12
STATE = TopicPartition(NAMES.state("recorder"), 0)
OTHER = "acme:other"


def recorder(world: World, instance: str = "recorder-1") -> Recorder:
    return world.recorder(instance, kept_behind=BEHIND, window=3, commit_every_s=0.0)


def kept(world: World) -> dict[str, RecordedRunState]:
    found: dict[str, RecordedRunState] = {}
    for record in read_range(world.log, Isolation.COMMITTED, STATE, 0, world.log.high_watermark(STATE)):
        run_id = (record.key or b"").decode()
        if record.value is None:
            found.pop(run_id)
        else:
            found[run_id] = decode_recorded_run(record.value)
    return found


def fold_from(world: World) -> int:
    committed = world.cluster.group(NAMES.group("recorder")).committed(EVENTS)
    assert committed is not None
    found = parse_fold_from(committed.metadata)
    assert found is not None
    return found


def pass_by(world: World, runs: int = 10) -> None:
    for _ in range(runs):
        world.succeeded(OTHER)


def die(world: World, instance: str = "recorder-1") -> None:
    """Its process is gone, and so is what the committed position says that nobody has to read again."""
    world.cluster.kill(instance)
    world.cluster.partition(EVENTS).delete_before(fold_from(world))


def test_a_run_that_is_open_for_long_is_kept_once_and_pins_nothing_any_more() -> None:
    world = World()
    run_id = world.pending()
    pass_by(world)
    world.turn(first := recorder(world))
    assert list(kept(world)) == [run_id]
    assert fold_from(world) > BEHIND
    before = world.log.high_watermark(STATE)
    pass_by(world)
    world.turn(first)
    assert world.log.high_watermark(STATE) == before


def test_most_runs_are_never_kept() -> None:
    world = World()
    pass_by(world, 30)
    world.turn(recorder(world))
    assert world.log.high_watermark(STATE) == 0


def test_a_run_that_waits_on_a_quiet_partition_is_kept_before_retention_takes_it() -> None:
    world = World()
    run_id = world.pending()
    pass_by(world, 3)
    world.turn(waiting := world.recorder(window=3))
    assert (kept(world), fold_from(world)) == ({}, 0)
    for _ in range(240):  # each well within the session
        world.clock.advance(4 * US_PER_S)
        waiting.step()
    assert list(kept(world)) == [run_id]
    assert fold_from(world) == world.log.high_watermark(EVENTS) - 3
    die(world)
    world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, world.started(run_id))
    world.turn(world.recorder(window=3))
    assert world.row(run_id).status is RunStatus.SUCCEEDED


def test_a_kept_run_that_ends_leaves_a_tombstone() -> None:
    world = World()
    run_id = world.pending()
    pass_by(world)
    world.turn(first := recorder(world))
    world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, world.started(run_id))
    world.turn(first)
    assert not kept(world)
    die(world)
    world.turn(second := recorder(world))
    assert not second._shards[0].fold.open


def test_a_skip_over_kept_runs_that_were_held_leaves_their_tombstones() -> None:
    world = World()
    start = world.clock.now() // US_PER_S * US_PER_S + 5 * US_PER_S
    runs = [make_run_id(JOB, start + number * US_PER_S) for number in range(2)]
    for run_id in runs:
        detail = Pending(9, start, start, Tier.HIGH, Origin.SCHEDULE)
        world.event(EventKind.HELD, run_id, reason="overlap", detail=detail)
    pass_by(world)
    world.turn(first := recorder(world))
    assert set(kept(world)) == set(runs)
    skipped = Skipped(9, start, start + US_PER_S, 2, Tier.HIGH, start + US_PER_S)
    world.event(EventKind.SKIPPED, runs[0], reason="misfire", detail=skipped)
    world.turn(first)
    assert not kept(world)


def test_nothing_is_kept_before_the_rows_below_it_are_written() -> None:
    world = World()
    run_id = world.pending()
    pass_by(world)
    world.tables.on_call = lambda _client, operation: WriteFault.LOST if operation == "record" else None
    world.turn(first := recorder(world))
    assert not kept(world)
    world.tables.on_call = None
    world.turn(first)
    assert list(kept(world)) == [run_id]


@pytest.mark.parametrize("fate", [CommitFate.UNANSWERED, CommitFate.LOST, CommitFate.ABORTS], ids=lambda f: f.name)
def test_a_round_in_doubt_loses_no_kept_run(fate: CommitFate) -> None:
    world = World()
    run_id = world.pending()
    pass_by(world)
    world.cluster.faults.next_commit("waterclock.recorder.recorder-1", fate)
    world.turn(first := recorder(world), steps=60)
    assert list(kept(world)) == [run_id]
    world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, world.started(run_id))
    world.turn(first)
    assert world.row(run_id).status is RunStatus.SUCCEEDED
    assert not kept(world)


def test_what_cannot_be_read_of_a_kept_run_stops_nobody() -> None:
    """A record of a later release, and one that says what no recorder writes."""
    world = World()
    run_id = world.pending()
    pass_by(world)
    world.turn(recorder(world))
    for odd in (b"\xff\xfe", b""):
        world.append(Outgoing(STATE.topic, b"acme:odd@2026-01-01T00:00:00Z", odd, (), 0))
    die(world)
    world.turn(second := recorder(world))
    assert list(second._shards[0].fold.open) == [run_id]


def test_what_cannot_be_read_says_at_least_that_an_older_record_is_not_so_any_more() -> None:
    """Else the end of a claim that only the later one knows of would be refused."""
    world = World()
    run_id = world.pending()
    pass_by(world)
    world.turn(recorder(world))
    world.append(Outgoing(STATE.topic, run_id.encode(), b"\xff\xfe", (), 0))
    die(world)
    world.turn(second := recorder(world))
    assert not second._shards[0].fold.open


def test_of_a_kept_run_only_the_newest_record_is_decoded() -> None:
    """Compaction comes late: most of what a take-over reads in the state topic is not so any more."""
    world = World()
    run_id = world.pending()
    pass_by(world)
    world.turn(recorder(world))
    *_, newest = read_range(world.log, Isolation.COMMITTED, STATE, 0, world.log.high_watermark(STATE))
    for odd in (b"\xff\xfe", newest.value):
        world.append(Outgoing(STATE.topic, run_id.encode(), odd, (), 0))
    die(world)
    with capture_logs() as said:
        world.turn(second := recorder(world))
    assert list(second._shards[0].fold.open) == [run_id]
    assert not [line for line in said if line["event"] == "kept run cannot be read"]


def test_a_run_whose_record_would_be_too_large_stops_nobody_and_is_read_again() -> None:
    world = World()
    run_id = make_run_id(JOB, world.clock.now() // US_PER_S * US_PER_S)
    detail = Pending(9, world.clock.now(), None, Tier.HIGH, Origin.SCHEDULE)
    event = RunEvent(EventKind.PENDING, JOB, run_id, 0, detail=detail)
    room = RECORD_MAX - len(encode_event(event)) - 2  # two more bytes tell its length
    world.append(event_message(NAMES, event._replace(detail=detail._replace(handler="x" * room))))
    pass_by(world)
    world.turn(first := recorder(world))
    assert (kept(world), fold_from(world)) == ({}, 0)
    world.ended(EventKind.ATTEMPT_SUCCEEDED, run_id, world.started(run_id))
    world.turn(first)
    assert fold_from(world) > BEHIND


def test_a_pending_that_says_nothing_of_its_run_is_kept_as_well() -> None:
    world = World()
    run_id = make_run_id(JOB, world.clock.now() // US_PER_S * US_PER_S)
    world.event(EventKind.PENDING, run_id)
    pass_by(world)
    world.turn(recorder(world))
    assert kept(world)[run_id].said is None
    die(world)
    world.turn(second := recorder(world))
    assert list(second._shards[0].fold.open) == [run_id]


def test_a_successor_knows_the_open_dag_runs_that_were_kept() -> None:
    """Whoever looks for stuck nodes goes by them."""
    world = World()
    run_id = dag_run(world)
    pass_by(world)
    world.turn(recorder(world))
    assert run_id in kept(world)
    die(world)
    world.turn(second := recorder(world))
    assert second.open_dag_runs() == {run_id: 0}


# A take-over after every event of a story ------------------------------------------------------------------------

Step = Callable[[], object]


def dag_run(world: World) -> str:
    fire_at = world.clock.now() // US_PER_S * US_PER_S + US_PER_S
    run_id = make_run_id(JOB, fire_at)
    detail = Pending(9, fire_at, fire_at, Tier.HIGH, Origin.SCHEDULE, dag=DagStart(payload=b"{}"))
    world.event(EventKind.PENDING, run_id, detail=detail)
    return run_id


def of_retries(world: World) -> tuple[Sequence[Step], Sequence[str]]:
    """Held, released, failed, tried again, asked to stop, and given up."""
    run_id = make_run_id(JOB, world.clock.now() // US_PER_S * US_PER_S + US_PER_S)
    detail = Pending(9, parse_run_id(run_id).fire_at, None, Tier.HIGH, Origin.SCHEDULE, handler="invoice", zone="UTC")
    tokens: list[int] = []
    wrong = {"error_class": "ValueError", "error_message": "no 7", "error_trace": "at x"}
    steps: list[Step] = [
        lambda: world.event(EventKind.HELD, run_id, reason="overlap", detail=detail),
        lambda: world.event(EventKind.PENDING, run_id, detail=detail),
        lambda: tokens.append(world.started(run_id)),
        lambda: world.ended(EventKind.ATTEMPT_FAILED, run_id, tokens[-1], **wrong),
        lambda: world.event(EventKind.RETRYING, run_id, 2, detail=Retrying(world.clock.now() + US_PER_S, US_PER_S)),
        lambda: tokens.append(world.started(run_id, 2)),
        lambda: world.event(EventKind.CANCEL_REQUESTED, run_id, reason="somebody asked"),
        lambda: world.ended(EventKind.ATTEMPT_CANCELLED, run_id, tokens[-1], 2),
        lambda: world.event(EventKind.RUN_FAILED, run_id, 2, reason="cancelled"),
    ]
    return steps, [run_id]


def of_a_cancelled_dag(world: World) -> tuple[Sequence[Step], Sequence[str]]:
    """A DagRun that is to end while its node runs on: it cannot be kept any more, the node can."""
    runs = [dag_run(world)]
    runs.append(f"{runs[0]}/load")
    node = Pending(9, parse_run_id(runs[0]).fire_at, None, Tier.HIGH, Origin.SCHEDULE, handler="load")
    tokens: list[int] = []
    return [
        lambda: world.event(EventKind.PENDING, runs[1], detail=node),
        lambda: tokens.append(world.started(runs[1])),
        lambda: world.event(EventKind.CANCEL_REQUESTED, runs[0], reason="somebody asked"),
        lambda: world.ended(EventKind.ATTEMPT_CANCELLED, runs[1], tokens[-1]),
    ], runs


def of_a_dag(world: World) -> tuple[Sequence[Step], Sequence[str]]:
    """A DagRun that was paused for a while, and whose first node fails once."""
    runs = [dag_run(world)]
    runs.append(f"{runs[0]}/load")
    fire_at = parse_run_id(runs[0]).fire_at
    node = Pending(9, fire_at, None, Tier.HIGH, Origin.SCHEDULE, handler="load")
    tokens: list[int] = []
    steps: list[Step] = [
        lambda: world.event(EventKind.PENDING, runs[1], detail=node),
        lambda: world.event(EventKind.DAG_PAUSED, runs[0], reason="wait"),
        lambda: tokens.append(world.started(runs[1])),
        lambda: world.event(EventKind.DAG_RESUMED, runs[0]),
        lambda: world.ended(EventKind.ATTEMPT_FAILED, runs[1], tokens[-1], error_class="OSError"),
        lambda: world.event(EventKind.RETRYING, runs[1], 2, detail=Retrying(world.clock.now(), 0)),
        lambda: tokens.append(world.started(runs[1], 2)),
        lambda: world.ended(EventKind.ATTEMPT_SUCCEEDED, runs[1], tokens[-1], 2, result=b"7"),
        lambda: world.event(EventKind.DAG_SUCCEEDED, runs[0]),
    ]
    return steps, runs


Story = Callable[[World], tuple[Sequence[Step], Sequence[str]]]


def rows_of(world: World, runs: Sequence[str]) -> list[object]:
    found: list[object] = []
    for run in map(parse_run_id, runs):
        place = run.job_id, run.fire_at, run.series
        found.append(world.store.dag_node(run) if run.node else world.store.run(*place))
        found.append(world.store.attempts(*place, run.node))
    return found


STORIES = [
    (story, cut) for story, cuts in ((of_retries, 9), (of_a_dag, 9), (of_a_cancelled_dag, 4)) for cut in range(cuts)
]


def lose_everything(world: World) -> None:
    """Positions and tables; what is kept stays."""
    world.cluster.kill("recorder-1")
    world.cluster.expire_group(NAMES.group("recorder"))
    world.tables = MemoryTables(world.clock)
    world.store = MemoryStore(world.clock, world.tables)


@pytest.mark.parametrize(("story", "cut"), STORIES)
def test_whoever_takes_over_long_after_any_event_writes_the_same_rows(story: Story, cut: int) -> None:
    """As one who has read the whole log does."""
    world = World()
    steps, runs = story(world)
    world.turn(writing := recorder(world))
    for number, step in enumerate(steps):
        if number == cut:
            pass_by(world)
            world.turn(writing)
            assert bool(kept(world)) == bool(writing._shards[0].fold.open)
            world.cluster.kill("recorder-1")
            writing = recorder(world)
        step()
        world.turn(writing)
    rows = rows_of(world, runs)
    assert not kept(world)
    lose_everything(world)
    world.turn(recorder(world))
    assert rows == rows_of(world, runs)
    assert None not in rows


@pytest.mark.parametrize(("story", "cut"), STORIES)
def test_where_positions_and_rows_are_lost_all_that_is_known_is_written_again(story: Story, cut: int) -> None:
    """What the log still has is read whole, whatever is kept of it; of what it has not, the last row stands."""
    world = World()
    steps, runs = story(world)
    world.turn(writing := recorder(world))
    for step in steps[:cut]:
        step()
        world.turn(writing)
    pass_by(world)
    world.turn(writing)
    rows = rows_of(world, runs)
    lose_everything(world)
    world.turn(recorder(world))
    assert rows == rows_of(world, runs)
    known = [run_id for run_id in runs if run_id in kept(world)]
    rows = rows_of(world, known)[::2]
    world.cluster.partition(EVENTS).delete_before(world.log.high_watermark(EVENTS))
    lose_everything(world)
    world.turn(recorder(world))  # without waiting for any record
    assert rows == rows_of(world, known)[::2]


def test_where_positions_are_set_back_the_rows_of_kept_runs_are_written_again() -> None:
    """By a tool, which erases where the fold begins; the run's own events are gone from the log."""
    world = World()
    run_id = world.pending()
    pass_by(world)
    world.turn(recorder(world))
    folded_to, row = kept(world)[run_id].folded_to, world.row(run_id)
    lose_everything(world)
    world.cluster.group(NAMES.group("recorder")).commit({EVENTS: Committed(folded_to - 2)})
    world.cluster.partition(EVENTS).delete_before(folded_to - 4)
    world.turn(recorder(world))
    assert world.row(run_id) == row


@pytest.mark.parametrize("limit", [1, 2])
def test_a_node_that_is_kept_before_its_dag_run_does_not_hide_when_that_began(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_runs, "_PER_ROUND", limit)
    world = World()
    steps, runs = of_a_dag(world)
    pass_by(world)
    world.turn(writing := recorder(world))
    steps[0]()
    world.turn(writing)
    began_at = world.row(runs[0]).started_at
    pass_by(world)
    for _ in range(50):
        if len(kept(world)) < limit:
            writing.step()
    assert len(kept(world)) == limit
    world.cluster.kill("recorder-1")
    world.turn(writing := recorder(world))
    for step in steps[1:]:
        step()
    world.turn(writing)
    assert world.row(runs[0]).started_at == began_at > 0
