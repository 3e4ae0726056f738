"""Records on topics start jobs: each once, those that may, whatever happens to whoever listens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from waterclock.clock import ManualClock
from waterclock.intake import topic_listener, topic_starts
from waterclock.intake.topic_listener import TopicListener
from waterclock.log.memory import MemoryCluster, MemoryLog
from waterclock.log.memory_cluster import Partition
from waterclock.log.port import UNREADABLE, Headers, Isolation, Outgoing, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.document import spec_from_document, spec_to_document
from waterclock.model.errors import RequestError, RoundAborted
from waterclock.model.events import Reject
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Command, CommandKind
from waterclock.model.sources import check_sources
from waterclock.model.triggers import JobTriggers, RecordComes, RunEnds, Triggers
from waterclock.transact import Rounds
from waterclock.wire import codec
from waterclock.wire.messages import job_triggers_message
from waterclock.wire.names import Names, topic_specs

NAMES = Names()
ORDERS, CLICKS = "shop.orders", "shop.clicks"
SOURCES = {ORDERS: frozenset({"acme"}), CLICKS: frozenset({"*"})}
PLACED = (("type", "placed"),)
IS_PLACED: Headers = (("type", b"placed"),)


class World:
    """A cluster with two topics of somebody else's, and listeners to them."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_795_000_020 * US_PER_S)
        self.cluster = MemoryCluster(self.clock)
        for spec in topic_specs(NAMES, 2):
            self.cluster.create_topic(spec.name, spec.partitions)
        for topic in SOURCES:
            self.cluster.create_topic(topic, 2)
        self.outside = MemoryLog(self.cluster, "outside")
        self.lives = 0

    def listener(self, *, begins_at_end: bool = False) -> TopicListener:
        self.lives += 1
        log = MemoryLog(self.cluster, f"intake-1#{self.lives}")
        return TopicListener(log, self.clock, NAMES, "intake-1", SOURCES, begins_at_end=begins_at_end)

    def turn(self, listener: TopicListener, steps: int = 12) -> None:
        for _ in range(steps):
            listener.step()
            self.clock.advance(300_000)

    def append(self, message: Outgoing) -> str:
        appender = self.outside.appender()
        ticket = appender.append(message)
        appender.close()
        return f"{message.topic}/{ticket.partition}/{ticket.offset}"

    def record(self, value: bytes | None = b"{}", headers: Headers = IS_PLACED, topic: str = ORDERS) -> str:
        return self.append(Outgoing(topic, b"k", value, headers))

    def waits(self, job_id: str, *conditions: RecordComes | RunEnds) -> None:
        said = conditions or (RecordComes(ORDERS, PLACED),)
        on = Triggers(said, (self.clock.now(),) * len(said))
        self.append(job_triggers_message(NAMES, JobTriggers(job_id, 7, 1, on)))

    def read(self, topic: str) -> list[bytes]:
        found: list[bytes] = []
        for partition in range(self.outside.partitions(topic)):
            place = TopicPartition(topic, partition)
            end = self.outside.high_watermark(place)
            found += [each.value or b"" for each in read_range(self.outside, Isolation.COMMITTED, place, 0, end)]
        return found

    @property
    def commands(self) -> list[Command]:
        return [codec.decode_command(value) for value in self.read(NAMES.commands)]

    @property
    def started(self) -> list[tuple[str, str]]:
        return sorted((each.job_id, each.triggered_by) for each in self.commands)

    @property
    def rejects(self) -> list[Reject]:
        return [codec.decode_reject(value) for value in self.read(NAMES.rejects)]


@pytest.fixture
def world() -> World:
    return World()


def test_a_record_that_passes_starts_those_who_wait_for_it_with_its_value(world: World) -> None:
    world.waits("acme:ship")
    world.waits("acme:count", RecordComes(ORDERS), RunEnds("other"))
    world.waits("acme:refund", RecordComes(ORDERS, (("type", "returned"),)))
    place = world.record(b'{"n": 1}')
    world.turn(world.listener())
    assert world.started == [("acme:count", place), ("acme:ship", place)]
    command = world.commands[0]
    assert (command.kind, command.payload, command.hops) == (CommandKind.TRIGGER, b'{"n": 1}', 0)


