"""Every promise whose feature exists, judged at rest: for the checks that break everything at once.

Chaos, failpoints and late-endtxn share it. A check names what its faults may do (``excuses.py``): nothing else is
excused, and what is excused is found in the evidence, bounded and counted.
"""

from __future__ import annotations

from collections import Counter

from tests import two_reducers
from tests.acceptance import tables
from tests.acceptance.at_rest import (
    AtRest,
    at_rest,
    judge_attempts,
    judge_books,
    judge_calls,
    judge_conservation,
    judge_job_events,
    judge_nothing_rejected,
    judge_orders,
    judge_outputs,
    tell_repairs,
)
from tests.acceptance.excuses import NONE, STAMP_US, Excuses, crossed, subject_of, torn_by, torn_claims
from tests.acceptance.scene import Scene
from tests.acceptance.transactions import judge_transactions
from tests.oracle import acknowledged, deaths, makings, repairs, rest, runs, starvation, torn, verdicts, waits
from tests.oracle.chronicle import Chronicle
from tests.oracle.owed import Rules
from tests.oracle.records import decode
from waterclock.model.ids import US_PER_S

_GENERATION = 1
"""Of topics that nobody has made anew."""


def judge_all(scene: Scene, chronicle: Chronicle, until: int, excuses: Excuses = NONE) -> AtRest:
    """Take what stands, judge all of it. ``until``: the load's end, microseconds. Returns what was taken."""
    found = at_rest(scene, chronicle)
    judge_taken(found, until, excuses)
    judge_transactions(scene.stack, scene.evidence)
    return found


def judge_taken(found: AtRest, until: int, excuses: Excuses = NONE) -> None:
    """The same without servers: of what was taken."""
    torn_runs = torn_by(excuses.late_ends, found.taken)
    judge_attempts(found, excuses.limit_of)
    judge_said_once(found, torn_runs, excuses)
    late_claims = crossed(found.taken.events)
    found.evidence.figure("claims that crossed a cancel or an expiry", len(late_claims))
    judge_calls(found, {**late_claims, **torn_claims(torn_runs, found.taken.events)})
    judge_outputs(found)
    judge_conservation(found)
    judge_jobs(found)
    judge_books(found, until, excuses.rules)
    judge_orders(found)
    judge_runs(found, excuses.rules)
    judge_never_early(found, excuses)
    judge_job_events(found)
    judge_rejects(found, excuses)
    judge_repairs_by(found, torn_runs, excuses)


def judge_said_once(found: AtRest, torn_runs: set[str], excuses: Excuses) -> None:
    """Nothing was said, claimed, handed out or passed on twice, also where the second time was ignored.

    Only a transaction that a late EndTxn ended may have been torn.
    """
    evidence, taken = found.evidence, found.taken
    followed, complaints, counts = runs.follow(taken.events)
    evidence.figure("events followed", sum(counts.values()), **counts)
    disagreed = two_reducers.differ(followed, taken.events, _GENERATION)
    evidence.none_of(disagreed, "runs on which the two reducers disagree")
    tears, counts = torn.check(taken.events, taken.work, taken.commands, found.names.job_events, taken.behind)
    evidence.figure("torn rounds", len(tears), **counts)
    evidence.demand(counts["claims looked at"] > 0, "no claim was looked at")
    complaints += tears
    left = [complaint for complaint in complaints if subject_of(complaint) not in torn_runs]
    ends = len(excuses.late_ends)
    evidence.figure("said twice or half, where a late EndTxn landed", len(complaints) - len(left), late_ends=ends)
    evidence.none_of(left, "rounds that count twice, or by half")


def judge_jobs(found: AtRest) -> None:
    """The table of jobs shows the newest version of each."""
    taken, rows = found.taken, found.taken.rows["jobs"]
    found.evidence.figure("jobs in Cassandra", len(rows), **tables.statuses(rows))
    complaints = tables.jobs_differ(taken.commands, taken.events, rows)
    found.evidence.none_of(complaints, "jobs whose row is not their newest version")


