"""Membership: who gets which partitions, when they deliver, and what a rebalance takes away."""

from __future__ import annotations

import pytest

from waterclock.log.port import Committed, Consumer, Polled, TopicPartition
from waterclock.model.errors import Fenced, LostResource

from .world import (
    WAIT_S,
    LogWorld,
    append_plain,
    joined,
    message,
    nothing_comes,
    ready_producer,
    taken,
    values,
)


def test_a_lone_member_gets_every_partition_once(world: LogWorld) -> None:
    topic, log = world.new_topic(3), world.new_log()
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    seen: list[Polled] = []

    def is_assigned() -> bool:
        seen.append(consumer.poll(0, 0.05))
        return bool(consumer.owned())

    world.advance_or_wait(is_assigned, "an assignment")
    assert seen[-1].assigned == tuple(sorted(consumer.owned()))
    assert consumer.owned() == {TopicPartition(topic, n) for n in range(3)}
    assert all(not polled.revoked for polled in seen)


def test_a_member_for_whom_nothing_is_left_knows_that_it_has_its_share(world: LogWorld) -> None:
    topic, log, group = world.new_topic(), world.new_log(), world.new_name("group")
    members = [world.keep(log.consumer(group, [topic])) for _ in range(2)]
    assert not any(member.has_share for member in members)

    def have_shares() -> bool:
        for member in members:
            member.poll(0, 0.05)
        return all(member.has_share for member in members)

    world.advance_or_wait(have_shares, "both have their share")
    assert sorted(len(member.owned()) for member in members) == [0, 1]


def test_nothing_is_delivered_before_start(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    append_plain(world, log, [message(topic, "early"), message(topic, "late")])
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=1)
    assert nothing_comes(lambda: consumer.poll(10, 0.1).records)
    assert consumer.position(place) is None
    consumer.start({place: 1})
    assert values(taken(world, consumer, 1)) == ["late"]


def test_poll_with_room_for_nothing_serves_the_membership_alone(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    append_plain(world, log, [message(topic, "one"), message(topic, "two")])
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=1)
    consumer.start({place: 0})
    assert nothing_comes(lambda: consumer.poll(0, 0.1).records)
    assert consumer.position(place) is None
    assert values(taken(world, consumer, 2)) == ["one", "two"]


def test_a_poll_takes_no_more_than_it_may(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    append_plain(world, log, [message(topic, str(n)) for n in range(10)])
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=1)
    consumer.start({TopicPartition(topic, 0): 0})
    found: list[str] = []

    def all_taken() -> bool:
        records = consumer.poll(3, 0.1).records
        assert len(records) <= 3
        found.extend(values(records))
        return len(found) == 10

    world.advance_or_wait(all_taken, "ten records")
    assert found == [str(n) for n in range(10)]
    assert consumer.position(TopicPartition(topic, 0)) == 10


def test_start_is_the_way_back_after_an_abort(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    append_plain(world, log, [message(topic, word) for word in ("one", "two", "three")])
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=1)
    consumer.start({place: 0})
    assert values(taken(world, consumer, 3)) == ["one", "two", "three"]

    producer = ready_producer(world, log, world.new_name("txn"))
    producer.begin()
    producer.send_offsets({place: Committed(3)}, consumer.metadata())
    producer.abort(WAIT_S)
    assert nothing_comes(lambda: consumer.poll(10, 0.1).records), "an abort rewinds nobody"
    assert consumer.committed([place], WAIT_S) == {place: None}
    consumer.start({place: 1})
    assert values(taken(world, consumer, 2)) == ["two", "three"]


def lost(world: LogWorld, consumer: Consumer) -> str:
    """What the loss says that the consumer meets."""
    said: list[str] = []

    def is_lost() -> bool:
        try:
            assert not consumer.poll(10, 0.1).records
        except LostResource as loss:
            said.append(str(loss))
        return bool(said)

    world.advance_or_wait(is_lost, "LostResource")
    return said[0]


def test_a_position_beyond_the_log_is_a_loss(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    append_plain(world, log, [message(topic, "one")])
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=1)
    consumer.start({place: 100})
    said = lost(world, consumer)
    assert f"position 100 of {topic}[0] is not in the log, which ends at 1: " in said
    assert "deleted and made anew" in said
    assert "docs/runbook.md" in said


def test_a_position_that_retention_has_passed_is_a_loss(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    append_plain(world, log, [message(topic, word) for word in ("gone", "kept")])
    world.delete_records(place, 1)
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=1)
    consumer.start({place: 0})
    assert f"position 0 of {topic}[0] is not in the log, which begins at 1: " in lost(world, consumer)
    consumer.start({place: log.low_watermark(place)})
    assert values(taken(world, consumer, 1)) == ["kept"]


def test_members_share_the_same_partition_numbers_of_each_topic(world: LogWorld) -> None:
    one, two, log, group = world.new_topic(4), world.new_topic(4), world.new_log(), world.new_name("group")
    left, right = world.keep(log.consumer(group, [one, two])), world.keep(log.consumer(group, [one, two]))
    joined(world, left, right, count=8)
    for member in (left, right):
        numbers = {topic: {p for t, p in member.owned() if t == topic} for topic in (one, two)}
        assert numbers[one] == numbers[two]
        assert numbers[one] in ({0, 1}, {2, 3})


def test_what_does_not_divide_goes_to_the_first_members(world: LogWorld) -> None:
    topic, log, group = world.new_topic(3), world.new_log(), world.new_name("group")
    first = world.keep(log.consumer(group, [topic], instance="a"))
    second = world.keep(log.consumer(group, [topic], instance="b"))
    joined(world, first, second, count=3)
    assert first.owned() == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    assert second.owned() == {TopicPartition(topic, 2)}


