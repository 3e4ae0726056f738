"""What whoever asked was answered about the run that came of it. Imports nothing of ours.

Input: the jobs as ``jobs.read`` has them. That everybody is answered, with the right verdict and revision, ``books.py``
says. An answer names the run that its command made, of a backfill its id, and else nothing; a repeat's that of the
first. It says why the run waits or was dropped: that is what the log said of it first.
"""

from . import owed

PROBLEMS = ("conflict", "not-found", "invalid", "key-reused", "busy")
MAKE_RUNS = ("TRIGGER", "REDRIVE", "RERUN")


def check(found, counts):
    """Complaints about every answer of these jobs."""
    complaints = []
    for job in found.values():
        records = {command["offset"]: command["record"] for command in job.commands}
        made = _made(job)
        for offset, facts in sorted(job.answered.items()):
            verdict = job.judged.verdicts.get(offset)
            if verdict is None:
                continue  # of no command: the books complain
            for fact in facts:
                said = fact.event["answered"]
                wrong = [*_wrong(job, offset, records, verdict, made, said)]
                complaints += [f"{job.job_id}: command {offset} ({said['verdict']}) {each}" for each in wrong]
                counts["answers that name a run"] += bool(said["run_id"])
                counts["answers of runs that wait"] += bool(said["held"])
                counts["answers of runs that were dropped"] += bool(said["skipped"])
    return complaints


def _made(job):
    """{offset of a command: the first word of the log on the run that it made}."""
    return {int(run_id.partition("~")[2]) & owed.MASK: facts[0].event for run_id, facts in job.series.items() if facts}


def _wrong(job, offset, records, verdict, made, said):
    first = verdict.first if verdict.word == "repeated" else offset
    is_refused = said["verdict"] == "refused"
    kind = records[first]["kind"]
    is_gathered = first in job.judged.gathered
    wanted = "" if is_refused or is_gathered else _run_of(job, first, records[first], made)
    if said["run_id"] != wanted and not is_gathered:
        yield f"is answered with the run {said['run_id'] or 'none'}, it made {wanted or 'none'}"
    event = made.get(offset) if kind in MAKE_RUNS and not is_refused and verdict.word != "repeated" else None
    words = (_word(event, "HELD"), _word(event, "SKIPPED"))
    if (said["held"], said["skipped"]) != words:
        yield f"is told (held, dropped) {(said['held'], said['skipped'])}, and its run is {words}"
    if is_refused and (said["problem"] not in PROBLEMS or not said["message"]):
        yield f"is refused for {said['problem']!r}: {said['message']!r}"
    if not is_refused and any(said[part] for part in ("message", "pointer", "hint")):
        yield f"is told what is wrong: {said['message']!r}"
    if is_refused and bool(said["first_command_id"]) != (said["problem"] == "key-reused"):
        yield f"is refused for {said['problem']}, and names {said['first_command_id']!r} as the first"


def _run_of(job, offset, record, made):
    """The run, or the backfill, that a command made or spoke of."""
    if record["kind"] in MAKE_RUNS:
        return made[offset]["run_id"] if offset in made else ""
    if record["kind"] == "BACKFILL":
        asked = next((fact.event["backfilled"]["number"] for fact in job.told
                      if fact.event["backfilled"]["number"] & owed.MASK == offset), None)  # fmt: skip
        return f"{job.job_id}~{asked}" if asked is not None else ""
    return record["backfill_id"] if record["kind"] in owed.ABOUT_BACKFILLS else ""


def _word(event, kind):
    return event["reason"] if event is not None and event["kind"] == kind else ""
