"""The demo believes the log, history and dead letters, and nothing less than all three."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from rich.console import Console

from waterclock.clock import ManualClock
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.port import Isolation, Outgoing, TopicPartition
from waterclock.model.document import spec_from_document
from waterclock.model.events import DeadLetter, Ended, EventKind, Origin, Pending, RunEvent, RunStatus, Skipped, Started
from waterclock.model.ids import US_PER_S, make_job_id, make_run_id, ordinal, parse_run_id
from waterclock.model.job import CommandKind, Tier
from waterclock.stack.demo_proof import Proof
from waterclock.stack.demo_sight import Sight
from waterclock.stack.demo_table import View, drawn, ended_line
from waterclock.stack.demo_world import kinds, load
from waterclock.wire.codec import decode_command
from waterclock.wire.messages import dead_letter_message, event_message
from waterclock.wire.names import Names, topic_specs

NAMES = Names()
GENERATION = 3


class World:
    """A log in memory, a hand that writes what the roles would, and a history to be asked."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        cluster = MemoryCluster(self.clock)
        for spec in topic_specs(NAMES, 4):
            cluster.create_topic(spec.name, spec.partitions, append_time=spec.name == NAMES.commands)
        self.log = MemoryLog(cluster)
        self.appender = self.log.appender()
        self.history: dict[tuple[str, int, int], RunStatus] = {}
        self.kinds = kinds(self.clock.now())
        self.proof = Proof(self.kinds, "default")
        self.event_of("before the demo began", RunStatus.SUCCEEDED)
        self.sight = Sight(self.log, NAMES, self.clock, generation=GENERATION)

    def run(self, job_id: str, fire_at: int, series: int) -> SimpleNamespace | None:
        status = self.history.get((job_id, fire_at, series))
        return SimpleNamespace(status=status) if status else None

    def append(self, message: Outgoing) -> int:
        self.clock.advance(1_000)
        offset = self.appender.append(message).offset
        assert offset is not None
        return offset

    def say(self, kind: EventKind, run_id: str, **parts: object) -> int:
        event = RunEvent(kind, run_id.partition("@")[0], run_id, self.clock.now())._replace(**parts)
        return self.append(event_message(NAMES, event))

    def event_of(self, name: str, ends: RunStatus | None, origin: Origin = Origin.SCHEDULE) -> str:
        """A run of a demo job, up to where ``ends`` says; None: it has only started."""
        self.clock.advance(2 * US_PER_S)
        job_id = make_job_id("default", name.replace(" ", "-"))
        fire_at, series = self.clock.now(), 7 if origin is Origin.TRIGGER else 0
        run_id = make_run_id(job_id, fire_at, series)
        self.clock.advance(5_000)
        pending = Pending(9, fire_at, fire_at, Tier.LOW, origin)
        self.say(EventKind.PENDING, run_id, detail=pending)
        worker = {"attempt": 1, "worker": "w", "incarnation": 1}
        at = self.say(EventKind.STARTED, run_id, detail=Started(NAMES.runs(Tier.LOW), 0, 1), **worker)
        token = ordinal(GENERATION, at)
        if ends is RunStatus.SUCCEEDED:
            self.say(EventKind.ATTEMPT_SUCCEEDED, run_id, token=token, detail=Ended(self.clock.now()), **worker)
        elif ends is RunStatus.FAILED:
            detail = Ended(self.clock.now(), error_message="on purpose")
            self.say(EventKind.ATTEMPT_FAILED, run_id, token=token, detail=detail, **worker)
            self.say(EventKind.RUN_FAILED, run_id, attempt=1, reason="RuntimeError")
        return run_id

    def record(self, run_id: str, status: RunStatus) -> None:
        place = parse_run_id(run_id)
        self.history[place.job_id, place.fire_at, place.series] = status

    def bury(self, run_id: str) -> None:
        job_id = run_id.partition("@")[0]
        self.append(dead_letter_message(NAMES, DeadLetter(run_id, job_id, "r", "E", "m", "f", 1, 1, 1, 1, None)))

    def look(self) -> None:
        while ended := self.sight.look(0):
            self.proof.take(ended)
        self.proof.check(self, self.sight.letters.newest)


@pytest.fixture
def world() -> World:
    return World()


def test_every_job_of_the_demo_is_valid_and_every_tier_schedule_and_ending_is_among_them(world):
    specs = {kind.name: spec_from_document(kind.document, job_id=f"default:{kind.name}") for kind in world.kinds}
    assert {spec.tier for spec in specs.values()} == set(Tier)
    assert {type(spec.schedule).__name__ for spec in specs.values()} == {"Cron", "Every", "Once"}
    assert {kind.ends for kind in world.kinds} == {RunStatus.SUCCEEDED, RunStatus.FAILED}
    assert {kind.origin for kind in world.kinds} == {Origin.SCHEDULE, Origin.TRIGGER}


