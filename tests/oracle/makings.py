"""What each run had to be made of, by the commands alone, and what its work says. Imports nothing of ours.

Input: dumps of ``commands``, ``run-events`` and of all ``work`` (tiers and rungs). A run of the schedule is made of the
version that owes its fire, a trigger's of the one that stood there, with the command's payload where it brings one, a
redrive's of the work that the command carries. Texts of policies and executors are compared by what they say.
"""

import collections
import json
import typing

from . import jobs, owed, policies
from .records import decode
from .verdicts import DEFAULT

MASK = owed.MASK
TIERS = ("HIGH", "MEDIUM", "LOW")
_OF_PENDING = ("origin", "dag", "again_of", "begins", "zone")
"""What work does not say."""
_HERD_US = 1_000_000
_MILLISECOND_US = 1_000
"""Stamps of the log have no finer parts."""
_NO_LIMITS = DEFAULT | dict.fromkeys(("queue_timeout_us", "attempt_timeout_us", "run_timeout_us"), 0)


class Making(typing.NamedTuple):
    """What a run is made of. ``policy``, ``executor``: what their texts say; ``redrives``: how many led to it.

    ``due_at``: when it is due, of a run of the schedule. ``payload`` None: what the nodes before it have made, which
    others judge. ``dag``: of a DagRun its nodes, as text. ``again_of``: the run that this one does again, of a DagRun
    ``begins``: from these nodes on. ``zone``: of its schedule; None: nobody says.
    """

    origin: str
    revision: int
    tier: str
    pool: str
    handler: str
    payload: bytes
    executor: dict
    at_most_once: bool
    policy: dict
    redrives: int = 0
    due_at: int | None = None
    dag: str = ""
    again_of: str = ""
    begins: tuple = ()
    zone: str | None = None


def meant(commands, events, rules=owed.Rules()):  # noqa: B008  # a value
    """{run id: Making} of every run that was made and had to be; of others the books complain."""
    return _meant(commands, events, rules)[0]


def _meant(commands, events, rules):
    """(as ``meant``, the same of what was held): what was skipped then may have been run by a backfill."""
    found, held = {}, {}
    for job in jobs.read(commands, events, rules).values():
        duties = job.duties(_last_due(job))
        for fire, facts in job.made.items():
            if fire in duties:
                run_id = facts[0].event["run_id"]
                found[run_id] = _of_duty(job, duties[fire], fire, run_id)
        by_offset = {version.offset: version for version in job.judged.made}
        for facts in job.chained.values():
            said = facts[0].event
            version = by_offset[said["pending"]["revision"] & MASK]
            found[said["run_id"]] = _of_version("SCHEDULE", version)._replace(due_at=owed.instant_of(said["run_id"]))
        for run_id in job.held:
            if (fire := owed.instant_of(run_id)) in duties and "~" not in run_id:
                held[run_id] = _of_duty(job, duties[fire], fire, run_id)
        for trigger in job.judged.triggers:
            made = _of_version("TRIGGER", trigger.stands)
            made = made if trigger.payload is None else made._replace(payload=trigger.payload)
            found |= dict.fromkeys(job.triggered(trigger), made)
        for offset, told in job.judged.gathered.items():
            found |= dict.fromkeys(job.redriven(offset), _of_version("TRIGGER", told.stands))
        by_number = {asked.offset: asked for asked in job.judged.backfills}
        for fact in job.backfilled:
            asked = by_number.get(fact.event["pending"]["backfill"] & MASK)
            if asked is not None:
                made = _of_version("BACKFILL", asked.version)
                found[fact.event["run_id"]] = made._replace(tier=asked.tier)
        given = {command["offset"]: command["record"] for command in job.commands}
        works = {offset: record["work"] for offset, record in given.items()}
        for offset in job.judged.redrives:
            if given[offset]["kind"] == "RERUN":
                found |= dict.fromkeys(job.redriven(offset), _of_rerun(job, given[offset], found))
                continue
            work = decode(works[offset])[1]
            made = _of("REDRIVE", work["revision"] & MASK, work, work["redrives"] + 1)
            found |= dict.fromkeys(job.redriven(offset), made._replace(again_of=given[offset]["run_id"]))
    return found | _nodes(events, found), held


def _of_duty(job, duty, fire, run_id):
    """Of a fire of the schedule; what waited is due when it is released."""
    due_at = None if run_id in job.released else _due(duty, fire)
    return _of_version("SCHEDULE", duty.version)._replace(due_at=due_at)


def _of_rerun(job, record, found):
    """Of a DagRun that runs another one again: its version, and its payload where it brings none."""
    version = next(each for each in job.judged.made if each.offset == record["to_revision"] & MASK)
    earlier = found.get(record["run_id"])
    payload = record["payload"] if record["payload"] is not None or earlier is None else earlier.payload
    begins = tuple(dict.fromkeys(record["rerun_from"]))
    made = _of_version("REDRIVE", version)._replace(again_of=record["run_id"], begins=begins)
    return made if payload is None else made._replace(payload=payload)


def _nodes(events, wanted):
    """Of every node that was released."""
    found = {}
    for record in events:
        _, event = decode(record["value"])
        dag_run, _, key = event["run_id"].partition("/")
        if key and event["kind"] == "PENDING" and dag_run in wanted:
            found[event["run_id"]] = _of_node(wanted[dag_run], key.partition(".")[0])
    return found


def _of_node(dag_run, name):
    node = next(node for node in json.loads(dag_run.dag)["nodes"] if node["name"] == name)
    tier = TIERS[node["tier"]] if "tier" in node else dag_run.tier
    policy = _policy(node["policy"]) if "policy" in node else dag_run.policy
    said = (tier, node.get("pool", dag_run.pool), node.get("handler", ""), None, node.get("executor", {}))
    return Making("RELEASE", dag_run.revision, *said, node.get("at_most_once", False), policy)


