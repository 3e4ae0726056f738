"""What tables must hold of jobs, of orders, of letters and of backfills, by the log. Imports nothing of ours.

Input: the jobs as ``jobs.read`` has them, dumps of ``commands`` and ``run-events``, rows as dicts, all of them taken
when nothing moved any more. Specs are compared by what they say, for their texts may leave out defaults.
"""

import collections
import json

from . import owed
from .records import decode
from .verdicts import DEFAULT

MASK = owed.MASK
NOTE_MAX = 500
_NO_LIMITS = DEFAULT | dict.fromkeys(("queue_timeout_us", "attempt_timeout_us", "run_timeout_us"), 0)
_TOLD = ("command_id", "idempotency_key", "note", "run_id", "triggered_by")


def versions(found, rows, rows_max):
    """Complaints: each version says what was defined, who made it, when and with which words.

    ``rows_max``: of each job no more than its newest are among the rows.
    """
    complaints, by_job = [], collections.defaultdict(dict)
    for row in rows:
        by_job[row["job_id"]][row["revision"] & MASK] = row
    for job_id in sorted(found.keys() | by_job.keys()):
        meant = {each["revision"]: each for each in _versions(found[job_id])} if job_id in found else {}
        there = by_job[job_id]
        newest = sorted(meant)[-rows_max:]
        complaints += [f"{job_id}: no row of its version {each}" for each in newest if each not in there]
        complaints += [f"{job_id}: a row of version {each}, and no command made it" for each in there.keys() - meant]
        for revision in sorted(there.keys() & meant.keys()):
            wrong = _other(meant[revision], there[revision])
            complaints += [f"{job_id}: its version {revision} says {each}" for each in wrong]
    return complaints


def standing(found, rows, listing):
    """Complaints: the row of every job is its last version, and the lists of jobs show it, once, as it stands."""
    complaints, listed = [], collections.defaultdict(list)
    for line in listing:
        listed[line["job_id"]].append((line["kind"], line["status"], line["created_at"]))
    by_job = {row["job_id"]: row for row in rows}
    for job_id, job in found.items():
        last = next(reversed([*_versions(job)]), None)
        if last is None or job_id not in by_job:
            continue  # of the second another judge complains
        row = by_job[job_id]
        wanted = {name: last[name] for name in ("status", "spec", "anchor_at", "created_at", "pause")}
        complaints += [f"{job_id}: its row says {each}" for each in _other(wanted, row)]
        if row["updated_at"] != last["stamp_at"]:
            complaints.append(f"{job_id}: its row says that it stands since {row['updated_at']}: {last['stamp_at']}")
        line = (_kind(last["spec"]), last["status"], last["created_at"])
        if listed[job_id].count(line) != 1:
            complaints.append(f"{job_id}: listed as {listed[job_id]}, it is {line}")
    return complaints


def _versions(job):
    """What a job's commands made of it, one after the other, as its rows are to say it."""
    records = {command["offset"]: command["record"] for command in job.commands}
    before, pause, created_at = None, None, 0
    for version in job.judged.made:
        record = records[version.offset]
        kind = record["kind"]
        if before is None or before.status == "DELETED":
            created_at = version.stamp
        if kind == "PAUSE":
            pause = (record["actor"], record["note"][:NOTE_MAX], version.stamp, record["resume_at"])
        pause = pause if version.status == "PAUSED" else None
        yield {
            "revision": version.offset,
            "status": version.status,
            "stamp_at": version.stamp,
            "spec": _said(version.spec),
            "anchor_at": version.anchor if version.spec["every"] else 0,
            "created_at": created_at,
            "pause": pause,
            "actor": record["actor"],
            "action": kind.lower(),
            "note": record["note"][:NOTE_MAX],
            "from_revision": record["to_revision"] & MASK if kind == "ROLLBACK" else 0,
        }
        before = version


