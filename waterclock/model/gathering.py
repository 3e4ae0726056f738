"""What a shard owner has gathered for a job with a window: ends of runs, and records. Values, on-disk format."""

from __future__ import annotations

from typing import NamedTuple

from .ids import Instant


class Arrival(NamedTuple):
    """An end or a record that was told by the command of this ``number`` (as a revision counts), appended ``at``.

    ``source``, ``hops``: see ``Cause``. ``places``: of the conditions for which it is the newest.
    """

    source: str
    hops: int
    at: Instant
    number: int
    places: tuple[int, ...]


class Gathering(NamedTuple):
    """A record of ``state.dispatcher`` under ``gather/<job id>``: a window that is open.

    It was opened by the command of the number ``opened_by``, appended ``opened_at``, and is over at ``closes_at``.
    """

    job_id: str
    opened_at: Instant
    opened_by: int
    closes_at: Instant
    arrivals: tuple[Arrival, ...]
