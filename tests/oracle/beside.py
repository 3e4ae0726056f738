"""I7: no more runs of a job, or of a key of its, are open than its limits allow, by the order of the log; who waits
goes in order, and comes to an end. Imports nothing of ours.

Input: dumps of ``commands`` and ``run-events``. A fire goes by the revision that it belongs to, whoever waits and
whatever people ask for by the newest revision of which REVISED stands before it. A run is open from its PENDING to its
final event, and under way from its first STARTED: limits hold for either.
"""

import collections

from . import jobs, owed, policies, reducer
from .books import is_limited
from .late_acts import BY_THE_OWNER, Acts
from .letting_go import Room
from .limits import group_of, held_most, limits_of, stops_others
from .records import decode
from .stopping import Stops

MASK = owed.MASK
CLOCKS_APART = 60_000_000
MOMENT = 1_000
"""Microseconds: by less, a stamp was pushed past those of commands that came in the same moment."""
LET_GO_LATE = 60_000_000
"""Microseconds; whoever knows how quick a healed owner is gives less."""
IN_VAIN = 60_000_000
"""Microseconds after which an owner has surely read that nothing is open any more."""


class _Job:
    """One job on its way through the log. ``open`` and ``held``: run id -> its group, in order; whoever is held goes by
    the newest revision's key, with its own payload (``waiting``), whoever is open by the one that it went out by.

    ``fires``: of its schedule's runs, when they were to be.
    ``out_since``: the groups of all that went out since it had been quiet for long, and no edit since then; else None.
    ``alive``: all that are open, also those whose revision limits nothing: they take room from an older one's fires.
    """

    def __init__(self, job, healed_at):
        self.versions = {version.offset: version for version in job.judged.made}
        self.payloads = {trigger.offset: trigger.payload for trigger in job.judged.triggers}
        self.works = {command["offset"]: command["record"]["work"] for command in job.commands}
        self.resumes = {
            command["offset"]: command["appended_at"]
            for command in job.commands
            if command["record"]["kind"] == "RESUME"
        }
        self.resume_at = 0
        self.newest = None
        self.open = {}
        self.alive = set()
        self.running = set()
        self.held = {}
        self.waiting = {}
        self.fires = {}
        self.order = {}
        self.people = set()
        self.stops = Stops()
        self.quiet_from = healed_at
        self.out_since = None
        self.healed_at = healed_at

    def is_paused(self, at):
        """Also where the resume at the end of its pause stands before us, and that end does not."""
        return self.newest is not None and (self.newest.status == "PAUSED" or at < self.resume_at)

    def group(self, event, spec):
        """Pointer and value of a run's key; None where its limits have none."""
        return group_of(spec, self.payload(event, spec))

    def payload(self, event, spec):
        """That of a run: its own, or that of what it is made of."""
        series = int(event["run_id"].partition("~")[2] or 0) & MASK
        payload = self.payloads.get(series)
        if self.works.get(series):
            payload = decode(self.works[series])[1]["payload"]
        return spec["payload"] if payload is None else payload

    def revise(self, version):
        """This one is the newest from here on."""
        if self.newest is not None and self.newest.status == "PAUSED":
            asked_at = self.resumes.get(version.offset) if version is not None else None
            self.resume_at = version.stamp + 1 if asked_at is not None and version.stamp > asked_at + MOMENT else 0
        self.newest = version
        self.out_since = None
        self.stops.specs.append(None if version is None or version.status == "DELETED" else version.spec)
        if version is not None:
            self.held = {run_id: group_of(version.spec, self.waiting[run_id]) for run_id in self.held}


def check(commands, events, rules=owed.Rules(), healed_at=0, late_us=LET_GO_LATE):  # noqa: B008  # a value
    """(complaints, counts) at rest. ``healed_at``: before it an owner may have read late, or its clock have jumped;
    from then on it lets go within ``late_us`` what there is room for."""
    complaints, counts = [], collections.Counter()
    known = {job_id: _Job(job, healed_at) for job_id, job in jobs.read(commands, events, rules).items()}
    states, acts = {}, Acts(BY_THE_OWNER)
    rooms = {job_id: Room(acts, healed_at, late_us) for job_id in known}
    for record in sorted(events, key=lambda each: (each["partition"], each["offset"])):
        _, event = decode(record["value"])
        job, stamp = known[event["job_id"]], record["timestamp_us"]
        acts.note(record, event)
        if event["kind"] == "REVISED":
            job.revise(job.versions.get(event["revised"]["revision"] & MASK))
            complaints += rooms[event["job_id"]].look(job, record)
        if event["kind"] in reducer.OF_NO_RUN:
            continue
        before = states.get(event["run_id"])
        found = reducer.changes(states, event, record["offset"])
        states |= found
        if event["run_id"] in found and "/" not in event["run_id"]:
            _note_quiet(job, stamp)
            wrong = _moved(job, event, before, counts, stamp)
            complaints += [f"{event['run_id']}: {each}" for each in wrong]
        for run_id, run in found.items():  # of a DagRun too, which an event of a node may have ended
            if run["status"] in reducer.FINAL:
                counts["cancelled while held"] += run_id in job.held and run["status"] == "CANCELLED"
                _close(job, run_id, stamp)
        complaints += rooms[event["job_id"]].look(job, record)
    for job in known.values():
        complaints += [f"{run_id}: held at rest" for run_id in job.held]
        complaints += job.stops.at_rest()
        counts["jobs with limits"] += any(is_limited(version.spec) for version in job.versions.values())
    return complaints, counts


