"""What every check of the failure path judges once all is at rest: runs, attempts, calls, records, letters, history."""

from __future__ import annotations

import itertools
import json
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from tests.acceptance import dumps
from tests.acceptance.scene import Scene
from tests.oracle import attempts, calls, outputs, repairs, rest
from tests.oracle import owed as judge
from tests.oracle.chronicle import Chronicle
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Tier

_STATUS = ("PENDING", "RUNNING", "RETRYING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED")
_ATTEMPTS = 4
_SAID_OF_REPAIRS = ("repaired", "worker is not known on leases")


def judge_rest(
    scene: Scene,
    chronicle: Chronicle,
    *,
    torn: Collection[tuple[str, int]] = (),
    limit_of: Callable[[str], int] | None = None,
    lease_s: float = 0.0,
) -> Counter[str]:
    """All of it; returns the counts of attempts' outcomes. ``torn``: attempts that may have called without a right.

    ``lease_s``: the longest lease of workers that were killed or stopped. For as long the open transaction of one can
    keep what others said from the router.
    """
    evidence = scene.evidence
    evidence.figure("runs", len(chronicle.made), **chronicle.statuses())
    outcomes = chronicle.outcomes()
    evidence.figure("attempts", sum(outcomes.values()), **outcomes)
    ignored = Counter({kind: len(told) for kind, told in chronicle.ignored.items()})
    evidence.figure("events accepted", chronicle.accepted_count, ignored=ignored)
    complaints, _ = attempts.check(chronicle, limit_of or (lambda job_id: _limit(scene, job_id)))
    evidence.none_of(complaints, "complaints about runs and their attempts")
    judge_calls(scene, chronicle, torn)
    judge_outputs(scene)
    judge_conservation(scene, chronicle)
    judge_nothing_rejected(scene)
    judge_repairs(scene, chronicle, lease_s)
    return outcomes


def _limit(scene: Scene, job_id: str) -> int:
    spec = scene.specs.get(job_id)
    return _ATTEMPTS if spec is None else spec.policy.max_attempts


def judge_calls(scene: Scene, chronicle: Chronicle, torn: Collection[tuple[str, int]] = ()) -> None:
    """The sink's ledger: at most one call for each attempt, each with a right to it, each effect once."""
    calling = {job_id for job_id, spec in scene.specs.items() if json.loads(spec.payload or b"{}").get("calls", True)}
    ledger = scene.sink.lines()
    complaints, counts = calls.check(chronicle, ledger, torn=torn, every_success_called=False)
    called = {(call["run_id"], call["attempt"]) for call in ledger}
    complaints += [
        f"{run_id}: succeeded in attempt {run['attempt']}, which never called"
        for run_id, run in chronicle.runs.items()
        if run["status"] == "SUCCEEDED" and run["job_id"] in calling and (run_id, run["attempt"]) not in called
    ]
    scene.evidence.figure("calls to the sink", len(ledger), **counts)
    scene.evidence.demand(len(ledger) > 0, "nothing was called")
    scene.evidence.none_of(complaints, "complaints about calls")


def judge_outputs(scene: Scene) -> None:
    """What handlers emitted: once per effect id, and only of runs that succeeded."""
    emits = {job_id: json.loads(spec.payload or b"{}").get("emits", 0) for job_id, spec in scene.specs.items()}
    planned = {run_id: emits.get(run["job_id"], 0) for run_id, run in scene.following.chronicle.runs.items()}
    complaints, counts = outputs.check(scene.following.events, scene.outputs(), planned)
    scene.evidence.figure("records that handlers emitted", counts["records emitted"])
    if any(emits.values()):
        scene.evidence.demand(counts["records emitted"] > 0, "no handler emitted anything")
    scene.evidence.none_of(complaints, "complaints about emitted records")


def judge_conservation(scene: Scene, chronicle: Chronicle) -> None:
    """Created = ended, by status, in the log and in Cassandra; the letters."""
    evidence, stack = scene.evidence, scene.stack
    names, bootstrap = stack.names, stack.bootstrap
    complaints, counts = rest.conservation(chronicle)
    evidence.figure("conservation", counts["created"], **counts)
    evidence.none_of(complaints, "complaints about conservation")
    complaints, given_up = rest.letters(chronicle, dumps.dump(bootstrap, names.dlq))
    evidence.figure("given up", sum(given_up.values()), **given_up)
    evidence.none_of(complaints, "complaints about dead letters")
    query = "SELECT job_id, fire_at, series, status FROM runs"
    rows = {
        judge.run_id(row.job_id, row.fire_at, row.series): _STATUS[row.status]
        for row in dumps.rows(stack.cassandra.port, query)
    }
    complaints, found = rest.history(chronicle, rows)
    evidence.figure("rows of history", len(rows), **found)
    evidence.none_of(complaints, "runs whose history is not what the log says")


def judge_nothing_rejected(scene: Scene) -> None:
    """Nobody sent anything that could be refused."""
    evidence, stack = scene.evidence, scene.stack
    rejected = dumps.dump(stack.bootstrap, stack.names.rejects)
    evidence.none_of((f"{record['partition']}@{record['offset']}" for record in rejected), "rejected records")


def judge_repairs(scene: Scene, chronicle: Chronicle, lease_s: float) -> None:
    """The reconciler found nothing: by its own count in Kafka's committed offsets, and by what its deeds leave."""
    evidence, names, bootstrap = scene.evidence, scene.stack.names, scene.stack.bootstrap
    complaints, counts = repairs.check(
        chronicle,
        itertools.chain(*(dumps.dump(bootstrap, names.runs(tier)) for tier in Tier)),
        dumps.dump(bootstrap, names.heartbeats),
        dumps.committed_texts(bootstrap, names.group("retry-router"), names.run_events),
        int(lease_s * US_PER_S),
    )
    evidence.figure("repairs by the reconciler", counts["repairs"], **counts)
    waited = quantiles_s(list(repairs.verdict_waits(chronicle).values()))
    evidence.figure("seconds from the end of an attempt to its verdict", waited["p99"], **waited)
    routers = (role for role in scene.stack.roles.values() if role.role == "retry_router" and complaints)
    for line in (line for router in routers for line in router.log_path.read_text().splitlines()):
        if any(word in line for word in _SAID_OF_REPAIRS):
            evidence.figure("the router says", line)
    evidence.none_of(complaints, "complaints about repairs by the reconciler")


def quantiles_s(values_us: Sequence[int]) -> dict[str, float]:
    """p50, p95, p99 and the worst in seconds; zeros for none."""
    if len(values_us) < 2:
        return dict.fromkeys(("p50", "p95", "p99", "worst"), (values_us[0] if values_us else 0) / 1e6)
    cuts = statistics.quantiles(values_us, n=100, method="inclusive")
    found = {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98], "worst": max(values_us)}
    return {name: round(value / 1e6, 3) for name, value in found.items()}
