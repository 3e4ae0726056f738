"""What roles keep of themselves in their state topics: values, on-disk format."""

from __future__ import annotations

from typing import NamedTuple

from .ids import Instant


class ShardState(NamedTuple):
    """A record of ``state.dispatcher`` under the key ``cursor``: a copy of what rides in the offset metadata.

    ``commands_offset`` is the position that was committed with it; ``events_offset`` the run-events offset from which
    PENDING and SKIPPED positions must be read on, should the metadata be lost.
    """

    cursor: str
    commands_offset: int
    events_offset: int
    at: Instant
