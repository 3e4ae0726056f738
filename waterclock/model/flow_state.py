"""What the dispatcher keeps in its state topic of jobs whose runs it follows to their end, and of those runs.

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
    """A job whose runs are followed. ``concurrency``: the stored form of its newest version's, "" if that has none
    (where failures are counted, or older runs are still open).

    ``revision``: its newest version, where anything is counted. ``pause_after_failures``: how many in a row are too
    many, 0: they are not counted. ``counts_from``: the revision whose runs are the first that count. ``failures``: how
    many there are since the last success, ``failed_run`` the newest of them. ``pause_for``: the run with which there
    were too many. ``max_runs``: of the newest version, 0: its runs are not counted. ``runs_made``: by the schedule, by
    versions from ``runs_since`` on. ``ended``: it is at its end.

    Of a fixed delay (``delay_us`` 0: of none) the chain: see ``dispatcher/delays.py``.
    """

    job_id: str
    concurrency: str
    revision: int = 0
    pause_after_failures: int = 0
    counts_from: int = 0
    failures: int = 0
    failed_run: str = ""
    pause_for: str = ""
    max_runs: int = 0
    runs_made: int = 0
    runs_since: int = 0
    ended: bool = False
    delay_us: int = 0
    delay_from_at: Instant = 0
    delay_floor_at: Instant = 0
    delay_until_at: Instant = 0
    delay_run: str = ""


class RunFlow(NamedTuple):
    """A run that is HELD (``held`` says why) or open (``held`` is "").

    ``group``: of runs that share a concurrency key. ``payload``: where it is not the revision's own. ``work``: of a
    redrive, the framed work record that is handed out, ``linked_run`` the run that was given up. ``state``: of an open
    run, a ``known_state`` text; its events below the run-events offset ``folded_to`` are in it. ``nodes``: of a DagRun
    the nodes that are open there, by run id, each with its state as text. ``rerun_from``: of a rerun that waits, the
    nodes that it begins with; ``linked_run`` is what it runs again. ``is_last``: of a run that is HELD, as its PENDING
    will say. ``backfill``: number of the one that made it, else 0.
    ``triggered_by``, ``hops``: of a run that is HELD, as its PENDING will say.
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
    is_last: bool = False
    nodes: tuple[tuple[str, str], ...] = ()
    rerun_from: tuple[str, ...] = ()
    backfill: int = 0
    triggered_by: str = ""
    hops: int = 0
