"""The product's ledger over the dumps of a play, held against the books: it must find what they find, and no more.

The books (``tests/oracle/books.py``) are the judge. They share nothing with the ledger: fires by brute force, versions
by the commands. So a job of which one complains and the other does not is a violation, whoever is right.
"""

from __future__ import annotations

from collections import Counter

from tests.oracle import backfills, books
from tests.oracle import jobs as oracle_jobs
from waterclock.ledger.balance import judge_job
from waterclock.ledger.facts import Facts, JobFacts
from waterclock.ledger.sums import Span, Sums
from waterclock.model.ids import ordinal
from waterclock.wire.codec import decode_event

from .delay_checkers import delays_found
from .dumps import Dumps
from .world import GENERATION

_NAMES_MAX = 3


def the_ledger_agrees_with_the_books(dumps: Dumps, counts: Counter[str]) -> list[str]:
    """I1, I12: owed = runs + skipped, by the product's own arithmetic, job by job as the judge has it."""
    verdicts = judged_by_ledger(dumps)
    said, _ = backfills.check(dumps.commands, dumps.events, dumps.rules)
    past = {each.partition(": ")[0].rpartition("~")[0] for each in said}
    chained, _ = delays_found(dumps)
    # The product's ledger has the clock alone, and cannot know that everybody slept while it went on.
    by_clock = delays_found(dumps, knows_sleep=False)[0] if dumps.asleep_us else chained
    complaints = []
    for job_id, job in oracle_jobs.read(dumps.commands, dumps.events, dumps.rules).items():
        revisions = [*books._revisions(job, dumps.rules)]
        if any(wrong.startswith("REVISED says") for wrong in revisions):
            continue  # the judge does not look at the fires of such a job either
        wrong = books._fires(job, dumps.until, Counter())
        own = f"{job_id}:", f"{job_id}@"
        of_chain = [each for each in chained if each.startswith(own)]
        is_late = any(each.startswith(own) for each in by_clock)
        beside = [*revisions, *(f"{number} was said again" for number, facts in job.revised.items() if len(facts) > 1)]
        sums = verdicts.pop(job_id, Sums(_NAMES_MAX))
        faults = [fault for hour in sums.hours.values() for fault in hour.named]
        counts["owed by the ledger"] += sum(hour.owed for hour in sums.hours.values())
        counts["faults of the ledger"] += sum(hour.faults.total() for hour in sums.hours.values())
        is_explained = wrong or beside or of_chain or is_late or job_id in past
        must_see = wrong or any(each.endswith("its chain has stopped") for each in of_chain)
        if (must_see and not faults) or (faults and not is_explained):
            said_of_it = [*wrong, *of_chain][:_NAMES_MAX]
            complaints.append(f"{job_id}: the books say {said_of_it}, the ledger {faults[:_NAMES_MAX]}")
    complaints += [f"{job_id}: only the ledger knows it" for job_id in verdicts]
    if not counts["owed by the ledger"]:
        complaints.append("an empty history: the ledger saw nothing that was owed")
    return [f"I12 {complaint}" for complaint in complaints]


def judged_by_ledger(dumps: Dumps) -> dict[str, Sums]:
    """What the ledger says of each job that the log or the store knows."""
    span = Span(0, dumps.until + 1, dumps.until + 1, dumps.until + 1)
    facts = Facts(span.from_at, span.decided_to)
    for record in dumps.events:
        value, stamp = record["value"], record["stamp_us"]
        assert isinstance(value, bytes)
        facts.take(decode_event(value), int(str(stamp)), ordinal(GENERATION, int(str(record["offset"]))))
    found = {}
    for job_id in sorted(facts.jobs.keys() | dumps.versions.keys()):
        sums = found[job_id] = Sums(_NAMES_MAX)
        judge_job(job_id, dumps.versions.get(job_id, []), facts.jobs.get(job_id, JobFacts()), span, sums)
    return found
