"""Was each job paused once too many of its runs in a row had failed, and only then? Imports nothing of ours.

Input: dumps of ``commands`` and ``run-events`` at rest. A *span* begins where a job begins to count, and anew with each
resume and each edit with which a job goes on that had ended; the runs that its versions made count in it, in the order
in which the log has their ends: those of the schedule and of triggers, FAILED one up, SUCCEEDED back to none. Judged is
that a pause by the dispatcher stands on so many, names the run with which there were, and comes once; and that no job
is left active in whose last span there were too many.
"""

import collections
import typing

from . import jobs, owed, policies, runs

MASK = owed.MASK
OWNER = "dispatcher"


class Span(typing.NamedTuple):
    """Versions of a job between two such beginnings. ``limits``: what they said is too many, in their order."""

    versions: list
    limits: list


def check(commands, events, rules=owed.Rules(), healed_at=0, within=None):  # noqa: B008  # a value
    """(complaints, counts). ``within``: so long after the failure, or after ``healed_at``, the pause stands at last."""
    complaints, counts = [], collections.Counter()
    ends = _ends(events)
    for job in jobs.read(commands, events, rules).values():
        actors = {command["offset"]: command["record"]["actor"] for command in job.commands}
        spans = _spans(job.judged.made)
        counts["counts of failures"] += len(spans)
        for span in spans:
            is_last = job.judged.made[-1] in span.versions
            wrong = _of_span(span, ends[job.job_id], actors, counts, is_last, (healed_at, within))
            complaints += [f"{job.job_id}: {each}" for each in wrong]
        strange = [
            version.offset
            for version in job.judged.made
            if _is_pause(version, job.judged.made)
            and actors[version.offset] == OWNER
            and not any(version in span.versions for span in spans)
        ]
        complaints += [f"{job.job_id}: paused by {OWNER} at {offset}, and counts nothing" for offset in strange]
    return complaints, counts


def _ends(events):
    """{job: [(run id, its revision, whether it failed, stamp)]} of runs that count, as the log has their ends."""
    found, made = collections.defaultdict(list), {}
    for told, others in runs.tell_all(events):
        event, run_id = told.event, told.event["run_id"]
        if told.after is None:
            continue
        if event["kind"] in ("PENDING", "HELD"):
            made[run_id] = event["pending"]
            continue
        for ended, run in ((run_id, told.after), *others.items()):  # what ends a node may end its DagRun
            if run["status"] not in runs.FINAL or ended not in made:
                continue
            detail = made.pop(ended)
            if run["status"] in ("SUCCEEDED", "FAILED") and detail["origin"] in ("SCHEDULE", "TRIGGER"):
                failed = run["status"] == "FAILED"
                found[event["job_id"]].append((ended, detail["revision"] & MASK, failed, told.record["timestamp_us"]))
    return found


def _limit(version):
    return 0 if version.status == "DELETED" else policies.timing(version.spec)["pause_after_failures"]


def _is_pause(version, made):
    """Whether it began a pause: a later version may only have changed the paused job."""
    before = made[made.index(version) - 1] if version is not made[0] else None
    return version.status == "PAUSED" and (before is None or before.status != "PAUSED")


def _spans(made):
    spans, before = [], None
    for version in made:
        limit = _limit(version)
        is_resume = version.status == "ACTIVE" and before is not None and before.status in ("PAUSED", "ENDED")
        if limit and (is_resume or before is None or not _limit(before)):
            spans.append(Span([], []))
        if limit:
            spans[-1].versions.append(version)
            spans[-1].limits.append(limit)
        before = version
    return spans


def _of_span(span, ends, actors, counts, is_last, due):
    first, last = span.versions[0].offset, span.versions[-1].offset
    those = [end for end in ends if first <= end[1] <= last]
    tallies = _tallies(those)
    by_owner = [version for version in span.versions if actors[version.offset] == OWNER and version.status == "PAUSED"]
    begun = [version for version in by_owner if _is_pause(version, span.versions)]
    counts["paused after failures"] += len(begun)
    counts["paused after failures with gaps open"] += sum(bool(version.edge.gaps) for version in begun)
    for version in begun:
        run_id = version.note.rpartition(": ")[2]
        limits = span.limits[: span.versions.index(version)]
        first_of_many = next((end[0] for end in those if tallies.get(end[0], 0) >= limits[-1]), "")
        if tallies.get(run_id, 0) < limits[-1]:
            tally = tallies.get(run_id, 0)
            yield f"paused because of {run_id}, failure {tally} in a row of {limits[-1]} that are too many"
        elif len(set(limits)) == 1 and run_id != first_of_many:
            yield f"paused because of {run_id}, and there were too many with {first_of_many}"
    if len(begun) > 1:
        yield f"paused {len(begun)} times without a resume"
    yield from _left_active(span, those, tallies, is_last, due)


def _left_active(span, those, tallies, is_last, due):
    """In the last span a pause must stand at rest, whoever asked. Where the limit changed nobody can say when."""
    too_many = [end for end in those if tallies.get(end[0], 0) >= span.limits[0]]
    if not is_last or len(set(span.limits)) > 1 or not too_many:
        return
    pause = next((version for version in span.versions if version.status in ("PAUSED", "ENDED")), None)
    if pause is None:
        yield f"{span.limits[0]} runs in a row failed, the last {too_many[0][0]}, and it is active"
        return
    healed_at, within = due
    late_us = pause.stamp - max(too_many[0][3], healed_at)
    if within is not None and late_us > within:
        yield f"paused {late_us} us after {too_many[0][0]} had failed"


def _tallies(those):
    """{run: how many had failed in a row with it}."""
    found, count = {}, 0
    for run_id, _, failed, _ in those:
        count = count + 1 if failed else 0
        found[run_id] = count
    return found
