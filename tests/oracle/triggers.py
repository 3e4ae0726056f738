"""Did every end of a run start what waits for such an end, once, and did nothing else start? Imports nothing of ours.

Input: dumps of ``commands`` and ``run-events``. What waited for whom follows from the commands of each job (``jobs``),
how runs and DagRuns ended from the second reducer. Judged are the TRIGGER commands that name an end, and the runs made
of them:

- such a command names an end that was accepted and that met a condition of the job, one that stood before the end; it
  comes after the end, says how and when the run ended, and brings no payload;
- one end makes one run of a job (or one skip by its limits), however often it is told;
- an end starts what waited before it was written, and waits still, or did so until the end was answered: that is known
  from what the same end, or a later one in its partition, had started by then;
- which router there was is known from a verdict of it, earlier in the same partition, or from an earlier end there
  that started something: until the first router has begun, nobody is started;
- a run knows how many stand before it, each started by the end of the one before, and after so many comes no other. An
  end that starts several jobs of its own ring counts for as many: where conditions change meanwhile for no fewer than
  certainly stood in it, and no more than ever did. What events and work say of that is judged by ``causes.py``.
"""

import bisect
import collections
import json
import typing

from . import causes, gathering, jobs, owed, rings
from .records import decode
from .reducer import FINAL, OF_NO_RUN, changes

HOPS_MAX = owed.HOPS_MAX
COUNTED = {"succeeded": ("SUCCEEDED",), "failed": ("FAILED",), "any": ("SUCCEEDED", "FAILED", "CANCELLED")}
BY_ROUTERS = ("RETRYING", "RUN_FAILED", "RUN_EXPIRED")
COMMITTED_WITHIN_US = 10_000_000
"""What is said can be read once its round is committed, which the dump does not tell: its stamp is that of the append,
and whoever stands still in between (seed 154991013202: for 2 s) is heard only then. So long a dispatcher's transaction
may stay open, in the simulation too; a broker may look for it later still."""


class End(typing.NamedTuple):
    """How a run ended, in which place of the log. ``at``: by whoever wrote it; ``written_at``: by the log.

    ``is_routed``: a verdict stands before it in its partition. ``is_dag``: of a DagRun.
    """

    job_id: str
    status: str
    at: int
    written_at: int
    partition: int
    offset: int
    is_routed: bool
    is_dag: bool


class Stood(typing.NamedTuple):
    """A condition, from a command's stamp until another took it away. ``known_at``: when at the latest everybody could
    read that the owner has it; None: never. ``until`` None: it stands; else ``gone_at``: when that other command was
    appended."""

    job: str
    ended: str
    since: int
    known_at: int | None
    until: int | None
    gone_at: int = 0


class Answered:
    """By partition: which of its ends have certainly been answered, and when at the latest.

    By what they have started of those who wait still: where a round was torn, so that what it sent stands in the log
    and its positions do not, that is sent again by whoever answers once more, and the last of them counts.
    """

    def __init__(self, asked, ends, stood):
        self._told = collections.defaultdict(list)
        for (job_id, source), told in asked.items():
            end = ends.get(source)
            if end is not None and any(each.until is None and _meets(end, each) for each in stood[job_id]):
                self._told[end.partition].append((end.offset, told[max(told)].at))
        for told in self._told.values():
            told.sort()
            for place in range(len(told) - 1, 0, -1):  # by then the one before it was, too
                offset, at = told[place - 1]
                told[place - 1] = offset, min(at, told[place][1])

    def is_routed(self, end):
        """Whether a router had begun before this end was written."""
        told = self._told[end.partition]
        return end.is_routed or (bool(told) and told[0][0] < end.offset)

    def is_before(self, end, at):
        """Whether the end was answered before ``at``."""
        told = self._told[end.partition]
        place = bisect.bisect_left(told, (end.offset, 0))
        return place < len(told) and told[place][1] < at


class Told(typing.NamedTuple):
    """A TRIGGER that names an end, appended ``at``."""

    at: int
    record: dict


