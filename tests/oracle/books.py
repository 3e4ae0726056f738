"""Do the books balance: fires owed = runs made + fires skipped, each once. Imports nothing of ours.

Input: ``commands`` and ``events`` as lists of dumped records ``{"partition", "offset", "timestamp_us", "key",
"value"}`` of read_committed dumps. Output: a list of complaints; an empty one says that the books balance.
"""

import collections

from . import owed as judge
from .records import decode

MASK = judge.MASK


def balance(commands, events, until, rules=judge.Rules()):  # noqa: B008  # a value
    """(complaints, counts) for every fire up to ``until`` (microseconds), and for every command."""
    complaints, counts = [], collections.Counter()
    by_job = collections.defaultdict(list)
    for record in sorted(commands, key=lambda each: (each["partition"], each["offset"])):
        name, body = decode(record["value"])
        if name == "command":
            command = {"offset": record["offset"], "appended_at": record["timestamp_us"], "record": body}
            by_job[body["job_id"]].append(command)
    facts = collections.defaultdict(
        lambda: {
            "revised": {},
            "pending": collections.Counter(),
            "skipped": [],
            "series": collections.Counter(),
            "answered": collections.defaultdict(list),
        }
    )
    for record in sorted(events, key=lambda each: (each["partition"], each["offset"])):
        _, event = decode(record["value"])
        fact = facts[event["job_id"]]
        if event["kind"] == "REVISED":
            fact["revised"][event["revised"]["revision"] & MASK] = event["revised"]
        elif event["kind"] == "PENDING" and "~" in event["run_id"]:
            fact["series"][event["run_id"]] += 1
        elif event["kind"] == "PENDING":
            fact["pending"][event["run_id"]] += 1
        elif event["kind"] == "SKIPPED":
            fact["skipped"].append(event)
        elif event["kind"] == "ANSWERED":
            fact["answered"][event["answered"]["offset"]].append(event["answered"])
    for job_id in sorted(set(by_job) | set(facts)):
        _job(job_id, by_job[job_id], facts[job_id], until, rules, complaints, counts)
    return complaints, counts


def _answers(job_id, commands, judged, answered, complaints, counts):
    """Whoever asked is answered once, a repeat always, and the answer says what had to become of the command."""
    ids = {command["offset"]: command["record"]["command_id"] for command in commands}
    for command in commands:
        offset, record = command["offset"], command["record"]
        verdict = judged.verdicts[offset]
        counts[f"command {verdict.word}"] += 1
        said = answered.pop(offset, [])
        wanted = 1 if record["answer"] or verdict.word == "repeated" else 0
        if len(said) != wanted:
            complaints.append(f"{job_id}: command {offset} ({verdict.word}) has {len(said)} answers, not {wanted}")
            continue
        for answer in said:
            revision = answer["revision"] & MASK if answer["revision"] else -1
            got = (answer["command_id"], answer["verdict"], revision, bool(answer["problem"]))
            meant = (record["command_id"], verdict.word, verdict.stands, verdict.word == "refused")
            if got != meant:
                complaints.append(f"{job_id}: command {offset} was answered {got}, not {meant}")
            if verdict.word == "repeated" and answer["first_command_id"] != ids[verdict.first]:
                complaints.append(f"{job_id}: command {offset} repeats {ids[verdict.first]}, its answer says otherwise")
            counts["answered"] += 1
    complaints += [f"{job_id}: {offset} is answered, and is no command of it" for offset in answered]


def _job(job_id, commands, fact, until, rules, complaints, counts):
    edges = {offset: revised["edge_at"] for offset, revised in fact["revised"].items()}
    judged = judge.versions(commands, edges, rules)
    made, triggers = judged.made, judged.triggers
    counts["refused"] += len(judged.refused)
    _answers(job_id, commands, judged, fact["answered"], complaints, counts)
    wanted_revisions = {version.offset: version.stamp for version in made}
    said = {offset: revised["stamp_at"] for offset, revised in fact["revised"].items()}
    if wanted_revisions != said:
        complaints.append(f"{job_id}: REVISED says {said}, the commands say {wanted_revisions}")
        return
    owed = judge.owed(made, until)
    wanted = collections.Counter(judge.run_id(job_id, fire) for fire in owed)
    got = collections.Counter()
    for run, times in fact["pending"].items():
        got[run] += times
        counts["runs"] += times
    seen = set()
    for event in fact["skipped"]:
        mark = (event["run_id"], event["skipped"]["from_at"], event["skipped"]["to_at"], event["reason"])
        if mark in seen:
            complaints.append(f"{job_id}: SKIPPED written twice: {mark}")
        seen.add(mark)
        covered = judge.expand(event["skipped"], made)
        if len(covered) != event["skipped"]["fire_count"]:
            complaints.append(f"{job_id}: SKIPPED counts {event['skipped']['fire_count']}, covers {len(covered)}")
        for fire in covered:
            got[judge.run_id(job_id, fire)] += 1
            counts[f"skipped:{event['reason']}"] += 1
    for run in sorted(set(wanted) | set(got)):
        if judge.instant_of(run) > until:
            continue
        if got[run] != wanted[run]:
            complaints.append(f"{run}: owed {wanted[run]}, made or skipped {got[run]}")
    counts["owed"] += len(owed)
    for stamp, offset in triggers:
        if stamp > until:
            continue
        prefix = judge.run_id(job_id, stamp) + "~"
        hits = [run for run in fact["series"] if run.startswith(prefix) and int(run.partition("~")[2]) & MASK == offset]
        if len(hits) != 1 or fact["series"][hits[0]] != 1:
            complaints.append(f"{job_id}: trigger at offset {offset} made {hits}")
        counts["triggered"] += len(hits)
    for offset in judged.redrives:
        hits = [run for run in fact["series"] if int(run.partition("~")[2]) & MASK == offset]
        if len(hits) != 1 or fact["series"][hits[0]] != 1:
            complaints.append(f"{job_id}: redrive at offset {offset} made {hits}")
        counts["redriven"] += len(hits)
    if sum(fact["series"].values()) > len(triggers) + len(judged.redrives):
        complaints.append(f"{job_id}: more runs of a series than triggers and redrives")
