"""What a run printed, page by page over its attempts. One place for API and command line.

What must hold: a reader who goes on where a page ended misses no line that was there, and meets no line twice but the
note about what is not kept, which is written anew when more is cut. Lines come late, some tenths of a second after they
were printed: so whoever follows a run looks for a while longer when it has ended (``SETTLED_S``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from waterclock.model.run_log import NOTE_SEQ

from .port import LogRow, Reading

SETTLED_S = 2.0
"""Of a run that has ended: without a new line for so long, all have come, unless something lags or is away."""


KEPT_MAX = 4
"""Of so many attempts, the newest, lines are looked for that come late: the last ones of one may come after the first
of the next, from another worker."""


class LinePlace(NamedTuple):
    """The last line of an attempt that was seen, by its place in the run. ``noted``: so was the note behind it.

    Without a fence: none has been seen of this attempt yet.
    """

    attempt: int
    fence: int
    seq: int
    noted: bool = False


class LinePage(NamedTuple):
    """``after``: where the next page goes on, attempt by attempt. ``more``: there are lines behind it already."""

    lines: list[LogRow]
    after: tuple[LinePlace, ...]
    more: bool


def lines_of(
    store: Reading, run_id: str, first: int, last: int, limit: int, after: Sequence[LinePlace] = ()
) -> LinePage:
    """The lines of the attempts ``first`` to ``last`` behind ``after``, at most ``limit``. Raises BackendDown."""
    places = {place.attempt: place for place in after}
    found: list[LogRow] = []
    begin = max(first, min(places, default=first))
    for attempt in range(begin, last + 1):
        room = limit + 1 - len(found)  # one more tells whether that is all
        for line in _behind(store, run_id, attempt, room, places.get(attempt))[:room]:
            if len(found) == limit:
                return LinePage(found, _newest(places, begin), more=True)
            found.append(line)
            places[attempt] = _moved(places.get(attempt), line)
    goes_on = max((place.attempt for place in places.values() if place.fence), default=0)
    if goes_on:  # its note is told again, for it may tell of more
        places[goes_on] = places[goes_on]._replace(noted=False)
    return LinePage(found, _newest(places, begin), more=False)


def _behind(store: Reading, run_id: str, attempt: int, room: int, place: LinePlace | None) -> list[LogRow]:
    """The lines of an attempt behind a place, without a note that was told."""
    if place is None:
        return store.lines(run_id, attempt, room, None)
    lines = store.lines(run_id, attempt, room + place.noted, (place.fence, place.seq))
    return [line for line in lines if not (place.noted and line.seq >= NOTE_SEQ and line.fence == place.fence)]


def _moved(place: LinePlace | None, line: LogRow) -> LinePlace:
    same = place if place is not None and place.fence == line.fence else LinePlace(line.attempt, line.fence, 0)
    return same._replace(noted=True) if line.seq >= NOTE_SEQ else same._replace(seq=line.seq)


def _newest(places: Mapping[int, LinePlace], begin: int) -> tuple[LinePlace, ...]:
    """Also of attempts that nothing has come of while it has of a later one: it may come yet."""
    if not places:
        return ()
    looked_at = range(max(begin, max(places) - KEPT_MAX + 1), max(places) + 1)
    none_of = {attempt: LinePlace(attempt, 0, 0) for attempt in looked_at}
    return tuple(place for _, place in sorted((none_of | dict(places)).items()))[-KEPT_MAX:]
