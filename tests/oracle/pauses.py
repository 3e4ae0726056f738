"""Did pauses end when they said that they would, and did rollbacks bring back what they named? Imports nothing of ours.

Input: dumps of ``commands`` and ``run-events``; ``healed_at``, from when on nothing went wrong; ``within``, how long
after that (or after its time, if that is later) a pause may last. That its end counts at its very instant, and that
the fires are owed accordingly, ``books.py`` says.
"""

import collections

from . import jobs, owed


def check(commands, events, until, healed_at, within, rules=owed.Rules()):  # noqa: B008  # a value
    """(complaints, counts) of every version that is paused until an instant."""
    complaints, counts = [], collections.Counter()
    for job in jobs.read(commands, events, rules).values():
        made = job.judged.made
        for version, following in zip(made, [*made[1:], None], strict=False):
            if version.status != "PAUSED" or not version.resume_at:
                continue
            end = following.stamp if following else until
            late_us = end - max(version.resume_at, healed_at)
            if late_us > within:
                complaints.append(f"{job.job_id}: paused until {version.resume_at}, and {late_us} us longer")
        records = {command["offset"]: command["record"] for command in job.commands}
        for version in made:
            record = records[version.offset]
            if record["kind"] == "RESUME" and record["resume_at"]:
                counts["pauses ended in time" if version.stamp < record["resume_at"] else "pauses ended late"] += 1
            counts["rolled back"] += record["kind"] == "ROLLBACK"
            counts["calendars brought"] += record["kind"] == "CALENDAR"
    return complaints, counts
