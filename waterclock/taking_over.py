"""Taking partitions over part by part, for roles that keep what stays open for long.

Why: to put in what is kept of a million runs takes most of a minute, and a process may own many partitions. Whoever
stays away from his polls for that long has left his group when he is back, and begins again; a core of a process ends
it for that (``cores.py``). So he would never come to the end.

What must hold: a step does so much of it as ``STEP_S`` allows, and one part at least; what was begun is dropped as soon
as the partitions change, for what was committed may have moved since it was asked for. How it fails: memberships that
change again before it is done have it begun again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Protocol, TypeVar

from waterclock.clock import Clock
from waterclock.log.port import Committed, Consumer, Polled, TopicPartition
from waterclock.transact import Rounds

STEP_S = 5.0

PART = 5_000
"""Runs, DagRuns or nodes that are put in between two looks at the time: a quarter of a second."""


class _Reads(Protocol):
    """What is made of a partition: it says where reading it begins."""

    partition: TopicPartition
    next_offset: int


_Shard = TypeVar("_Shard", bound=_Reads)


class TakingOver:
    """One role's. ``take_all``: all of ``places``, part by part; what raises in it has it begun again."""

    def __init__(self, clock: Clock, take_all: Callable[[], Iterator[None]]) -> None:
        self._clock = clock
        self._take_all = take_all
        self._parts: Iterator[None] | None = None
        self.places: set[TopicPartition] = set()
        """Partitions that are ours, and not taken over yet."""

    @property
    def is_under_way(self) -> bool:
        """It was begun and is not done."""
        return self._parts is not None

    def note(self, polled: Polled) -> None:
        """Partitions may have come or gone."""
        if polled.revoked or polled.assigned:
            self.places = self.places.difference(polled.revoked).union(polled.assigned)
            self._parts = None

    def begin_again(self, owned: Iterable[TopicPartition]) -> None:
        """All that is ours is to be taken over anew."""
        self.places = set(owned)
        self._parts = None

    def go_on(self) -> None:
        """Some parts more, from the beginning where none was done. Raises what ``take_all`` does."""
        if not self.places:
            return
        parts, self._parts = self._parts or self._take_all(), None
        until_s = self._clock.monotonic_s() + STEP_S
        for _ in parts:
            if self._clock.monotonic_s() >= until_s:
                self._parts = parts
                return
        self.places.clear()


def take_each(
    rounds: Rounds,
    consumer: Consumer,
    places: Iterable[TopicPartition],
    take: Callable[[TopicPartition, Committed | None], Generator[None, None, _Shard]],
) -> Generator[None, None, list[_Shard]]:
    """The order of design §5.5: the producer first, then the positions, then what each partition's last owner left; and
    reading begins once all stand. Raises LostResource, BackendDown."""
    committed = rounds.positions(consumer, sorted(places))
    shards: list[_Shard] = []
    for place, position in committed.items():
        shards.append((yield from take(place, position)))
        yield
    consumer.start({shard.partition: shard.next_offset for shard in shards})
    return shards