def test_a_joining_member_takes_everything_from_everybody_first(world: LogWorld) -> None:
    topic, log, group = world.new_topic(2), world.new_log(), world.new_name("group")
    places = {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    first, second = world.keep(log.consumer(group, [topic])), world.keep(log.consumer(group, [topic]))
    joined(world, first, count=2)
    before = first.metadata()
    first.start(dict.fromkeys(places, 0))
    revoked: list[TopicPartition] = []
    assigned: list[TopicPartition] = []

    def balanced() -> bool:
        second.poll(0, 0.05)
        polled = first.poll(0, 0.05)
        revoked.extend(polled.revoked)
        assigned.extend(polled.assigned)
        return len(first.owned()) == len(second.owned()) == 1

    world.advance_or_wait(balanced, "one partition each")
    assert set(revoked) == places
    assert set(assigned) == first.owned()
    assert first.metadata().generation == second.metadata().generation > before.generation
    assert first.metadata().member_id != second.metadata().member_id
    append_plain(world, log, [message(topic, str(n), partition=n) for n in (0, 1)])
    assert nothing_comes(lambda: first.poll(10, 0.1).records), "a new assignment waits for its start"


def test_positions_of_partitions_that_are_not_owned_cannot_be_started(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    with pytest.raises(LostResource):
        consumer.start({TopicPartition(topic, 0): 0})


def test_the_partitions_of_a_member_that_closes_move(world: LogWorld) -> None:
    topic, log, group = world.new_topic(2), world.new_log(), world.new_name("group")
    goes, stays = world.keep(log.consumer(group, [topic])), world.keep(log.consumer(group, [topic]))
    joined(world, goes, stays, count=2)
    goes.close()
    joined(world, stays, count=2)


def test_the_partitions_of_a_static_member_that_leaves_move_and_it_may_come_back_under_its_name(
    world: LogWorld,
) -> None:
    topic, log, group = world.new_topic(2), world.new_log(), world.new_name("group")
    goes = world.keep(log.consumer(group, [topic], instance="goes"))
    stays = world.keep(log.consumer(group, [topic], instance="stays"))
    joined(world, goes, stays, count=2)
    goes.close(leave=True)
    joined(world, stays, count=2)
    again = world.keep(log.consumer(group, [topic], instance="goes"))
    joined(world, again, stays, count=2)
    assert again.owned()


def _static_pair(world: LogWorld) -> tuple[str, str, Consumer, Consumer]:
    """Two static members of one group that share a topic of four partitions."""
    topic, log, group = world.new_topic(4), world.new_log(), world.new_name("group")
    one = world.keep(log.consumer(group, [topic], instance="one"))
    two = world.keep(log.consumer(group, [topic], instance="two"))
    joined(world, one, two, count=4)
    return topic, group, one, two


def test_a_static_member_comes_back_to_its_partitions_and_nobody_notices(world: LogWorld) -> None:
    topic, group, one, two = _static_pair(world)
    before, generation = one.owned(), two.metadata().generation
    one.close()
    again = world.keep(world.new_log("again").consumer(group, [topic], instance="one"))
    disturbed: list[TopicPartition] = []

    def is_back() -> bool:
        disturbed.extend(two.poll(0, 0.05).revoked)
        again.poll(0, 0.05)
        return bool(again.owned())

    world.advance_or_wait(is_back, "the static member is back")
    assert again.owned() == before
    assert not disturbed
    assert two.metadata().generation == again.metadata().generation == generation


def test_a_static_member_that_stays_away_loses_its_partitions_with_its_session(world: LogWorld) -> None:
    topic, log, group = world.new_topic(2), world.new_log(session_timeout_s=2.0), world.new_name("group")
    goes = world.keep(log.consumer(group, [topic], instance="goes"))
    stays = world.keep(log.consumer(group, [topic], instance="stays"))
    joined(world, goes, stays, count=2)
    goes.close()
    joined(world, stays, count=2)


def test_a_duplicate_instance_ends_the_older_member(world: LogWorld) -> None:
    topic, group, one, _two = _static_pair(world)
    before = one.owned()
    twin = world.keep(world.new_log("twin").consumer(group, [topic], instance="one"))

    def older_is_ended() -> bool:
        twin.poll(0, 0.05)
        try:
            one.poll(0, 0.05)
        except Fenced:
            return bool(twin.owned())
        return False

    world.advance_or_wait(older_is_ended, "the older member is ended")
    assert twin.owned() == before


def test_pause_delivers_nothing_and_resume_loses_nothing(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    place = TopicPartition(topic, 0)
    consumer = world.keep(log.consumer(world.new_name("group"), [topic]))
    joined(world, consumer, count=1)
    consumer.start({place: 0})
    append_plain(world, log, [message(topic, str(n)) for n in range(6)])
    found: list[str] = []

    def first_came() -> bool:
        found.extend(values(consumer.poll(1, 0.1).records))
        return bool(found)

    world.advance_or_wait(first_came, "the first one")
    consumer.pause()
    append_plain(world, log, [message(topic, str(n)) for n in range(6, 9)])
    assert nothing_comes(lambda: consumer.poll(10, 0.1).records)
    assert consumer.position(place) == 1
    assert consumer.owned() == {place}
    consumer.resume()
    assert found + values(taken(world, consumer, 8)) == [str(n) for n in range(9)]
