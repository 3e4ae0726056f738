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
    """The last line of an attempt that was seen, by its place in the run. ``noted``: so was the note behind it."""

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
    for attempt in range(max(first, min(places, default=first)), last + 1):
        room = limit + 1 - len(found)  # one more tells whether that is all
        for line in _behind(store, run_id, attempt, room, places.get(attempt))[:room]:
            if len(found) == limit:
                return LinePage(found, _newest(places), more=True)
            found.append(line)
            places[attempt] = _moved(places.get(attempt), line)
    if places:  # the note of the attempt that goes on is told again, for it may tell of more
        places[max(places)] = places[max(places)]._replace(noted=False)
    return LinePage(found, _newest(places), more=False)


def _behind(store: Reading, run_id: str, attempt: int, room: int, place: LinePlace | None) -> list[LogRow]:
    """The lines of an attempt behind a place, without a note that was told."""
    if place is None:
        return store.lines(run_id, attempt, room, None)
    lines = store.lines(run_id, attempt, room + place.noted, (place.fence, place.seq))
    return [line for line in lines if not (place.noted and line.seq >= NOTE_SEQ and line.fence == place.fence)]


def _moved(place: LinePlace | None, line: LogRow) -> LinePlace:
    same = place if place is not None and place.fence == line.fence else LinePlace(line.attempt, line.fence, 0)
    return same._replace(noted=True) if line.seq >= NOTE_SEQ else same._replace(seq=line.seq)


def _newest(places: Mapping[int, LinePlace]) -> tuple[LinePlace, ...]:
    return tuple(places[attempt] for attempt in sorted(places)[-KEPT_MAX:])
