"""Asks for the end of pauses whose time has come: a RESUME, appended by the shard's owner in a round of its work.

What must hold: it is carried out once, across take-overs. The command expects the very revision that is paused, so the
second of two is refused, and so is one that a person was quicker than; its id follows from that revision, so that a
double is mostly told as a repeat. When a pause ends rides in the job's record in the state topic, as the pause itself
does, and the command in the round that the group fences. How it fails: a round that does not land asks again after the
take-over; a command that came to nothing is given again ``AGAIN_US`` later, while the pause stands, and then less and
less often: one that is refused (the job's schedule compiles no more) is so each time, and each time it is a reject.
"""

from __future__ import annotations

from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import Command, CommandKind
from waterclock.model.time_text import format_rfc3339

from .emit import Emitter
from .shard import Shard

AGAIN_US = 30 * US_PER_S

_AGAIN_US_MAX = 3_600 * US_PER_S

_LOOKS_MAX = 200
"""Looks at pauses of one shard in one round: many jobs may be paused until the same instant."""


def ask_for_resumes(shard: Shard, out: Emitter, now: Instant) -> bool:
    """Append the RESUME of every pause that is about to end, after ``_LOOKS_MAX`` looks at the most. True where more
    wait.

    Only once the commands that stood at take-over are applied: among them may be the predecessor's own. But whatever
    of the timeline has to wait: the end of a pause is no fire.
    """
    if not shard.may_decide:
        return False
    waiting = shard.resumes
    for _ in range(_LOOKS_MAX):
        at = waiting.next_at()
        if at is None or at > now:
            return False
        job_id = waiting.pop()
        decided, (revision, waited_us) = shard.decided.get(job_id), shard.resumes_asked.pop(job_id, (0, 0))
        if decided is None or not decided.paused or not decided.resume_at:
            continue  # something else has become of it
        waited_us = waited_us if revision == decided.revision else 0
        if shard.inbox and waited_us:
            # It may wait there already, for as long as the store is away: one command for each look would pile up.
            again_us = AGAIN_US
        else:
            out.order(_resume(job_id, decided.revision, decided.resume_at, now))
            again_us = waited_us = min(max(AGAIN_US, waited_us * 3 // 2), _AGAIN_US_MAX)
        waiting.put(job_id, now + again_us)
        shard.resumes_asked[job_id] = decided.revision, waited_us
    return (at := waiting.next_at()) is not None and at <= now


def let_go(shard: Shard, now: Instant) -> None:
    """Look at the runs that wait of the jobs whose pause is over by now: its resume was applied a little before."""
    resumed = shard.flow.resumed
    while (at := resumed.next_at()) is not None and at <= now:
        job_id = resumed.pop()
        if job_id in shard.flow.jobs:
            shard.flow.changed[job_id] = None


def _resume(job_id: str, revision: int, resume_at: Instant, now: Instant) -> Command:
    return Command(
        CommandKind.RESUME,
        job_id,
        f"resume/{revision}",
        "dispatcher",
        now,
        expected_revision=revision,
        note=f"its pause ends at {format_rfc3339(resume_at)}",
        resume_at=resume_at,
    )
