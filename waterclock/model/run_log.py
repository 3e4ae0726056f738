"""What an attempt printed: lines, in batches, apart from everything that decides.

What must hold: nothing here is state. Lines may be cut or lost, and say so where that is known; no role decides
anything by them. A line is bounded, valid UTF-8 text without a newline; it may hold control characters, which whoever
shows it keeps away from terminals. ``seq`` orders the lines of one claim (run, attempt and fencing token), so writing a
line twice is writing it once.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from .ids import Instant

LINES_MAX = 1_000
"""Lines kept of one attempt."""

BYTES_MAX = 64 * 1024
"""Bytes of text kept of one attempt."""

LINE_BYTES_MAX = 4 * 1024
"""Bytes of one line; what is longer is cut, and says so at its end."""

NOTE_SEQ = LINES_MAX + 1
"""Number of the one line that tells what is not kept: behind all others, and written anew when more is cut."""

KEPT_DAYS = 7


class LogStream(StrEnum):
    """Where a line came from. NOTE: from us, about what is not kept. UNKNOWN is Avro's default."""

    UNKNOWN = "UNKNOWN"
    STDOUT = "STDOUT"
    STDERR = "STDERR"
    LOG = "LOG"
    NOTE = "NOTE"


class LogLine(NamedTuple):
    """One line. ``seq`` counts from 1 and may have gaps where lines were dropped; ``at`` is the worker's clock."""

    seq: int
    at: Instant
    stream: LogStream
    text: str


class RunLog(NamedTuple):
    """Lines of one attempt, in order. ``token``: the fencing token of the claim that printed them."""

    run_id: str
    attempt: int
    job_id: str
    token: int
    worker: str
    lines: tuple[LogLine, ...]
