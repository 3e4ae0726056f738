"""Do the books balance: fires owed = runs made + fires skipped, each once. Imports nothing of ours.

Input: ``commands`` and ``events`` as lists of dumped records ``{"partition", "offset", "timestamp_us", "key",
"value"}`` of read_committed dumps. Output: a list of complaints; an empty one says that the books balance. A run pays
no debt that asked for a skip, and a skip none that asked for a run: only a fire that came too late may be skipped in
favour of others, and whether it may, ``misfires.py`` judges.
"""

import collections
import itertools

from . import jobs, policies
from . import owed as judge

MASK = judge.MASK


def balance(commands, events, until, rules=judge.Rules()):  # noqa: B008  # a value
    """(complaints, counts) for every fire up to ``until`` (microseconds), and for every command."""
    complaints, counts = [], collections.Counter()
    for job in jobs.read(commands, events, rules).values():
        complaints += [f"{job.job_id}: {wrong}" for wrong in _answers(job, counts)]
        revisions = [*_revisions(job, rules)]
        complaints += [f"{job.job_id}: {wrong}" for wrong in revisions]
        counts["refused"] += len(job.judged.refused)
        counts["revised with open gaps"] += sum(bool(version.edge.gaps) for version in job.judged.made)
        counts["said again of a revision"] += sum(len(facts) - 1 for facts in job.revised.values())
        if not any(wrong.startswith("REVISED says") for wrong in revisions):
            complaints += _fires(job, until, counts)
            complaints += [f"{job.job_id}: {wrong}" for wrong in _series(job, until, counts)]
    return complaints, counts


def _answers(job, counts):
    """Whoever asked is answered once, a repeat always, and the answer says what had to become of the command."""
    ids = {command["offset"]: command["record"]["command_id"] for command in job.commands}
    for command in job.commands:
        offset, record = command["offset"], command["record"]
        verdict = job.judged.verdicts[offset]
        counts[f"command {verdict.word}"] += 1
        said = [fact.event["answered"] for fact in job.answered.get(offset, ())]
        wanted = 1 if record["answer"] or verdict.word == "repeated" else 0
        if len(said) != wanted:
            yield f"command {offset} ({verdict.word}) has {len(said)} answers, not {wanted}"
            continue
        for answer in said:
            revision = answer["revision"] & MASK if answer["revision"] else -1
            got = (answer["command_id"], answer["verdict"], revision, bool(answer["problem"]))
            meant = (record["command_id"], verdict.word, verdict.stands, verdict.word == "refused")
            if verdict.word == "turned":
                meant = (record["command_id"], answer["verdict"], got[2], answer["verdict"] == "refused")
            if got != meant:
                yield f"command {offset} was answered {got}, not {meant}"
            if verdict.word == "repeated" and answer["first_command_id"] != ids[verdict.first]:
                yield f"command {offset} repeats {ids[verdict.first]}, its answer says otherwise"
            counts["answered"] += 1
    yield from (f"{offset} is answered, and is no command of it" for offset in job.answered.keys() - ids.keys())


