"""Confluent framing: the registry names one of our released schemas, is asked once for an id, and decodes nothing."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from tests.unit.intake_world import NAMES, IntakeWorld
from waterclock.clock import ManualClock
from waterclock.intake import confluent
from waterclock.intake.confluent import ASK_AGAIN_S, PATIENCE_S, PROBE_S, RegistryWriters
from waterclock.log.kafka_registry import KafkaRegistry
from waterclock.model.errors import BackendDown
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind
from waterclock.model.job_event import JobEvent
from waterclock.wire import schemata
from waterclock.wire.codec import encode_job_event
from waterclock.wire.framing import BODY_AT

BODY = encode_job_event(JobEvent(CommandKind.CREATE, name="ping", handler="demo.ping", every_us=5_000_000))[BODY_AT:]
OURS = json.dumps(schemata.published("job_event"))
FOREIGN = json.dumps({"type": "array", "items": "null"})


def _prefix(number: int) -> bytes:
    return b"\x00" + number.to_bytes(4, "big")


class FakeRegistry:
    def __init__(self, **texts: Any) -> None:
        self.texts: dict[bytes, str] = {
            _prefix(1): OURS,
            _prefix(2): FOREIGN,
            _prefix(3): "{",
            b"\x01" + bytes(16): OURS,
        }
        self.asked: Counter[bytes] = Counter()
        self.is_away = False

    def schema_text(self, prefix: bytes) -> str | None:
        self.asked[prefix] += 1
        if self.is_away:
            raise BackendDown("schema registry", "away")
        return self.texts.get(prefix)


class RegistryWorld(IntakeWorld):
    def __init__(self) -> None:
        super().__init__()
        self.registry: FakeRegistry = FakeRegistry()
        self.opened = 0
        self.writers = RegistryWriters(self._open, self.clock)

    def _open(self) -> FakeRegistry:
        self.opened += 1
        return self.registry


def test_a_registered_schema_of_ours_is_read_and_asked_for_once() -> None:
    world = RegistryWorld()
    world.turn(intake := world.intake())
    assert world.opened == 0, "a registry that nobody needs is not opened"
    for number in range(50):
        world.send(_prefix(1) + BODY, at=number % 2)
    world.send(b"\x01" + bytes(16) + BODY)
    world.send(BODY, (("__value_schema_id", _prefix(1)),))
    world.turn(intake)
    assert len(world.commands()) == 52
    assert world.rejects() == []
    assert set(world.registry.asked.values()) == {1}
    assert world.opened == 1


@pytest.mark.parametrize(("number", "word"), [(2, "no released schema"), (3, "no Avro schema"), (9, "knows no schema")])
def test_a_schema_that_is_not_ours_is_refused_from_memory(number: int, word: str) -> None:
    world = RegistryWorld()
    world.turn(intake := world.intake())
    for _ in range(50):
        world.send(_prefix(number) + b"\xff\xff\xff\x7f")
    world.turn(intake, steps=3)
    assert len(world.rejects()) == 50
    assert word in world.rejects()[0].reason
    assert world.registry.asked[_prefix(number)] == 1


def test_a_schema_that_was_registered_later_is_found_after_a_while() -> None:
    world = RegistryWorld()
    world.send(_prefix(9) + BODY)
    world.turn(intake := world.intake(), steps=5)
    world.registry.texts[_prefix(9)] = OURS
    world.clock.advance(int(ASK_AGAIN_S + 1) * US_PER_S)
    world.send(_prefix(9) + BODY)
    world.turn(intake)
    assert (len(world.rejects()), len(world.commands())) == (1, 1)


def test_good_records_wait_for_a_registry_that_is_away() -> None:
    world = RegistryWorld()
    world.turn(intake := world.intake())
    world.registry.is_away = True
    world.send(_prefix(1) + BODY)
    world.turn(intake, steps=10)
    assert world.rejects() == []
    assert world.commands() == []
    world.registry.is_away = False
    world.turn(intake)
    assert len(world.commands()) == 1


def test_a_registry_that_stays_away_does_not_hold_up_the_others_for_ever() -> None:
    world = RegistryWorld()
    world.turn(intake := world.intake())
    world.registry.is_away = True
    world.send(_prefix(1) + BODY)
    world.send(encode_job_event(JobEvent(CommandKind.DELETE, name="ping")))
    for _ in range(int(PATIENCE_S) + 5):
        world.turn(intake, steps=2)
        world.clock.advance(US_PER_S)
    assert len(world.commands()) == 1
    [reject] = world.rejects()
    assert "no answer from the schema registry" in reject.reason


def test_an_id_that_is_known_needs_no_registry() -> None:
    world = RegistryWorld()
    world.send(_prefix(1) + BODY)
    world.turn(intake := world.intake())
    world.registry.is_away = True
    world.send(_prefix(1) + BODY)
    world.turn(intake)
    assert len(world.commands()) == 2


def test_a_thousand_unknown_ids_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluent, "BURST", 2_000.0)
    world = RegistryWorld()
    world.turn(intake := world.intake())
    for number in range(1_500):
        world.send(_prefix(1_000 + number) + BODY)
    world.turn(intake)
    assert len(world.rejects()) == 1_500
    assert len(world.writers._refused) == 1_000  # type: ignore[attr-defined]


class SlowRegistry(FakeRegistry):
    """Every question takes its whole time-out."""

    def __init__(self, clock: ManualClock, takes_s: float) -> None:
        super().__init__()
        self.clock, self.takes_s = clock, takes_s

    def schema_text(self, prefix: bytes) -> str | None:
        self.clock.advance(round(self.takes_s * US_PER_S))
        return super().schema_text(prefix)


@pytest.mark.parametrize("is_away", [True, False])
def test_a_flood_of_ids_at_a_registry_that_is_slow_or_away_ends_in_rejects(is_away: bool) -> None:
    world = RegistryWorld()
    world.registry = SlowRegistry(world.clock, 2.0)
    world.turn(intake := world.intake())
    world.registry.is_away = is_away
    for number in range(500):
        world.send(_prefix(1_000 + number) + BODY)
    began_s = world.clock.monotonic_s()
    longest_s = 0.0
    while len(world.rejects()) < 500 and world.clock.monotonic_s() - began_s < 200.0:
        step_at_s = world.clock.monotonic_s()
        intake.step()
        longest_s = max(longest_s, world.clock.monotonic_s() - step_at_s)
        world.clock.advance(200_000)
    assert len(world.rejects()) == 500
    assert longest_s < 60.0, "no step may come near to max.poll.interval"
    assert world.registry.asked.total() < 100


def test_a_flood_of_unknown_ids_makes_few_questions_and_what_is_known_is_read() -> None:
    world = RegistryWorld()
    world.send(_prefix(1) + BODY)
    world.turn(intake := world.intake())
    for number in range(1_000):
        world.send(_prefix(1_000 + number) + BODY)
    world.send(_prefix(1) + BODY)
    world.turn(intake)
    assert (len(world.rejects()), len(world.commands())) == (1_000, 2)
    assert world.registry.asked.total() < 60


def test_a_registry_that_was_silent_for_long_is_found_again() -> None:
    world = RegistryWorld()
    world.turn(intake := world.intake())
    world.registry.is_away = True
    world.send(_prefix(9) + BODY)
    for _ in range(int(PATIENCE_S) + 5):
        world.turn(intake, steps=1)
        world.clock.advance(US_PER_S)
    assert len(world.rejects()) == 1
    world.registry.is_away = False
    world.clock.advance(int(PROBE_S + 1) * US_PER_S)
    world.send(_prefix(1) + BODY)
    world.turn(intake)
    assert len(world.commands()) == 1


# The client library's own mock ---------------------------------------------------------------------------------------


def test_the_real_client_finds_by_id_and_by_guid() -> None:
    mock = SchemaRegistryClient.new_client({"url": "mock://"})
    number = mock.register_schema(f"{NAMES.job_events}-value", Schema(OURS, "AVRO"))
    registry = KafkaRegistry("mock://")
    registry._client = mock
    assert json.loads(registry.schema_text(_prefix(number)) or "") == json.loads(OURS)
    assert registry.schema_text(_prefix(number + 77)) is None


@pytest.mark.parametrize(
    ("url", "extra"),
    [
        ("http://127.0.0.1:9", {"basic.auth.user": "a:b"}),
        ("me:secret@127.0.0.1:9", {}),
        ("http://127.0.0.1:9", {"ssl.ca.location": "/nowhere/ca.pem"}),
    ],
    ids=["a property that is none", "a URL that is none", "a file that is not there"],
)
def test_a_registry_whose_settings_are_wrong_is_down_and_ends_nobody(url: str, extra: dict[str, str]) -> None:
    with pytest.raises(BackendDown, match=r"cannot be made of intake\.registry") as caught:
        KafkaRegistry(url, extra)
    assert "secret" not in str(caught.value)


def test_a_registry_that_nobody_answers_for_is_down() -> None:
    with pytest.raises(BackendDown, match="schema registry"):
        KafkaRegistry("http://127.0.0.1:9").schema_text(_prefix(1))
