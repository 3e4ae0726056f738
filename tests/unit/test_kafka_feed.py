"""Taking records from a client: what it hands out is never dropped, whatever stands beside it."""

from __future__ import annotations

import re

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, KafkaException, Message, TopicPartition

from waterclock.log.kafka_errors import append_error, poll_trouble, round_error
from waterclock.log.kafka_feed import Feed
from waterclock.log.kafka_watch import Watch
from waterclock.model.errors import BackendDown, Fenced, LostResource, RequestError, RoundAborted, RoundInDoubt


class ScriptedDriver:
    """Hands out what it was given: the first by ``poll``, the rest by ``consume``. Logs reach from 5 to 9."""

    is_silent = False

    def __init__(self, *batches: list[Message | KafkaException]) -> None:
        self._batches = list(batches)
        self._rest: list[Message | KafkaException] = []
        self.asked_count = 0

    def poll(self, timeout: float) -> Message | None:
        batch = self._batches.pop(0) if self._batches else []
        self._rest = batch[1:]
        if batch and isinstance(batch[0], KafkaException):
            raise batch[0]
        return batch[0] if batch and isinstance(batch[0], Message) else None

    def consume(self, num_messages: int, timeout: float) -> list[Message]:
        for each in self._rest:
            if isinstance(each, KafkaException):
                raise each
        return [each for each in self._rest if isinstance(each, Message)][:num_messages]

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        self.asked_count += 1
        if self.is_silent:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return 5, 9


def good(offset: int) -> Message:
    stamp = (TIMESTAMP_CREATE_TIME, 1_000 + offset)
    return Message(topic="t", partition=0, offset=offset, key=b"k", value=b"v", timestamp=stamp)


def bad(code: int) -> Message:
    return Message(topic="t", partition=1, error=KafkaError(code))


def feed_of(*batches: list[Message | KafkaException]) -> Feed:
    return Feed(ScriptedDriver(*batches), Watch("test"), "test", headers=False)  # type: ignore[arg-type]


def test_an_error_among_records_takes_none_with_it_and_is_raised_next() -> None:
    feed = feed_of([good(1), bad(KafkaError.OFFSET_OUT_OF_RANGE), good(2)], [good(3)])
    assert [record.offset for record in feed.take(10, 0.0)] == [1, 2]
    with pytest.raises(LostResource, match=r"t\[1\]"):
        feed.take(10, 0.0)
    assert [record.offset for record in feed.take(10, 0.0)] == [3]


@pytest.mark.parametrize("code", [KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET])
@pytest.mark.parametrize(
    ("position", "silent", "said"),
    [
        (12, False, "position 12 of t[1] is not in the log, which ends at 9: the topic was probably deleted"),
        (3, False, "position 3 of t[1] is not in the log, which begins at 5: "),
        (12, True, "position 12 of t[1] is not in the log: its records were removed, or the topic was deleted"),
    ],
)
def test_a_position_outside_the_log_is_told_with_what_happened(
    monkeypatch: pytest.MonkeyPatch, code: int, position: int, silent: bool, said: str
) -> None:
    monkeypatch.setattr(ScriptedDriver, "is_silent", silent)
    feed = feed_of([Message(topic="t", partition=1, offset=position, error=KafkaError(code))])
    assert feed.take(10, 0.0) == []
    with pytest.raises(LostResource, match=re.escape(said)):
        feed.take(10, 0.0)


def test_where_logs_end_is_asked_once_however_many_were_made_anew() -> None:
    """Each question may last a second, and all of them together would outlast a lease."""
    lost = [Message(topic="t", partition=n, offset=12, error=KafkaError(KafkaError._AUTO_OFFSET_RESET)) for n in (0, 1)]
    driver = ScriptedDriver(lost)
    feed = Feed(driver, Watch("test"), "test", headers=False)  # type: ignore[arg-type]
    assert feed.take(10, 0.0) == []
    assert driver.asked_count == 1
    with pytest.raises(LostResource, match=r"test: position 12 of t\[0\]"):
        feed.take(10, 0.0)


