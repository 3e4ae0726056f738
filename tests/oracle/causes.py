"""What each run says that started it: in every PENDING and HELD, and in its work. Imports nothing of ours.

Input: the jobs as ``jobs.read`` has them, dumped ``run-events`` and work records. A run that the end of another has
started names that one, and how many stand before it; the run of a window the last that came, and what a record has
started names the record. All others, and the nodes of a Dag, name nothing. A DagRun has no work: its events alone tell.
"""

from . import gathering, owed
from .records import decode

NOTHING = ("", 0)


def check(found, events, work, ends, counts):
    """Complaints. ``ends``: by run id how it ended, if it did (``triggers.End``)."""
    meant = {run_id: cause for job in found.values() for run_id, cause in _of_series(job).items()}
    complaints, dag_runs = [], {}
    for record in events:
        _, event = decode(record["value"])
        if event["pending"] is None or event["kind"] not in ("PENDING", "HELD"):
            continue
        run_id, detail = event["run_id"], event["pending"]
        said, wanted = (detail["triggered_by"], detail["hops"]), meant.get(run_id, NOTHING)
        if said != wanted:
            complaints.append(f"{run_id}: its {event['kind']} says {_words(*said)}, it was {_words(*wanted)}")
        if detail["dag"] is not None and wanted != NOTHING:
            dag_runs[run_id] = wanted[0]
    for record in work:
        body = decode(record["value"])[1]
        said, wanted = body["triggered_by"], meant.get(body["run_id"], NOTHING)[0]
        if said != wanted and not body["redrives"]:
            complaints.append(
                f"{body['run_id']}: its work says that {said or 'no end'} started it, it was {wanted or 'none'}"
            )
    for run_id, source in dag_runs.items():
        counts["DagRuns started by an end" if "@" in source else "DagRuns started by a record"] += 1
        counts["DagRuns started by others that ended"] += run_id in ends
        counts["DagRuns of windows"] += _offset_of(run_id) in found[_job_of(run_id)].judged.gathered
    return complaints


def _of_series(job):
    """{run id: (what started it, how many stand before it)} of what triggers made."""
    given = {command["offset"]: command["record"] for command in job.commands}
    due, found = gathering.expected(job)[0], {}
    for run_id in job.series:
        offset = _offset_of(run_id)
        record = given.get(offset)
        if offset in job.judged.gathered:
            found[run_id] = tuple(due.get(offset, NOTHING))
        elif record is not None and record["kind"] == "TRIGGER":
            found[run_id] = record["triggered_by"], record["hops"]
    return found


def _job_of(run_id):
    return run_id.partition("@")[0]


def _offset_of(run_id):
    """Of the command that made a run of a series."""
    return int(run_id.partition("~")[2]) & owed.MASK


def _words(source, hops):
    return f"{source or 'nothing'} as number {hops}" if source or hops else "nothing"
