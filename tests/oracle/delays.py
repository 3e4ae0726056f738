"""Fixed delays: does each run begin so long after the end of the one before, and only then? Imports nothing of ours.

Input: dumps of ``commands`` and ``run-events``. Each job's events are walked in the order of the log. A chain waits for
the end of its run, or owes one fire: so long after that end, or after the fire that was skipped last; but not before
the first instant behind the stamp and the edge of the version that stands. A run of it is made at just that instant, of
the version that stands, and none while another one is open. An end counts from its own time, but not later than the
log's stamp of it and not earlier than its run's fire time. Where stamps are the writers', a dump may have each as
``stamp_us`` beside the brokers' time: what an end counts from is told by the stamp, all else by the brokers.
A fire that is owed when a command counts is decided before that: its run is made, or skipped with the reason that the
command gives; while the job was paused all fires of the pause are, each a delay after the one before.
"""

import collections
import typing

from . import counted, jobs, owed, policies
from .records import decode
from .reducer import FINAL, OF_NO_RUN, changes

MASK = owed.MASK
STAMP_US = 1_000
"""Stamps of the log are whole milliseconds."""


class Bounds(typing.NamedTuple):
    """In microseconds. ``known``: an end that the log has for so short a time when a command counts may be unknown to
    whoever applied it. ``late``: so long after it is owed, and after the heal, a fire may be decided."""

    known: int
    late: int


class _Chain:
    """One job on its way through the log. ``base``: what the delay counts from, 0: the chain begins; ``known_at``:
    since when the log says so; ``since``: the same of the version that stands. ``run``: the one that is open.
    ``ending``: a skip that a command is to explain. ``heard_at``: as ``known_at``, of an end, which its owner reads; 0:
    it was its owner's own word."""

    def __init__(self, job):
        self.job_id = job.job_id
        self.count = counted._Count(job)
        self.versions = self.count.versions
        self.appended = {command["offset"]: command["appended_at"] for command in job.commands}
        self.stands = None
        self.applied = set()
        self.base = self.known_at = self.since = self.floor = self.heard_at = 0
        self.run = ""
        self.ending = None

    @property
    def delay(self):
        """Microseconds; 0: no chain."""
        return 0 if self.stands is None or self.stands.status == "DELETED" else delay_of(self.stands)

    def owed(self):
        """The fire that comes next; None: none does, as far as the log goes."""
        if not self.delay or self.run or self.stands.status == "ENDED" or 0 < self.count.most <= self.count.made:
            return None
        fire = max(self.base + self.delay, self.floor) if self.base else self.floor
        until = policies.timing(self.stands.spec)["until_at"]
        return None if until and fire >= until else fire


def delay_of(version):
    """The delay of a version, in microseconds; 0: it has another schedule."""
    return version.spec["delay_us"] or 0


def check(commands, events, until, healed_at, bounds, rules=owed.Rules()):  # noqa: B008  # a value
    """(complaints, counts) of every chain up to ``until``."""
    complaints, counts, states = [], collections.Counter(), {}
    chains = {job_id: _Chain(job) for job_id, job in jobs.read(commands, events, rules).items()}
    for record in sorted(events, key=lambda each: (each["partition"], each["offset"])):
        _, event = decode(record["value"])
        chain, stamp = chains[event["job_id"]], record["timestamp_us"]
        if event["kind"] == "REVISED":
            wrong = [*_revised(chain, event["revised"]["revision"] & MASK, stamp, bounds, counts)]
        elif event["kind"] in OF_NO_RUN:
            continue
        else:
            before = states.get(event["run_id"])
            found = changes(states, event, record["offset"])
            states |= found
            wrong = [
                *_of_chain(chain, event, before, stamp, max(healed_at, chain.known_at, chain.since), bounds, counts)
            ]
            if event["run_id"] in found:
                _ = [*counted._decided(chain.count, event, before, stamp, collections.Counter())]
            if chain.run and chain.run in found and found[chain.run]["status"] in FINAL:
                _end(chain, record, event, found[chain.run]["status"], counts)
        complaints += [f"{chain.job_id}: {each}" for each in wrong]
    for chain in chains.values():
        fire = chain.owed()
        known_at = max(fire or 0, chain.known_at, chain.since)
        is_due = fire is not None and chain.stands.status == "ACTIVE" and known_at <= until - bounds.late
        if is_due:
            complaints.append(f"{owed.run_id(chain.job_id, fire)}: neither a run nor a skip, its chain has stopped")
    return complaints, counts


def _end(chain, record, event, status, counts):
    """Its run has come to its end."""
    stamp = record["timestamp_us"]
    counts[f"delays counted from {status}"] += 1
    counts["delays: an end by a clock that is ahead"] += event["at"] > stamp + STAMP_US
    said_at = min(event["at"], record.get("stamp_us", stamp) + STAMP_US)
    chain.base = max(said_at, owed.instant_of(chain.run))
    chain.run, chain.known_at, chain.heard_at = "", stamp, stamp


