"""The intake on the Log in memory: every record ends in exactly one of commands and rejects, and none waits."""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random

import pytest
from structlog.testing import capture_logs

from tests.unit.intake_world import ACME, JSON_TYPE, NAMES, PING, IntakeWorld
from waterclock.intake.judge import Judge
from waterclock.log.memory import CommitFate
from waterclock.log.port import Outgoing, Record
from waterclock.model.errors import BackendDown
from waterclock.model.ids import US_PER_S, partition_of
from waterclock.model.job import CommandKind, Every, Tier
from waterclock.model.job_event import JobEvent
from waterclock.wire.codec import encode_job_event

HOSTILE = b"\xc3\x01 no event"


def test_a_json_event_becomes_a_command_in_its_jobs_shard() -> None:
    world = IntakeWorld(partitions=4)
    offset = world.send_json({**PING, "tier": "high", "payload": {"n": 1}}, at=3)
    world.turn(world.intake())
    [command] = world.commands()
    assert (command.kind, command.job_id, command.command_id) == (
        CommandKind.CREATE,
        "default:ping",
        f"job-events/3/{offset}",
    )
    assert command.actor == "job-events"
    assert command.spec is not None
    assert (command.spec.schedule, command.spec.tier, command.spec.payload) == (
        Every(5 * US_PER_S),
        Tier.HIGH,
        b'{"n":1}',
    )
    [record] = world.records(NAMES.commands)
    assert record.key == b"default:ping"
    assert record.partition == partition_of("default:ping", 4)
    assert world.rejects() == []


def test_an_avro_event_becomes_the_same_command_as_its_json() -> None:
    world = IntakeWorld()
    world.send_json(PING)
    event = JobEvent(CommandKind.CREATE, name="ping", handler="demo.ping", every_us=5 * US_PER_S)
    world.send(encode_job_event(event))
    world.turn(world.intake())
    one, other = world.commands()
    assert one.spec == other.spec
    assert one.job_id == other.job_id


def test_the_tenant_comes_from_the_topic_and_never_from_the_record() -> None:
    world = IntakeWorld()
    world.send_json(PING, topic=ACME)
    world.send_json({**PING, "name": "other:ping"})
    world.turn(world.intake())
    assert [command.job_id for command in world.commands()] == ["acme:ping"]
    [reject] = world.rejects()
    assert reject.pointer == "/name"


def test_a_refused_record_is_kept_byte_for_byte() -> None:
    world = IntakeWorld()
    value, headers = b'{"name":"Ping"}', (*JSON_TYPE, ("x", b"\x00\xff"))
    offset = world.send(value, headers, at=1, key=b"\xfe")
    world.turn(world.intake())
    [reject] = world.rejects()
    source = reject.source
    assert (source.topic, source.partition, source.offset) == (NAMES.job_events, 1, offset)
    assert (source.key, source.value, source.headers) == (b"\xfe", value, headers)
    assert (reject.role, reject.pointer) == ("intake", "/name")
    assert "waterclock schema check" in reject.hint
    [record] = world.records(NAMES.rejects)
    assert record.key == b"\xfe"


def test_a_good_record_behind_a_bad_one_is_passed_on() -> None:
    world = IntakeWorld()
    for number in range(20):
        world.send(HOSTILE + b"%d" % number)
        world.send_json({**PING, "name": f"ping-{number}"})
    world.turn(world.intake())
    assert len(world.commands()) == len(world.rejects()) == 20
    assert set(world.fates().values()) == {1}
    assert world.lag() == 0


def test_the_names_of_an_intention_travel_with_the_command() -> None:
    world = IntakeWorld()
    world.send_json({**PING, "idempotency_key": "order-7"}, (*JSON_TYPE, ("ce_id", b"evt-1")))
    world.send_json({**PING, "name": "pong"}, (*JSON_TYPE, ("Idempotency-Key", b"order-8")))
    world.turn(world.intake())
    one, other = world.commands()
    assert (one.command_id, one.idempotency_key) == ("evt-1", "order-7")
    assert other.idempotency_key == "order-8"


def test_a_record_without_a_name_makes_one_job_however_often_it_is_sent() -> None:
    world = IntakeWorld()
    nameless = {key: value for key, value in PING.items() if key != "name"}
    for _ in range(2):
        world.send_json({**nameless, "idempotency_key": "order-7"})
        world.send_json(nameless, (*JSON_TYPE, ("ce_id", b"evt-1")))
        world.send_json(nameless)
    world.turn(world.intake())
    named = Counter(command.job_id for command in world.commands())
    assert sorted(named.values()) == [1, 1, 2, 2]


