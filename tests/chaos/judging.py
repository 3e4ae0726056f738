"""Judges a play of real fire at rest, by what stands in topics, tables, the sink's ledger and the client's history.

The judges are those of the other checks that break everything (``judge_all.py``); here is what this one's faults may
do, and the history of the client outside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tests.acceptance.at_rest import AtRest
from tests.acceptance.excuses import Excuses, LateEnd
from tests.acceptance.judge_all import judge_all
from tests.acceptance.scene import Scene
from tests.chaos.cast import GRACE_S, clients_spec
from tests.chaos.clock_windows import early_us_at, windows
from tests.chaos.deeds import Deed
from tests.chaos.schedule import SKEW_MAX_S
from tests.oracle import acknowledged
from tests.oracle.chronicle import Chronicle
from tests.oracle.owed import Rules
from waterclock.model.ids import US_PER_S

_OK_PART = 0.5
DOORS = ("api", "job-events")
Note: TypeAlias = Mapping[str, Any]


def judge(
    scene: Scene, chronicle: Chronicle, history: Path, until: int, deeds: Sequence[Deed], notes: Sequence[Note]
) -> AtRest:
    """Everything; each rule adds its complaints, none stops the others. ``until``: the load's end, microseconds.

    ``notes``: of the proxy before the broker.
    """
    told = [json.loads(line) for line in history.read_text().splitlines()]
    scene.specs |= {order["job"]: clients_spec() for order in told}
    found = judge_all(scene, chronicle, until, excuses(deeds, notes))
    judge_history(found, told)
    return found


def excuses(deeds: Sequence[Deed], notes: Sequence[Note]) -> Excuses:
    """What these faults may do. An EndTxn that the broker refused, or never got, has torn nothing."""
    ends = [LateEnd(note["at"], note["landed"]) for note in notes if "landed" in note and note["error"] == 0]
    rules = Rules(grace=GRACE_S * US_PER_S, skew=int((SKEW_MAX_S + 1.0) * US_PER_S))
    return Excuses(ends, early_us_at(windows(deeds)), verdict_within_s=None, refuses=True, rules=rules)


def judge_history(found: AtRest, told: Sequence[dict[str, Any]]) -> None:
    """H against L: what was acknowledged stands, what was refused was not done, in the order of real time."""
    evidence, taken = found.evidence, found.taken
    complaints, counts = acknowledged.check(told, taken.commands, taken.job_events)
    evidence.figure("orders of the client", counts["orders"], **counts)
    evidence.none_of(complaints, "complaints about acknowledged orders")
    for door in DOORS:
        ok, asked = counts[f"{door} ok"], sum(order["door"] == door for order in told)
        evidence.demand(0 < ok >= _OK_PART * asked, f"{ok} of {asked} orders by {door} were answered with yes")
        evidence.demand(counts[f"{door} info"] == 0, f"{counts[f'{door} info']} orders by {door} were never answered")
    evidence.demand(counts["asked again"] > 0, "no order had to be asked again")
