"""What a dispatcher withstands: records that no door lets in, a store that is away, positions from before a start."""

from __future__ import annotations

import pytest
from waterclock.dispatcher import deciding, emit, envelope
from waterclock.dispatcher.position import Position
from waterclock.dispatcher.shard import Decided, Shard

from tests.oracle import books
from tests.unit.dispatcher_world import NAMES, START, World, every, raw
from waterclock.log.memory import CommitFate
from waterclock.log.port import TopicPartition
from waterclock.model.document import HANDLER_MAX, PAYLOAD_MAX
from waterclock.model.errors import BackendDown
from waterclock.model.events import CommandVerdict, EventKind
from waterclock.model.ids import US_PER_S, make_run_id, ordinal
from waterclock.model.job import CommandKind, Every, JobSpec, JobStatus, JobVersion, Once
from waterclock.store.memory import MemoryStore
from waterclock.transact import Round

RECORD_FILLS = 256 * 1024 - 200
"""Payload that fits into a command and, with a run id and two job ids beside it, into no work record."""


def test_a_payload_that_fits_no_work_record_is_refused_and_stops_no_shard() -> None:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(5))
    world.run(1)
    world.command(CommandKind.TRIGGER, "t:beat", payload=bytes(RECORD_FILLS))
    world.command(CommandKind.CREATE, "t:huge", every(5, payload=bytes(PAYLOAD_MAX + 1)))
    named = JobSpec("h" * (HANDLER_MAX + 1), Every(5 * US_PER_S))
    world.command(CommandKind.CREATE, "t:named", named)
    world.run(10)
    assert len(world.records("waterclock.rejects")) == 3
    assert len(world.runs()) == 2


def test_a_trigger_and_a_resume_of_one_millisecond_leave_the_job_as_the_last_one_says() -> None:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(5))
    world.run(2)
    world.command(CommandKind.PAUSE, "t:beat")
    world.run(2)
    world.command(CommandKind.TRIGGER, "t:beat")
    last = world.command(CommandKind.RESUME, "t:beat")
    world.run(2)
    row = MemoryStore(world.clock, world.tables, "reader").job("t:beat")
    assert row is not None
    assert (row.status, row.src_offset) == (JobStatus.ACTIVE, last)


def test_a_trigger_writes_nothing_to_the_store_and_is_answered() -> None:
    """Its job stands as it stood: to say so again cost two writes, for which every command behind it waited."""
    world = World(partitions=1)
    world.run(1)
    created = world.command(CommandKind.CREATE, "t:beat", every(3_600))
    world.run(2)
    calls: list[str] = []
    world.tables.on_call = lambda _, operation: calls.append(operation)
    triggered = [world.command(CommandKind.TRIGGER, "t:beat", answer=True) for _ in range(3)]
    world.run(1)
    assert [call for call in calls if call.startswith("apply")] == []
    answered = [event.detail for event in world.events(EventKind.ANSWERED)]
    assert [(each.offset, each.verdict) for each in answered] == [
        (offset, CommandVerdict.APPLIED) for offset in triggered
    ]
    assert len(world.runs("t:beat")) == 3
    world.command(CommandKind.CREATE, "t:beat", every(3_600))
    world.run(1)
    assert "apply:jobs" in calls, "who defines a job again writes it again"
    row = MemoryStore(world.clock, world.tables, "reader").job("t:beat")
    assert row is not None
    assert (row.status, row.revision) == (JobStatus.ACTIVE, ordinal(1, created))


def test_while_the_store_is_away_a_waiting_command_does_not_make_the_loop_spin() -> None:
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(60))
    world.run(2)

    def away(_client: str, _operation: str) -> None:
        raise BackendDown("cassandra", "away")

    world.tables.on_call = away
    world.command(CommandKind.CREATE, "t:waits", every(60))
    world.run(1)
    waits: list[float] = []
    for _ in range(300):  # past the end of the loaded window
        waits.append(world.dispatcher._patience_s())
        world.run(1, step_s=0.5)
    assert min(waits) > 0.0