def _said(spec):
    """A spec by what its texts say. Since when a condition of ``on`` counts is its owner's note, and no definition."""
    texts = {name: _json(spec[name]) for name in ("executor", "timing", "concurrency", "dag")}
    policy = {name: value for name, value in _json(spec["policy"]).items() if _NO_LIMITS.get(name) != value}
    on = {name: part for name, part in _json(spec["on"]).items() if name != "since"}
    return {**spec, **texts, "policy": policy, "on": on}


def _json(text):
    return json.loads(text) if text else {}


def _kind(spec):
    return next(kind for kind in ("cron", "every", "once", "dates", "delay_us") if spec[kind] is not None).split("_")[0]


def _other(wanted, row):
    """What a row says otherwise."""
    for name, value in wanted.items():
        found = row[name]
        if name in ("revision", "from_revision"):
            found &= MASK
        if name == "spec":
            found = _said(found)
            differs = sorted(part for part in value if found.get(part) != value[part])
            if differs:
                yield f"of {', '.join(differs)} otherwise than its command"
        elif found != value:
            yield f"{name} {found!r}, and not {value!r}"


def audit(commands, rows):
    """Complaints: each command has one row, which says who asked when for what."""
    wanted = {}
    for record in commands:
        name, body = decode(record["value"])
        if name == "command":
            told = {part: body[part] for part in _TOLD if body[part]}
            what = (body["actor"], body["kind"].lower(), body["job_id"], record["timestamp_us"], told)
            wanted[record["partition"], record["offset"]] = what
    found, times = {}, collections.Counter()
    for row in rows:
        told = {part: row["detail"][part] for part in _TOLD if part in row["detail"]}
        place = row["src"], row["off"]
        found[place] = (row["actor"], row["action"], row["job_id"], row["at"], told)
        times[place] += 1
    complaints = [
        f"command {place}: its row says {found.get(place)}, it was {wanted.get(place)}"
        for place in sorted(found.keys() | wanted.keys())
        if found.get(place) != wanted.get(place)
    ]
    return complaints + [f"command {place}: {n} rows" for place, n in sorted(times.items()) if n > 1]


def backfills(events, rows):
    """Complaints: each backfill stands in its row as it was told of last."""
    wanted = {}
    for record in sorted(events, key=lambda each: (each["partition"], each["offset"])):
        _, event = decode(record["value"])
        if event["kind"] == "BACKFILL":
            wanted[event["job_id"], event["backfilled"]["number"]] = (event["backfilled"], event["at"])
    found = {(row["job_id"], row["told"]["number"]): (row["told"], row["at"]) for row in rows}
    return [
        f"{job_id}~{number & MASK}: its row says {found.get((job_id, number))}, the log {wanted.get((job_id, number))}"
        for job_id, number in sorted(found.keys() | wanted.keys())
        if found.get((job_id, number)) != wanted.get((job_id, number))
    ]


def letters(found, events, rows):
    """Complaints: what was done last about a dead letter stands in its row: redriven, as which run, or discarded."""
    done = collections.defaultdict(list)
    for record in events:
        _, event = decode(record["value"])
        detail = event["pending"]
        if detail is not None and detail["linked_run"] and detail["dag"] is None:
            done[detail["linked_run"]].append((event["at"], "redriven", event["run_id"], ""))
    for job in found.values():
        for command in job.commands:
            record = command["record"]
            if record["kind"] == "DISCARD" and job.judged.verdicts[command["offset"]].word in ("applied", "repeated"):
                done[record["run_id"]].append((command["appended_at"], "discarded", "", record["actor"]))
    told = {}
    for row in rows:
        run_id = owed.run_id(row["job_id"], row["fire_at"], row["series"], row["node"])
        told[run_id] = (row["at"], row["action"], row["linked_run"], row["actor"])
    for run_id in sorted(done.keys() | told.keys()):
        last = max((at for at, *_ in done[run_id]), default=None)
        wanted = [each for each in done[run_id] if each[0] == last]
        if told.get(run_id) not in wanted:
            yield f"{run_id}: of its letter the row says {told.get(run_id)}, done was {wanted}"
