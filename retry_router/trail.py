"""What the retry router keeps of an open run beside its state: where its work lies, how it failed, when it is over.

One note for each open run, so it is as small as the run's story allows: nothing while it waits for its first worker
(its limits, where it has any), the claim's detail once it runs, a whole Trail from its first failure on. What must
hold: the trail is a pure fold of the run's accepted events; whoever has read them, or the run's record in the state
topic, knows the same.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from waterclock.model.events import DRAINED, Ended, EventKind, Origin, Pending, Retrying, RunEvent, Started
from waterclock.model.ids import Instant


class Trail(NamedTuple):
    """The story of a run so far.

    ``work``: the work record of its last claim, None before the first. ``counted``: attempts that have ended and
    count (handed back ones don't). The error is the last one; ``retry_after_us`` what its target asked for.
    ``due_at``: from when on its age counts, 0 where that is not known (a run without limits: its work record says it).
    ``claimable_at``: from when on a worker could have claimed the attempt that waits. Limits of 0: none.
    ``hops``: see ``Cause``. ``delay_us``: how long that attempt was to wait, as its verdict decided it; -1: not known.
    """

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


Note: TypeAlias = Started | Trail
"""The short form of a trail that holds nothing but its work's place, or the trail itself."""

_NOTHING = Trail()
_MADE_LATER = (Origin.REDRIVE, Origin.RELEASE, Origin.BACKFILL)
"""Runs whose age counts from their PENDING."""


def trail_of(note: Note | None) -> Trail:
    """The whole trail of a note; None: nothing is known yet."""
    if note is None:
        return _NOTHING
    return note if isinstance(note, Trail) else Trail(note)


def follow(before: Note | None, event: RunEvent, *, was_held: bool = False) -> Note | None:
    """The note after an accepted event. A run that goes well and has no limits costs nothing.

    ``was_held``: this PENDING releases a run that waited; its age counts from here.
    """
    detail = event.detail
    if event.kind is EventKind.PENDING:
        return _made(detail, event, was_held=was_held) if isinstance(detail, Pending) else before
    if event.kind is EventKind.HELD:  # its times do not count yet
        return Trail(hops=detail.hops) if isinstance(detail, Pending) and detail.hops else before
    if event.kind is EventKind.STARTED:
        started = detail if isinstance(detail, Started) else None
        return before._replace(work=started) if isinstance(before, Trail) else started
    if event.kind is EventKind.RETRYING:
        due_at, delay_us = detail if isinstance(detail, Retrying) else (event.at, -1)
        return trail_of(before)._replace(claimable_at=max(due_at, event.at), delay_us=delay_us)
    return before


def failed(before: Note | None, event: RunEvent) -> Trail:
    """The trail after an accepted outcome that is no success."""
    trail, ended = trail_of(before), event.detail
    if not isinstance(ended, Ended):
        ended = Ended(event.at)
    return trail._replace(
        error_class=ended.error_class,
        error_message=ended.error_message,
        retry_after_us=ended.retry_after_us,
        first_failure_at=trail.first_failure_at or event.at,
        last_failure_at=event.at,
        counted=trail.counted + (ended.error_class != DRAINED),
    )


def _made(pending: Pending, event: RunEvent, *, was_held: bool) -> Trail | None:
    """A run that was made: only its limits, and whether another's end started it, are worth a note."""
    if not (pending.queue_timeout_us or pending.run_timeout_us):
        return Trail(hops=pending.hops) if pending.hops else None
    return Trail(
        due_at=event.at if was_held else _due_at(pending, event),
        claimable_at=event.at,
        queue_timeout_us=pending.queue_timeout_us,
        run_timeout_us=pending.run_timeout_us,
        hops=pending.hops,
    )


def _due_at(pending: Pending, event: RunEvent) -> Instant:
    """From when on a run's age counts: from when it was made, of a trigger from when it was asked for.

    What its schedule makes in time is made when it is due: by its fire time alone one with jitter would be old before
    it may begin. What is caught up is no older, or it would expire before it ran. Not by the due position in its
    PENDING, which of a job's fires that are caught up together only one names.
    """
    made_at_once = pending.origin not in _MADE_LATER and pending.origin is not Origin.SCHEDULE
    return pending.fire_at if made_at_once else event.at