def test_a_hashed_cron_is_resolved_for_its_job() -> None:
    world = IntakeWorld()
    world.send_json({"name": "a", "handler": "h", "cron": "H H * * *"})
    world.send_json({"name": "b", "handler": "h", "cron": "H H * * *"})
    world.turn(world.intake())
    texts = {getattr(command.spec and command.spec.schedule, "text", "") for command in world.commands()}
    assert len(texts) == 2
    assert not any("H" in text for text in texts)


def test_a_pool_without_topics_is_refused_and_one_that_was_made_is_found() -> None:
    world = IntakeWorld()
    world.turn(intake := world.intake())
    asked: list[str] = []
    world.cluster.faults.on_call = lambda _client, operation: asked.append(operation)
    for _ in range(100):
        world.send_json({**PING, "pool": "gpu"})
    world.turn(intake, steps=2)
    assert len(world.rejects()) == 100
    assert world.rejects()[0].pointer == "/pool"
    assert asked.count("topic_id") < 10
    world.cluster.faults.on_call = None
    world.cluster.create_topic(NAMES.runs(Tier.MEDIUM, "gpu"), 2)
    world.clock.advance(20 * US_PER_S)
    world.send_json({**PING, "pool": "gpu"})
    world.turn(intake)
    assert len(world.commands()) == 1


@pytest.mark.parametrize("kind", ["UPDATE", "PAUSE", "RESUME", "DELETE", "TRIGGER"])
def test_every_verb_needs_a_name(kind: str) -> None:
    world = IntakeWorld()
    world.send_json({"kind": kind, "handler": "h", "every": "5s"} if kind == "UPDATE" else {"kind": kind})
    world.turn(world.intake())
    [reject] = world.rejects()
    assert reject.pointer == "/name"


def test_the_verbs_are_passed_on_with_what_is_theirs() -> None:
    world = IntakeWorld()
    world.send_json({"kind": "pause", "name": "ping", "expected_revision": 7, "note": "for the night"})
    world.send_json({"kind": "TRIGGER", "job": "ping", "payload": [1]})
    world.send(encode_job_event(JobEvent(CommandKind.TRIGGER, name="ping", payload=b"\x00")))
    world.send_json({"kind": "DELETE", "name": "ping"})
    world.turn(world.intake())
    pause, trigger, avro, delete = world.commands()
    assert (pause.kind, pause.expected_revision, pause.note) == (CommandKind.PAUSE, 7, "for the night")
    assert (trigger.kind, trigger.payload, avro.payload) == (CommandKind.TRIGGER, b"[1]", b"\x00")
    assert (delete.kind, delete.spec, delete.payload) == (CommandKind.DELETE, None, None)


# Crashes, doubts, take-overs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", list(CommitFate))
def test_a_record_goes_on_once_whatever_becomes_of_a_commit(fate: CommitFate) -> None:
    world = IntakeWorld()
    world.turn(intake := world.intake())
    for number in range(30):
        world.send_json({**PING, "name": f"p-{number}"}, at=number % 2)
        world.send(HOSTILE, at=number % 2)
    world.cluster.faults.next_commit("waterclock.intake.intake-1", fate)
    world.turn(intake, steps=60)
    assert len(world.fates()) == 60
    assert set(world.fates().values()) == {1}
    assert world.lag() == 0


@pytest.mark.parametrize("seed", range(8))
def test_a_record_goes_on_once_across_crashes_and_rebalances(seed: int) -> None:
    dice, world = Random(seed), IntakeWorld(partitions=4)
    intakes = {name: world.intake(name, round_records=3) for name in ("intake-1", "intake-2")}
    for number in range(60):
        world.send_json({**PING, "name": f"p-{number}"}, at=dice.randrange(4))
        world.send(HOSTILE, at=dice.randrange(4))
    for _ in range(60):
        world.turn(*intakes.values(), steps=2)
        if dice.random() < 0.2:
            victim = dice.choice(list(intakes))
            world.cluster.kill(victim)
            intakes[victim] = world.intake(victim, round_records=3)
        if dice.random() < 0.3:
            chosen = dice.choice(list(intakes))
            world.cluster.faults.next_commit(f"waterclock.intake.{chosen}", dice.choice(list(CommitFate)))
    world.turn(*intakes.values(), steps=200)
    assert len(world.fates()) == 120
    assert set(world.fates().values()) == {1}
    assert world.lag() == 0


def test_what_was_sent_before_the_first_start_is_read() -> None:
    world = IntakeWorld()
    world.send_json(PING)
    world.turn(world.intake())
    assert len(world.commands()) == 1


def test_what_is_read_again_because_positions_were_forgotten_is_said() -> None:
    """Given a group without a member for longer than brokers keep its positions, and events that are still there."""
    world = IntakeWorld()
    world.turn(intake := world.intake())
    world.send_json(PING, at=1)
    world.turn(intake)
    intake.close()
    world.turn(steps=1_000)
    world.cluster.expire_group(NAMES.group("intake"))
    with capture_logs() as said:
        world.turn(world.intake("intake-2"))
    assert len(world.commands()) == 2, "nothing tells a first start from this"
    places = [(each["partition"], each["from_offset"]) for each in said if each["event"].startswith("no position")]
    assert places == [(1, 0)]