def _moved(job, event, before, counts, stamp):
    """What is wrong with an accepted event."""
    run_id, kind = event["run_id"], event["kind"]
    if kind == "HELD":
        counts[f"held:{event['reason']}"] += 1
        yield from _waits(job, event, stamp)
    elif kind == "PENDING":
        was_held = before is not None and before["held"]
        counts["released"] += was_held
        yield from _goes(job, event, was_held=was_held)
    elif kind == "STARTED" and run_id in job.open:
        job.running.add(run_id)
    elif kind == "SKIPPED" and event["reason"] in policies.DROPPED and event["reason"] != policies.MAX_RUNS:
        yield from _dropped(job, event, before, counts)
    if kind == "CANCEL_REQUESTED" and event["reason"] in ("cancel_other", "terminate_other"):
        counts[f"asked to end by {event['reason']}"] += 1
        if run_id not in job.alive:
            yield f"asked to end by {event['reason']}, and it is not open"
    if kind == "RUN_EXPIRED" and run_id in job.alive:
        job.stops.asked.add(run_id)  # a DagRun over its time: what its owner asks of it counts for nothing any more
    if kind == "CANCEL_REQUESTED":
        job.stops.ask(event, job.open.get(run_id))


def _close(job, run_id, stamp):
    if "/" in run_id:
        return
    job.stops.close(run_id, job.open.get(run_id), stamp)
    job.open.pop(run_id, None)
    job.alive.discard(run_id)
    job.held.pop(run_id, None)
    job.running.discard(run_id)
    job.quiet_from = max(stamp, job.healed_at)


def _spec_of(job, event, *, was_held):
    """By what the run goes: the revision of a fire, else the newest one; a job that is deleted limits nothing."""
    detail = event["pending"] or event["skipped"]
    own = job.versions.get(detail["revision"] & MASK)
    is_fire = "~" not in event["run_id"] and not was_held and not reducer.is_of_backfill(event)
    if is_fire:
        return own.spec if own is not None else None
    return job.newest.spec if job.newest is not None and job.newest.status != "DELETED" else None


def _waits(job, event, stamp):
    spec = _spec_of(job, event, was_held=False)
    if spec is None or not is_limited(spec):
        yield "held, and nothing limits its job"
        return
    yield from _in_vain(job, spec, job.group(event, spec))
    yield from _too_many_wait(job, spec, job.group(event, spec))
    yield from job.stops.held(job, spec, job.group(event, spec), stamp)
    if _is_fire(event) and stops_others(spec):
        group = job.group(event, spec)
        beside = {**job.open, **job.held}
        newer = [each for each, its in beside.items() if job.fires.get(each, 0) > event["pending"]["fire_at"]]
        if any(group is None or beside[each] == group for each in newer):
            yield f"it waits for the end of a later fire: {newer[0]}"
    if _is_fire(event):
        job.fires[event["run_id"]] = event["pending"]["fire_at"]
    own = job.versions.get(event["pending"]["revision"] & MASK)
    payload = job.waiting[event["run_id"]] = job.payload(event, own.spec if own is not None else spec)
    job.held[event["run_id"]] = group_of((job.newest or own).spec, payload)
    job.order[event["run_id"]] = len(job.order)
    if "~" in event["run_id"]:
        job.people.add(event["run_id"])


def _too_many_wait(job, spec, group):
    """Whether one less may wait. Only whoever comes is judged: what waits already stays, whatever an edit says."""
    if len(job.held) >= held_most(spec):
        yield f"{len(job.held) + 1} runs of the job wait, {held_most(spec)} may"
    word = policies.beside(spec)["overlap"]
    if word == "skip":
        yield "held, and its job says skip"
    if len({policies.beside(version.spec)["key"] for version in job.versions.values()}) > 1:
        return  # by another key, and taken over, a run is of no group until its owner has read what it is made of
    queue = _queue(job, group)
    if queue and (word == "buffer_one" or stops_others(spec)):
        yield f"it waits beside {queue[0]}, and its job says {word}"


def _queue(job, group):
    """Who waits in the queue of a run with this group; its own limits have no key where that is None."""
    return [each for each, its in job.held.items() if group is None or its == group]


