"""What the dispatcher keeps of a job in its state topic, beside the cursor: up to where its fires are decided."""

from __future__ import annotations

from typing import NamedTuple

from .ids import Instant


class Edge(NamedTuple):
    """When the version ``revision`` was applied, the job's fires due at or before ``edge_at`` were decided.

    ``overtaken``: the cursor stood inside the next due time then, and had passed the place of the version's tier, but
    not of the tier before: what is due there is undecided until the cursor leaves that due time, or ``decided_at``
    says otherwise.
    """

    revision: int
    edge_at: Instant
    overtaken: bool = False


class JobState(NamedTuple):
    """A record of ``state.dispatcher`` under a job id: its fires due at or before ``decided_at`` are decided.

    So are those with a fire time at or before ``fires_to_at``, whenever due; 0: nothing is said of that. Kept until the
    copied cursor has passed it. While ``paused`` it stays until that ends, by a command or by itself at ``resume_at``
    (0: it does not) of ``revision``: the fires of the pause begin after ``decided_at``, whatever the cursor has passed.
    Not ``paused``: the resume at the end of its pause is applied already, and that is at ``resume_at``.
    ``edges``: of versions that were applied so late that fires lie between stamp and edge, oldest first.
    """

    job_id: str
    decided_at: Instant
    paused: bool = False
    fires_to_at: Instant = 0
    resume_at: Instant = 0
    revision: int = 0
    edges: tuple[Edge, ...] = ()
