"""Rounds of which only a half counts: what a role said twice, or passed without a word. Imports nothing of ours.

Input: dumped ``events`` of run-events, ``work`` of all tiers and rungs' ends, ``commands``, ``job_events``, and
``behind``, {(topic, partition): offset} of the positions that the workers' groups have committed. A round is records
and positions in one transaction: records without their position are made once more by whoever reads on from there,
and a position without its records leaves a hole.
"""

import collections

from .records import decode

VERDICTS = ("RETRYING", "RUN_FAILED")


def check(events, work, commands, topic, behind, of=lambda job_id: True):  # noqa: ARG005
    """(torn, counts): every tear, one line each; ``of`` says whose jobs are looked at."""
    said, started, final = collections.Counter(), collections.defaultdict(set), set()
    for record in events:
        _, event = decode(record["value"])
        if not of(event["job_id"]):
            continue
        kind, run_id = event["kind"], event["run_id"]
        if kind == "STARTED":
            started[run_id].add(event["attempt"])
        if kind in ("PENDING", "STARTED", *VERDICTS):
            said[kind, run_id, event["attempt"]] += 1
        elif kind in ("CANCEL_REQUESTED", "RUN_EXPIRED"):
            final.add(run_id)
    torn = [f"{run_id}: {kind} of attempt {n} was said {times} times: records without their position"
            for (kind, run_id, n), times in sorted(said.items()) if times > 1]  # fmt: skip
    torn += _handed_out(work, said, started, final, behind, of)
    torn += _passed_on(commands, topic, of)
    counts = collections.Counter({"runs looked at": sum(kind == "PENDING" for kind, _, _ in said)})
    counts["claims looked at"] = sum(kind == "STARTED" for kind, _, _ in said)
    counts["torn"] = len(torn)
    return torn, counts


def _handed_out(work, said, started, final, behind, of):
    """Work is handed out once for each PENDING and RETRYING, and what the workers have passed was claimed."""
    torn, asked = [], collections.Counter()
    for record in work:
        _, body = decode(record["value"])
        run_id, attempt = body["run_id"], body["attempt"]
        if not of(body["job_id"]):
            continue
        asked[run_id, attempt] += 1
        passed = record["offset"] < behind.get((record["topic"], record["partition"]), 0)
        if passed and attempt not in started[run_id] and run_id not in final:
            torn.append(f"{run_id}: attempt {attempt} was passed by the workers and never claimed")
    torn += [f"{key[0]}: work of attempt {key[1]} was handed out {n} times" for key, n in asked.items() if n > 1]
    pending = {run_id for kind, run_id, _ in said if kind == "PENDING"}
    torn += [f"{run_id}: work without PENDING" for run_id in {run for run, _ in asked} - pending]
    torn += [f"{run_id}: PENDING without work" for run_id in pending - {run for run, attempt in asked if attempt == 1}]
    return torn


def _passed_on(commands, topic, of):
    """An event without an id of its own is named after its place, without the topic's prefix, and goes on once."""
    start, places = f"{topic.rpartition('.')[2]}/", collections.Counter()
    for record in commands:
        _, body = decode(record["value"])
        if body["command_id"].startswith(start) and of(body["job_id"]):
            places[body["command_id"]] += 1
    return [f"{place}: passed on {n} times" for place, n in sorted(places.items()) if n > 1]
