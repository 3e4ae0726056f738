"""How long after a return work begins again: from the return of a server or role to the next accepted STARTED.

And what of the faults really hit: kills inside of an open transaction show as records that only read_uncommitted shows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.acceptance import dumps
from tests.acceptance.at_rest import quantiles_s
from tests.acceptance.evidence import Evidence
from tests.acceptance.excuses import writer_of
from tests.acceptance.scene import Scene
from tests.chaos.deeds import Deed, Deeds
from tests.chaos.schedule import KAFKA, SERVERS
from tests.chaos.stage import Stage
from tests.oracle.chronicle import Chronicle
from tests.oracle.records import decode

_ROUND_US = 2_000_000
"""A round is open for no longer before its role is killed."""

_STAMP_US = 1_000


def tell(evidence: Evidence, deeds: Deeds, chronicle: Chronicle) -> None:
    """p50, p95 and the longest, for each server and for all roles together."""
    stamps = sorted(claim.stamp for claim in chronicle.claims.values())
    healed = next((deed.at for deed in deeds.all if deed.kind == "healed"), 1 << 62)
    returns = [deed for deed in deeds.of("return") if deed.at <= healed]
    for name in (*SERVERS, "roles"):
        of_it = [deed for deed in returns if (deed.target if deed.target in SERVERS else "roles") == name]
        for way in ("started again", "woken"):
            took = _waits([deed for deed in of_it if (deed.how == "woken") == (way == "woken")], stamps)
            figures = quantiles_s(took) if took else {}
            evidence.figure(f"seconds from the return of {name}, {way}, to the next STARTED", len(took), **figures)


def _waits(returns: Sequence[Deed], stamps: Sequence[int]) -> list[int]:
    places = ((deed.at, bisect_right(stamps, deed.at)) for deed in returns)
    return [stamps[at] - since for since, at in places if at < len(stamps)]


def tell_hits(scene: Scene, stage: Stage, deeds: Deeds) -> int:
    """How many kills fell into an open transaction, by the records they left uncommitted on run-events."""
    gone = dumps.aborted_records(stage.bootstrap, stage.names.run_events, scene.following.events)
    inside = killed_inside(deeds.of("kill", "kill-kafka"), gone)
    scene.evidence.figure("kills inside an open transaction", len(inside), records_aborted=len(gone), **Counter(inside))
    return len(inside)


def killed_inside(kills: Sequence[Deed], aborted: Sequence[dict[str, Any]]) -> list[str]:
    """Whose kills left records of the killed one's own uncommitted, shortly before; the broker's: of anybody's."""
    written = [(record["timestamp_us"], writer_of(decode(record["value"])[1])) for record in aborted]
    return [
        kill.target
        for kill in kills
        if any(
            kill.at - _ROUND_US <= at <= kill.at + _STAMP_US
            and (kill.target == KAFKA or by in (kill.target, kill.target.rpartition("-")[0]))
            for at, by in written
        )
    ]
