"""A process's log that can say whether anything new waits for it, so that nobody has to poll in order to find out.

Must hold: ``has_news`` is never False where the next poll of somebody who polls in every turn would bring a record,
move a position or change a membership. What depends on time alone (beats, time-outs, fires that come due) it does not
know, nor what a process that is short of room has left for later: so nobody may rest for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from weakref import ref

from waterclock.log.memory import MemoryLog
from waterclock.log.memory_consumer import Cursor, MemoryConsumer, MemoryReader
from waterclock.log.port import Isolation


class HearingLog(MemoryLog):
    """Of one life of one process."""

    _consumers: tuple[MemoryConsumer, ...] = ()
    _readers: tuple[ref[MemoryReader], ...] = ()
    _awaited: tuple[Cursor, ...] = ()
    _takes: Mapping[Cursor, int] = MappingProxyType({})

    def consumer(
        self, group: str, topics: Sequence[str], *, instance: str | None = None, headers: bool = False
    ) -> MemoryConsumer:
        made = super().consumer(group, topics, instance=instance, headers=headers)
        self._consumers += (made,)
        return made

    def reader(self, isolation: Isolation, *, headers: bool = False) -> MemoryReader:
        made = super().reader(isolation, headers=headers)
        self._readers = (*(each for each in self._readers if each() is not None), ref(made))
        return made

    def end_turn(self) -> None:
        """A turn is over. Whose end was reached, or who was polled in it, waits for more; nobody waits for the rest."""
        cursors = [each._cursor for each in self._consumers]
        cursors += [reader._cursor for each in self._readers if (reader := each()) is not None]
        before, self._takes = self._takes, {cursor: cursor._turn for cursor in cursors}
        self._awaited = tuple(
            cursor for cursor in cursors if cursor._turn != before.get(cursor) or not is_behind(cursor)
        )

    @property
    def has_news(self) -> bool:
        """Whether a turn would find something that was waited for at the end of the last one."""
        return any(map(is_behind, self._awaited)) or any(map(_is_called, self._consumers))


def _is_called(consumer: MemoryConsumer) -> bool:
    """Its group wants something of it: to join, to give up, to take over."""
    group, member = consumer._group, consumer._member
    return (
        member is None
        or group.is_rebalancing
        or consumer._generation != group.generation
        or member.member_id not in group._members
    )


def is_behind(cursor: Cursor) -> bool:
    """Whether a poll that asks for enough would move one of its positions."""
    places, is_committed, positions = cursor._places, cursor._is_committed, cursor._next
    if places is None:
        return bool(positions)
    return any(positions[place] < (partition.lso if is_committed else partition.high) for place, partition in places)