def test_a_log_that_was_cut_is_not_told_as_one_that_was_made_anew() -> None:
    feed = feed_of([Message(topic="t", partition=1, offset=12, error=KafkaError(KafkaError._LOG_TRUNCATION))])
    assert feed.take(10, 0.0) == []
    with pytest.raises(LostResource, match=r"the position is not in the log"):
        feed.take(10, 0.0)


def test_an_exception_after_the_first_record_does_not_lose_it() -> None:
    feed = feed_of([good(1), KafkaException(KafkaError(KafkaError._TRANSPORT))])
    assert [record.offset for record in feed.take(10, 0.0)] == [1]
    with pytest.raises(BackendDown):
        feed.take(10, 0.0)


def test_record_times_are_microseconds() -> None:
    (record,) = feed_of([good(5)]).take(1, 0.0)
    assert record.timestamp_us == 1_005_000
    assert (record.key, record.value, record.headers) == (b"k", b"v", ())


def test_a_fenced_client_stays_fenced_and_news_are_no_errors() -> None:
    feed = feed_of([bad(KafkaError._MAX_POLL_EXCEEDED)], [bad(KafkaError._FATAL)])
    assert feed.take(1, 0.0) == []
    assert feed.take(1, 0.0) == []
    for _ in range(3):
        with pytest.raises(Fenced):
            feed.take(1, 0.0)


def test_all_brokers_down_is_said_once_and_only_when_nothing_came() -> None:
    watch = Watch("test")
    feed = Feed(ScriptedDriver([good(1)]), watch, "test", headers=False)  # type: ignore[arg-type]
    watch.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert len(feed.take(1, 0.0)) == 1
    assert feed.take(1, 0.0) == []
    with pytest.raises(BackendDown):
        feed.take(1, 0.0)
    assert feed.take(1, 0.0) == []


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (KafkaError(KafkaError._FENCED, fatal=True), Fenced),
        (KafkaError(KafkaError.PRODUCER_FENCED), Fenced),
        (KafkaError(KafkaError.INVALID_PRODUCER_EPOCH, fatal=True), Fenced),
        (KafkaError(KafkaError.ILLEGAL_GENERATION, txn_requires_abort=True), RoundAborted),
        (KafkaError(KafkaError.INVALID_PRODUCER_EPOCH, txn_requires_abort=True), RoundAborted),
        (KafkaError(KafkaError.INVALID_PRODUCER_ID_MAPPING, txn_requires_abort=True), RoundInDoubt),
        (KafkaError(KafkaError._TIMED_OUT, retriable=True), RoundInDoubt),
        (KafkaError(KafkaError._TRANSPORT, retriable=True), RoundInDoubt),
        (KafkaError(KafkaError._CONFLICT), RoundInDoubt),
        (KafkaError(KafkaError.INVALID_TXN_STATE, fatal=True), RoundInDoubt),
        (KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, fatal=True), RoundInDoubt),
    ],
)
def test_an_error_of_a_round_has_one_meaning(error: KafkaError, meaning: type[Exception]) -> None:
    assert type(round_error(error, "commit")) is meaning


def test_a_record_that_cannot_be_sent_is_its_makers_mistake() -> None:
    assert isinstance(append_error(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), "append"), RequestError)
    assert isinstance(append_error(KafkaError(KafkaError._UNKNOWN_TOPIC), "append"), RequestError)
    assert isinstance(append_error(KafkaError(KafkaError._STATE), "append"), RoundAborted)


def test_the_end_of_a_partition_is_no_trouble() -> None:
    assert poll_trouble(KafkaError(KafkaError._PARTITION_EOF), "t[0]") is None


def test_only_a_connection_that_stood_counts_as_closed() -> None:
    watch = Watch("test")
    watch.log(40, "%s [%s] %s", "FAIL", "client", "Connect to a dead broker failed")
    assert (watch.losses, watch.closings) == (1, 0)
    watch.log(20, "%s [%s] %s", "FAIL", "client", "Disconnected")
    assert (watch.losses, watch.closings) == (2, 1)
    watch.log(20, "%s [%s] %s", "CONFWARN", "client", "something else")
    assert watch.losses == 2
