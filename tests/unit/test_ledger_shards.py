"""The ledger of whole shards, as a dispatcher leaves them, and ``waterclock ledger verify`` on top of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.unit.dispatcher_world import NAMES, START, World, every
from tests.unit.in_process import documents_of, run_command
from waterclock.clusters import doctor_ledger
from waterclock.clusters.finding import Finding, State
from waterclock.commands import ledger as command
from waterclock.ledger.facts import HOUR_US
from waterclock.ledger.shards import Asked, Ledger, ShardVerdict
from waterclock.ledger.sums import FaultKind, HourSum
from waterclock.log.port import Outgoing, TopicPartition
from waterclock.model.events import EventKind, Origin, Pending, RunEvent
from waterclock.model.ids import US_PER_S, make_run_id, parse_run_id, partition_of
from waterclock.model.job import CommandKind, Tier
from waterclock.model.time_text import format_rfc3339
from waterclock.settings import Settings
from waterclock.store.memory import MemoryStore
from waterclock.store.port import JobChange
from waterclock.wire import messages

GENERATION = 1
JOBS = ("t:ten", "t:often", "t:gone", "t:waits")
SPAN_S = 95


@pytest.fixture
def world() -> World:
    """Four jobs on two shards: one of them is deleted, one paused."""
    world = World()
    for job in JOBS:
        world.command(CommandKind.CREATE, job, every(10 if job == "t:ten" else 5))
    world.run(45, 0.5)
    world.command(CommandKind.DELETE, "t:gone")
    world.command(CommandKind.PAUSE, "t:waits")
    world.command(CommandKind.TRIGGER, "t:ten")
    world.run(55, 0.5)
    return world


def verdicts(world: World, asked: Asked | None = None) -> list[ShardVerdict]:
    store = MemoryStore(world.clock, world.tables, "ledger")
    ledger = Ledger(world.outside, NAMES, store, GENERATION)
    positions = ledger.positions()
    asked = asked or Asked(START, START + SPAN_S * US_PER_S)
    return [ledger.judge(shard, asked, positions) for shard in range(ledger.shards)]


def hours(found: list[ShardVerdict]) -> list[HourSum]:
    return [hour for verdict in found for hour in verdict.hours.values()]


def scheduled(world: World, job: str = "") -> list[str]:
    """The runs of the span that the schedules made."""
    runs = [run for run in world.runs(job) if "~" not in run]
    return [run for run in runs if parse_run_id(run).fire_at < START + SPAN_S * US_PER_S]


def append(world: World, message: Outgoing) -> None:
    appender = world.outside.appender()
    appender.append(message)
    appender.flush(1.0)
    appender.close()


def test_what_a_dispatcher_decided_balances_on_every_shard(world: World) -> None:
    found = verdicts(world)
    assert all(verdict.is_balanced and verdict.is_whole for verdict in found)
    assert sum(hour.runs for hour in hours(found)) == len(scheduled(world))
    assert sum(hour.skipped["paused"] for hour in hours(found)) == 9


def test_a_run_that_nobody_owed_is_named(world: World) -> None:
    at = START + 31 * US_PER_S
    event = RunEvent(EventKind.PENDING, "t:ten", make_run_id("t:ten", at), at,
                     detail=Pending(1, at, at, Tier.MEDIUM, Origin.SCHEDULE))  # fmt: skip
    append(world, messages.event_message(NAMES, event))
    (fault,) = [fault for hour in hours(verdicts(world)) for fault in hour.named]
    assert (fault.kind, fault.run_id) == (FaultKind.WRONG, make_run_id("t:ten", at))


def test_a_job_of_which_the_log_says_nothing_is_found_in_the_store(world: World) -> None:
    """Nothing that a job left in the log is needed to know what it owed."""
    store = MemoryStore(world.clock, world.tables, "ledger")
    (version,) = store.versions(["t:often"])["t:often"]
    job = store.job("t:often")
    assert job is not None
    forgotten = next(f"t:f{n}" for n in range(99) if partition_of(f"t:f{n}", 2) == partition_of("t:often", 2))
    store.apply([JobChange(job._replace(job_id=forgotten), version._replace(job_id=forgotten))])
    found = [fault for hour in hours(verdicts(world)) for fault in hour.named]
    assert {fault.kind for fault in found} == {FaultKind.MISSING}
    assert all(forgotten in fault.run_id for fault in found)


def test_one_job_can_be_judged_alone(world: World) -> None:
    found = verdicts(world, Asked(START, START + SPAN_S * US_PER_S, ("t:ten",)))
    assert [hour.owed for hour in hours(found)] == [len(scheduled(world, "t:ten@"))]


def test_what_retention_took_is_told_and_not_called_missing(world: World) -> None:
    place = TopicPartition(NAMES.run_events, partition_of("t:often", 2))
    middle = world.outside.offset_at(place, START + 20 * US_PER_S)
    world.cluster.delete_records(place, middle)
    verdict = verdicts(world)[place.partition]
    assert verdict.is_balanced
    assert not verdict.is_whole
    assert verdict.proved_from > START + 20 * US_PER_S
    assert any("cannot be proved before" in remark.text for remark in verdict.remarks)


def test_what_the_cursor_has_not_passed_is_not_due_yet(world: World) -> None:
    found = verdicts(world, Asked(START, START + 200 * US_PER_S))
    assert all(verdict.is_balanced and verdict.is_whole for verdict in found)
    assert sum(hour.not_yet for hour in hours(found)) > 20


def test_a_shard_that_nobody_ever_owned_is_not_judged() -> None:
    world = World()
    found = verdicts(world)
    assert all(not verdict.is_whole and not verdict.hours for verdict in found)


def test_a_span_over_the_bound_is_judged_in_parts_with_the_same_verdict() -> None:
    world = World(partitions=1)
    for job in JOBS:
        world.command(CommandKind.CREATE, job, every(300))
    world.run(2 * 3_600 + 1_000, 20)
    span = Asked(START, world.clock.now())
    (whole,) = verdicts(world, span)
    (parts,) = verdicts(world, span._replace(facts_max=60))
    assert len(whole.hours) > 2
    assert whole.hours == parts.hours
    assert parts.is_balanced


@pytest.fixture
def waterclock(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, list[dict[str, Any]], str]]:
    """Runs a command in this process: (exit code, documents on stdout, stderr)."""

    @contextmanager
    def log(_: Settings) -> Iterator[Any]:
        yield world.outside

    @contextmanager
    def store(_: Settings) -> Iterator[Any]:
        yield MemoryStore(world.clock, world.tables, "cli")

    monkeypatch.setattr(command, "here", Settings)
    monkeypatch.setattr(command, "open_log", log)
    monkeypatch.setattr(command, "open_store", store)
    monkeypatch.setattr(command, "SystemClock", lambda: world.clock)

    def run(*words: str) -> tuple[int, list[dict[str, Any]], str]:
        code, out, err = run_command(monkeypatch, capsys, "ledger", "verify", *words)
        return code, documents_of(out), err

    return run


def test_the_command_shows_a_row_for_each_hour_and_ends_with_0(world: World, waterclock: Any) -> None:
    code, rows, err = waterclock("--from", format_rfc3339(START))
    assert code == 0
    assert {row["shard"] for row in rows} == {0, 1}
    assert all(row["owed"] == row["runs"] + sum(row["skipped"].values()) for row in rows)
    assert "balances" in err


def test_the_command_names_what_is_wrong_and_ends_with_1(world: World, waterclock: Any) -> None:
    at = START + 30 * US_PER_S
    event = RunEvent(EventKind.PENDING, "t:ten", make_run_id("t:ten", at + 1), at,
                     detail=Pending(1, at, at, Tier.MEDIUM, Origin.SCHEDULE))  # fmt: skip
    append(world, messages.event_message(NAMES, event))
    code, rows, err = waterclock("--from", "1h", "--job", "t:ten")
    assert code == 1
    assert sum(row["wrong"] for row in rows) == 1
    assert f"wrong: {event.run_id}" in err
    _, rows, err = waterclock("--from", "1h", "--job", "t:ten", "--names", "0")
    assert [row["not_named"] for row in rows if row["wrong"]] == [1]
    assert "not all of 1 faults are named" in err


def test_the_command_ends_with_2_where_it_cannot_judge(world: World, waterclock: Any) -> None:
    for shard in range(2):
        place = TopicPartition(NAMES.run_events, shard)
        world.cluster.delete_records(place, world.outside.offset_at(place, START + 20 * US_PER_S))
    code, _, err = waterclock("--from", format_rfc3339(START))
    assert code == 2
    assert "cannot be proved before" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "soon"), "soon"),
        (("--from", "1h", "--to", "2h"), "ends before it begins"),
        (("--from", "40d"), "longer than 31 days"),
        (("--shard", "7"), "no shard 7"),
    ],
)
def test_a_span_or_shard_that_cannot_be_is_refused(waterclock: Any, words: tuple[str, ...], said: str) -> None:
    code, _, err = waterclock(*words)
    assert code == 2
    assert said in err


def test_a_job_that_nobody_has_is_no_proof(waterclock: Any) -> None:
    code, rows, err = waterclock("--from", "1h", "--job", "t:ten", "--job", "t:tne")
    assert (code, rows) == (3, [])
    assert "There is no job t:tne" in err
    assert "balances" not in err


def test_a_job_of_another_shard_is_no_proof(waterclock: Any) -> None:
    own = partition_of("t:ten", 2)
    code, rows, err = waterclock("--from", "1h", "--job", "t:ten", "--shard", str(1 - own))
    assert (code, rows) == (2, [])
    assert f"t:ten lies in shard {own}" in err
    assert waterclock("--from", "1h", "--job", "t:ten", "--shard", str(own))[0] == 0


def test_a_job_that_was_deleted_is_still_judged(waterclock: Any) -> None:
    code, rows, _ = waterclock("--from", "1h", "--job", "t:gone")
    assert code == 0
    assert sum(row["owed"] for row in rows) > 0


def test_hours_are_those_of_the_clock_in_utc(world: World) -> None:
    assert {hour for verdict in verdicts(world) for hour in verdict.hours} == {START // HOUR_US}


def finding(world: World) -> Finding:
    store = MemoryStore(world.clock, world.tables, "doctor")
    (found,) = doctor_ledger.examine(world.outside, NAMES, store, world.clock, GENERATION)
    return found


def test_the_doctor_looks_at_the_last_whole_hour_and_names_the_command(world: World) -> None:
    end = (START // HOUR_US + 1) * HOUR_US
    world.run((end - world.clock.now()) // US_PER_S + 400, 1)
    found = finding(world)
    assert found.state is State.OK
    assert format_rfc3339(end - HOUR_US) in found.found

    at = START + 31 * US_PER_S
    event = RunEvent(EventKind.PENDING, "t:ten", make_run_id("t:ten", at), at,
                     detail=Pending(1, at, at, Tier.MEDIUM, Origin.SCHEDULE))  # fmt: skip
    append(world, messages.event_message(NAMES, event))
    found = finding(world)
    assert found.state is State.FAIL
    assert event.run_id in found.found
    assert found.next_step.startswith(f"waterclock ledger verify --from {format_rfc3339(end - HOUR_US)} --to ")


def test_the_doctor_leaves_what_is_too_much_and_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_ledger, "EVENTS_MAX", 3)
    end = (START // HOUR_US + 1) * HOUR_US
    world.clock.advance(end - world.clock.now() + 6 * 60 * US_PER_S)
    found = finding(world)
    assert found.state is State.OK
    assert "not looked at" in found.found
    assert "waterclock ledger verify" in found.found


def test_the_doctor_warns_of_an_hour_that_nobody_has_decided(world: World) -> None:
    world.clock.advance(HOUR_US + 6 * 60 * US_PER_S)
    found = finding(world)
    assert found.state is State.WARN
    assert "shards [0, 1] have not decided all of it" in found.found