def test_events_of_an_aborted_transaction_schedule_nothing() -> None:
    world = IntakeWorld()
    world.turn(intake := world.intake())
    producer = world.log.producer("somebody")
    producer.init(1.0)
    producer.begin()
    producer.append(Outgoing(NAMES.job_events, b"k", b"{}", JSON_TYPE, partition=0))
    producer.abort(1.0)
    world.send_json(PING)
    world.turn(intake)
    assert len(world.commands()) == 1
    assert world.rejects() == []
    assert world.lag() == 0


def test_a_restarted_intake_drains_and_its_successor_goes_on() -> None:
    world = IntakeWorld()
    world.turn(intake := world.intake())
    world.send_json(PING)
    world.turn(intake)
    assert not intake.drain()
    intake.close()
    world.send_json({**PING, "name": "pong"})
    world.turn(world.intake(), steps=60)
    assert [command.job_id for command in world.commands()] in (
        ["default:ping", "default:pong"],
        ["default:pong", "default:ping"],
    )


# What must not stop a partition ----------------------------------------------------------------------------------


class _Clumsy(Judge):
    """Judges one record to a message that no broker takes."""

    def judge(self, record: Record, refused: Counter[str]) -> Outgoing:
        message = super().judge(record, refused)
        return message._replace(value=bytes(2_000_000)) if record.value == HOSTILE else message


def test_a_message_that_no_broker_takes_costs_its_own_record_alone() -> None:
    world = IntakeWorld()
    judge = _Clumsy(NAMES, world.clock, world.writers, None, world.tenants)
    world.send_json(PING)
    bad = world.send(HOSTILE)
    world.send_json({**PING, "name": "pong"})
    world.turn(world.intake(judge=judge))
    assert {command.job_id for command in world.commands()} == {"default:ping", "default:pong"}
    [reject] = world.rejects()
    assert (reject.source.offset, reject.source.value) == (bad, None)
    assert world.lag() == 0


@pytest.mark.parametrize("aborted", [1, 2])
def test_what_stood_beside_a_message_that_no_broker_takes_is_never_passed_over(aborted: int) -> None:
    """Given a refused message beside a good one, when any later round is aborted, then the good one is passed on."""
    world = IntakeWorld()
    judge = _Clumsy(NAMES, world.clock, world.writers, None, world.tenants)
    intake = world.intake(judge=judge)
    world.turn(intake, steps=5)
    world.send(HOSTILE, at=0)
    world.send_json(PING, at=1)
    rounds = itertools.count(1)
    world.cluster.faults.on_commit = lambda _: CommitFate.ABORTS if next(rounds) == aborted else CommitFate.LANDS
    world.turn(intake)
    world.cluster.faults.on_commit = None
    intake.close()
    world.turn(world.intake(judge=judge))
    assert next(rounds) > aborted, "a round was aborted, or this proves nothing"
    assert [command.job_id for command in world.commands()] == ["default:ping"]
    assert len(world.rejects()) == 1
    assert world.lag() == 0


class _Buggy(Judge):
    def command(self, record: Record) -> object:  # type: ignore[override]
        raise ZeroDivisionError


def test_a_bug_of_ours_rejects_the_record_that_brought_it_out() -> None:
    world = IntakeWorld()
    world.send_json(PING)
    world.turn(world.intake(judge=_Buggy(NAMES, world.clock, world.writers, None, world.tenants)))
    [reject] = world.rejects()
    assert "ZeroDivisionError" in reject.reason


def test_large_records_are_passed_on_in_rounds_that_fit_into_memory() -> None:
    world = IntakeWorld(partitions=1)
    for _ in range(30):
        world.send(b"{" + b" " * 500_000)
    world.turn(intake := world.intake())
    assert intake.ready
    assert len(world.rejects()) == 30
    assert all(len(reject.source.value or b"") == 500_001 for reject in world.rejects())


def test_a_backend_that_is_away_is_waited_for_and_nothing_is_lost() -> None:
    world = IntakeWorld()
    world.turn(intake := world.intake())
    world.send_json({**PING, "pool": "default"})

    def away(_client: str, operation: str) -> None:
        if operation == "topic_id":
            raise BackendDown("kafka", "away")

    world.cluster.faults.on_call = away
    world.turn(intake, steps=5)
    world.cluster.faults.on_call = None
    assert world.commands() == []
    world.turn(intake)
    assert len(world.commands()) == 1
    assert world.rejects() == []
