"""Commands that just fit into a record, of which what is made would not: refused, and the shard goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from waterclock.dispatcher import inbox

from tests.unit.dispatcher_world import NAMES, World, every
from tests.unit.test_dispatcher_keys import one_shard
from waterclock.model.concurrency import Concurrency, Overlap
from waterclock.model.dag import DagSpec, Node
from waterclock.model.events import EventKind, Pending
from waterclock.model.ids import ordinal
from waterclock.model.job import Command, CommandKind, Tier
from waterclock.wire import codec
from waterclock.wire.framing import RECORD_MAX
from waterclock.wire.messages import command_message

JOB = "t:d"


def _largest(make: Callable[[int], Command]) -> Command:
    """The largest command that fits into a record. ``make``: one of about so many bytes."""
    low, high = 1, 2 * RECORD_MAX
    while low < high:
        middle = (low + high + 1) // 2
        try:
            codec.encode_command(make(middle))
            low = middle
        except Exception:  # noqa: BLE001 - whatever refuses it, it does not fit
            high = middle - 1
    return make(low)


def _send(world: World, command: Command) -> None:
    assert len(codec.encode_command(command)) > RECORD_MAX - 16, "it nearly fills a record, or this proves nothing"
    appender = world.outside.appender()
    appender.append(command_message(NAMES, command))
    appender.flush(1.0)
    appender.close()


@pytest.fixture
def world() -> World:
    world = one_shard()
    world.command(CommandKind.CREATE, "t:beat", every(5))
    world.run(1)
    return world


def _still_beats(world: World) -> bool:
    before = len(world.runs("t:beat"))
    world.run(12)
    return len(world.runs("t:beat")) > before


def test_a_rerun_that_names_a_node_again_and_again_names_it_once(world: World) -> None:
    offset = world.command(CommandKind.CREATE, JOB, replace(every(3_600), handler="", dag=DagSpec((Node("a", "h"),))))
    world.command(CommandKind.TRIGGER, JOB)
    world.run(1)
    (run_id,) = world.runs(JOB)
    version = {"run_id": run_id, "to_revision": ordinal(1, offset)}
    at = world.clock.now()
    _send(
        world, _largest(lambda size: Command(CommandKind.RERUN, JOB, "", "", at, rerun_from=("a",) * size, **version))
    )
    assert _still_beats(world)
    pending = world.events(EventKind.PENDING)
    (again,) = [
        each.detail for each in pending if isinstance(each.detail, Pending) and each.detail.linked_run == run_id
    ]
    assert again.dag is not None
    assert again.dag.rerun_from == ("a",)


def test_a_redrive_whose_work_would_outgrow_what_is_kept_of_its_run_is_refused(world: World) -> None:
    world.command(CommandKind.CREATE, JOB, every(2, concurrency=Concurrency(Overlap.BUFFER_ALL, max_concurrent=1)))
    world.run(5)
    run_id = world.runs(JOB)[0]
    records = [record.value for tier in Tier for record in world.records(NAMES.runs(tier))]  # type: ignore[attr-defined]
    work = next(made for value in records if (made := codec.decode_work(value)).run_id == run_id)

    def padded(size: int) -> Command:
        wide = codec.encode_work(work._replace(policy='{"x":"' + "a" * size + '"}'))
        return Command(CommandKind.REDRIVE, JOB, "", "", world.clock.now(), run_id=run_id, work=wide)

    _send(world, _largest(padded))
    assert _still_beats(world)
    (reject,) = [codec.decode_reject(record.value) for record in world.records(NAMES.rejects)]  # type: ignore[attr-defined]
    assert reject.pointer == "/work"


def test_a_round_takes_so_many_bytes_of_commands_and_the_next_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tenant's large payloads, hundreds at once, must not make a transaction that fires of all others wait for."""
    monkeypatch.setattr(inbox, "ROUND_BYTES", 200_000)
    world.command(CommandKind.CREATE, JOB, every(3_600))
    world.run(1)
    for _ in range(20):
        world.command(CommandKind.TRIGGER, JOB, payload=b"x" * 60_000)
    made = []
    for _ in range(30):
        before = len(world.runs(JOB))
        world.steps(1)
        made.append(len(world.runs(JOB)) - before)
    assert (sum(made), max(made)) == (20, 3)


def test_what_waits_for_its_round_is_bounded_by_bytes_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given commands that come faster than rounds take them: thousands of a megabyte would be all of the memory."""
    monkeypatch.setattr(inbox, "ROUND_BYTES", 200_000)
    monkeypatch.setattr(inbox, "_INBOX_BYTES", 600_000)
    monkeypatch.setattr(inbox, "_POLL_MAX", 5)
    world.command(CommandKind.CREATE, JOB, every(3_600))
    world.run(1)
    for _ in range(60):
        world.command(CommandKind.TRIGGER, JOB, payload=b"x" * 60_000)
    most = 0
    for _ in range(90):
        world.steps(1)
        most = max(most, *(len(shard.inbox) for shard in world.dispatcher._shards.values()))
    assert most <= 15
    assert len(world.runs(JOB)) == 60


def test_triggers_of_jobs_with_large_payloads_go_out_over_many_rounds() -> None:
    world = World(partitions=1)
    world.run(1)
    names = [f"t:crowd{number}" for number in range(150)]
    for name in names:
        world.command(CommandKind.CREATE, name, every(3_600, payload=b'"' + b"x" * 60_000 + b'"'))
    world.run(5)
    for name in names:
        world.command(CommandKind.TRIGGER, name, answer=True)
    made = []
    for _ in range(10):
        before = len(world.runs())
        world.dispatcher.step()
        made.append(len(world.runs()) - before)

    assert sum(made) == len(names)
    assert max(made) * 60_000 < 1.1 * inbox.ROUND_BYTES
    answered = [event.detail.offset for event in world.events(EventKind.ANSWERED)]  # type: ignore[union-attr]
    assert len(set(answered)) == len(answered) == len(names)
