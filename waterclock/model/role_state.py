"""What roles keep of themselves in their state topics: values, on-disk format."""

from __future__ import annotations

from typing import NamedTuple

from .events import Started
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


class KeyState(NamedTuple):
    """A record of ``state.dispatcher`` under ``key/<job id>/<hash of the key>``: an intention that was served.

    ``key`` is "" where the command's id stood in; then it lies under ``id/<job id>/<hash of the command id>``.
    ``body_hash`` is that of the command, to tell a repeat from another intention under the same key; ``request_hash``
    that of the HTTP request which brought it, b"" where there was none. The rest is what became of it, for the answer
    to a repeat: ``revision`` stood after it, ``run_id`` is its trigger's. ``stamp_at`` and ``offset`` are the command's
    own; 24 hours after its stamp it is over.
    """

    job_id: str
    key: str
    body_hash: bytes
    command_id: str
    offset: int
    revision: int
    run_id: str
    stamp_at: Instant
    request_hash: bytes = b""


class OpenRunState(NamedTuple):
    """A record of ``state.retry-router`` under a run id: a run that has been open for long, since ``first_offset``.

    ``state``: a ``known_state`` text. ``folded_to``: its events below that offset are in here; 0: not known. The rest
    is its story and its limits (``retry_router/trail.py``).
    """

    run_id: str
    first_offset: int
    state: str
    work: Started | None = None
    error_class: str = ""
    error_message: str = ""
    retry_after_us: int = 0
    first_failure_at: Instant = 0
    last_failure_at: Instant = 0
    counted: int = 0
    due_at: Instant = 0
    claimable_at: Instant = 0
    queue_timeout_us: int = 0
    run_timeout_us: int = 0
    hops: int = 0
    delay_us: int = -1
    folded_to: int = 0


class RecordedRunState(NamedTuple):
    """A record of ``state.recorder`` under a run id: a run that has been open for long, since ``first_offset``.

    ``state``: a ``known_state`` text. ``folded_to``: its events below that offset are in here. ``said``: its PENDING,
    or HELD while it is held, and ``ended``: the end of its last attempt, framed as run events; None: that said nothing,
    none has ended. The rest is what its row shows beside them (``waterclock/recorder/projection.py``).
    """

    run_id: str
    first_offset: int
    state: str
    folded_to: int
    said: bytes | None = None
    ended: bytes | None = None
    dispatched_at: Instant = 0
    started_at: Instant = 0
    ended_at: Instant = 0
    next_attempt_at: Instant = 0
    turns: int = 0
    was_held: bool = False
    reason: str = ""
