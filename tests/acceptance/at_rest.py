"""What checks judge once all is at rest, promise by promise: runs, attempts, calls, records, letters, history.

Each takes what was taken (``taken.py``) and adds its complaints to the evidence; none stops the others. All of them,
for the checks that break everything at once: ``judge_all.py``.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.acceptance import tables
from tests.acceptance.evidence import Evidence
from tests.acceptance.excuses import Claims
from tests.acceptance.scene import Scene
from tests.acceptance.taken import Taken, take
from tests.oracle import attempts, books, calls, makings, misfires, orders, outputs, passing, projections, repairs, rest
from tests.oracle.chronicle import Chronicle
from tests.oracle.owed import Rules
from tests.oracle.runs import MASK
from waterclock.model.ids import US_PER_S
from waterclock.model.job import JobSpec
from waterclock.wire.names import Names

_ATTEMPTS = 4


class AtRest(NamedTuple):
    """Everything that a judge looks at. ``specs``: of the jobs whose code and policy the check knows."""

    evidence: Evidence
    names: Names
    specs: Mapping[str, JobSpec]
    chronicle: Chronicle
    taken: Taken


def at_rest(scene: Scene, chronicle: Chronicle) -> AtRest:
    """Take it, once."""
    return AtRest(scene.evidence, scene.stack.names, scene.specs, chronicle, take(scene))


def judge_rest(
    scene: Scene,
    chronicle: Chronicle,
    *,
    torn: Claims | None = None,
    limit_of: Callable[[str], int] | None = None,
    lease_s: float = 0.0,
) -> Counter[str]:
    """What holds after any failure; returns the counts of attempts' outcomes.

    ``torn``: claims that may have called without a right. ``lease_s``: the longest lease of workers that were killed
    or stopped. For as long the open transaction of one can keep what others said from the router.
    """
    found = at_rest(scene, chronicle)
    outcomes = judge_attempts(found, limit_of)
    judge_calls(found, torn or {})
    judge_outputs(found)
    judge_conservation(found)
    judge_nothing_rejected(found)
    judge_repairs(found, lease_s)
    return outcomes


def judge_attempts(found: AtRest, limit_of: Callable[[str], int] | None = None) -> Counter[str]:
    """Attempts 1, 2, 3, one at a time, each with its end, no more than allowed; returns how many ended how."""
    evidence, chronicle = found.evidence, found.chronicle
    evidence.figure("runs", len(chronicle.made), **chronicle.statuses())
    outcomes: Counter[str] = chronicle.outcomes()
    evidence.figure("attempts", sum(outcomes.values()), **outcomes)
    ignored = Counter({kind: len(told) for kind, told in chronicle.ignored.items()})
    evidence.figure("events accepted", chronicle.accepted_count, ignored=ignored)
    complaints, _ = attempts.check(chronicle, limit_of or (lambda job_id: _limit(found.specs, job_id)))
    evidence.none_of(complaints, "complaints about runs and their attempts")
    return outcomes


def _limit(specs: Mapping[str, JobSpec], job_id: str) -> int:
    spec = specs.get(job_id)
    return _ATTEMPTS if spec is None else spec.policy.max_attempts


def judge_calls(found: AtRest, torn: Claims) -> None:
    """The sink's ledger: at most one call for each attempt, each with a right to it, each effect once.

    ``torn``: an attempt that nobody's accepted claim stands for may have called under one of these tokens.
    """
    evidence, chronicle, ledger = found.evidence, found.chronicle, found.taken.ledger
    calling = {job_id for job_id, spec in found.specs.items() if json.loads(spec.payload or b"{}").get("calls", True)}
    others = {(call["run_id"], call["attempt"]) for call in ledger if not _is_of(call, chronicle, torn)}
    complaints, counts = calls.check(chronicle, ledger, torn=torn.keys() - others, every_success_called=False)
    called = {(call["run_id"], call["attempt"]) for call in ledger}
    complaints += [
        f"{run_id}: succeeded in attempt {run['attempt']}, which never called"
        for run_id, run in chronicle.runs.items()
        if run["status"] == "SUCCEEDED" and run["job_id"] in calling and (run_id, run["attempt"]) not in called
    ]
    evidence.figure("calls to the sink", len(ledger), **counts)
    evidence.demand(len(ledger) > 0, "nothing was called")
    evidence.none_of(complaints, "complaints about calls")


def _is_of(call: Mapping[str, Any], chronicle: Chronicle, torn: Claims) -> bool:
    """Whether the call bears the token of a claim of its attempt: the accepted one, or one that is excused."""
    key, token = (call["run_id"], call["attempt"]), call["token"] & MASK
    claim = chronicle.claims.get(key)
    return (claim is not None and claim.token == token) or token in torn.get(key, ())


def judge_outputs(found: AtRest) -> None:
    """What handlers emitted: once per effect id, and only of runs that succeeded."""
    emits = {job_id: json.loads(spec.payload or b"{}").get("emits", 0) for job_id, spec in found.specs.items()}
    planned = {run_id: emits.get(run["job_id"], 0) for run_id, run in found.chronicle.runs.items()}
    complaints, counts = outputs.check(found.taken.events, found.taken.outputs, planned)
    found.evidence.figure("records that handlers emitted", counts["records emitted"])
    if any(emits.values()):
        found.evidence.demand(counts["records emitted"] > 0, "no handler emitted anything")
    found.evidence.none_of(complaints, "complaints about emitted records")


def judge_conservation(found: AtRest) -> None:
    """Created = ended, by status, in the log and in Cassandra, row for row; the letters."""
    evidence, chronicle, rows = found.evidence, found.chronicle, found.taken.rows
    complaints, counts = rest.conservation(chronicle)
    evidence.figure("conservation", counts["created"], **counts)
    evidence.none_of(complaints, "complaints about conservation")
    complaints, given_up = rest.letters(chronicle, found.taken.dlq)
    evidence.figure("given up", sum(given_up.values()), **given_up)
    evidence.none_of(complaints, "complaints about dead letters")
    complaints, counts = projections.letters(chronicle, found.taken.dlq, found.taken.work)
    evidence.figure("dead letters read", sum(given_up.values()), **counts)
    evidence.none_of(complaints, "dead letters that hold something else than they should")
    evidence.figure("rows of history", len(rows["runs"]), **{table: len(rows[table]) for table in _HISTORY})
    for table, differ in _HISTORY.items():
        evidence.none_of(differ(chronicle, rows[table]), f"rows of {table} that are not what the log says")


_HISTORY = {
    "runs": tables.runs_differ,
    "attempts": tables.attempts_differ,
    "failures": tables.failures_differ,
}


def judge_books(found: AtRest, until: int, rules: Rules) -> None:
    """Fires owed = runs made + skips, each once and for the right reason, up to ``until`` (microseconds)."""
    complaints, counts = books.balance(found.taken.commands, found.taken.events, until, rules)
    found.evidence.figure("fires owed", counts["owed"], **counts)
    found.evidence.demand(counts["owed"] > 0, "no fire was owed")
    found.evidence.none_of(complaints, "complaints about the books: fires lost or doubled")
    complaints, counts = misfires.check(found.taken.commands, found.taken.events, until, rules)
    found.evidence.figure("misfires", counts["misfires"])
    found.evidence.none_of(complaints, "complaints about fires that came too late")
    complaints, counts = makings.check(found.taken.commands, found.taken.events, found.taken.work, rules)
    found.evidence.figure("runs held against their commands", sum(counts.values()), **counts)
    found.evidence.none_of(complaints, "runs that are not made of what their command says")


def judge_orders(found: AtRest) -> None:
    """Cancels and expiries of ``commands`` were passed on to ``control`` before anybody acted by them."""
    complaints, counts = orders.check(found.taken.commands, found.taken.events, found.taken.control)
    found.evidence.figure("cancels passed on", counts["CANCEL_REQUESTED"], **counts)
    found.evidence.none_of(complaints, "complaints about how cancels were passed on")


def judge_job_events(found: AtRest) -> None:
    """Every job event went on once: as a command, or into ``rejects``."""
    taken = found.taken
    complaints, counts = passing.check(found.names.job_events, taken.job_events, taken.commands, taken.rejects)
    found.evidence.figure("job events", counts["job events"], **counts)
    found.evidence.none_of(complaints, "complaints about job events")


def judge_nothing_rejected(found: AtRest) -> None:
    """Nobody sent anything that could be refused."""
    rejected = (f"{record['partition']}@{record['offset']}" for record in found.taken.rejects)
    found.evidence.none_of(rejected, "rejected records")


def judge_repairs(found: AtRest, lease_s: float) -> None:
    """The reconciler found nothing: by its own count in Kafka's committed offsets, and by what its deeds leave."""
    taken = found.taken
    told = repairs.check(found.chronicle, taken.work, taken.beats, taken.told, int(lease_s * US_PER_S))
    tell_repairs(found, *told)


def tell_repairs(found: AtRest, complaints: Sequence[str], counts: Counter[str]) -> None:
    """How many there were, how long verdicts took, and what the routers say of what is complained of."""
    evidence = found.evidence
    evidence.figure("repairs by the reconciler", counts["repairs"], **counts)
    waited = quantiles_s(list(repairs.verdict_waits(found.chronicle).values()))
    evidence.figure("seconds from the end of an attempt to its verdict", waited["p99"], **waited)
    for line in found.taken.said if complaints else ():
        evidence.figure("the router says", line)
    evidence.none_of(complaints, "complaints about repairs by the reconciler")


def quantiles_s(values_us: Sequence[int]) -> dict[str, float]:
    """p50, p95, p99 and the worst in seconds; zeros for none."""
    if len(values_us) < 2:
        return dict.fromkeys(("p50", "p95", "p99", "worst"), (values_us[0] if values_us else 0) / 1e6)
    cuts = statistics.quantiles(values_us, n=100, method="inclusive")
    found = {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98], "worst": max(values_us)}
    return {name: round(value / 1e6, 3) for name, value in found.items()}
