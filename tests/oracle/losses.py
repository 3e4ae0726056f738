"""From a worker's death to the ATTEMPT_LOST of what it held. Imports nothing of ours.

Input: a Chronicle; ``leases``, dumped records of ``leases`` (uncompacted: of a check's own broker); ``deaths``, pairs
(worker, microseconds); ``lease_us_of`` a worker's lease. A death is of the incarnation whose HELLO stands last before
it. The worker came back if its next HELLO stands before its lease was over: then that proves the death.
"""

import bisect
import collections
import typing

from .records import decode

MASK = (1 << 48) - 1


class Lives(typing.NamedTuple):
    """The HELLOs of one worker in order: stamps and offsets."""

    stamps: list
    offsets: list


class Loss(typing.NamedTuple):
    """How long one lost attempt took: ``way`` says since when (``lease``: since the death; ``hello``: since that)."""

    run_id: str
    worker: str
    way: str
    took_us: int


def lives_of(leases):
    """Every worker's lives, from the dump of ``leases``; offsets may repeat over partitions, a worker has one."""
    lives = collections.defaultdict(lambda: Lives([], []))
    for record in leases:
        _, lease = decode(record["value"])
        if lease["kind"] == "HELLO":
            lives[lease["worker"]].stamps.append(record["timestamp_us"])
            lives[lease["worker"]].offsets.append(record["offset"])
    return lives


def check(chronicle, leases, deaths, lease_us_of):
    """(losses, complaints, counts). Complaints: an attempt of a dead one that stands open, or was lost by no death."""
    lives = lives_of(leases)
    died = {}
    for worker, at in sorted(deaths, key=lambda death: death[1]):
        life = bisect.bisect_right(lives[worker].stamps, at) - 1
        if life >= 0:
            died.setdefault((worker, lives[worker].offsets[life]), at)
    losses, complaints, counts = [], [], collections.Counter()
    counts["deaths"] = len(deaths)
    counts["deaths of an incarnation"] = len(died)
    hit = set()
    for (run_id, attempt), claim in chronicle.claims.items():
        life = (claim.worker, claim.incarnation & MASK)
        end = chronicle.ends.get((run_id, attempt))
        if end is None:
            complaints.append(f"{run_id} attempt {attempt}: open at rest, on {claim.worker}")
        elif end.kind == "ATTEMPT_LOST" and life in died:
            hit.add(life)
            losses.append(_loss(run_id, end, lives[claim.worker], life, died[life], lease_us_of(claim.worker)))
        elif end.kind == "ATTEMPT_LOST":
            counts["lost without a death of ours"] += 1
    counts["attempts lost"] = len(losses)
    counts["deaths that held an attempt"] = len(hit)
    return losses, complaints, counts


def _loss(run_id, end, lives, life, died_at, lease_us):
    following = bisect.bisect_right(lives.stamps, died_at)
    back_at = lives.stamps[following] if following < len(lives.stamps) else None
    if back_at is not None and back_at < min(died_at + lease_us, end.stamp + 1):
        return Loss(run_id, life[0], "hello", end.stamp - back_at)
    return Loss(run_id, life[0], "lease", end.stamp - died_at)