def check(commands, events, work=(), rules=owed.Rules(), until=0):  # noqa: B008  # a value
    """(complaints, counts). ``work``: dumped work records; each names the end that started its run. ``until``: when all
    was at rest: windows that were over long before have ended (``gathering.py`` judges those)."""
    found = jobs.read(commands, events, rules)
    ends, hops = _ends(events), _hops(events)
    stood = {job_id: stood_for(job) for job_id, job in found.items()}
    asked, counts = _asked(found), collections.Counter()
    complaints = [*_without_cause(asked, ends, stood, hops), *_wrong_hops(asked, ends, stood, hops, counts)]
    for job in found.values():
        complaints += gathering.check(job, until, counts)[0]
    for (job_id, source), told in asked.items():
        counts["ends told again"] += len(told) > 1
        counts["chains that were cut"] += any(each.record["hops"] > HOPS_MAX for each in told.values())
        for each in told.values():
            complaints += gathering.wrong_telling(found[job_id], each.record)
        if found[job_id].judged.gathered.keys().isdisjoint(told):
            complaints += _wrong_runs(found[job_id], source, told, ends, counts)
    complaints += _missing(ends, stood, asked, counts)
    complaints += causes.check(found, events, work, ends, counts)
    return complaints, counts


def _wrong_runs(job, source, told, ends, counts):
    """One end makes one run, at once."""
    made = {run_id for offset in told for run_id in job.redriven(offset)}
    times = sum(len(job.series[run_id]) for run_id in made)
    is_refused = all(job.judged.verdicts[offset].word == "refused" for offset in told)
    counts["started by an end"] += times
    counts["started by the end of a DagRun"] += times if source in ends and ends[source].is_dag else 0
    yield from _wrong_skips(job, told)
    if times != (not is_refused):
        yield f"{source} was to start one run of {job.job_id}, and started {sorted(made)}"


def _missing(ends, stood, asked, counts):
    """Ends that did not start who certainly waited for them."""
    answered = Answered(asked, ends, stood)
    for source, end in ends.items():
        for job_id, condition in _waited(end, stood, answered):
            counts["ends that were waited for"] += 1
            counts["ends of DagRuns that were waited for"] += end.is_dag
            counts["ends that were waited for until another command"] += condition.until is not None
            if (job_id, source) not in asked:
                yield f"{source} ended {end.status}, and did not start {job_id}"


def _wrong_skips(job, offsets):
    """A job that was paused is not started, and says so; one that was not is."""
    triggers = {trigger.offset: trigger for trigger in job.judged.triggers}
    for offset in offsets:
        for run_id in job.redriven(offset):
            event = job.series[run_id][0].event
            is_left_out = event["kind"] == "SKIPPED" and event["reason"] == "paused"
            told = triggers.get(offset)
            if told and is_left_out != job.is_paused(told.stands, told.stamp):
                yield f"{run_id} is {event['kind']} {event['reason']}, and its job was {told.stands.status}"


def _without_cause(asked, ends, stood, hops):
    for (job_id, source), given in asked.items():
        end = ends.get(source)
        if end is None:
            yield f"{job_id} was started by {source}, which has not ended"
        elif not any(_meets(end, each) for each in stood[job_id] if _is_beside(job_id, end)):
            yield f"{job_id} was started by {source}, and does not wait for that"
        for told in given.values():
            if end is not None:
                yield from (f"{job_id} was started by {source}, {wrong}" for wrong in _wrong_words(told, end))


def _wrong_hops(asked, ends, stood, hops, counts):
    started = collections.defaultdict(set)
    for job_id, source in asked:
        started[source].add(job_id)
    for (job_id, source), given in asked.items():
        before, end = hops.get(source, 0), ends.get(source)
        least, most = (1, 1) if end is None else _hops_meant(job_id, end, started[source], stood)
        counts["starts of several of a ring"] += least > 1
        for told in given.values():
            said = told.record["hops"]
            if not before + least <= said <= before + most:
                several = f", one of {least} to {most} of its ring" if most > 1 else ""
                yield f"{job_id} was started by {source} as number {said}, after number {before}{several}"


