"""What a case of the suite needs of the world it runs in, and the few steps that all cases share.

Must hold: a case knows nothing of the implementation behind its ``LogWorld``. Waiting is always for a condition, within
the bound of ``advance_or_wait``: in memory the clock moves, on the real broker time passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from waterclock.log.port import (
    Consumer,
    Isolation,
    Log,
    Outgoing,
    Producer,
    Reader,
    Record,
    Ticket,
    TopicPartition,
)
from waterclock.log.reading import read_range

WAIT_S = 10.0
"""For calls that answer at once when all is well."""


class Closable(Protocol):
    def close(self) -> None: ...


Kept = TypeVar("Kept", bound=Closable)


class LogWorld(Protocol):
    """A cluster to test against."""

    def new_topic(self, partitions: int = 1, *, append_time: bool = False, compact: bool = False) -> str:
        """A topic of its own for this case."""
        ...

    def delete_topic(self, topic: str) -> None: ...

    def make_anew(self, topic: str) -> None:
        """Delete the topic, and create it again with one partition."""
        ...

    def new_name(self, start: str) -> str:
        """A group or transactional id that no other case has."""
        ...

    def new_log(
        self, client_id: str = "case", *, transaction_timeout_s: float = 10.0, session_timeout_s: float = 10.0
    ) -> Log: ...

    def keep(self, closable: Kept) -> Kept:
        """Close it when the case is over."""
        ...

    def lose_commit(self, transactional_id: str, *, applied: bool) -> None:
        """The next commit of this id gets no answer: its request is lost, or (``applied``) only the answer is."""
        ...

    def delete_records(self, place: TopicPartition, before: int) -> None: ...

    def clean(self, topic: str) -> None:
        """Let the cleaner compact the topic, where it can be told to. Nothing may depend on whether it did."""
        ...

    def advance_or_wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until the condition holds; fails, naming ``what``, at the bound."""
        ...


def message(topic: str, value: str, *, key: str = "k", partition: int | None = 0) -> Outgoing:
    return Outgoing(topic, key.encode(), value.encode(), (), partition)


def values(records: Iterable[Record]) -> list[str]:
    return [(record.value or b"").decode() for record in records]


def ready_producer(world: LogWorld, log: Log, transactional_id: str) -> Producer:
    """A producer after its init."""
    producer = world.keep(log.producer(transactional_id))
    producer.init(30.0)
    return producer


def open_round(world: LogWorld, log: Log, producer: Producer, messages: Sequence[Outgoing]) -> list[Ticket]:
    """An open transaction whose records have reached the broker (all of them go to one partition)."""
    place = TopicPartition(messages[0].topic, messages[0].partition or 0)
    before = len(everything(log, Isolation.UNCOMMITTED, place))
    producer.begin()
    tickets = [producer.append_tracked(each) for each in messages]

    def have_arrived() -> bool:
        return len(everything(log, Isolation.UNCOMMITTED, place)) == before + len(messages)

    world.advance_or_wait(have_arrived, "the open round's records are on the broker")
    return tickets


def committed_round(producer: Producer, messages: Sequence[Outgoing]) -> list[Ticket]:
    """A round that has landed."""
    producer.begin()
    tickets = [producer.append_tracked(each) for each in messages]
    producer.commit(WAIT_S)
    return tickets


def append_plain(world: LogWorld, log: Log, messages: Sequence[Outgoing]) -> list[Ticket]:
    """Records outside any transaction, acknowledged."""
    appender = world.keep(log.appender())
    tickets = [appender.append(each) for each in messages]
    appender.flush(WAIT_S)
    return tickets


def everything(log: Log, isolation: Isolation, place: TopicPartition, *, headers: bool = False) -> list[Record]:
    """All that a reader sees up to the high watermark (which it must be able to reach)."""
    start, end = log.low_watermark(place), log.high_watermark(place)
    return list(read_range(log, isolation, place, start, end, headers=headers))


def joined(world: LogWorld, *consumers: Consumer, count: int) -> None:
    """Poll all of them until together they own ``count`` partitions, each once, and each of them owns some."""

    def shared_out() -> bool:
        for consumer in consumers:
            consumer.poll(0, 0.05)
        owned = [place for consumer in consumers for place in consumer.owned()]
        return len(owned) == len(set(owned)) == count and all(consumer.owned() for consumer in consumers)

    world.advance_or_wait(shared_out, f"{len(consumers)} members own {count} partitions")


def taken(world: LogWorld, consumer: Consumer, count: int) -> list[Record]:
    """Poll until ``count`` records have come; fails if more come."""
    found: list[Record] = []

    def enough() -> bool:
        found.extend(consumer.poll(count - len(found) + 1, 0.1).records)
        return len(found) >= count

    world.advance_or_wait(enough, f"{count} records")
    assert len(found) == count, values(found)
    return found


def read_to(world: LogWorld, reader: Reader, place: TopicPartition, position: int) -> list[Record]:
    """Poll until the reader has reached ``position``; what came on the way."""
    found: list[Record] = []

    def is_there() -> bool:
        found.extend(reader.poll(10, 0.1))
        return reader.position(place) >= position

    world.advance_or_wait(is_there, f"the reader at {position}")
    return found


def nothing_comes(poll: Callable[[], Sequence[Record]]) -> bool:
    """Several polls, each with time enough for a record that is there."""
    return not any(poll() for _ in range(5))
