"""Retention: brokers forget what is old. What is forgotten here is kept outside, and put back for the judges.

In half an hour of a play as much goes as in a month of a cluster. Must hold: what goes is two minutes old at the least,
every group has read it, and it lies below all that may be asked for by promise: events of runs that are open, were so
where a group stands, or stand on a tier or a rung (whose retention is the shorter one), and what a dispatcher's
successor would begin with. A run that has ended may lose its first events and keep its last ones, as it may when a
segment ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from operator import attrgetter

from waterclock.dispatcher import takeover
from waterclock.dispatcher.flow import Flow

from tests.oracle.records import decode
from waterclock.log.memory_partition import Entry
from waterclock.log.port import TopicPartition
from waterclock.model.errors import BackendDown
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Tier
from waterclock.wire.codec import decode_work
from waterclock.wire.names import RUNGS

from .hearing import is_behind
from .plan import POOLS
from .world import GENERATION, NAMES, World

_AGE_US = 120 * US_PER_S
_AGE_OF_EVENTS_US = 4_500 * US_PER_S
"""Longer than anything waits in these plays: events of a run that was cancelled meanwhile are still asked for then."""
_LOOKS_MAX = 10_000
_READERS = ("recorder", "retry-router")
_offset = attrgetter("offset")


class Retention:
    """Of one play."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._kept: dict[TopicPartition, list[Entry]] = {}

    def strike(self) -> int:
        """Tiers, rungs and run-events forget what they may; how many entries that were.

        Not ``commands``: a successor asks there for an hour before what is undecided, and a play has few.
        """
        before = sum(map(len, self._kept.values()))
        open_runs = self._open_runs() | self._unread()
        for number in range(self._world.plan.partitions):
            for place, group in _work_places(number):
                self._forget(place, self._first_of(place, open_runs, _run_of_work), [group])
        needed = open_runs | self._standing()
        for number in range(self._world.plan.partitions):
            try:
                kept = takeover._read_state(self._world.outside, TopicPartition(NAMES.state("dispatcher"), number))
            except BackendDown:
                continue  # a transaction that is open holds its end back
            if kept.copy is None:
                continue  # whoever takes over would have to read all that there is
            events = TopicPartition(NAMES.run_events, number)
            first = min(self._first_of(events, needed, _run_of_event), self._followed_from(events, kept.flow))
            first = min(first, kept.copy.events_offset)
            self._forget(events, first, map(NAMES.group, _READERS), _AGE_OF_EVENTS_US)
        return sum(map(len, self._kept.values())) - before

    def put_back(self) -> None:
        """Everything stands where it stood: for whoever judges, when nobody acts any more."""
        for place, entries in self._kept.items():
            partition = self._world.cluster.partition(place)
            partition._entries[:0] = entries
            partition.low = entries[0].offset
        self._kept.clear()

    def _forget(self, place: TopicPartition, end: int, groups: Iterable[str], age_us: int = _AGE_US) -> None:
        """What lies below ``end``, was read by these groups, and is old."""
        partition = self._world.cluster.partition(place)
        positions = [self._world.cluster.group(group).committed(place) for group in groups]
        read_to = min((0 if each is None else each.offset for each in positions), default=0)
        old_to = partition.offset_at(self._world.clock.now() - age_us)
        cut = min(end, read_to, old_to, partition.lso)
        gone = partition._entries[: bisect_left(partition._entries, cut, key=_offset)]
        if gone:
            self._kept.setdefault(place, []).extend(gone)
            partition.delete_before(cut)

    def _first_of(self, place: TopicPartition, run_ids: Collection[str], run_of: Callable[[bytes], str]) -> int:
        """The first entry that speaks of one of these; the end where none does."""
        partition = self._world.cluster.partition(place)
        spoken = (each for each in partition._entries if each.value and run_of(each.value) in run_ids)
        return next(map(_offset, spoken), partition.high)

    def _open_runs(self) -> set[str]:
        """By the log as it is now: the onlooker reads to its end first, or it might never come to what goes."""
        onlooker = self._world.onlooker
        for _ in range(_LOOKS_MAX):
            if not is_behind(onlooker._events._cursor):
                return set(onlooker.chronicle.open)
            onlooker.look()  # a short poll may bring none, and is not the end
        raise RuntimeError("run-events was not read to its end")

    def _unread(self) -> set[str]:
        """Runs of which some group has not read all: to whoever takes over there they are open still."""
        found: set[str] = set()
        for number in range(self._world.plan.partitions):
            place = TopicPartition(NAMES.run_events, number)
            groups = [self._world.cluster.group(NAMES.group(reader)) for reader in _READERS]
            positions = [group.committed(place) for group in groups]
            read_to = min(0 if each is None else each.offset for each in positions)
            entries = self._world.cluster.partition(place)._entries
            found |= {_run_of_event(each.value) for each in entries if each.offset >= read_to and each.value}
        return found

    def _standing(self) -> set[str]:
        """Runs of which work stands on a tier or a rung, read or not."""
        places = [place for number in range(self._world.plan.partitions) for place, _ in _work_places(number)]
        entries = [entry for place in places for entry in self._world.cluster.partition(place)._entries]
        return {_run_of_work(entry.value) for entry in entries if entry.value}

    def _followed_from(self, events: TopicPartition, records: dict[str, bytes]) -> int:
        """From where a successor reads on for the runs that wait for one another."""
        partition = self._world.cluster.partition(events)
        flow = Flow(GENERATION)
        flow.restore(records.items(), partition.high, partition.low)
        return flow.position


def _work_places(number: int) -> list[tuple[TopicPartition, str]]:
    """Where work stands, and the group that reads it there."""
    tiers = [(NAMES.runs(tier, pool), NAMES.worker_group(tier, pool)) for pool in POOLS for tier in Tier]
    rungs = [(NAMES.delay(rung), f"{NAMES.group('retry-ladder')}.{rung}") for rung in RUNGS]
    return [(TopicPartition(topic, number), group) for topic, group in [*tiers, *rungs]]


def _run_of_work(value: bytes) -> str:
    return decode_work(value).run_id


def _run_of_event(value: bytes) -> str:
    return str(decode(value)[1].get("run_id") or "")
