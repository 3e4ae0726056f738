"""What tells a topic from one of the same name that was made anew."""

from __future__ import annotations

import pytest

from waterclock.model.errors import NotFound

from .world import LogWorld


def test_a_topic_keeps_its_id_and_shares_it_with_none(world: LogWorld) -> None:
    one, two, log = world.new_topic(), world.new_topic(), world.new_log()
    assert log.topic_id(one) == log.topic_id(one) != log.topic_id(two)
    assert 0 < len(log.topic_id(one)) <= 64


def test_a_topic_that_is_made_anew_has_another_id(world: LogWorld) -> None:
    topic, log = world.new_topic(), world.new_log()
    before = log.topic_id(topic)
    world.make_anew(topic)
    assert log.topic_id(topic) != before


def test_a_topic_that_does_not_exist_has_none(world: LogWorld) -> None:
    log = world.new_log()
    with pytest.raises(NotFound):
        log.topic_id(world.new_name("no-topic"))