def _due(duty, fire):
    """When a fire is due; a one-off that was over when it was defined has no jitter."""
    is_over = duty.apart and fire <= duty.version.stamp
    return fire if is_over else duty.version.due(fire)


def _last_due(job):
    """Until when a run that was made, or held and dropped, may be due: one that was made too early, too."""
    slack = max((policies.timing(version.spec)["jitter_us"] for version in job.judged.made), default=0)
    said_at = [held.event["at"] for held in job.held.values()] + [facts[0].event["at"] for facts in job.made.values()]
    return max(said_at, default=0) + slack


def check(commands, events, work, rules=owed.Rules()):  # noqa: B008  # a value
    """(complaints, counts): every PENDING and every work record says what its run was meant to be made of.

    And no work says that it was due long after its run was made, by the log: whoever reads the run back begins 10 s
    before. A herd stands there up to a second before it is due.
    """
    complaints, counts, made_at = [], collections.Counter(), {}
    wanted, held = _meant(commands, events, rules)
    for record in events:
        _, event = decode(record["value"])
        if event["kind"] in ("PENDING", "HELD") and event["run_id"] in wanted:
            counts[f"made by {event['pending']['origin']}"] += 1
            making, fire = wanted[event["run_id"]], owed.instant_of(event["run_id"])
            if event["kind"] == "HELD":  # a backfill holds nothing: it was the schedule, before
                making = held.get(event["run_id"], making)
            if event["kind"] == "PENDING":  # what was held is made when it is released
                made_at.setdefault(event["run_id"], record["timestamp_us"])
            counts["made later than its fire time, by jitter"] += (making.due_at or 0) > fire
            wrong = _wrong_pending(event["pending"], making, fire)
            complaints += [f"{event['run_id']}: {event['kind']} {each}" for each in wrong]
    for record in work:
        _, body = decode(record["value"])
        if body["run_id"] in wanted:
            counts["work records looked at"] += 1
            wrong = [*_wrong_work(body, wanted[body["run_id"]], owed.instant_of(body["run_id"]))]
            wrong += _wrong_mark(body, wanted[body["run_id"]])
            ahead_us = body["due_at"] - made_at.get(body["run_id"], body["due_at"]) - rules.skew
            is_read_from_there = wanted[body["run_id"]].origin != "RELEASE"  # a node from where its DagRun begins
            if is_read_from_there and ahead_us > _HERD_US + _MILLISECOND_US:
                wrong.append(f"is due {ahead_us} us after its run was made")
            complaints += [f"{body['run_id']}: work of attempt {body['attempt']} {each}" for each in wrong]
    return complaints, counts


def _of_version(origin, version):
    zone = version.spec["cron"]["zone"] if version.spec["cron"] else ""
    return _of(origin, version.offset, version.spec)._replace(zone=zone)


def _of(origin, revision, spec, redrives=0):
    said = [spec[name] for name in ("tier", "pool", "handler", "payload")]
    once, policy = spec["at_most_once"], _policy(spec["policy"])
    return Making(origin, revision, *said, _said(spec["executor"]), once, policy, redrives, dag=spec.get("dag", ""))


def _said(text):
    return json.loads(text) if text else {}


def _policy(text):
    """What a policy's text says beyond the defaults, which it may leave out."""
    return {name: value for name, value in _said(text).items() if _NO_LIMITS.get(name) != value}


def _wrong_pending(detail, making, fire):
    limits = {} if making.dag else making.policy
    times = {name: limits.get(name, 0) for name in ("queue_timeout_us", "run_timeout_us")}
    wanted = {"origin": making.origin, "revision": making.revision, "tier": making.tier, "pool": making.pool, **times}
    wanted["linked_run"] = making.again_of
    if making.zone is not None:
        wanted["zone"] = making.zone
    # An executor's label is made up for people; what it says stands in the work.
    wanted |= {"fire_at": fire} | ({} if making.executor else {"handler": "dag" if making.dag else making.handler})
    # Without a place on the timeline it was made later than it was due, or as its command came.
    wanted |= {"due_at": making.due_at} if making.due_at is not None and detail["due_at"] is not None else {}
    yield from _other(wanted, detail | {"revision": detail["revision"] & MASK})
    begins = None if detail["dag"] is None else tuple(detail["dag"]["rerun_from"])
    if begins != (making.begins if making.dag else None):
        yield f"says that it begins with {begins}, meant was {making.begins if making.dag else 'no DagRun'}"


def _wrong_work(body, making, fire):
    wanted = {name: part for name, part in making._asdict().items() if name not in _OF_PENDING}
    wanted |= {"fire_at": fire}
    if making.payload is None:
        del wanted["payload"]
    if making.due_at is None or body["attempt"] > 1:
        del wanted["due_at"]
    said = {"revision": body["revision"] & MASK, "executor": _said(body["executor"]), "policy": _policy(body["policy"])}
    return _other(wanted, body | said)


def _wrong_mark(body, making):
    """Work of a backfill says so, and its first attempt has its run read back before user code; no other work does."""
    if making.origin == "BACKFILL" and not body["backfill"].startswith(f"{body['job_id']}~"):
        return [f"does not say which backfill made it, but {body['backfill']!r}"]
    if making.origin == "BACKFILL" and body["attempt"] == 1 and body["verify_from"] < 0:
        return ["is not to be verified"]
    if making.origin in ("SCHEDULE", "TRIGGER") and body["backfill"]:
        return [f"says that {body['backfill']} made it"]
    return []


def _other(wanted, found):
    """What differs, by name."""
    for name, value in wanted.items():
        if found[name] != value:
            yield f"says {name} {found[name]!r}, meant was {value!r}"
