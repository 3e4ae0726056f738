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


class Silence(typing.NamedTuple):
    """What ended a life that nobody took: ``FENCED`` by a keeper, or its own next ``HELLO``, and when."""

    offset: int
    at: int
    kind: str


def silences_of(leases):
    """Every worker's records on ``leases`` in order: each ends the lives before it."""
    found = collections.defaultdict(list)
    for record in leases:
        _, lease = decode(record["value"])
        found[lease["worker"]].append(Silence(record["offset"], record["timestamp_us"], lease["kind"]))
    return found


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
    """(losses, complaints, counts). Complaints: an attempt that stands open, or was lost by no death.

    Whoever was starved may be fenced alive, or give itself up and say HELLO again: its attempts are counted apart, as
    those of innocents.
    """
    leases = list(leases)
    lives, silences = lives_of(leases), silences_of(leases)
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
        elif end.kind == "ATTEMPT_LOST":
            said = next((each for each in silences[claim.worker] if each.offset > life[1]), None)
            if said is None or said.at > end.stamp:
                complaints.append(f"{run_id} attempt {attempt}: lost by no death of {claim.worker}")
            elif life in died and died[life] <= said.at:
                hit.add(life)
                losses.append(_loss(run_id, end, lives[claim.worker], life, died[life], lease_us_of(claim.worker)))
            else:
                counts["lost by innocents"] += 1
                counts[f"lost by innocents, by {said.kind}"] += 1
    counts["attempts lost"] = len(losses)
    counts["deaths that held an attempt"] = len(hit)
    return losses, complaints, counts


def _loss(run_id, end, lives, life, died_at, lease_us):
    following = bisect.bisect_right(lives.stamps, died_at)
    back_at = lives.stamps[following] if following < len(lives.stamps) else None
    if back_at is not None and back_at < min(died_at + lease_us, end.stamp + 1):
        return Loss(run_id, life[0], "hello", end.stamp - back_at)
    return Loss(run_id, life[0], "lease", end.stamp - died_at)
