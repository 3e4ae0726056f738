"""Asks for what follows from a job's own runs: its pause once too many in a row have failed, its end once all are made.

A PAUSE or an END, appended by the shard's owner. What must hold: it is carried out once, across take-overs, and never
forgotten. What it stands on is kept in the job's record in the state topic (``flow.py``), in the very round that reads
the end of a run or makes one, until the command's version stands; the command expects the revision that stands, so the
second of two is refused, and so is one that a person was quicker than. How it fails: an edit between the two refuses
the command, and it is given again for the new revision; one that came to nothing is given again ``AGAIN_US`` later.
"""

from __future__ import annotations

from waterclock.model.ids import Instant
from waterclock.model.job import Command, CommandKind

from .emit import Emitter
from .flow import FlowJob
from .resuming import AGAIN_US
from .shard import Shard
from .starts import WAITS_US, ask_for_lapses

_ASKED_MAX = 200
"""Looks at jobs of one shard in one round: whatever all of its jobs call may be down."""


def ask_to_close(shard: Shard, out: Emitter, now: Instant) -> bool:
    """Append the PAUSE or END of every job that is due for it, ``_ASKED_MAX`` at most, and the LAPSE of windows
    (``starts.py``). True where more wait.

    Only once the commands that stood at take-over are applied: among them may be the predecessor's own.
    """
    more = ask_for_lapses(shard, out, now)
    closing = shard.flow.closing
    for _ in range(_ASKED_MAX):
        next_at = closing.next_at()
        if next_at is None or next_at > now:
            return more
        if next_at and shard.inbox:
            # It may wait there already, for as long as the store is away: one command for each look would pile up.
            closing.asked_wait_until = now + WAITS_US
            return more
        job = shard.flow.jobs.get(job_id := closing.pop())
        if job is None or job.wanted is None or shard.is_paused(job_id):
            continue  # a resume looks anew
        out.order(_command(job, job.wanted, now))
        closing.put(job_id, now + AGAIN_US)
    next_at = closing.next_at()
    return more or (next_at is not None and next_at <= now)


def _command(job: FlowJob, kind: CommandKind, now: Instant) -> Command:
    if kind is CommandKind.END:
        word, note = "max-runs", f"its schedule has made {job.count.made} runs"
    else:
        streak, word = job.streak, "pause-after-failures"
        note = f"{streak.after} runs in a row failed, the last: {streak.pause_for}"
    command_id = f"{word}/{job.revision}"
    return Command(kind, job.job_id, command_id, "dispatcher", now, expected_revision=job.revision, note=note)