def test_loading_defines_every_job_and_triggers_behind_its_definition(world):
    load(world.log, NAMES, "default", world.kinds, world.clock.now())
    reader = world.log.reader(Isolation.COMMITTED)
    reader.assign({TopicPartition(NAMES.commands, n): 0 for n in range(4)})
    sent = [decode_command(record.value) for record in reader.poll(100, 0)]
    created = [command.job_id for command in sent if command.kind is CommandKind.CREATE]
    assert sorted(created) == sorted(f"default:{kind.name}" for kind in world.kinds)
    of_demand = [command.kind for command in sent if command.job_id == "default:on-demand"]
    assert of_demand == [CommandKind.CREATE, CommandKind.TRIGGER]


def test_runs_are_counted_by_tier_and_status_and_those_of_an_earlier_demo_are_not(world):
    world.event_of("pulse", RunStatus.SUCCEEDED)
    world.event_of("pulse", None)
    world.event_of("broken", RunStatus.FAILED)
    skipped = Skipped(9, 1, 5, 4, Tier.LOW, 5)
    world.say(EventKind.SKIPPED, make_run_id("default:tick", 1), detail=skipped)
    world.look()
    count = world.sight.tiers[Tier.LOW]
    assert (count.due, count.running, count.done, count.failed) == (0, 1, 1, 1)
    assert world.sight.skipped_count == 4
    assert [run.status.name for run in world.sight.last] == ["FAILED", "RUNNING", "SUCCEEDED"]


def test_a_second_outcome_of_one_attempt_counts_nothing(world):
    run_id = world.event_of("pulse", RunStatus.SUCCEEDED)
    world.say(EventKind.ATTEMPT_FAILED, run_id, attempt=1, worker="w", incarnation=1, detail=Ended(1))
    world.look()
    count = world.sight.tiers[Tier.LOW]
    assert (count.running, count.done, count.failed) == (0, 1, 0)


def test_a_kind_is_shown_only_when_history_says_the_same_as_the_log(world):
    run_id = world.event_of("tick", RunStatus.SUCCEEDED)
    world.look()
    assert any("history says nothing of it" in line for line in world.proof.missing() if line.startswith("tick"))
    world.record(run_id, RunStatus.RUNNING)
    world.look()
    assert any("history says RUNNING" in line for line in world.proof.missing())
    world.record(run_id, RunStatus.SUCCEEDED)
    world.look()
    assert not any(line.startswith("tick") for line in world.proof.missing())


def test_a_failure_is_shown_only_with_its_dead_letter(world):
    run_id = world.event_of("broken", RunStatus.FAILED)
    world.record(run_id, RunStatus.FAILED)
    world.look()
    assert any("has no dead letter" in line for line in world.proof.missing())
    world.bury(run_id)
    world.look()
    assert not any(line.startswith("broken") for line in world.proof.missing())


def test_a_run_that_ends_otherwise_than_it_should_is_told_and_shows_nothing(world):
    run_id = world.event_of("welcome", RunStatus.FAILED)
    world.record(run_id, RunStatus.FAILED)
    world.look()
    assert f"welcome (one-off): {run_id} ended FAILED: on purpose" in world.proof.missing()


def test_a_scheduled_run_does_not_stand_for_the_triggered_one(world):
    run_id = world.event_of("on-demand", RunStatus.SUCCEEDED)
    world.record(run_id, RunStatus.SUCCEEDED)
    world.look()
    assert any(line.startswith("on-demand") for line in world.proof.missing())


def test_the_proof_is_complete_when_every_kind_was_seen(world):
    for kind in world.kinds:
        assert not world.proof.complete
        run_id = world.event_of(kind.name, kind.ends, kind.origin)
        world.record(run_id, kind.ends)
        world.bury(run_id)
        world.look()
    assert world.proof.complete
    assert world.proof.missing() == []


def test_the_table_tells_counts_lag_and_the_trigger_delay_of_the_last_runs(world):
    world.event_of("digest", RunStatus.SUCCEEDED)
    world.look()
    console = Console(width=140, record=True)
    with console.capture() as shown:
        console.print(drawn(View(world.sight, {Tier.LOW: 12}, "the footer")))
    lines = shown.get().splitlines()
    assert next(line.split() for line in lines if line.startswith("low")) == ["low", "0", "0", "1", "0", "12"]
    (run,) = [line for line in lines if line.startswith("default:digest@")]
    assert "✓ SUCCEEDED" in run
    assert world.sight.last[0].seen_at - world.sight.last[0].fire_at >= 5_000
    assert "due to visible" in ended_line(world.sight.last[0])
    assert lines[-1] == "the footer"
