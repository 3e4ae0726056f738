"""What the dispatcher keeps of a job in its state topic, beside the cursor: up to where its fires are decided."""

from __future__ import annotations

from typing import NamedTuple

from .ids import Instant


class JobState(NamedTuple):
    """A record of ``state.dispatcher`` under a job id: its fires due at or before ``decided_at`` are decided.

    So are those with a fire time at or before ``fires_to_at``, whenever due; 0: nothing is said of that. Kept until the
    cursor has passed it. While ``paused`` it stays until that ends, by a command or by itself at ``resume_at`` (0: it
    does not) of ``revision``: the fires of the pause begin after ``decided_at``, whatever the cursor has passed.
    """

    job_id: str
    decided_at: Instant
    paused: bool = False
    fires_to_at: Instant = 0
    resume_at: Instant = 0
    revision: int = 0