def _revisions(job, rules):
    """REVISED names the versions that had to be made, and their edges are such as a timeline can have.

    An edge lies neither ahead of its owner's clock, nor behind what the timeline had passed by then, nor (unless a
    cursor was lost) behind an older one of its job: with a free edge nothing would be owed.
    """
    wanted = {version.offset: version.stamp for version in job.judged.made}
    said = {offset: facts[0].event["revised"]["stamp_at"] for offset, facts in job.revised.items()}
    if wanted != said:
        yield f"REVISED says {said}, the commands say {wanted}"
    edge_before, before_at, ahead = 0, 0, _ahead(job)
    for fact in sorted((fact for facts in job.revised.values() for fact in facts), key=lambda fact: fact.offset):
        revised = fact.event["revised"]
        revision, edge_at = revised["revision"] & MASK, revised["edge_at"]
        if revised != job.revised[revision][0].event["revised"]:
            yield f"two REVISED of {revision} differ"
        if edge_at > max(fact.stamp, revised["stamp_at"]) + rules.skew + ahead:
            yield f"the edge of {revision} lies {edge_at - fact.stamp} us ahead of its record"
        if edge_at < fact.behind - 1:  # inside a due time a job may stand behind those that are decided
            yield f"the edge of {revision} lies {fact.behind - edge_at} us behind what was decided before it"
        is_lower = edge_at < edge_before and not any(before_at <= at <= fact.stamp for at in rules.cursors_lost)
        if is_lower and fact is job.revised[revision][0]:
            yield f"the edge of {revision} lies {edge_before - edge_at} us behind an older one"
        for gap in revised["gaps"]:  # what lies beyond the edge is no gap
            if not gap["from_at"] < gap["to_at"] <= edge_at + 1:
                yield f"the gap of {revision} from {gap['from_at']} to {gap['to_at']} does not end before its edge"
        if edge_at >= edge_before:
            edge_before, before_at = edge_at, fact.stamp


def _ahead(job):
    """How far an edge may lie ahead: of many blocked neighbours the first one's event is for the whole minute."""
    many = (fact.event["skipped"]["fire_count"] > policies.NEIGHBOURS_MAX for fact in job.skipped
            if fact.event["reason"] == policies.CALENDAR)  # fmt: skip
    return judge.MINUTE_US if any(many) else 0


def _fires(job, until, counts):
    """Each fire of the schedule once, and as what it was owed."""
    duties, made = job.duties(until), job.made
    skipped = collections.defaultdict(list)
    complaints = [*_skips(job, duties, until, skipped, counts)]
    for fire in sorted(duties.keys() | made.keys() | skipped.keys()):
        if fire <= until and not (fire not in duties and _is_later(made.get(fire, ()), until)):
            wrong = _wrong_fire(fire, duties.get(fire), made.get(fire, ()), skipped.get(fire, ()))
            complaints += [f"{judge.run_id(job.job_id, fire)}: {wrong}"] if wrong else []
    names = {fact.event["run_id"] for facts in made.values() for fact in facts}
    strange = names - {judge.run_id(job.job_id, fire) for fire in made}
    complaints += [f"{run_id}: is no run id of {job.job_id}" for run_id in sorted(strange)]
    counts["runs"] += sum(len(facts) for facts in made.values())
    counts["owed"] += len(duties)
    counts["due in one instant with another revision's"] += _together(duties)
    counts["skipped behind a late command"] += _behind_the_stamp(duties, job.judged.made)
    return complaints


def _behind_the_stamp(duties, made):
    """How many fires a pause covers that came after the stamp of the command which ended it, or changed the job."""
    ends = {version.offset: following.stamp for version, following in itertools.pairwise(made)}
    paused = [(fire, duty) for fire, duty in duties.items() if duty.version.status == "PAUSED"]
    return sum(fire > ends[duty.version.offset] for fire, duty in paused)


def _together(duties):
    """How many fires are due in the very instant of one that another version owes."""
    if len({duty.version.offset for duty in duties.values()}) < 2:  # nobody else's
        return 0
    at = collections.Counter(duty.version.due(fire) for fire, duty in duties.items())
    return sum(count - 1 for count in at.values())


def _is_later(runs, until):
    """Whether it is due only after ``until``, although its fire time is not."""
    return bool(runs) and (runs[0].event["pending"]["due_at"] or 0) > until