def judge_runs(found: AtRest, rules: Rules) -> None:
    """Tried again as the policy says, called lost only when dead, one winner of each cancel, no tier left waiting."""
    evidence, chronicle, taken = found.evidence, found.chronicle, found.taken
    complaints, counts = verdicts.check(chronicle, meant=makings.meant(taken.commands, taken.events, rules))
    evidence.figure("verdicts", sum(counts.values()), **counts)
    evidence.none_of(complaints, "complaints about verdicts")
    complaints, counts = deaths.check(taken.events, taken.leases)
    evidence.figure("records on leases", len(taken.leases), **counts)
    evidence.none_of(complaints, "complaints about who was called lost")
    complaints, counts = rest.cancels(chronicle, list(chronicle.cancels))
    evidence.figure("cancels, by their moment", sum(counts.values()), **counts)
    evidence.none_of(complaints, "complaints about cancels")
    complaints, counts = starvation.check(taken.events)
    evidence.figure("stretches of a minute", sum(counts.values()), **counts)
    evidence.none_of(complaints, "stretches in which LOW starved")


def judge_never_early(found: AtRest, excuses: Excuses) -> None:
    """No run is made or claimed before it is due, none is tried again before that is.

    Of a run's making alone the clock may have been ahead: the claims' and the verdicts' clocks are true, and a retry
    has no such excuse. A herd stands in the log before its instant (``Excuses.herd_lead_us``), and can be read only
    then: so nobody can have begun it before.
    """
    evidence, chronicle = found.evidence, found.chronicle
    excused, wrong, looked_at = 0, [], 0
    late_us = waits.first_attempts(chronicle)
    together = Counter(chronicle.due.values())
    for run_id, due in chronicle.due.items():
        if due is None:
            continue
        looked_at += 1
        made_at = chronicle.pending[run_id]
        held_us = excuses.herd_lead_us if together[due] >= excuses.herd_fires else 0
        early_us = max(due - made_at - held_us, -late_us.get(run_id, 0))
        if early_us > excuses.early_us_at(made_at):
            wrong.append(f"{run_id}: made or begun {early_us} us before it was due")
        excused += early_us > STAMP_US
    evidence.figure("runs of the timeline, held against their due time", looked_at, early=excused)
    evidence.demand(looked_at > 0, "no run was due by the timeline")
    evidence.none_of(wrong, "runs begun earlier than any clock said")
    found_waits, complaints = waits.retries(chronicle)
    promised = {key: since + chronicle.retries[key]["delay_us"] for key, since in _ended_before(chronicle).items()}
    evidence.figure("attempts that waited", len(found_waits), worst_us=max((w.late_us for w in found_waits), default=0))
    evidence.none_of(complaints + waits.after(chronicle, promised)[1], "attempts that began early, or never")


def _ended_before(chronicle: Chronicle) -> dict[tuple[str, int], int]:
    """{(run, attempt): when the attempt before it ended}, of all that were promised: the broker's time."""
    return {
        (run_id, attempt): chronicle.ends[run_id, attempt - 1].stamp
        for run_id, attempt in chronicle.retries
        if (run_id, attempt - 1) in chronicle.ends
    }


def judge_rejects(found: AtRest, excuses: Excuses) -> None:
    """What had to be refused is in ``rejects``, once, and nothing else is."""
    evidence, names, taken = found.evidence, found.names, found.taken
    if not excuses.refuses:
        judge_nothing_rejected(found)
    complaints = acknowledged.refusals(taken.commands, taken.rejects, names.commands)
    evidence.figure("rejects", len(taken.rejects))
    evidence.none_of(complaints, "commands refused and not rejected, or the other way")
    sources = ((decode(record["value"])[1]["source"] or {}).get("topic", "nothing") for record in taken.rejects)
    strange = (topic for topic in sources if topic not in (names.commands, names.job_events))
    evidence.none_of(strange, "rejects of what nobody outside can write to")


def judge_repairs_by(found: AtRest, torn_runs: set[str], excuses: Excuses) -> None:
    """The reconciler had nothing to repair, but for what a late EndTxn had torn: at most one repair for each such run.

    Work that was handed out twice is judged with the other rounds that count twice.
    """
    taken, within_s = found.taken, excuses.verdict_within_s
    hidden_us = 1 << 62 if within_s is None else int(within_s * US_PER_S)
    complaints, counts = repairs.check(found.chronicle, (), taken.beats, taken.told, hidden_us)
    if counts["repairs"] <= len(torn_runs):
        complaints = [complaint for complaint in complaints if not complaint.endswith(" repairs")]
    tell_repairs(found, complaints, counts)
