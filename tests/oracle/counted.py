"""Did each schedule make as many runs as its ``max_runs`` says, and did the job end then? Imports nothing of ours.

Input: dumps of ``commands`` and ``run-events`` at rest. By the order of the log, where REVISED says which version is
the newest. Counted is a fire that makes a run, at once or after it waited, by a version from where the count began; one
that waited and is dropped is taken back, unless all were made by then. A fire is bounded by the number of its own
version.
"""

import collections

from . import jobs, owed, policies
from .books import is_limited
from .records import decode
from .reducer import OF_NO_RUN, changes

MASK = owed.MASK
OWNER = "dispatcher"


class _Count:
    """One job on its way through the log."""

    def __init__(self, job):
        self.versions = {version.offset: version for version in job.judged.made}
        self.actors = {command["offset"]: command["record"]["actor"] for command in job.commands}
        self.newest = None
        self.most = self.made = self.since = 0
        self.last_of = {}
        """Runs that wait, and whether each is said to be the last one."""
        self.full_at = 0

    def bounds(self, offset):
        """The number that bounds a fire of this version; 0: none does."""
        version = self.versions.get(offset)
        return _most(version) if version is not None and self.most and offset >= self.since else 0


def _most(version):
    return 0 if version.status == "DELETED" else policies.timing(version.spec)["max_runs"]


def check(commands, events, rules=owed.Rules(), healed_at=0, within=None, until=0):  # noqa: B008  # a value
    """(complaints, counts). ``within``: so long after the last run, or after ``healed_at``, the job is ended."""
    complaints, counts, states = [], collections.Counter(), {}
    known = {job_id: _Count(job) for job_id, job in jobs.read(commands, events, rules).items()}
    for record in sorted(events, key=lambda each: (each["partition"], each["offset"])):
        _, event = decode(record["value"])
        count, run_id = known[event["job_id"]], event["run_id"]
        if event["kind"] == "REVISED":
            wrong = _revised(count, event["revised"]["revision"] & MASK, counts)
            complaints += [f"{event['job_id']}: {each}" for each in wrong]
        elif event["kind"] not in OF_NO_RUN:
            before = states.get(run_id)
            found = changes(states, event, record["offset"])
            states |= found
            if run_id in found:
                wrong = _decided(count, event, before, record["timestamp_us"], counts)
                complaints += [f"{run_id}: {each}" for each in wrong]
    for job_id, count in known.items():
        late_us = until - max(count.full_at, healed_at)
        is_over = count.newest is not None and count.newest.status == "ACTIVE" and 0 < count.most <= count.made
        if is_over and (within is None or late_us > within):
            complaints.append(f"{job_id}: its {count.most} runs are made, and it has not ended")
    return complaints, counts


def _revised(count, offset, counts):
    version, before = count.versions.get(offset), count.newest
    if version is None:
        return
    if version.status == "ENDED" and (before is None or before.status != "ENDED"):
        counts["ended after its last run"] += 1
        counts["ended with gaps open"] += bool(version.edge.gaps)
        if count.actors[offset] == OWNER and count.made < count.most:
            yield f"ended after {count.made} runs, {count.most} were to be made"
    most = _most(version)
    if not most or not count.most:
        count.made, count.since = 0, offset if most else 0
    count.most, count.newest = most, version


def _decided(count, event, before, stamp, counts):
    """What is wrong with an accepted event of one run."""
    kind, run_id, detail = event["kind"], event["run_id"], event["pending"] or event["skipped"]
    if kind == "SKIPPED" and before is not None:
        if run_id in count.last_of and count.most and detail["revision"] & MASK >= count.since:
            count.made -= count.made < count.most
        count.last_of.pop(run_id, None)
        return
    if kind == "SKIPPED" and event["reason"] == policies.MAX_RUNS:
        most = count.bounds(detail["revision"] & MASK)
        counts["skipped:max_runs in a gap"] += detail["gap_to_at"] > 0
        if not most or count.made < most:
            yield f"skipped because all {most} runs were made, and {count.made} were"
        return
    if kind not in ("PENDING", "HELD") or detail["origin"] != "SCHEDULE":
        return
    if before is not None:
        if detail["is_last"] != count.last_of.pop(run_id, False):
            yield "is the last one when it waits, or when it goes, and not both"
        return
    most = count.bounds(detail["revision"] & MASK)
    if most and count.made >= most:
        yield f"made as run {count.made + 1} of {most}"
    is_counted = bool(count.most) and detail["revision"] & MASK >= count.since
    count.made += is_counted
    _note(count, detail, is_counted and bool(most), counts)
    is_last = bool(most) and count.made == most
    if detail["is_last"] != is_last:
        yield f"is run {count.made} of {most}, and its last one: {detail['is_last']}"
    counts["last runs"] += is_last
    counts["last runs in a gap"] += is_last and detail["gap_to_at"] > 0
    if kind == "HELD":
        count.last_of[run_id] = is_last
    if count.made == count.most:
        count.full_at = stamp


def _note(count, detail, is_bounded, counts):
    """How the count met what else decides fires."""
    if is_bounded:
        spec = count.versions[detail["revision"] & MASK].spec
        counts["counted in a gap"] += detail["gap_to_at"] > 0
        counts["counted beside calendars"] += bool(policies.timing(spec)["calendars"])
        counts["counted beside limits"] += is_limited(spec)
