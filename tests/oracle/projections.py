"""What tables and letters must hold of attempts and of runs that were given up, by the log. Imports nothing of ours.

Input: a Chronicle; rows and letters as {key: what they say}, taken when nothing moved any more.
"""

import collections

from .records import decode

MASK = (1 << 48) - 1


def attempts(chronicle):
    """{(run id, attempt): (outcome, worker, token)} of every attempt that another one was promised after."""
    wanted = {}
    for run_id, promised in chronicle.retries:
        key = (run_id, promised - 1)
        end, claim = chronicle.ends.get(key), chronicle.claims.get(key)
        if end is not None and claim is not None:
            wanted[key] = (end.kind.removeprefix("ATTEMPT_"), claim.worker, claim.token)
    return wanted


def failures(chronicle):
    """{run id: (reason, error class, attempts)} of every run that was given up."""
    wanted = {}
    for run_id, (_, reason) in chronicle.verdicts.items():
        if chronicle.runs[run_id]["nodes"] is not None:
            continue  # a DagRun has no work that could be redriven
        last = chronicle.runs[run_id]["attempt"]
        end = chronicle.ends.get((run_id, last))
        wanted[run_id] = (reason, (end.error_class if end is not None else "") or reason, last)
    return wanted


def differ(what, wanted, found):
    """Complaints. ``found``: (key, what it says) of every row, repeats and all."""
    rows = dict(found)
    complaints = [
        f"{what} {key}: its row says {rows.get(key)}, the log {wanted.get(key)}"
        for key in sorted(rows.keys() | wanted.keys())
        if rows.get(key) != wanted.get(key)
    ]
    times = collections.Counter(key for key, _ in found)
    return complaints + [f"{what} {key}: {n} rows" for key, n in sorted(times.items()) if n > 1]


def letters(chronicle, dumped, work):
    """(complaints, counts): each letter says why, and holds the run's work record as it stands in its topic.

    ``work``: dumped work records, each with its ``topic``. A letter whose work record is gone says so in its reason.
    """
    stood = {(record["topic"], record["partition"], record["offset"]): record for record in work}
    wanted, complaints, counts = failures(chronicle), [], collections.Counter()
    for record in dumped:
        letter = decode(record["value"])[1]
        run_id, kept = letter["run_id"], letter["work"]
        if run_id not in wanted:
            continue  # that is another complaint (rest.letters)
        reason, _, last = wanted[run_id]
        said = (letter["reason"].partition(";")[0], letter["attempts"], record["key"])
        meant = (reason, last, chronicle.runs[run_id]["job_id"].encode())
        if said != meant:
            complaints.append(f"{run_id}: its letter says {said}, the log {meant}")
        if kept is None:
            counts["without work"] += 1
            if reason != "work-record-gone" and ";" not in letter["reason"]:
                complaints.append(f"{run_id}: its letter holds no work record and does not say why")
            continue
        counts["with work"] += 1
        place = (kept["topic"], kept["partition"], kept["offset"])
        source = stood.get(place)
        if decode(kept["value"])[1]["run_id"] != run_id:
            complaints.append(f"{run_id}: its letter holds the work of another run")
        elif source is not None and (source["key"], source["value"]) != (kept["key"], kept["value"]):
            complaints.append(f"{run_id}: its letter holds another record than stands at {place}")
        counts["held against its source"] += source is not None
    return complaints, counts
