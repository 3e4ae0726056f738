"""What has to come together within a window: which runs it had to make, by the commands of the log alone.

Imports nothing of ours. A job whose ``on`` has ``within`` makes no run of each end, nor of each record (what is said of
ends here holds for both; whether a command tells the truth of its record is for ``sources.py``). ``all``: of each
condition the newest end counts, for so long as it is younger than the window; with the last one the run is made.
``any``: the first end opens a window, and the first command at or after its end makes the run. Told is every window
that ends otherwise: it was over before all had come, or the job was changed. Instants are microseconds.
"""

import json
import typing

AHEAD = 60_000_000
SETTLED_US = 60_000_000
COUNTED = {"succeeded": ("succeeded",), "failed": ("failed",), "any": ("succeeded", "failed", "cancelled")}
WINDOW = "window"


class Told(typing.NamedTuple):
    """A command that was obeyed and that a window hears of: ``record``, appended ``at``, while ``stands`` stood."""

    at: int
    offset: int
    stands: typing.Any
    record: dict


class Window(typing.NamedTuple):
    """One that is open. ``opener``: (at, offset); ``newest``: place of a condition -> (at, offset, source, hops)."""

    opener: tuple
    newest: dict
    hops: int


class Due(typing.NamedTuple):
    """What a command had to make: a run ``by`` this end, after so many ``hops``; or by "" a word about its window."""

    by: str
    hops: int


def on_of(version):
    """(all?, conditions, within) of what a version waits for; None: nothing."""
    text = "" if version is None or version.status == "DELETED" else version.spec["on"]
    if not text:
        return None
    said = json.loads(text)
    return "all" in said, tuple(map(condition_of, said.get("all", said.get("any")))), said.get("within", 0)


def condition_of(stored):
    """(job, ended), or of records ("records of <topic>", the headers as JSON)."""
    if isinstance(stored, dict):
        return f"records of {stored['topic']}", json.dumps(stored["headers"])
    return tuple(stored)


def places_met(made, record):
    """The places of the conditions that the end meets which this TRIGGER tells, as the last of ``made`` stands."""
    on = on_of(made[-1])
    conditions = on[1] if on is not None else ()
    if "@" not in record["triggered_by"]:
        return _places_of_record(conditions, record)
    name = record["triggered_by"].partition("@")[0].partition(":")[2]
    return {
        place
        for place, (job, ended) in enumerate(conditions)
        if job == name and record["ended"] in COUNTED[ended] and record["ended_at"] > _since(made, (job, ended))
    }


def _places_of_record(conditions, record):
    topic = f"records of {record['triggered_by'].partition('/')[0]}"
    told = {header["name"]: header["text"] for header in record["headers"]}
    return {
        place
        for place, (source, wanted) in enumerate(conditions)
        if source == topic and dict(json.loads(wanted)).items() <= told.items()
    }


def _since(made, condition):
    """From when on the condition has stood without a break."""
    since = None
    for version in reversed(made):
        on = on_of(version)
        if on is None or condition not in on[1]:
            break
        since = version.stamp
    return since


def is_gathered(record, standing):
    """Whether what this command tells has its part in a window."""
    on = on_of(standing)
    return record["kind"] == "TRIGGER" and bool(record["triggered_by"]) and on is not None and on[2] > 0


def is_left_over(made, record, standing):
    """Whether this command tells, for a window, what the job as it stands does not wait for."""
    is_for_window = is_gathered(record, standing) or (record["kind"] == "TRIGGER" and record["gathers"])
    return bool(record["triggered_by"]) and is_for_window and not places_met(made, record)


def wrong_telling(job, told):
    """A word where no version of the job was such that whoever told this could believe of a window what it says."""
    windows = {on[2] > 0 for version in job.judged.made if (on := on_of(version)) is not None}
    if told["gathers"] not in windows:
        yield f"{job.job_id} was told of {told['triggered_by']} as if it had {'a' if told['gathers'] else 'no'} window"