def _goes(job, event, *, was_held):
    run_id = event["run_id"]
    job.alive.add(run_id)
    job.stops.opened(event)
    if _is_fire(event):
        job.fires[run_id] = event["pending"]["fire_at"]
    spec = _spec_of(job, event, was_held=was_held)
    group = job.held.pop(run_id) if was_held else (job.group(event, spec) if spec is not None else None)
    if reducer.is_of_backfill(event):
        group = _group_of_backfill(job, event, spec)
        job.open[run_id] = group  # counted also where nothing limits its job yet
    if job.out_since is not None:
        job.out_since.append(group)
    if spec is None or (not is_limited(spec) and not was_held):
        return
    yield from _overtakes(job, event, group, spec)
    if was_held and job.is_paused(event["at"]) and run_id not in job.people:
        yield "released while its job is paused"
    job.open[run_id] = group
    if not is_limited(spec):
        return
    most, most_of_key = limits_of(spec)
    for what, those in (("open", job.open), ("under way", job.running)):
        if most is not None and len(those) > most:
            yield f"{len(those)} runs of the job are {what}, {most} may be"
        beside = sum(job.open[each] == group for each in those)
        if group is not None and most_of_key is not None and beside > most_of_key:
            yield f"{beside} runs with {group} are {what}, {most_of_key} may be"


def _group_of_backfill(job, event, spec):
    """By the newest limits, with the payload of the version that it runs."""
    own = job.versions.get(event["pending"]["revision"] & MASK)
    if spec is None or own is None:
        return None
    return job.group(event, {**spec, "payload": own.spec["payload"]})


def _overtakes(job, event, group, spec):
    """Whether somebody who may go waits in the same queue, and was there first. A run may say a later instant than
    that at which it was decided: its own, by another clock."""
    run_id, has_key = event["run_id"], bool(policies.beside(spec)["key"])
    is_paused = job.is_paused(event["at"] - CLOCKS_APART)
    before = [
        each
        for each, its in job.held.items()
        if (not has_key or its == group) and (each in job.people or not is_paused) and _held_before(job, each, run_id)
    ]
    if before:
        yield f"goes before {before[0]}, which waits"


def _held_before(job, other, run_id):
    """A run that was not held itself comes last."""
    return job.order[other] < job.order.get(run_id, 1 << 62)


def _is_fire(event):
    """Whether the schedule made it."""
    return "~" not in event["run_id"] and not reducer.is_of_backfill(event)


def _is_older(job, event):
    """Whether a later fire of the schedule was made: it is not stopped for an older one. It may have ended, and its
    owner not have read that; whether it was long ago ``_in_vain`` says."""
    return "~" not in event["run_id"] and any(at > event["skipped"]["from_at"] for at in job.fires.values())


def _note_quiet(job, stamp):
    """Whether nothing has been open, and nobody has waited, for long."""
    if not job.alive and not job.held and job.quiet_from < stamp - IN_VAIN:
        job.out_since = []


def _in_vain(job, spec, group):
    """Whether it finds no room where its owner must see some: of what went out since it was quiet it knows all, and
    ends that it has not read yet only make more. Behind somebody who waits it waits, whatever room there is."""
    if job.out_since is None or job.held:
        return
    most, most_of_key = limits_of(spec)
    if most is not None and len(job.out_since) >= most:
        return
    if group is None or job.out_since.count(group) < most_of_key:
        yield f"it found no room, and since its job was quiet no more than {len(job.out_since)} have been open"


def _dropped(job, event, before, counts):
    spec = _spec_of(job, event, was_held=before is not None)
    cap = event["skipped"]["cap"]
    counts[f"dropped:{event['reason']} {cap}".strip()] += 1
    if event["reason"] == "withdrawn":
        if before is None:
            yield "withdrawn, and it was not held"
        return
    word = policies.beside(spec)["overlap"] if spec is not None else "allow"
    is_older = spec is not None and stops_others(spec) and _is_older(job, event)
    counts["dropped: a later fire was there"] += is_older and not cap and before is None
    if not cap and before is None and word not in ("skip", "buffer_one") and not is_older:
        yield f"dropped, and its job says {word}"
    if not cap and before is None and word == "buffer_one" and not _queue(job, job.group(event, spec)):
        yield "dropped, and nobody waits, its job says buffer_one"
    # An owner writes itself, and first, whatever ends a run that waits: it knows how many do.
    if cap == "max_held" and (spec is None or len(job.held) < held_most(spec)):
        yield f"dropped because of {cap}, and {len(job.held)} wait"
    if not cap and before is not None and not any(stops_others(version.spec) for version in job.versions.values()):
        yield "it was held, and its job was never one that stops others"
    if before is None and spec is not None and cap != "held_per_shard":  # which holds for others too
        yield from _in_vain(job, spec, job.group(event, spec))
