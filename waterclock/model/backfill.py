"""What a backfill is, as run-events and the state topic tell it: fires of a past range, run because somebody asked.

Its id is ``<job id>~<number>``, the number being the revision number of the command that asked for it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from .errors import RequestError
from .ids import US_PER_S, Instant, split_job_id
from .job import Delay, JobVersion, Tier
from .time_text import format_rfc3339
from .timetable import count_of, count_planned
from .untellable import why_not_compiled

FIRES_MAX = 10_000
"""Fires of one backfill, also as its schedule names them: where calendars move fires all of these are looked at, be
there ever so few left of them."""

CONCURRENCY = 10
CONCURRENCY_MAX = 1_000

HISTORY_PROVES_US = 29 * 86_400 * US_PER_S
"""How far back history tells what has run: it is kept for 30 days."""

_NUMBER_MAX = 2**63 - 1


class BackfillStatus(StrEnum):
    """How a backfill stands."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    DONE = "DONE"
    CANCELLED = "CANCELLED"


ENDED = frozenset({BackfillStatus.DONE, BackfillStatus.CANCELLED})
"""Nothing more is made; of a cancelled one runs may still be open."""


class Backfilled(NamedTuple):
    """Detail of BACKFILL: one backfill as it stands.

    The fires of ``revision`` in [``from_at``, ``to_at``), ``fire_count`` of them. Those up to ``position_at`` are
    decided: ``made_count`` runs, ``left_count`` that ran before, ``blocked_count`` that a calendar blocks. Of the runs
    so many have come to their end. ``ready_at``: it begins once the shard's cursor has passed this due time.
    ``asked_at``: the append time of its command; ``began_at``: when its first fire was decided, else 0. ``seq`` counts
    what was told of it. ``reason``: why it was cancelled, or "".
    """

    number: int
    seq: int
    status: BackfillStatus
    from_at: Instant
    to_at: Instant
    position_at: Instant
    revision: int
    tier: Tier
    concurrency: int
    fire_count: int
    made_count: int
    left_count: int
    blocked_count: int
    succeeded_count: int
    failed_count: int
    cancelled_count: int
    ready_at: Instant
    asked_at: Instant
    began_at: Instant
    actor: str
    note: str
    reason: str

    @property
    def decided_count(self) -> int:
        """How many of its fires are decided."""
        return self.made_count + self.left_count + self.blocked_count

    @property
    def ended_count(self) -> int:
        """How many of its runs have their final status."""
        return self.succeeded_count + self.failed_count + self.cancelled_count


def make_backfill_id(job_id: str, number: int) -> str:
    """The id of a backfill."""
    return f"{job_id}~{number}"


def parse_backfill_id(text: str) -> tuple[str, int]:
    """(job id, number) of a backfill's id; raises RequestError where the text is none."""
    job_id, tilde, number = text.rpartition("~")
    if not tilde or not number.isdecimal() or not number.isascii() or not 0 < int(number[:20]) <= _NUMBER_MAX:
        raise RequestError(
            f"{text[:300]!r} is not the id of a backfill",
            pointer="/backfill_id",
            hint="Write <tenant>:<name>~<number>, as `waterclock backfill list` shows it",
        )
    split_job_id(job_id)
    return job_id, int(number)


def eta_s(told: Backfilled, now: Instant) -> float | None:
    """About how long until its last fire is decided; None where nothing says so."""
    if told.status is not BackfillStatus.RUNNING or not told.began_at or not told.decided_count:
        return None
    per_us = told.decided_count / max(1, now - told.began_at)
    return (told.fire_count - told.decided_count) / per_us / US_PER_S


def fire_count_of(version: JobVersion, from_at: Instant, to_at: Instant) -> int:
    """How many fires a backfill of [``from_at``, ``to_at``) has. Raises RequestError where that is too many."""
    planned = count_planned(version, from_at - 1, to_at - 1) if version.spec.timing.moves else 0
    found = planned if planned > FIRES_MAX else count_of(version, from_at - 1, to_at - 1)
    if found > FIRES_MAX:
        raise RequestError(
            f"{found:,} fires from {format_rfc3339(from_at)} to {format_rfc3339(to_at)}",
            pointer="/to",
            hint=f"At most {FIRES_MAX:,} at once: ask for it in parts",
        )
    return found


def check_may_be_backfilled(version: JobVersion) -> None:
    """Refuse the fires of a Dag: a node is verified from where its DagRun begins, and a skipped fire has none.

    And those of a fixed delay: which fires a past range would have had, nothing says. And of what does not compile.
    """
    if why := why_not_compiled(version.spec.schedule):
        raise RequestError(
            f"revision {version.revision} of {version.job_id} has a schedule that does not compile any more: {why}",
            pointer="/job_id",
            hint="Which fires it had cannot be told: save the job with another schedule, and backfill that",
        )
    if isinstance(version.spec.schedule, Delay):
        raise RequestError(
            f"revision {version.revision} of {version.job_id} has a fixed delay, and so no past to be run",
            pointer="/job_id",
            hint=f"Its fires follow from the ends of its runs: `waterclock job trigger {version.job_id}` makes one now",
        )
    if version.spec.dag is not None:
        raise RequestError(
            f"revision {version.revision} of {version.job_id} is a Dag, and a Dag's past is not backfilled",
            pointer="/job_id",
            hint=f"`waterclock job trigger {version.job_id}` makes a DagRun now; one that failed is run again with "
            "`waterclock dag rerun`",
        )