def expected(job):
    """({offset: Due}, the window that is open in the end, with its length)."""
    due, window, on, made = {}, None, None, []
    versions = {version.offset: version for version in job.judged.made}
    for offset in sorted({*versions, *job.judged.gathered}):
        if offset in versions:
            made.append(versions[offset])
            if on_of(versions[offset]) != on:
                if window is not None:
                    due[window.opener[1]] = Due("", 0)
                on, window = on_of(versions[offset]), None
            continue
        told = job.judged.gathered[offset]
        if told.record["kind"] == "LAPSE":
            is_its_own = window is not None and window.opener[1] == told.record["to_revision"] & (1 << 48) - 1
            if is_its_own and told.at >= window.opener[0] + on[2]:  # one that came too early ends nothing
                window = _ended(due, window, on, told, told.at)
        else:
            window = _come(due, window, on, told, places_met(made, told.record))
    return due, window, on[2] if on else 0


def _come(due, window, on, told, places):
    end = (told.at, told.offset, told.record["triggered_by"], told.record["hops"])
    if not on[0]:
        hops = max(end[3], window.hops if window else 0)
        if window is not None and told.at >= window.opener[0] + on[2]:
            due[told.offset] = Due(end[2], hops)
            return None
        return Window(window.opener if window else end[:2], {0: end}, hops)
    if window is not None and told.at >= window.opener[0] + on[2]:
        window = _ended(due, window, on, told, told.at)
    newest = (window.newest if window else {}) | dict.fromkeys(places, end)
    if len(newest) == len(on[1]):
        due[told.offset] = Due(end[2], max(each[3] for each in newest.values()))
        return None
    return Window(window.opener if window else end[:2], newest, 0)


def _ended(due, window, on, told, at):
    """The time of the window is over. Answers the one that begins with what still counts."""
    if not on[0]:
        due[told.offset] = Due(window.newest[0][2], window.hops)
        return None
    due[window.opener[1]] = Due("", 0)
    kept = {place: end for place, end in window.newest.items() if end[0] + on[2] > at}
    return Window(min(end[:2] for end in kept.values()), kept, 0) if kept else None


def check(job, until, counts):
    """Complaints about one job; {run id: the end that started it}. ``until``: when all was at rest."""
    complaints, started = [], {}
    due, window, within = expected(job)
    for offset, told in job.judged.gathered.items():
        facts = [fact for run_id in job.redriven(offset) for fact in job.series[run_id]]
        what = f"{told.record['kind']} at offset {offset} of {job.job_id}"
        wanted = due.get(offset)
        if len(facts) != (wanted is not None):
            complaints.append(f"{what} made {[fact.event['run_id'] for fact in facts]}, and had to make {wanted}")
        elif wanted is not None and wanted.by:
            started[facts[0].event["run_id"]] = wanted.by
            counts["runs of windows"] += 1
            counts["runs of windows by records"] += "@" not in wanted.by
            complaints += [f"{what}: {wrong}" for wrong in _wrong_run(job, facts[0].event, wanted, told)]
        elif wanted is not None:
            counts["windows that lapsed"] += 1
            if (facts[0].event["kind"], facts[0].event["reason"]) != ("SKIPPED", WINDOW):
                complaints.append(f"{what}: its window was over, and it made {facts[0].event['run_id']}")
    if window is not None and window.opener[0] + within < until - SETTLED_US:
        complaints.append(f"a window of {job.job_id} was over at {window.opener[0] + within}, and nobody says so")
    return complaints, started


def _wrong_run(job, event, wanted, told):
    is_paused = job.is_paused(told.stands, told.at)
    if (event["kind"] == "SKIPPED" and event["reason"] == "paused") != is_paused:
        yield f"{event['run_id']} is {event['kind']}, and its job was {told.stands.status}"
    pending = event["pending"]
    if pending is not None and (pending["triggered_by"], pending["hops"]) != (wanted.by, wanted.hops):
        yield f"its run says {pending['triggered_by']} after {pending['hops']}, and {wanted} was meant"