def test_a_job_may_hear_only_what_the_setting_names_for_its_tenant(world: World) -> None:
    for number in range(100):
        world.waits(f"evil:job{number}", RecordComes(ORDERS), RecordComes(f"junk.{number}"))
    world.waits("acme:ship")
    world.waits("evil:clicks", RecordComes(CLICKS))
    place, click = world.record(), world.record(topic=CLICKS)
    world.turn(world.listener())
    assert world.started == [("acme:ship", place), ("evil:clicks", click)]
    assert world.rejects == []


def test_a_record_is_answered_once_across_restarts_and_rounds_that_never_landed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.waits("acme:ship")
    first = world.record()
    with monkeypatch.context() as patch:
        patch.setattr(Rounds, "commit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            world.turn(world.listener())
    world.turn(world.listener())
    second = world.record()
    world.turn(world.listener())
    assert world.started == sorted([("acme:ship", first), ("acme:ship", second)])
    assert len({each.command_id for each in world.commands}) == 2


def test_a_condition_that_was_saved_before_a_record_is_never_missed(world: World) -> None:
    listener = world.listener()
    world.turn(listener)
    owner = MemoryLog(world.cluster, "owner").producer("waterclock.dispatcher.d1")
    owner.init(1.0)
    owner.begin()
    on = Triggers((RecordComes(ORDERS),), (1,))
    owner.append(job_triggers_message(NAMES, JobTriggers("acme:ship", 7, 1, on)))
    place = world.record()
    world.turn(listener, steps=4)
    assert world.commands == []
    listener.drain()
    owner.commit(1.0)
    world.turn(listener)
    assert world.started == [("acme:ship", place)]


@pytest.mark.parametrize(("where", "count"), [("end", 1), ("beginning", 2)])
def test_a_topic_without_positions_begins_where_the_setting_says(world: World, where: str, count: int) -> None:
    world.waits("acme:ship")
    world.record()
    listener = world.listener(begins_at_end=where == "end")
    world.turn(listener)
    world.record()
    world.turn(listener)
    assert len(world.commands) == count


def grow(world: World, topic: str, count: int) -> None:
    """Somebody adds partitions."""
    stood = world.cluster._topics[topic]
    world.cluster._topics[topic] = stood._replace(partitions=(*stood.partitions, *(Partition() for _ in range(count))))


def into(partition: int) -> Outgoing:
    return Outgoing(ORDERS, b"k", b"{}", IS_PLACED, partition=partition)


def test_a_partition_that_was_added_is_heard_from_its_beginning(world: World) -> None:
    world.waits("acme:ship")
    listener = world.listener(begins_at_end=True)
    world.turn(listener)
    for added in (2, 3):
        grow(world, ORDERS, 1)
        places = [world.append(into(added)) for _ in range(3)]
        listener.close()
        world.clock.advance(60 * US_PER_S)
        listener = world.listener(begins_at_end=True)
        world.turn(listener)
        assert world.started[-3:] == [("acme:ship", place) for place in places]


def test_whoever_owns_none_but_the_added_partition_hears_it_from_its_beginning(world: World) -> None:
    world.waits("acme:ship")
    one = world.listener(begins_at_end=True)
    world.turn(one)
    grow(world, ORDERS, 1)
    place = world.append(into(2))
    other = TopicListener(MemoryLog(world.cluster, "b"), world.clock, NAMES, "intake-2", SOURCES)
    for _ in range(12):
        world.turn(one, 1)
        world.turn(other, 1)
    assert {each for each in other._places if each.topic == ORDERS} == {TopicPartition(ORDERS, 2)}
    assert world.started == [("acme:ship", place)]


def test_a_partition_that_nobody_came_to_hear_is_not_taken_for_an_added_one(world: World) -> None:
    """What was there before anybody listened starts nothing, though other partitions have positions by now."""
    world.waits("acme:ship")
    old = [world.append(into(partition)) for partition in (0, 1)]
    one = world.listener(begins_at_end=True)
    world.turn(one)
    one.close()
    del world.cluster.group(NAMES.group(topic_listener.ROLE))._committed[TopicPartition(ORDERS, 1)]
    world.turn(world.listener(begins_at_end=True))
    assert world.started == []
    assert len(old) == 2


def test_a_topic_that_was_made_anew_starts_again_under_other_names(world: World) -> None:
    world.waits("acme:ship")
    world.record()
    listener = world.listener()
    world.turn(listener)
    listener.close()
    world.cluster.delete_topic(ORDERS)
    world.cluster.create_topic(ORDERS, 2)
    world.record()
    world.turn(world.listener())
    first, second = world.commands
    assert (first.triggered_by, first.job_id) == (second.triggered_by, second.job_id)
    assert first.command_id != second.command_id


def test_what_cannot_be_read_or_carried_is_told_and_keeps_nobody_waiting(world: World) -> None:
    world.waits("acme:ship")
    world.record(headers=UNREADABLE)
    world.record(b"x" * 70_000)
    world.record(b"x" * 70_000, headers=())  # nobody waits for it
    place = world.record(None)
    world.turn(world.listener())
    assert [each.pointer for each in world.rejects] == ["", "/payload"]
    assert world.started == [("acme:ship", place)]
    assert world.commands[0].payload is None


def test_one_record_starts_so_many_jobs_and_names_those_that_are_left_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_starts, "STARTED_MAX", 3)
    for number in range(5):
        world.waits(f"acme:j{number}")
        world.clock.advance(1)
    world.record()
    world.turn(world.listener())
    assert [job for job, _ in world.started] == ["acme:j0", "acme:j1", "acme:j2"]
    assert "acme:j3, acme:j4" in world.rejects[0].reason


