"""Asks for the pause of jobs of which too many runs in a row have failed: a PAUSE, appended by the shard's owner.

What must hold: it is carried out once, across take-overs, and never forgotten. The count rides in the state topic in
the round that forgets the run which ended (``flow.py``), so each end counts once, whoever reads it. That there were too
many is kept until the pause stands; the command expects the very revision that stands, so the second of two is refused,
and so is one that a person's pause or resume was quicker than. How it fails: an edit between the two refuses the
command, and it is given again for the new revision; one that came to nothing is given again ``AGAIN_US`` later.
"""

from __future__ import annotations

from waterclock.model.ids import Instant
from waterclock.model.job import Command, CommandKind

from .emit import Emitter
from .resuming import AGAIN_US, WAITS_US
from .shard import Shard
from .streak import Streak

_ASKED_MAX = 200
"""Of one shard in one round: whatever all of its jobs call may be down."""


def ask_for_pauses(shard: Shard, out: Emitter, now: Instant) -> bool:
    """Append the PAUSE of every job that has failed too often, ``_ASKED_MAX`` at most. True where more wait.

    Only once the commands that stood at take-over are applied: among them may be the predecessor's own.
    """
    asked, failing = 0, shard.flow.failing
    for job_id, again_at in list(failing.items()):
        job = shard.flow.jobs.get(job_id)
        if job is None or not job.streak.pause_for or shard.is_paused(job_id):
            del failing[job_id]  # a resume begins anew
        elif again_at > now:
            continue
        elif again_at and shard.inbox:
            # It may wait there already, for as long as the store is away: one command for each look would pile up.
            failing[job_id] = now + WAITS_US
        elif asked >= _ASKED_MAX:
            return True
        else:
            out.order(_pause(job_id, job.streak, now))
            failing[job_id] = now + AGAIN_US
            asked += 1
    return False


def _pause(job_id: str, streak: Streak, now: Instant) -> Command:
    return Command(
        CommandKind.PAUSE,
        job_id,
        f"pause-after-failures/{streak.revision}",
        "dispatcher",
        now,
        expected_revision=streak.revision,
        note=f"{streak.after} runs in a row failed, the last: {streak.pause_for}",
    )