def test_a_position_of_before_the_start_passes_over_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right after a start the real client may still tell where it stood before the round was aborted."""
    world = World(partitions=1)
    world.run(2)
    inputs = world.dispatcher._inputs
    poll, position = inputs.poll, inputs.position
    world.command(CommandKind.CREATE, "t:beat", every(60))
    world.run(1)
    world.command(CommandKind.TRIGGER, "t:beat")
    world.cluster.faults.next_commit(NAMES.transactional_id("dispatcher", "d1"), CommitFate.ABORTS)
    world.steps(1)  # the round with the command is aborted: the command must be read again
    assert position(TopicPartition(NAMES.commands, 0)) == 2
    monkeypatch.setattr(inputs, "poll", lambda _limit, *waits: poll(0, *waits))
    monkeypatch.setattr(inputs, "position", lambda _partition: 2)
    world.steps(3)  # started again at 1, and nothing has come yet
    monkeypatch.setattr(inputs, "poll", poll)
    monkeypatch.setattr(inputs, "position", position)
    world.run(5)
    assert len(world.runs("t:beat")) == 1


def test_a_round_that_only_keeps_state_is_fenced_by_the_group_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an offset in it the broker would take it from an owner that has lost its shards long ago."""
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(30))
    world.run(2)
    world.command(CommandKind.PAUSE, "t:beat")
    world.run(2)
    world.command(CommandKind.RESUME, "t:beat")
    drafts: list[Round] = []
    commit = world.dispatcher._rounds.commit

    def noted(draft: Round) -> None:
        drafts.append(draft)
        commit(draft)

    monkeypatch.setattr(world.dispatcher._rounds, "commit", noted)
    world.run(20)
    said = [draft for draft in drafts if draft.messages]
    assert said
    assert all(draft.offsets for draft in said)


def shard_at(due_at: int) -> Shard:
    return Shard(0, 1, 1, Position(due_at), 0)


def test_what_was_decided_ahead_is_forgotten_once_the_copied_cursor_has_passed_it_and_not_before() -> None:
    shard = shard_at(100)
    shard.decide_ahead("t:a", Decided(150, paused=False))
    shard.decide_ahead("t:b", Decided(120, paused=False))
    shard.decide_ahead("t:b", Decided(300, paused=False))
    shard.decide_ahead("t:p", Decided(110, paused=True))
    shard.cursor = Position(200)
    assert shard.passed_ahead(10) == []
    shard.copied = shard.progress
    assert shard.passed_ahead(10) == ["t:a"]
    shard.cursor = Position(301)
    assert shard.passed_ahead(10) == []
    shard.copied = shard.progress
    assert shard.passed_ahead(10) == ["t:b"]
    assert set(shard.decided) == {"t:p"}


def test_a_crowd_that_was_resumed_together_is_forgotten_over_many_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "FORGOTTEN_MAX", 7)
    world = World(partitions=1)
    names = [f"t:crowd{number}" for number in range(30)]
    for kind, spec in ((CommandKind.CREATE, every(600)), (CommandKind.PAUSE, None), (CommandKind.RESUME, None)):
        for name in names:
            world.command(kind, name, spec)
        world.run(0.5)
    forgotten = []
    for _ in range(300):
        before = state_tombstones(world)
        world.steps(1)
        world.clock.advance(50_000)
        forgotten.append(state_tombstones(world) - before)

    assert sum(forgotten) == len(names)
    assert max(forgotten) == 7


def state_tombstones(world: World) -> int:
    return sum(record.value is None for record in world.records(NAMES.state("dispatcher")))  # type: ignore[attr-defined]


def test_large_payloads_are_not_kept_by_the_thousand() -> None:
    templates = emit.Templates(NAMES)
    before = envelope.kept_count()
    for number in range(10):
        spec = every(5, payload=bytes(PAYLOAD_MAX))
        version = JobVersion(f"t:job{number}", 1, spec, JobStatus.ACTIVE, "", number + 1, number + 1)
        templates.of(version)
        assert envelope.unseal(envelope.seal(version, 0))[:3] == (number + 1, number + 1, spec)
    assert len(templates._made) == 0
    assert envelope.kept_count() == before


@pytest.mark.parametrize(("every_s", "between_s", "count"), [(1, 7, 1), (60, 1, 1)])
def test_a_one_off_that_was_overtaken_while_the_store_was_away_runs_once(
    every_s: int, between_s: int, count: int
) -> None:
    """Fires went on meanwhile: where the version that stood has made this one, it is not made again."""
    world = World(partitions=1)
    world.run(1)
    world.command(CommandKind.CREATE, "t:beat", every(every_s, start_at=START))
    world.run(5)

    def away(_client: str, _operation: str) -> None:
        raise BackendDown("cassandra", "away")

    world.tables.on_call = away
    world.command(CommandKind.UPDATE, "t:beat", every(between_s, start_at=START))
    world.run(1)
    at = (world.clock.now() // US_PER_S + 2) * US_PER_S
    world.command(CommandKind.UPDATE, "t:beat", JobSpec("demo.noop", Once(at)))
    world.run(7)
    world.tables.on_call = None
    world.run(10)
    assert world.runs().count(make_run_id("t:beat", at)) == count
    commands, events = ([raw(each) for each in world.records(topic)] for topic in (NAMES.commands, NAMES.run_events))
    assert books.balance(commands, events, world.clock.now() - US_PER_S)[0] == []
