"""How long after a return work begins again: from the return of a server or role to the next accepted STARTED.

And what of the faults really hit: kills inside of an open transaction show as records that only read_uncommitted shows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from tests.acceptance import dumps
from tests.acceptance.at_rest import quantiles_s
from tests.acceptance.evidence import Evidence
from tests.acceptance.kills import Kill, split_by_kill
from tests.acceptance.scene import Scene
from tests.chaos.deeds import Deed, Deeds
from tests.chaos.schedule import IN_A_ROUND, KAFKA, SERVERS
from tests.chaos.stage import Stage
from tests.oracle.chronicle import Chronicle


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
    kills = [
        Kill(deed.target, deed.at, deed.how == IN_A_ROUND)
        for deed in deeds.of("kill", "kill-kafka", "kill-cassandra")
        if deed.target not in SERVERS or deed.target == KAFKA
    ]
    gone = dumps.aborted(stage.bootstrap, stage.names.run_events, scene.following.events)
    hit = split_by_kill(kills, [stamp for _, _, stamp in gone])
    inside = [kill.instance for kill, count in zip(kills, hit, strict=True) if count]
    scene.evidence.figure("kills inside an open transaction", len(inside), records_aborted=len(gone), **Counter(inside))
    return len(inside)
