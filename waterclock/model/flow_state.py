"""What the dispatcher keeps in its state topic of jobs whose runs wait for one another, and of those runs.

Two records, both under keys that begin with ``flow/``: one for each such job, one for each run of it that is HELD or
open. They ride in the round that decides what they say, so they are exact at the committed position; what run-events
says of the open runs after ``folded_to`` is folded on top (design §5.5).
"""

from __future__ import annotations

from typing import NamedTuple

from .events import Origin
from .ids import Instant
from .job import Tier


class JobFlow(NamedTuple):
    """A job with an overlap policy or a limit. ``concurrency``: the stored form of its newest version's, "" if that has
    none (while older runs are still open)."""

    job_id: str
    concurrency: str


class RunFlow(NamedTuple):
    """A run that is HELD (``held`` says why) or open (``held`` is "").

    ``group``: of runs that share a concurrency key. ``payload``: where it is not the revision's own. ``work``: of a
    redrive, the framed work record that is handed out, ``linked_run`` the run that was given up. ``state``: of an open
    run, a ``known_state`` text; its events below the run-events offset ``folded_to`` are in it. ``backfill``: number of
    the one that made it, else 0.
    """

    run_id: str
    held: str
    fire_at: Instant
    revision: int
    tier: Tier
    origin: Origin
    group: str = ""
    payload: bytes | None = None
    work: bytes | None = None
    linked_run: str = ""
    state: str = ""
    folded_to: int = 0
    backfill: int = 0
