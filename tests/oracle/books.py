"""Do the books balance: fires owed = runs made + fires skipped, each once. Imports nothing of ours.

Input: ``commands`` and ``events`` as lists of dumped records ``{"partition", "offset", "timestamp_us", "key",
"value"}`` of read_committed dumps. Output: a list of complaints; an empty one says that the books balance.
"""

import collections

from . import owed as judge
from .records import decode

MASK = (1 << 48) - 1


def balance(commands, events, until):
    """(complaints, counts) for every fire up to ``until`` (microseconds)."""
    complaints, counts = [], collections.Counter()
    by_job = collections.defaultdict(list)
    for record in sorted(commands, key=lambda each: (each["partition"], each["offset"])):
        name, body = decode(record["value"])
        if name == "command":
            command = {"offset": record["offset"], "appended_at": record["timestamp_us"], "record": body}
            by_job[body["job_id"]].append(command)
    facts = collections.defaultdict(
        lambda: {"revised": {}, "pending": collections.Counter(), "skipped": [], "series": collections.Counter()}
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
    for job_id in sorted(set(by_job) | set(facts)):
        _job(job_id, by_job[job_id], facts[job_id], until, complaints, counts)
    return complaints, counts


def _job(job_id, commands, fact, until, complaints, counts):
    edges = {offset: revised["edge_at"] for offset, revised in fact["revised"].items()}
    made, triggers, refused = judge.versions(commands, edges)
    counts["refused"] += len(refused)
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
    if sum(fact["series"].values()) > len(triggers):
        complaints.append(f"{job_id}: more triggered runs than triggers")
