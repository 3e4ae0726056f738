"""What became of fires that were missed: just what their job's policy says. Imports nothing of ours.

Input: dumps of ``commands`` and ``run-events``. Once a fire is due longer ago than the grace, by the clock of its
dispatcher at the decision, what its job owes by then is decided together (``policies.outcomes``); in the catch-up of a
gap, whose end each of its records names, what the job owes up to that end. Within the grace every fire runs. That each
fire is decided once, and as it was owed, ``books.py`` says.
"""

import collections
import typing

from . import jobs, owed, policies


class Decided(typing.NamedTuple):
    """What became of one fire: ``reason`` "" is a run. ``fact``: the record that says so."""

    fact: jobs.Fact
    reason: str


def check(commands, events, until, rules=owed.Rules()):  # noqa: B008  # a value
    """(complaints, counts) for what was due up to ``until`` (microseconds)."""
    complaints, counts = [], collections.Counter()
    stamps = collections.defaultdict(list)
    for record in commands:
        stamps[record["partition"]].append((record["offset"], record["timestamp_us"]))
    for job in jobs.read(commands, events, rules).values():
        duties = {fire: duty for fire, duty in job.duties(until).items() if not duty.reason and not duty.apart}
        decided = _decided(job)
        for (at, _, gap_to), fires in _together(decided, duties).items():
            due = {fire: duties[fire].version.due(fire) for fire in fires}
            blocked = {fire for fire in fires if owed.is_blocked(duties[fire].version, fire)}
            ahead = {fire for fire in fires if _is_ahead(decided[fire])}
            early = [fire for fire in fires if due[fire] > at + rules.skew + (owed.MINUTE_US if fire in ahead else 0)]
            beyond = [fire for fire in fires if gap_to and due[fire] >= gap_to]
            complaints += [f"{owed.run_id(job.job_id, fire)}: due beyond the gap that decided it" for fire in beyond]
            counts["decided in gaps"] += bool(gap_to)
            complaints += [f"{owed.run_id(job.job_id, fire)}: decided {due[fire] - at} us early" for fire in early]
            if min(due.values()) >= at - rules.grace:
                wanted = policies.outcomes(due, {}, min(due.values()), rules.grace, blocked)
            else:
                counts["misfires"] += 1
                said = policies.timing(duties[max(fires)].version.spec)
                counts[f"misfires by {said['misfire']}"] += 1
                wanted = policies.outcomes(due, said, at, rules.grace, blocked)
                complaints += [*_left_out(job, fires, due, duties, decided, stamps)]
                complaints += [*_out_of_order(job, fires, decided, said)]
            counts["blocked"] += len(blocked)
            wrong = [(fire, wanted[fire]) for fire in fires if decided[fire].reason != wanted[fire]]
            complaints += [_unlike(job, fire, decided[fire], reason, at - due[fire]) for fire, reason in wrong]
        complaints += [*_instead(job), *_too_soon(job, rules)]
    return complaints, counts


def _decided(job):
    """{fire: Decided} by the timeline and its catch-ups; the first record counts."""
    found = {fire: Decided(facts[0], "") for fire, facts in job.made.items()}
    found |= {fire: Decided(fact, "") for fire, fact in job.dropped.items()}  # it had to run, as far as misfires go
    for fact in job.skipped:
        if fact.event["reason"] in policies.BY_POLICY:
            covered = owed.expand(fact.event["skipped"], job.judged.made) or ()
            found = {fire: Decided(fact, fact.event["reason"]) for fire in covered} | found
    return found


def _is_ahead(decided):
    """Whether it was decided with the first of many neighbours that a calendar blocks."""
    detail = decided.fact.event["skipped"]
    return decided.reason == policies.CALENDAR and detail["fire_count"] > policies.NEIGHBOURS_MAX


def _together(decided, duties):
    """{(when, under which commands, the end of its gap or 0): fires}: what was decided in one step."""
    found = collections.defaultdict(list)
    for fire in sorted(decided.keys() & duties.keys()):
        fact = decided[fire].fact
        found[fact.event["at"], fact.applied, gap_of(fact.event)].append(fire)
    return found


def gap_of(event):
    """The end of the gap in which a fire was decided; 0: in none."""
    return (event["pending"] or event["skipped"])["gap_to_at"]


def _unlike(job, fire, decided, reason, late):
    said, meant = (f"skipped ({word})" if word else "made" for word in (decided.reason, reason))
    more = ", which is within the grace" if not reason else ""
    return f"{owed.run_id(job.job_id, fire)}: {said} {late} us late{more}; by its policy it had to be {meant}"


def _left_out(job, fires, due, duties, decided, stamps):
    """What was owed by then and is not among what was decided then."""
    fact = decided[fires[0]].fact
    at, first = fact.event["at"], min(due.values())
    known_at = _known_until(fact, stamps[fact.partition], at)
    gap_to = gap_of(fact.event)
    known_at = min(known_at, gap_to - 1) if gap_to else known_at
    for fire, duty in duties.items():
        if fire not in due and first < duty.version.due(fire) <= known_at:
            later = fire not in decided or decided[fire].fact.offset > fact.offset
            if later:
                yield (
                    f"{owed.run_id(job.job_id, fires[0])}: decided at {at}, and newer fires were due by then: "
                    f"{owed.run_id(job.job_id, fire)} was not decided with it"
                )


def _out_of_order(job, fires, decided, said):
    """Runs of one catch-up are handed out in the order that the job asks for."""
    runs = [fire for fire in fires if not decided[fire].reason]
    told = sorted(runs, key=lambda fire: decided[fire].fact.offset)
    meant = sorted(runs, reverse=said["catch_up_order"] == "newest")
    if told != meant:
        yield f"{job.job_id}: a catch-up of {len(runs)} runs was not handed out {said['catch_up_order']} first"


def _too_soon(job, rules):
    """The fire that a decision began with, whatever became of it, was due before the grace."""
    for fact in job.skipped:
        late = fact.event["at"] - fact.event["skipped"]["due_at"]
        if fact.event["reason"] in policies.MISSED and late <= rules.grace:
            reason = fact.event["reason"]
            yield f"{fact.event['run_id']}: skipped ({reason}) {late} us after it was due, which is within the grace"


def _instead(job):
    """A coalesced fire names the run that stands for it: the newest one of the same decision."""
    for fact in job.skipped:
        detail, named = fact.event["skipped"], fact.event["skipped"]["run_instead"]
        if fact.event["reason"] != "coalesced":
            if named:
                yield f"{fact.event['run_id']}: skipped ({fact.event['reason']}) in favour of {named}"
            continue
        instead = owed.instant_of(named) if named else 0
        runs = job.made.get(instead) or [fact for fire, fact in job.dropped.items() if fire == instead]
        is_right = len(runs) == 1 and runs[0].event["run_id"] == named and runs[0].event["at"] == fact.event["at"]
        if not is_right or instead <= detail["to_at"]:
            yield (
                f"{fact.event['run_id']}: skipped (coalesced) in favour of {named!r}, "
                f"which is no newer run of that decision"
            )


def _known_until(fact, stamps, at):
    """Up to when everything due was to be decided together: no fire goes before a command that waits (design §6)."""
    waiting = [stamp for offset, stamp in stamps if offset > fact.applied]
    return min([at, *(stamp - 1 for stamp in waiting)])
