"""A group's positions are asked for only once its coordinator answers: librdkafka ends the process otherwise."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from waterclock.log.kafka_groups import committed_of
from waterclock.log.port import Committed
from waterclock.log.port import TopicPartition as Place
from waterclock.model.errors import BackendDown


class _Administrator:
    """Answers the harmless question as it is told, in turn, and counts the one that can kill."""

    def __init__(self, *answers: int | None) -> None:
        self._answers = list(answers)
        self.asked_for_positions = 0

    def describe_consumer_groups(self, groups: list[str], **_: Any) -> dict[str, Future[Any]]:
        future: Future[Any] = Future()
        code = self._answers.pop(0)
        if code is None:
            future.set_result(SimpleNamespace(group_id=groups[0]))
        else:
            future.set_exception(KafkaException(KafkaError(code)))
        return {groups[0]: future}

    def list_consumer_group_offsets(self, asked: list[Any], **_: Any) -> dict[str, Future[Any]]:
        assert not self._answers, "the positions were asked for before the coordinator had answered"
        self.asked_for_positions += 1
        future: Future[Any] = Future()
        future.set_result(SimpleNamespace(topic_partitions=[TopicPartition("t", 1, 7, "text")]))
        return {asked[0].group_id: future}


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    ],
)
def test_positions_are_not_asked_for_before_the_coordinator_answers(code: int) -> None:
    admin = _Administrator(code, code, None)
    assert committed_of(admin, "g") == {Place("t", 1): Committed(7, "text")}  # type: ignore[arg-type]
    assert admin.asked_for_positions == 1


def test_a_group_that_does_not_exist_has_no_positions() -> None:
    admin = _Administrator(KafkaError.GROUP_ID_NOT_FOUND)
    assert committed_of(admin, "g") == {}  # type: ignore[arg-type]
    assert admin.asked_for_positions == 0


def test_another_refusal_is_told_and_no_position_asked_for() -> None:
    admin = _Administrator(KafkaError.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(BackendDown, match="coordinator of g"):
        committed_of(admin, "g")  # type: ignore[arg-type]
    assert admin.asked_for_positions == 0


def test_a_coordinator_that_never_comes_is_waited_for_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.log.kafka_groups.TIMEOUT_S", 0.0)
    admin = _Administrator(KafkaError.COORDINATOR_NOT_AVAILABLE)
    with pytest.raises(BackendDown):
        committed_of(admin, "g")  # type: ignore[arg-type]
    assert admin.asked_for_positions == 0


class _Moving(_Administrator):
    """Refuses to tell the position of partition 2, while a round moves it, to so many who ask for what is stable."""

    def __init__(self, asks: int) -> None:
        super().__init__()
        self._asks = asks

    def describe_consumer_groups(self, groups: list[str], **_: Any) -> dict[str, Future[Any]]:
        self._answers.append(None)
        return super().describe_consumer_groups(groups)

    def list_consumer_group_offsets(self, asked: list[Any], **how: Any) -> dict[str, Future[Any]]:
        moving: Any = TopicPartition("t", 2, 5)
        if how["require_stable"]:
            self._asks -= 1
            if self._asks >= 0:
                unstable = KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)
                moving = SimpleNamespace(topic="t", partition=2, offset=-1001, metadata=None, error=unstable)
            else:
                moving = TopicPartition("t", 2, 6, "landed")
        future: Future[Any] = Future()
        future.set_result(SimpleNamespace(topic_partitions=[TopicPartition("t", 1, 7, "text"), moving]))
        return {asked[0].group_id: future}


def test_a_position_that_a_round_is_moving_is_waited_for_and_not_left_out() -> None:
    assert committed_of(_Moving(3), "g") == {  # type: ignore[arg-type]
        Place("t", 1): Committed(7, "text"),
        Place("t", 2): Committed(6, "landed"),
    }


def test_a_round_that_stays_open_is_told_with_what_it_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.log.kafka_groups.TIMEOUT_S", 0.0)
    with pytest.raises(BackendDown, match=r"g: a round has been moving .*: t\[2\]"):
        committed_of(_Moving(1_000), "g")  # type: ignore[arg-type]


def test_what_stood_before_the_round_is_told_at_once_to_who_only_looks_on() -> None:
    assert committed_of(_Moving(1_000), "g", stable=False)[Place("t", 2)] == Committed(5, "")  # type: ignore[arg-type]


class _Refusing(_Administrator):
    """Tells every position but one, which it refuses for a reason of its own."""

    def list_consumer_group_offsets(self, asked: list[Any], **_: Any) -> dict[str, Future[Any]]:
        denied = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
        refused = SimpleNamespace(topic="t", partition=2, offset=-1001, metadata=None, error=denied)
        future: Future[Any] = Future()
        future.set_result(SimpleNamespace(topic_partitions=[TopicPartition("t", 1, 7, "text"), refused]))
        return {asked[0].group_id: future}


def test_a_position_that_is_refused_is_told_and_not_left_out() -> None:
    with pytest.raises(BackendDown, match=r"g: no position of t\[2\]: .*AUTHORIZATION"):
        committed_of(_Refusing(None), "g")  # type: ignore[arg-type]
