"""A backfill stands otherwise only where somebody asked, and where somebody asked it does. Imports nothing of ours.

Whether a turn still found it going on, only the answer says; so what was told is held against the answers, both ways.
History forgets after 29 days, and nobody removes versions: no dump of ours is of so long a time.
"""

import collections
import typing

MASK = (1 << 48) - 1
SAME_ROUND_US = 1_000_000
ENDED = ("DONE", "CANCELLED")
DELETED, SCHEDULE_GONE = "deleted", "schedule-gone"
BECOMES = {
    "PAUSE_BACKFILL": ("PAUSED",),
    "RESUME_BACKFILL": ("WAITING", "RUNNING"),
    "CANCEL_BACKFILL": ("CANCELLED",),
}


class Turn(typing.NamedTuple):
    """A command that turns one. ``verdict``: how it was answered, "" where it was not; ``answered_at``: the offset, and
    ``answered_stamp`` when, by the log."""

    offset: int
    at: int
    kind: str
    verdict: str
    answered_at: int
    answered_stamp: int


def turns(job):
    """{offset of the backfill: its turns, in the order of the log}."""
    appended = {command["offset"]: command["appended_at"] for command in job.commands}
    found = collections.defaultdict(list)
    for offset, (backfill_id, kind) in sorted(job.judged.turns.items()):
        name, _, number = backfill_id.rpartition("~")
        if name != job.job_id or not number.isdigit():
            continue
        said = job.answered.get(offset, ())
        verdict, *at = (said[0].event["answered"]["verdict"], said[0].offset, said[0].stamp) if said else ("", -1, -1)
        found[int(number) & MASK].append(Turn(offset, appended[offset], kind, verdict, *at))
    return found


def check(job, asked, told, given):
    """Complaints of one backfill. ``told``: its words in order, ``given``: its turns."""
    yield from _unasked(job, asked, told, given)
    for turn in given:
        yield from _unheeded(turn, told)


def _unasked(job, asked, told, given):
    """Who pauses it, lets it go on or cancels it was asked to, in this very round or in none that stands before it."""
    stood = ""
    for fact in told:
        said = fact.event["backfilled"]
        status, reason = said["status"], said["reason"]
        kind = next((kind for kind, words in BECOMES.items() if status in words), "")
        is_turned = status in ("PAUSED", "CANCELLED") or stood == "PAUSED" != status
        if status != stood and is_turned and not _has_cause(job, asked, fact, kind, given):
            yield f"{status} at {fact.offset} ({reason or 'no reason'}), and nobody asked for that"
        stood = status


def _has_cause(job, asked, fact, kind, given):
    """A round carries its commands out one by one, so none behind the one that turns it was applied before."""
    if any(turn.kind == kind and turn.verdict in ("", "applied") and _may_be(turn, fact) for turn in given):
        return True
    if kind != "CANCEL_BACKFILL":
        return False
    reason = fact.event["backfilled"]["reason"]
    if reason == SCHEDULE_GONE:
        return asked.version.spec["cron"] is not None  # its zone went while the job stood
    deletes = [each for each in job.judged.made if each.status == "DELETED" and each.offset > asked.offset]
    return reason == DELETED and any(fact.applied <= each.offset for each in deletes)


def _may_be(turn, fact):
    return fact.applied <= turn.offset and turn.at <= fact.stamp


def _ended_beside(turn, told):
    """Whether its end stands in the answer's round, or so near that nobody can tell."""
    return any(
        turn.answered_stamp - SAME_ROUND_US <= fact.stamp <= turn.answered_stamp
        for fact in told
        if fact.event["backfilled"]["status"] in ENDED and fact.offset < turn.answered_at
    )


def _unheeded(turn, told):
    """What was answered is so. One that an earlier command of the same round has ended is turned no more, and the
    answer may say how it stood before that round.
    """
    before = [fact.event["backfilled"]["status"] for fact in told if fact.offset < turn.answered_at]
    stands = before[-1] if before else "untold"
    if turn.verdict in ("applied", "unchanged") and stands not in BECOMES[turn.kind]:
        if stands not in ENDED or (turn.verdict == "unchanged" and not _ended_beside(turn, told)):
            yield f"{turn.kind} at {turn.offset} was answered {turn.verdict}, and it stands {stands}"
    elif turn.verdict == "refused" and stands not in (*ENDED, "untold"):
        yield f"{turn.kind} at {turn.offset} was refused, and it stands {stands}"
