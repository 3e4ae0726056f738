"""A backfill runs each fire of its range once, unless it ran before, and says how far it is. Imports nothing of ours.

Input: dumps of ``commands`` and ``run-events`` at rest. Which fires it had to run, the commands say, by brute force;
what became of each, a second reducer. A backfill owes its fires up to where it says that it has come, in the order of
time; at the end all of them, unless it was cancelled, stands paused, or waits for its job's pause to end.
"""

import bisect
import collections

from . import backfill_turns, jobs, owed, runs

MASK = owed.MASK
ENDED = ("DONE", "CANCELLED")
JITTER_MOST = 1_800_000_000


def check(commands, events, rules=owed.Rules()):  # noqa: B008  # a value
    """(complaints, counts) at rest."""
    complaints, counts = [], collections.Counter()
    statuses, moves, final_at = _follow(events)
    for job in jobs.read(commands, events, rules).values():
        asked = {each.offset: each for each in job.judged.backfills}
        told = collections.defaultdict(list)
        for fact in job.told:
            told[fact.event["backfilled"]["number"] & MASK].append(fact)
        made = collections.defaultdict(list)
        for fact in job.backfilled:
            made[fact.event["pending"]["backfill"] & MASK].append(fact)
        turned = backfill_turns.turns(job)
        strange = (told.keys() | made.keys()) - asked.keys()
        complaints += [f"{job.job_id}~{number}: nobody asked for it" for number in sorted(strange)]
        for offset, each in asked.items():
            name = f"{job.job_id}~{offset}"
            counts["backfills"] += 1
            wrong = [*_made(job, each, told[offset], made[offset], moves, final_at, counts)]
            wrong += _told(each, told[offset], made[offset], statuses)
            wrong += _owed(job, each, told[offset], statuses, counts)
            wrong += backfill_turns.check(job, each, told[offset], turned[offset])
            counts.update(f"{turn.kind} {turn.verdict or 'unanswered'}" for turn in turned[offset])
            complaints += [f"{name}: {what}" for what in wrong]
    return complaints, counts


def _follow(events):
    """({run: status}, {(partition, offset) of a PENDING of a backfill: how its run stood before it, and whether it
    counts}, {run: the offset of its final event})."""
    statuses, moves, final_at = {}, {}, {}
    for record, event, before, after in runs.tell(events):
        if runs.is_of_backfill(event):
            moves[record["partition"], record["offset"]] = (before["status"] if before else "", bool(after))
        if after:
            statuses[event["run_id"]] = after["status"]
            if after["status"] in runs.FINAL:
                final_at[event["run_id"]] = record["offset"]
    return statuses, moves, final_at


def _made(job, asked, told, made, moves, final_at, counts):
    """Each of its runs was a fire of its range, in order, of a fire that had not run; and not too many were open."""
    fires, last = asked.fires(), 0
    ends = sorted(final_at[run_id] for fact in made if (run_id := fact.event["run_id"]) in final_at)
    for number, fact in enumerate(made):
        run_id, detail = fact.event["run_id"], fact.event["pending"]
        fire = owed.instant_of(run_id)
        stood, counted = moves[fact.partition, fact.offset]
        counts["backfilled"] += 1
        counts["backfilled over a skip"] += stood == "SKIPPED"
        if run_id != owed.run_id(job.job_id, fire) or fire not in fires:
            yield f"{run_id} is no fire of its range"
        if not counted:
            yield f"{run_id} was made, and stood {stood or 'unknown'} already"
        if owed.is_blocked(asked.version, fire):
            yield f"{run_id} was made, and a calendar blocks it"
        if fire <= last:
            yield f"{run_id} was made after a later one"
        if (detail["revision"] & MASK, detail["tier"]) != (asked.version.offset, asked.tier):
            yield f"{run_id} is of revision {detail['revision'] & MASK} and {detail['tier']}"
        last = fire
        open_now = number + 1 - bisect.bisect_left(ends, fact.offset)
        if open_now > asked.concurrency:
            yield f"{run_id} makes {open_now} open runs, {asked.concurrency} may be"
        status = _status_at(told, fact.offset)
        if status != "RUNNING":
            yield f"{run_id} was made while it stood {status or 'untold'}"


def _status_at(told, offset):
    """What was told last before an offset of run-events; in one round the word comes first."""
    before = [fact.event["backfilled"]["status"] for fact in told if fact.offset < offset]
    return before[-1] if before else ""


def _told(asked, told, made, statuses):
    """What it says of itself is so: its range and count, its runs so far, and never less than before."""
    if not told:
        yield "nothing was ever told of it"
        return
    position, ended, seqs = 0, None, []
    for fact in told:
        said = fact.event["backfilled"]
        seqs.append(said["seq"])
        meant = (asked.from_at, asked.to_at, asked.version.offset, asked.tier, asked.concurrency, len(asked.fires()))
        names = ("from_at", "to_at", "revision", "tier", "concurrency", "fire_count")
        got = tuple(said[name] & MASK if name == "revision" else said[name] for name in names)
        if got != meant:
            yield f"it says {got}, asked was {meant}"
        if said["position_at"] < position:
            yield "it goes back"
        position = max(position, said["position_at"])
        by_then = [each for each in made if owed.instant_of(each.event["run_id"]) <= position]
        if said["made_count"] != len(by_then):
            yield f"it says that {said['made_count']} runs were made up to {position}, there are {len(by_then)}"
        if ended and said["status"] != ended:
            yield f"{ended} became {said['status']}"
        ended = said["status"] if said["status"] in ENDED else ended
    if seqs != sorted(set(seqs)):
        yield f"its words are numbered {seqs}"
    last = told[-1].event["backfilled"]
    if last["status"] in ENDED:
        became = collections.Counter(statuses[fact.event["run_id"]] for fact in made)
        said = {word: last[f"{word.lower()}_count"] for word in ("SUCCEEDED", "FAILED", "CANCELLED")}
        if said != {word: became[word] for word in said}:
            yield f"it says that its runs came to {said}, they came to {dict(became)}"


def _owed(job, asked, told, statuses, counts):
    """Every fire that it has passed has run, or a calendar blocks it; at rest it has passed all it may."""
    if not told:
        return
    last = told[-1].event["backfilled"]
    counts[f"backfills {last['status'].lower()}"] += 1
    fires = asked.fires()
    if last["status"] == "DONE" and last["position_at"] < asked.to_at - 1:
        yield f"it is done, and has come to {last['position_at']} alone"
    if last["status"] == "RUNNING" or (last["status"] == "WAITING" and not _waits_for_a_pause(job, asked)):
        yield f"it stands {last['status']} at rest"
    passed = [fire for fire in fires if fire <= last["position_at"]]
    blocked = [fire for fire in passed if owed.is_blocked(asked.version, fire)]
    for fire in sorted({*passed} - {*blocked}):
        status = statuses.get(owed.run_id(job.job_id, fire), "")
        if status in ("", "SKIPPED"):
            yield f"{owed.run_id(job.job_id, fire)} was passed, and never ran ({status or 'unknown'})"
    counts["backfilled: left out"] += last["left_count"]
    counts["backfilled: blocked"] += last["blocked_count"]
    said = last["made_count"] + last["left_count"]
    if said != len(passed) - len(blocked) or last["blocked_count"] != len(blocked):
        parts = {name: last[f"{name}_count"] for name in ("made", "left", "blocked")}
        yield f"it says {parts} of {len(passed)} fires, {len(blocked)} of them blocked"


def _waits_for_a_pause(job, asked):
    stands = job.judged.made[-1]
    return stands.status == "PAUSED" and asked.to_at + JITTER_MOST > stands.stamp