def test_a_job_is_started_however_many_wait_for_other_records_of_the_topic(world: World) -> None:
    for number in range(1_001):
        world.waits(f"acme:j{number}", RecordComes(ORDERS, (("type", f"t{number}"),)))
    world.clock.advance(1)
    world.waits("acme:ship")
    place = world.record()
    world.turn(world.listener())
    assert world.started == [("acme:ship", place)]


def test_a_round_is_bounded_by_the_jobs_that_are_looked_at(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_listener, "ROUND_LOOKS", 10)
    for number in range(5):
        world.waits(f"acme:j{number}", RecordComes(ORDERS, (("type", f"t{number}"),)))
    places = [world.record(headers=(("type", b"t1"),)) for _ in range(7)]
    listener = world.listener()
    counts = []
    for _ in range(20):
        world.turn(listener, 1)
        counts.append(len(world.commands))
    assert max(after - before for before, after in pairwise(counts)) == 2
    assert world.started == sorted(("acme:j1", place) for place in places)


def test_values_that_no_run_may_have_are_not_held(world: World) -> None:
    world.waits("acme:ship")
    listener = world.listener()
    world.turn(listener)
    owner = MemoryLog(world.cluster, "owner").producer("waterclock.dispatcher.d1")
    owner.init(1.0)
    owner.begin()
    owner.append(job_triggers_message(NAMES, JobTriggers("acme:b", 7, 1, Triggers((RecordComes(CLICKS),), (1,)))))
    world.record(b"x" * 999_000)
    world.turn(listener, steps=4)
    assert [len(each.record.value or b"") for each in listener._unread] == [65_536]
    owner.commit(1.0)
    world.turn(listener)
    (reject,) = world.rejects
    assert "999000 bytes" in reject.reason
    assert len(reject.source.value or b"") == 65_536
    place = TopicPartition(NAMES.rejects, 0)
    found = read_range(world.outside, Isolation.COMMITTED, place, 0, world.outside.high_watermark(place), headers=True)
    assert [dict(each.headers)["waterclock-cut"] for each in found] == [b"999000"]


def test_a_source_that_is_deleted_is_waited_for_and_ends_nothing(world: World) -> None:
    world.waits("acme:ship")
    listener = world.listener()
    world.turn(listener)
    world.cluster.delete_topic(ORDERS)
    listener._start_over(RoundAborted("as happens"))
    with capture_logs() as logs:
        world.turn(listener)
    assert not listener.ready
    told = next(each for each in logs if each["log_level"] == "error")
    assert ORDERS in told["cause"]
    assert "intake.sources" in told["hint"]
    assert listener._wait_s > 1
    world.cluster.create_topic(ORDERS, 2)
    place = world.record()
    world.turn(listener)
    assert (listener.ready, world.started) == (True, [("acme:ship", place)])


