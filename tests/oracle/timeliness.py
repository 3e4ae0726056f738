"""Once nothing goes wrong any more, how late is what is due decided? Imports nothing of ours.

Input: dumps of ``commands`` and ``run-events``, whose times must be of one clock; ``healed_at``, from when on nothing
went wrong. Judged is the decision, the record of the run or of the skip in its favour: what a run waits for afterwards
depends on who has room for it. That nothing is left undecided, ``books.py`` says.
"""

import collections
import typing

from . import jobs, owed


class Bounds(typing.NamedTuple):
    """In microseconds: ``within``, from the heal to the end of the backlog; ``settled``, from the heal on, after which
    what falls due is at most ``late`` late."""

    within: int
    settled: int
    late: int


def check(commands, events, until, healed_at, bounds, rules=owed.Rules()):  # noqa: B008  # a value
    """(complaints, counts) for what was due up to ``until``."""
    complaints, counts = [], collections.Counter()
    for job in jobs.read(commands, events, rules).values():
        decided = {fire: facts[0].stamp for fire, facts in job.made.items()}
        for fact in job.skipped:
            decided |= dict.fromkeys(owed.expand(fact.event["skipped"], job.judged.made) or (), fact.stamp)
        decided |= {fire: fact.stamp for fire, fact in job.dropped.items()}
        for fire, duty in job.duties(until).items():
            if duty.reason or fire not in decided:
                continue  # what ends with a pause or a delete is decided by that command
            due_at = max(duty.version.due(fire), duty.version.stamp)
            is_settled = due_at >= healed_at + bounds.settled
            late_us = decided[fire] - max(due_at, healed_at)
            counts["due after the heal"] += is_settled
            if late_us > (bounds.late if is_settled else bounds.within):
                after_s = (due_at - healed_at) / 1_000_000
                complaints.append(
                    f"{owed.run_id(job.job_id, fire)}: decided {late_us} us late, {after_s:.1f} s after the heal"
                )
    return complaints, counts
