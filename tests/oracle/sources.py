"""Did every record on a topic start what waits for such a record, once, and nothing else? Imports nothing of ours.

Input: dumps of ``commands`` and ``run-events``, and by topic the records of somebody else, whose values say in JSON
what their header ``type`` says. Such a TRIGGER names a record by ``<topic>/<partition>/<offset>``, and has its value as
the payload; what waited for what follows from the commands of each job. Which runs
windows make is for ``gathering.py``: here, that each record has its part once, and is told with its own headers.
"""

import collections
import json

from . import gathering, jobs, owed, triggers


def is_record(source):
    """Whether a TRIGGER's source is a record, and no run."""
    return bool(source) and "@" not in source


def check(commands, events, topics, rules=owed.Rules()):  # noqa: B008  # a value
    """(complaints, counts)."""
    found, counts, complaints = jobs.read(commands, events, rules), collections.Counter(), []
    sold = {
        f"{topic}/{record['partition']}/{record['offset']}": (topic, record)
        for topic, records in topics.items()
        for record in records
    }
    for job_id, job in found.items():
        stood, asked = triggers.stood_for(job), _asked(job)
        for source, offsets in asked.items():
            counts["records told again"] += len(offsets) > 1
            complaints += _wrong(job, source, offsets, sold, stood)
            counts["started by a record"] += 1
        for source, (topic, record) in sold.items():
            if source not in asked and any(_waited(each, topic, record) for each in stood):
                complaints.append(f"{source} did not start {job_id}")
    return complaints, counts


def _asked(job):
    asked = collections.defaultdict(dict)
    for command in job.commands:
        if is_record(command["record"]["triggered_by"]):
            asked[command["record"]["triggered_by"]][command["offset"]] = command["record"]
    return asked


def _wrong(job, source, offsets, sold, stood):
    if source not in sold:
        yield f"{job.job_id} was started by {source}, and there is no such record"
        return
    topic, record = sold[source]
    if not any(_passes(each, topic, record) for each in stood):
        yield f"{job.job_id} was started by {source}, and never waited for that"
    if {told["payload"] for told in offsets.values()} != {record["value"]}:
        yield f"{job.job_id} was started by {source} with another payload than its value"
    for told in offsets.values():
        yield from gathering.wrong_telling(job, told)
        said = {header["name"]: header["text"] for header in told["headers"]}
        if not said.items() <= {"type": json.loads(record["value"])["type"]}.items():
            yield f"{job.job_id} was told of {source} with headers that it has not: {said}"
        if any(_waited(each, topic, record) and not _asks(each) <= said.items() for each in stood):
            yield f"{job.job_id} was told of {source} without the headers that it asks for: {said}"
    words = [job.judged.verdicts[offset].word for offset in offsets]
    made = [run_id for offset in offsets for run_id in job.redriven(offset)]
    if words.count("applied") > 1:
        yield f"{source} was to have its part in {job.job_id} once, and has it in {made} ({words})"
    elif job.judged.gathered.keys().isdisjoint(offsets) and _count(job, made) != words.count("applied"):
        yield f"{source} was to start one run of {job.job_id}, and started {made} ({words})"


def _count(job, made):
    return sum(len(job.series[run_id]) for run_id in made)


def _passes(condition, topic, record):
    if condition.job != f"records of {topic}":
        return False
    return _asks(condition) <= {"type": json.loads(record["value"])["type"]}.items()


def _asks(condition):
    return dict(json.loads(condition.ended)).items()


def _waited(condition, topic, record):
    """It was known before the record was written, and stands still."""
    is_told = condition.known_at is not None and condition.known_at < record["timestamp_us"]
    return is_told and condition.until is None and _passes(condition, topic, record)
