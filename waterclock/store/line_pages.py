"""What a run printed, page by page over its attempts. One place for API and command line.

What must hold: a reader who goes on where a page ended misses no line that was there, and meets no line twice but the
note about what is not kept, which is written anew when more is cut. Lines come late, some tenths of a second after they
were printed: so whoever follows a run looks for a while longer when it has ended (``SETTLED_S``).
"""

from __future__ import annotations

from typing import NamedTuple

from waterclock.model.run_log import NOTE_SEQ

from .port import LogRow, Reading

SETTLED_S = 2.0
"""Of a run that has ended: without a new line for so long, all have come, unless something lags or is away."""


class LinePlace(NamedTuple):
    """The last line that was seen, by its place in the run."""

    attempt: int
    fence: int
    seq: int


class LinePage(NamedTuple):
    """``after``: where the next page goes on. ``more``: there are lines behind it already."""

    lines: list[LogRow]
    after: LinePlace | None
    more: bool


def lines_of(store: Reading, run_id: str, first: int, last: int, limit: int, after: LinePlace | None) -> LinePage:
    """The lines of the attempts ``first`` to ``last`` behind ``after``, at most ``limit``. Raises BackendDown."""
    found: list[LogRow] = []
    for attempt in range(first if after is None else max(first, after.attempt), last + 1):
        begins = (after.fence, after.seq) if after is not None and after.attempt == attempt else None
        found += store.lines(run_id, attempt, limit + 1 - len(found), begins)  # one more tells whether that is all
        if len(found) > limit:
            return LinePage(found[:limit], _place(found[limit - 1]), more=True)
    told = [line for line in found if line.seq < NOTE_SEQ]
    return LinePage(found, _place(told[-1]) if told else after, more=False)


def _place(line: LogRow) -> LinePlace:
    return LinePlace(line.attempt, line.fence, line.seq)
