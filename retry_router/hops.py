"""Where a record that waits goes next: to the largest rung not longer than what is left, in the end to its tier. Pure.

A waiting record says in its headers when it is due and when its hop ends. These two are the only headers of ours that
decide anything: they stand on delay topics alone, which only routers may write. What must hold: nobody hands it on
before the hop's end, no hop ends after the due time, and each hop writes these headers anew, so that they never grow.
"""

from __future__ import annotations

from typing import NamedTuple

from waterclock.log.port import Headers, Outgoing
from waterclock.model.errors import RequestError
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.time_text import format_rfc3339, parse_rfc3339
from waterclock.wire.names import RUNGS, Names

DUE = "waterclock-due"
HOP = "waterclock-hop"

RUNG_US = {rung: seconds * US_PER_S for rung, seconds in RUNGS.items()}
LADDER_US_MAX = max(RUNG_US.values())
"""A longer wait is the dispatcher's: it stands in Cassandra."""

_LARGEST_FIRST = sorted(RUNG_US.items(), key=lambda rung: -rung[1])
_SMALLEST = _LARGEST_FIRST[-1]


class Wait(NamedTuple):
    """When a record is due, and until when it stands where it is."""

    due_at: Instant
    ends_at: Instant


def next_rung(left_us: int) -> tuple[str, int]:
    """The rung for a wait that is not over, and how long a record stands there. Under a second: the smallest."""
    return next((rung for rung in _LARGEST_FIRST if rung[1] <= left_us), _SMALLEST)


def onward(names: Names, tier_topic: str, record: Outgoing, due_at: Instant, now: Instant) -> Outgoing:
    """``record`` on its next rung, or on ``tier_topic`` where its time has come. Its own topic does not matter."""
    headers = tuple(header for header in record.headers if header[0] not in {DUE, HOP})
    if due_at <= now:
        return record._replace(topic=tier_topic, headers=headers)
    word, rung_us = next_rung(due_at - now)
    wait = Wait(due_at, min(now + rung_us, due_at))
    return record._replace(topic=names.delay(word), headers=(*headers, *wait_headers(wait)))


def wait_headers(wait: Wait) -> Headers:
    """The two headers of a waiting record, as people read instants."""
    return (DUE, format_rfc3339(wait.due_at).encode()), (HOP, format_rfc3339(wait.ends_at).encode())


def wait_of(headers: Headers) -> Wait | None:
    """What a record's headers say; None where one is missing, or is no instant."""
    found = dict(headers)
    try:
        due_at, ends_at = (parse_rfc3339(found[name].decode()) for name in (DUE, HOP))
    except (KeyError, UnicodeDecodeError, RequestError):
        return None
    return Wait(due_at, min(ends_at, due_at))
