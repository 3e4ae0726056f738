"""Fires that came too late: was the policy ``latest`` kept (time.md §10)? Imports nothing of ours.

Input: dumps of ``commands`` and ``run-events``. Once a fire is later than the grace, by the clock of its dispatcher at
the decision, what its job owes by then is decided together: the newest fire runs, the others are SKIPPED (coalesced)
in its favour. Within the grace every fire runs. That each fire is decided once, and as it was owed, ``books.py`` says.
"""

import bisect
import collections

from . import jobs, owed

COALESCED = "coalesced"


def check(commands, events, until, rules=owed.Rules()):  # noqa: B008  # a value
    """(complaints, counts) for what was due up to ``until`` (microseconds)."""
    complaints, counts = [], collections.Counter()
    stamps = collections.defaultdict(list)
    for record in commands:
        stamps[record["partition"]].append((record["offset"], record["timestamp_us"]))
    for job in jobs.read(commands, events, rules).values():
        late = [fact for fact in job.skipped if fact.event["reason"] == COALESCED]
        for fact in late:
            complaints += [f"{fact.event['run_id']}: {wrong}" for wrong in _wrong_skip(job, fact, until, rules)]
        instead = {fact.event["skipped"]["run_instead"] for fact in late}
        counts["misfires"] += len(instead)
        duties = job.duties(until)
        fires = sorted(fire for fire, duty in duties.items() if not duty.reason)
        for fire, facts in job.made.items():
            at = facts[0].event["at"]
            is_late = fire < at - rules.grace or facts[0].event["run_id"] in instead
            if fire in duties and is_late and not duties[fire].version.spec["once"]:
                known_at = _known_until(facts[0], stamps[facts[0].partition], at)
                newer = bisect.bisect_right(fires, known_at) - bisect.bisect_right(fires, fire)
                if newer > 0:
                    named = facts[0].event["run_id"]
                    complaints.append(f"{named}: made {at - fire} us late, and {newer} newer fires were due by then")
    return complaints, counts


def _wrong_skip(job, fact, until, rules):
    """What is wrong with fires that were skipped in favour of a newer one."""
    detail, at = fact.event["skipped"], fact.event["at"]
    first, named = detail["due_at"], detail["run_instead"]
    if first >= at - rules.grace:
        yield f"skipped (coalesced) {at - first} us after {first}, which is within the grace"
    if first > detail["from_at"]:
        yield f"skipped (coalesced) from {detail['from_at']} on, decided from {first} on"
    instead = owed.instant_of(named) if named else 0
    runs = job.made.get(instead, ())
    if len(runs) != 1 or runs[0].event["run_id"] != named or runs[0].event["at"] != at or instead <= detail["to_at"]:
        yield f"skipped (coalesced) in favour of {named!r}, which is no newer run of that decision"
        return
    kept = [fire for fire in job.made if first <= fire < instead and fire <= until]
    if kept:
        yield f"skipped (coalesced) in favour of {named}, and {len(kept)} before that run were made as well"


def _known_until(fact, stamps, at):
    """Up to when everything due was to be decided together: no fire goes before a command that waits (design §6)."""
    waiting = [stamp for offset, stamp in stamps if offset > fact.applied]
    return min([at, *(stamp - 1 for stamp in waiting)])