def _revised(chain, offset, stamp, bounds, counts):
    """A command counts from here on: what was owed before it is decided."""
    version = chain.versions.get(offset)
    if version is None or offset in chain.applied:
        return
    fire, before = chain.owed(), chain.stands
    until = version.stamp if before and before.status == "PAUSED" else min(version.stamp, chain.appended[offset])
    if fire is not None and fire <= until and chain.ending is None:
        counts["delays: an end that its owner did not know yet"] += 1
        if stamp - chain.heard_at > bounds.known:
            yield f"{offset} counts from {version.stamp}, and the fire at {fire} before that was not decided"
    if chain.ending is not None:
        yield from _wrong_ending(chain, before, version)
    chain.applied.add(offset)
    had = chain.delay
    _ = [*counted._revised(chain.count, offset, collections.Counter())]
    chain.stands, chain.ending = version, None
    if not chain.delay:
        chain.base, chain.heard_at, chain.run = 0, 0, ""
        return
    counts["delays begun"] += not had
    counts["delays edited in flight"] += bool(had) and bool(chain.run)
    if not had:
        chain.base, chain.heard_at, chain.run = 0, 0, ""
    chain.floor = max(version.stamp + 1, version.edge.at + 1, policies.timing(version.spec)["from_at"])
    chain.since = stamp


def _wrong_ending(chain, before, version):
    """A skip in the round of a command: by what that makes of the job, and a pause's to its very end."""
    reason, first, last = chain.ending
    if before.status == "PAUSED":
        ends = policies.timing(before.spec)["until_at"] or version.stamp + 1
        if reason != "paused" or not last <= version.stamp or last + delay_of(before) < min(ends, version.stamp + 1):
            yield f"skipped ({reason}) from {first} to {last}, and its pause lasted until {version.stamp}"
    elif reason != owed._ENDS.get(version.status) or first != last or last > version.stamp:
        yield f"skipped ({reason}) at {first}, and {version.offset} made it {version.status} at {version.stamp}"


def _of_chain(chain, event, before, stamp, from_at, bounds, counts):
    """What is wrong with an event that decides fires of a chain; of others nothing."""
    kind, run_id = event["kind"], event["run_id"]
    detail = event["skipped"] if kind == "SKIPPED" else event["pending"] if kind in ("PENDING", "HELD") else None
    if detail is None or "~" in run_id or "/" in run_id:
        return
    version = chain.versions.get(detail["revision"] & MASK)
    if version is None or not delay_of(version) or (kind != "SKIPPED" and detail["origin"] == "BACKFILL"):
        return
    if kind == "HELD" or (kind == "PENDING" and before is not None):
        yield f"{run_id}: {kind}, and runs of a fixed delay are made at once, and once"
        return
    stands, fire = chain.stands, chain.owed()
    if stands is None or version.offset != stands.offset:
        yield f"{run_id}: {kind} as of {version.offset}, and {stands.offset if stands else 'nothing'} stands"
        return
    if chain.ending is not None:
        yield f"{run_id}: decided behind a skip ({chain.ending[0]}) that no command followed"
    late_us = stamp - max(fire or 0, from_at)
    if fire is not None and late_us > bounds.late and event["reason"] not in owed._ENDS.values():
        yield f"{run_id}: decided {late_us} us late"
    if kind == "PENDING":
        yield from _run(chain, run_id, fire, stands, counts)
    else:
        yield from _skip(chain, event, detail, fire, stands, counts)
        chain.known_at = stamp


def _run(chain, run_id, fire, stands, counts):
    at = owed.instant_of(run_id)
    if chain.run:
        yield f"{run_id}: made while {chain.run} was open"
    elif fire != at:
        yield f"{run_id}: made for {at}, owed was {fire}"
    if stands.status != "ACTIVE":
        yield f"{run_id}: made while the job was {stands.status}"
    if owed.is_blocked(stands, at):
        yield f"{run_id}: made at a time that its calendars block"
    counts["delays: first runs" if not chain.base else "delays: runs"] += 1
    chain.run = run_id


def _skip(chain, event, detail, fire, stands, counts):
    reason, first, last = event["reason"], detail["from_at"], detail["to_at"]
    times = [*range(first, last + 1, chain.delay)] if last - first < 10**6 * chain.delay else []
    if first != fire or not times or times[-1] != last or len(times) != detail["fire_count"]:
        yield f"{event['run_id']}: skipped ({reason}) {detail['fire_count']} from {first} to {last}, owed was {fire}"
    if reason == policies.CALENDAR:
        if stands.status != "ACTIVE" or not all(owed.is_blocked(stands, at) for at in times):
            yield f"{event['run_id']}: skipped ({reason}), and no calendar blocks all of that"
    elif reason in owed._ENDS.values():
        chain.ending = (reason, first, last)
    else:
        yield f"{event['run_id']}: skipped ({reason}), and a fixed delay has no such skips"
    counts[f"delays skipped:{reason}"] += len(times)
    chain.base, chain.heard_at = last, 0