def _hops_meant(job_id, end, started, stood):
    """For how many hops this start counts, at the least and at the most."""
    ring = rings.leading_back(end.job_id, _sources(stood, lambda _: True))
    if job_id not in ring:
        return 1, 1
    met = {each for each in ring if any(_meets(end, one) for one in stood[each])}
    sure_ring = rings.leading_back(end.job_id, _sources(stood, lambda one: _is_sure(one, end.written_at)))
    sure = {
        each
        for each in sure_ring & started
        if any(_is_sure(one, end.written_at) and _meets(end, one) for one in stood[each])
    }
    return (min(HOPS_MAX, len(sure)) if job_id in sure else 1), min(HOPS_MAX, len(met | {job_id}))


def _is_sure(condition, by):
    """Whether it stood by then, whoever looked, and stands still."""
    return condition.until is None and condition.known_at is not None and condition.known_at < by


def _sources(stood, counts):
    """By job, the jobs for whose ends it waits."""
    return {
        job_id: {f"{job_id.partition(':')[0]}:{each.job}" for each in conditions if counts(each)}
        for job_id, conditions in stood.items()
    }


def _wrong_words(told, end):
    """What a command says otherwise than the log of the end that it names."""
    said = told.record["ended"], told.record["ended_at"]
    if said != (end.status.lower(), end.at):
        yield f"which ended {said[0]} at {said[1]}: it ended {end.status} at {end.at}"
    if told.at < end.written_at:
        yield "before that had ended"
    if told.record["payload"] is not None:
        yield "with a payload"


def _waited(end, stood, answered):
    """The jobs that certainly waited for this end, and by which condition: they had said so before it was written, and
    until it was answered they had said nothing else."""
    if not answered.is_routed(end):
        return
    for job_id, conditions in stood.items():
        for each in conditions if _is_beside(job_id, end) else ():
            is_told = each.known_at is not None and each.known_at < end.written_at and _meets(end, each)
            if is_told and (each.until is None or answered.is_before(end, each.gone_at)):
                yield job_id, each
                break


def _meets(end, condition):
    name = end.job_id.partition(":")[2]
    return condition.job == name and end.status in COUNTED[condition.ended] and end.at > condition.since


def _is_beside(job_id, end):
    return job_id.partition(":")[0] == end.job_id.partition(":")[0]


def stood_for(job):
    """Every stretch in which a condition of the job stood; one on records as that on a job of such a name."""
    found, standing = [], {}
    appended_at = {command["offset"]: command["appended_at"] for command in job.commands}
    for version in job.judged.made:
        text = "" if version.status == "DELETED" else version.spec["on"]
        said = json.loads(text) if text else {"any": ()}
        now = set(map(gathering.condition_of, said.get("all", said.get("any"))))
        ended = {"until": version.stamp, "gone_at": appended_at[version.offset]}
        found += [standing.pop(gone)._replace(**ended) for gone in sorted(standing.keys() - now)]
        told = [fact.stamp + COMMITTED_WITHIN_US for fact in job.revised[version.offset]]
        for new in sorted(now - standing.keys()):
            standing[new] = Stood(*new, version.stamp, min(told, default=None), None)
    return [*found, *standing.values()]


def _asked(found):
    """{(job id, source): {offset of the command: Told}}."""
    asked = collections.defaultdict(dict)
    for job_id, job in found.items():
        for command in job.commands:
            record = command["record"]
            if record["kind"] == "TRIGGER" and "@" in record["triggered_by"]:  # else a record's (``sources.py``)
                asked[job_id, record["triggered_by"]][command["offset"]] = Told(command["appended_at"], record)
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
                place = event["at"], record["timestamp_us"], record["partition"], record["offset"]
                is_so = record["partition"] in routed, after["nodes"] is not None
                found[run_id] = End(run_id.partition("@")[0], after["status"], *place, *is_so)
        if event["kind"] in BY_ROUTERS and before is not None and before["nodes"] is None:  # a DagRun: by the engine
            routed.add(record["partition"])
    return found
