"""Judges a play of real fire at rest, by what stands in topics, tables, the sink's ledger and the client's history.

The judges are those of every other check (``tests/oracle``); here is what they are asked. ``Dumps`` are taken once.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.acceptance import dumps
from tests.acceptance.at_rest import judge_calls, judge_conservation, judge_outputs
from tests.acceptance.dispatcher_kill import judge_tables
from tests.acceptance.scene import Scene
from tests.chaos.cast import clients_spec
from tests.chaos.schedule import SKEW_MAX_S
from tests.chaos.stage import Stage
from tests.oracle import acknowledged, attempts, books, deaths, orders, repairs, rest, verdicts, waits
from tests.oracle.chronicle import Chronicle
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Tier

_ATTEMPTS = 4
_OK_PART = 0.5
Record = dict[str, Any]


class Dumps(NamedTuple):
    """What stood in the log at rest, read committed."""

    commands: list[Record]
    job_events: list[Record]
    rejects: list[Record]
    control: list[Record]
    leases: list[Record]
    dlq: list[Record]
    work: list[Record]


def take(stage: Stage) -> Dumps:
    """All of them, up to their high watermarks."""
    names = stage.names
    topics = (names.commands, names.job_events, names.rejects, names.control, names.leases, names.dlq)
    found = [dumps.dump(stage.bootstrap, topic) for topic in topics]
    work = itertools.chain(*(dumps.dump(stage.bootstrap, names.runs(tier)) for tier in Tier))
    return Dumps(*found, list(work))


def judge(scene: Scene, stage: Stage, chronicle: Chronicle, history: Path, until: int) -> None:
    """Everything; each rule adds its complaints, none stops the others. ``until``: the load's end, microseconds."""
    evidence = scene.evidence
    told = [json.loads(line) for line in history.read_text().splitlines()]
    scene.specs |= {order["job"]: clients_spec() for order in told}
    taken = take(stage)
    evidence.figure("runs", len(chronicle.made), **chronicle.statuses())
    outcomes = chronicle.outcomes()
    evidence.figure("attempts", sum(outcomes.values()), **outcomes)
    ignored = Counter({kind: len(each) for kind, each in chronicle.ignored.items()})
    evidence.figure("events accepted", chronicle.accepted_count, ignored=ignored)
    complaints, _ = attempts.check(chronicle, lambda job: _limit(scene, job))
    evidence.none_of(complaints, "complaints about runs and their attempts")
    torn = [(run_id, attempt) for run_id, attempt, _ in chronicle.ignored["STARTED"]]
    judge_calls(scene, chronicle, torn)
    judge_outputs(scene)
    judge_conservation(scene, chronicle)
    _judge_books(scene, taken, until)
    judge_tables(stage, evidence, taken.commands, scene.following.events)
    _judge_history(scene, stage, taken, told)
    _judge_runs(scene, chronicle, taken)
    _judge_never_early(scene, chronicle)
    _tell_repairs(scene, stage, chronicle, taken)


def _limit(scene: Scene, job_id: str) -> int:
    spec = scene.specs.get(job_id)
    return _ATTEMPTS if spec is None else spec.policy.max_attempts


def _judge_books(scene: Scene, taken: Dumps, until: int) -> None:
    complaints, counts = books.balance(taken.commands, scene.following.events, until)
    scene.evidence.figure("fires owed", counts["owed"], **counts)
    scene.evidence.none_of(complaints, "complaints about the books: fires lost or doubled")


def _judge_history(scene: Scene, stage: Stage, taken: Dumps, told: Sequence[dict[str, Any]]) -> None:
    """H against L: what was acknowledged stands, what was refused was not done, in the order of real time."""
    evidence, names = scene.evidence, stage.names
    complaints, counts = acknowledged.check(told, taken.commands, taken.job_events)
    evidence.figure("orders of the client", counts["orders"], **counts)
    evidence.none_of(complaints, "complaints about acknowledged orders")
    ok = counts["api ok"] + counts["job-events ok"]
    evidence.demand(ok >= _OK_PART * len(told), f"{ok} of {len(told)} orders were answered with yes")
    evidence.demand(counts["asked again"] > 0, "no order had to be asked again")
    for door in ("api", "job-events"):
        evidence.demand(counts[f"{door} info"] == 0, f"{counts[f'{door} info']} orders by {door} were never answered")
    complaints = acknowledged.sources(taken.job_events, taken.commands, taken.rejects, names.job_events, names.prefix)
    evidence.figure("job events", len(taken.job_events))
    evidence.none_of(complaints, "job events that did not go on once")
    complaints = acknowledged.refusals(taken.commands, taken.rejects, names.commands)
    evidence.figure("rejects", len(taken.rejects))
    evidence.none_of(complaints, "commands refused and not rejected, or the other way")
    complaints, counts = orders.check(taken.commands, scene.following.events, taken.control)
    evidence.figure("cancels and expiries", sum(counts.values()), **counts)
    evidence.none_of(complaints, "complaints about control")


def _judge_runs(scene: Scene, chronicle: Chronicle, taken: Dumps) -> None:
    evidence = scene.evidence
    complaints, counts = verdicts.check(chronicle, taken.work)
    evidence.figure("verdicts", sum(counts.values()), **counts)
    evidence.none_of(complaints, "complaints about verdicts")
    complaints, counts = deaths.check(scene.following.events, taken.leases)
    evidence.figure("records on leases", len(taken.leases), **counts)
    evidence.none_of(complaints, "complaints about who was called lost")
    complaints, counts = rest.cancels(chronicle, list(chronicle.cancels))
    evidence.figure("cancels, by their moment", sum(counts.values()), **counts)
    evidence.none_of(complaints, "complaints about cancels")


def _judge_never_early(scene: Scene, chronicle: Chronicle) -> None:
    """Save by how far a clock was set forward."""
    early = [-wait for wait in waits.first_attempts(chronicle).values() if wait < 0]
    bound = int((SKEW_MAX_S + 1.0) * US_PER_S)
    scene.evidence.figure("runs begun before they were due", len(early), longest_s=max(early, default=0) / US_PER_S)
    scene.evidence.none_of((f"{each} us" for each in early if each > bound), "runs begun earlier than any clock said")


def _tell_repairs(scene: Scene, stage: Stage, chronicle: Chronicle, taken: Dumps) -> None:
    """Told, not judged: under torn transactions the reconciler is what makes the rest add up."""
    names = stage.names
    texts = dumps.committed_texts(stage.bootstrap, names.group("retry-router"), names.run_events)
    complaints, counts = repairs.check(chronicle, taken.work, [], texts)
    scene.evidence.figure("repairs by the reconciler", counts["repairs"], **counts, told=complaints[:5])


def keep(stage: Stage, scene: Scene) -> None:
    """The dumps as JSON lines in the folder: the broker's own disk may be gone with this process."""
    folder = stage.folder / "dumps"
    folder.mkdir(exist_ok=True)
    taken = take(stage)._asdict() | {"run_events": scene.following.events}
    for name, records in taken.items():
        with (folder / f"{name}.jsonl").open("w") as file:
            for record in records:
                file.write(json.dumps(record, default=_text) + "\n")


def _text(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
