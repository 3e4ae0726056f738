"""Did every end of a run start what waits for such an end, once, and did nothing else start? Imports nothing of ours.

Input: dumps of ``commands`` and ``run-events``. What waited for whom follows from the commands of each job (``jobs``),
how runs ended from the second reducer. Judged are the TRIGGER commands that name an end, and the runs made of them:

- such a command names an end that was accepted and that met a condition of the job, one that stood before the end;
- one end makes one run of a job (or one skip by its limits), however often it is told;
- an end starts what waited before it was written, and waits still; which router there was by then is known from a
  verdict of it, earlier in the same partition: until the first router has begun, nobody is started;
- a run knows how many stand before it, each started by the end of the one before, and after so many comes no other.
"""

import collections
import json
import typing

from . import gathering, jobs, owed
from .records import decode
from .reducer import FINAL, OF_NO_RUN, changes

HOPS_MAX = owed.HOPS_MAX
COUNTED = {"succeeded": ("SUCCEEDED",), "failed": ("FAILED",), "any": ("SUCCEEDED", "FAILED", "CANCELLED")}
BY_ROUTERS = ("RETRYING", "RUN_FAILED", "RUN_EXPIRED")


class End(typing.NamedTuple):
    """How a run ended, in which place of the log. ``at``: by whoever wrote it; ``written_at``: by the log.

    ``is_routed``: a verdict stands before it in its partition.
    """

    job_id: str
    status: str
    at: int
    written_at: int
    is_routed: bool


class Stood(typing.NamedTuple):
    """A condition, from a command's stamp until another took it away. ``told_at``: when the owner said so; None: never.
    ``until`` None: it stands."""

    job: str
    ended: str
    since: int
    told_at: int | None
    until: int | None


def check(commands, events, work=(), rules=owed.Rules(), until=0):  # noqa: B008  # a value
    """(complaints, counts). ``work``: dumped work records; each names the end that started its run. ``until``: when all
    was at rest: windows that were over long before have ended (``gathering.py`` judges those)."""
    found = jobs.read(commands, events, rules)
    ends, hops = _ends(events), _hops(events)
    stood = {job_id: stood_for(job) for job_id, job in found.items()}
    asked, counts = _asked(found), collections.Counter()
    complaints, by_windows = [*_without_cause(asked, ends, stood, hops)], {}
    for job in found.values():
        wrong, started = gathering.check(job, until, counts)
        complaints += wrong
        by_windows |= started
    for (job_id, source), offsets in asked.items():
        made = {run_id for offset in offsets for run_id in found[job_id].redriven(offset)}
        times = sum(len(found[job_id].series[run_id]) for run_id in made)
        counts["ends told again"] += len(offsets) > 1
        counts["chains that were cut"] += hops.get(source, 0) >= HOPS_MAX
        if not found[job_id].judged.gathered.keys().isdisjoint(offsets):
            continue
        is_refused = all(found[job_id].judged.verdicts[offset].word == "refused" for offset in offsets)
        counts["started by an end"] += times
        complaints += _wrong_skips(found[job_id], offsets)
        if times != (not is_refused):
            complaints.append(f"{source} was to start one run of {job_id}, and started {sorted(made)}")
    for source, end in ends.items():
        for job_id in _waited(end, stood):
            counts["ends that were waited for"] += 1
            if (job_id, source) not in asked:
                complaints.append(f"{source} ended {end.status}, and did not start {job_id}")
    complaints += [*_wrong_work(work, found, asked, by_windows)]
    return complaints, counts


def _wrong_skips(job, offsets):
    """A job that was paused is not started, and says so; one that was not is."""
    stands = {trigger.offset: trigger.stands for trigger in job.judged.triggers}
    for offset in offsets:
        for run_id in job.redriven(offset):
            event = job.series[run_id][0].event
            is_left_out = event["kind"] == "SKIPPED" and event["reason"] == "paused"
            if offset in stands and is_left_out != (stands[offset].status == "PAUSED"):
                yield f"{run_id} is {event['kind']} {event['reason']}, and its job was {stands[offset].status}"