def _wrong_fire(fire, duty, runs, reasons):
    """What is wrong with what became of one fire; "" where nothing is."""
    times = len(runs) + len(reasons)
    if times != (duty is not None):
        return f"owed {int(duty is not None)}, made or skipped {times}"
    if duty is None:
        return ""
    if reasons:
        by_policy = not duty.reason and not duty.apart and reasons[0] in policies.BY_POLICY
        if by_policy and reasons[0] != "expired":  # which asks no calendar
            by_policy = (reasons[0] == policies.CALENDAR) == judge.is_blocked(duty.version, fire)
        is_dropped = not duty.reason and reasons[0] in policies.DROPPED and _may_drop(duty.version.spec, reasons[0])
        if is_dropped and not duty.apart:
            is_dropped = not judge.is_blocked(duty.version, fire)
        is_right = by_policy or is_dropped or reasons[0] == duty.reason
        return "" if is_right else f"skipped ({reasons[0]}), owed was {duty.reason or 'a run'}"
    if not duty.apart and judge.is_blocked(duty.version, fire):
        return "a run was made at a time that its calendars block"
    if duty.reason:
        return f"a run was made, owed was a skip ({duty.reason})"
    revision = runs[0].event["pending"]["revision"] & MASK
    is_right = revision == duty.version.offset
    return "" if is_right else f"made of revision {revision}, owed by {duty.version.offset}"


def _skips(job, duties, until, skipped, counts):
    """Expands the recorded skips into ``skipped``, {fire: reasons}; not what was decided ahead and is due later."""
    seen = set()
    for fact in job.skipped:
        detail, reason = fact.event["skipped"], fact.event["reason"]
        mark = (fact.event["run_id"], detail["from_at"], detail["to_at"], reason)
        if mark in seen:
            yield f"{job.job_id}: SKIPPED written twice: {mark}"
        seen.add(mark)
        covered = judge.expand(detail, job.judged.made)
        if covered is None:
            yield f"{job.job_id}: SKIPPED of {detail['revision'] & MASK}, which is no revision of it"
            continue
        if len(covered) != detail["fire_count"]:
            yield f"{job.job_id}: SKIPPED counts {detail['fire_count']}, covers {len(covered)}"
        counts[f"skipped:{reason}"] += len(covered)
        version = next(each for each in job.judged.made if each.offset == detail["revision"] & MASK)
        for fire in covered:
            if fire not in duties and fire <= until < version.due(fire):
                continue
            skipped[fire].append(reason)
            if fire in duties and duties[fire].version.offset != detail["revision"] & MASK:
                owner = duties[fire].version.offset
                yield f"{job.job_id}: {fire} is skipped as of {detail['revision'] & MASK}, owed by {owner}"


def _may_drop(spec, reason):
    return bool(policies.timing(spec)["max_runs"]) if reason == policies.MAX_RUNS else is_limited(spec)


def is_limited(spec):
    """Whether an overlap policy or a limit decides its runs."""
    said = policies.beside(spec)
    return said["overlap"] != "allow" or bool(said["max_concurrent"]) or bool(said["key"])


def _revision_of(event):
    return (event["pending"] or event["skipped"])["revision"] & MASK


def _series(job, until, counts):
    """One run for each trigger, of the revision that stood, and one for each redrive."""
    for trigger in job.judged.triggers:
        if trigger.stamp > until:
            continue
        hits = job.triggered(trigger)
        if len(hits) != 1 or len(job.series[hits[0]]) != 1:
            yield f"trigger at offset {trigger.offset} made {hits}"
        elif _revision_of(job.series[hits[0]][0].event) != trigger.stands.offset:
            yield f"trigger at offset {trigger.offset} made a run of another revision than {trigger.stands.offset}"
        counts["triggered"] += len(hits)
    for offset in job.judged.redrives:
        hits = job.redriven(offset)
        if len(hits) != 1 or len(job.series[hits[0]]) != 1:
            yield f"redrive at offset {offset} made {hits}"
        counts["redriven"] += len(hits)
    asked = len(job.judged.triggers) + len(job.judged.redrives) + len(job.judged.gathered)
    if sum(len(facts) for facts in job.series.values()) > asked:
        yield "more runs of a series than triggers and redrives"