def test_more_conditions_than_can_be_held_end_nothing_and_miss_nothing(world: World) -> None:
    world.waits("acme:ship")
    listener = world.listener()
    listener._listeners._most = 2
    world.turn(listener)
    world.waits("acme:count", RecordComes(ORDERS), RecordComes(CLICKS))
    place = world.record()
    with capture_logs() as logs:
        world.turn(listener)
    assert any("more than 2 conditions" in each.get("cause", "") for each in logs if each["log_level"] == "error")
    assert world.commands == []
    listener._listeners._most = 3
    world.turn(listener)
    assert world.started == [("acme:count", place), ("acme:ship", place)]


def test_a_round_is_bounded_by_bytes_and_nothing_is_left_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_listener, "ROUND_BYTES", 3_000)
    sizes: list[int] = []
    right = TopicListener._commit

    def commit(self: TopicListener, messages: list[Outgoing]) -> None:
        sizes.append(sum(len(each.value or b"") for each in messages))
        right(self, messages)

    monkeypatch.setattr(TopicListener, "_commit", commit)
    world.waits("acme:ship")
    places = [world.record(b"x" * 1_000) for _ in range(20)]
    world.turn(world.listener(), steps=30)
    assert world.started == sorted(("acme:ship", place) for place in places)
    assert max(sizes) < 3_000 + 1_500


def test_partitions_that_go_to_another_take_what_was_not_answered_with_them(world: World) -> None:
    world.waits("acme:ship")
    one = world.listener()
    world.turn(one)
    other = TopicListener(MemoryLog(world.cluster, "b"), world.clock, NAMES, "intake-2", SOURCES, begins_at_end=False)
    places = []
    for _ in range(20):
        places.append(world.record())
        world.turn(one, 1)
        world.turn(other, 1)
    world.turn(one)
    world.turn(other)
    assert world.started == sorted(("acme:ship", place) for place in places)


def test_a_listener_for_whom_no_partition_is_left_is_ready(world: World) -> None:
    for topic in SOURCES:
        world.cluster.delete_topic(topic)
        world.cluster.create_topic(topic, 1)
    one, other = (
        TopicListener(MemoryLog(world.cluster, name), world.clock, NAMES, name, SOURCES) for name in ("a", "b")
    )
    assert not other.ready
    for _ in range(12):
        world.turn(one, 1)
        world.turn(other, 1)
    assert (one.ready, other.ready, other._places) == (True, True, {})


# Doors -------------------------------------------------------------------------------------------------------------


def test_a_condition_on_records_comes_back_and_one_that_nobody_hears_of_is_refused() -> None:
    document = {"handler": "h", "on": {"any": [{"topic": ORDERS, "headers": {"type": "placed"}}, {"job": "load"}]}}
    spec = spec_from_document(document, job_id="acme:ship")
    assert spec.on == Triggers((RecordComes(ORDERS, PLACED), RunEnds("load")))
    assert spec_from_document(spec_to_document(spec)) == spec
    command = Command(CommandKind.CREATE, "acme:ship", "c", "a", 0, spec=spec)
    assert codec.decode_command(codec.encode_command(command)) == command
    check_sources(SOURCES, "acme:ship", spec.on)
    check_sources(SOURCES, "other:ship", Triggers((RecordComes(CLICKS),)))
    for refusing, job_id in ((SOURCES, "other:ship"), ({}, "acme:ship")):
        with pytest.raises(RequestError) as error:
            check_sources(refusing, job_id, spec.on)
        assert (error.value.pointer, "intake.sources" in error.value.hint) == ("/on/any/0/topic", True)


@pytest.mark.parametrize(
    ("conditions", "pointer"),
    [
        ([{"topic": "a b"}], "/on/any/0/topic"),
        ([{"topic": 7}], "/on/any/0/topic"),
        ([{"topic": "a", "headers": {"x": 1}}], "/on/any/0/headers"),
        ([{"topic": "a", "headers": {"x": "y" * 201}}], "/on/any/0/headers"),
        ([{"topic": "a", "headers": {f"h{n}": "" for n in range(9)}}], "/on/any/0/headers"),
        ([{"topic": "a", "key": "k"}], "/on/any/0"),
        ([{"topic": "a"}, {"topic": "a", "headers": {}}], "/on/any/1"),
    ],
)
def test_a_condition_on_records_that_cannot_be_meant_is_refused_at_its_place(
    conditions: Sequence[object], pointer: str
) -> None:
    with pytest.raises(RequestError) as error:
        spec_from_document({"handler": "h", "on": {"any": list(conditions)}})
    assert error.value.pointer == pointer