def _wrong_work(work, found, asked, by_windows):
    started = by_windows | {
        run_id: source
        for (job_id, source), offsets in asked.items()
        for offset in offsets
        if offset not in found[job_id].judged.gathered
        for run_id in found[job_id].redriven(offset)
    }
    for record in work:
        body = decode(record["value"])[1]
        said, meant = body["triggered_by"], started.get(body["run_id"], "")
        if said and "@" not in said and body["run_id"] not in by_windows:
            continue  # a record's (``sources.py``)
        if said != meant and not body["redrives"]:
            yield f"{body['run_id']}: its work says that {said or 'no end'} started it, it was {meant or 'none'}"


def _without_cause(asked, ends, stood, hops):
    for (job_id, source), offsets in asked.items():
        end = ends.get(source)
        if end is None:
            yield f"{job_id} was started by {source}, which has not ended"
        elif not any(_meets(end, each) for each in stood[job_id] if _is_beside(job_id, end)):
            yield f"{job_id} was started by {source}, and does not wait for that"
        for told in offsets.values():
            if told != hops.get(source, 0) + 1:
                yield f"{job_id} was started by {source} as number {told}, after number {hops.get(source, 0)}"


def _waited(end, stood):
    """The jobs that certainly waited for this end: they had said so before it was written, and said nothing else."""
    if not end.is_routed:
        return
    for job_id, conditions in stood.items():
        for each in conditions if _is_beside(job_id, end) else ():
            is_told = each.told_at is not None and each.told_at < end.written_at and each.until is None
            if is_told and _meets(end, each):
                yield job_id
                break


def _meets(end, condition):
    name = end.job_id.partition(":")[2]
    return condition.job == name and end.status in COUNTED[condition.ended] and end.at > condition.since


def _is_beside(job_id, end):
    return job_id.partition(":")[0] == end.job_id.partition(":")[0]


def stood_for(job):
    """Every stretch in which a condition of the job stood; one on records as that on a job of such a name."""
    found, standing = [], {}
    for version in job.judged.made:
        text = "" if version.status == "DELETED" else version.spec["on"]
        said = json.loads(text) if text else {"any": ()}
        now = set(map(gathering.condition_of, said.get("all", said.get("any"))))
        found += [standing.pop(gone)._replace(until=version.stamp) for gone in sorted(standing.keys() - now)]
        told = [fact.stamp for fact in job.revised[version.offset]]
        for new in sorted(now - standing.keys()):
            standing[new] = Stood(*new, version.stamp, min(told, default=None), None)
    return [*found, *standing.values()]


def _asked(found):
    """{(job id, source): {offset of the command: its hops}}."""
    asked = collections.defaultdict(dict)
    for job_id, job in found.items():
        for command in job.commands:
            record = command["record"]
            if record["kind"] == "TRIGGER" and "@" in record["triggered_by"]:  # else a record's (``sources.py``)
                asked[job_id, record["triggered_by"]][command["offset"]] = record["hops"]
    return asked


def _hops(events):
    """By run how many stand before it."""
    found = {}
    for record in events:
        _, event = decode(record["value"])
        if event["pending"] is not None and event["pending"]["hops"]:
            found[event["run_id"]] = event["pending"]["hops"]
    return found


def _ends(events):
    """{run id: End} of all runs but nodes; a fire that was skipped has none."""
    found, runs, routed = {}, {}, set()
    for record in sorted(events, key=lambda each: (each["partition"], each["offset"])):
        _, event = decode(record["value"])
        if event["kind"] in OF_NO_RUN:
            continue
        before = runs.get(event["run_id"])
        for run_id, after in changes(runs, event, record["offset"]).items():
            was_final = run_id in runs and runs[run_id]["status"] in FINAL
            runs[run_id] = after
            if after["status"] in FINAL and not was_final and "/" not in run_id and after["status"] != "SKIPPED":
                place = event["at"], record["timestamp_us"], record["partition"] in routed
                found[run_id] = End(run_id.partition("@")[0], after["status"], *place)
        if event["kind"] in BY_ROUTERS and before is not None and before["nodes"] is None:  # a DagRun: by the engine
            routed.add(record["partition"])
    return found
