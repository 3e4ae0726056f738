"""Every fire time around every clock change of 2000-2037 is that of the brute-force walk: 0 differences.

One zone for each history of offsets that differs, all its changes, 20 expressions, every pair of gap and fold rules.
The judge (``tests/oracle``) steps every UTC minute and shares nothing with the evaluator; it localises each stretch
once and reads all expressions off it. ``next``, ``count`` and ``last`` are judged. Beside it croniter and cronsim walk
the same stretches: where they differ is told by kind, with an example (docs/cron.md). Short: 5 % of the changes,
one of every kind (by size and local time) that some odd and some drawn zones have, the rest drawn; and the other two
libraries at 1 in 20 of those.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from random import Random
from typing import NamedTuple

from tests.acceptance import cron_peers
from tests.acceptance.evidence import Evidence
from tests.oracle import brute_force, zone_histories
from waterclock.model.cron import CronSpec, compile_cron
from waterclock.model.ids import US_PER_MINUTE
from waterclock.model.job import Cron, Fold, Gap

EXPRESSIONS = (
    "* 22-3 * * *", "*/45 * * * *", "30 * * * *", "0 */2 * * *", "*/30 2 * * *", "30 2 * * *", "15,45 2 * * *",
    "30 1 * * *", "0 0 * * *", "1 0 * * *", "59 23 * * *", "0 3 * * *", "5 0-4/2 * * *", "0 22-2 * * *", "30 2 * * 0",
    "0 0 l * *", "15 1 1,15 * fri", "30 1,2,3 * mar,oct,nov sun#1,sun#2", "10 2 * * l0", "0,30 0,23 * * sat-mon",
)  # fmt: skip
POLICIES = tuple((gap, fold) for gap in Gap for fold in Fold)
FIRST_YEAR, LAST_YEAR = 2000, 2037
HISTORIES, CHANGES = 193, 6_025
"""What the pinned zone data holds: fewer would mean that some are not looked at."""
BEFORE, BEHIND = 240, 26 * 60
"""Minutes of a stretch before the change (the longest repeated hour is three) and from it on (all of the day after)."""
SEED = 20261122
SHORT_ZONES, SHORT_PART, SHORT_PEERS_EVERY = 28, 0.05, 20
ODD_ZONES = (
    "Africa/Casablanca", "America/Caracas", "America/Goose_Bay", "America/Havana", "Antarctica/Casey",
    "Antarctica/Troll", "Asia/Colombo", "Asia/Pyongyang", "Australia/Lord_Howe", "Pacific/Apia",
    "Pacific/Chatham", "Pacific/Norfolk",
)  # fmt: skip


class Stretch(NamedTuple):
    """One clock change: where, and at which UTC minute."""

    zone: str
    minute: int


class Judged(NamedTuple):
    """What came of some stretches: cells and fires compared, differences of ours, differences of the two others."""

    cells: int
    fires: int
    ours: list[str]
    peers: Counter[cron_peers.Kind]
    examples: dict[cron_peers.Kind, str]


def main(short: bool = False) -> None:
    evidence = Evidence("oracle", None)
    stretches = _drawn() if short else _all(evidence)
    evidence.figure("clock changes judged", len(stretches), seed=SEED if short else None)
    peers_every = SHORT_PEERS_EVERY if short else 1
    size = 25
    parts = [(stretches[at : at + size], peers_every) for at in range(0, len(stretches), size)]
    cells = fires = 0
    ours: list[str] = []
    peers: Counter[cron_peers.Kind] = Counter()
    examples: dict[cron_peers.Kind, str] = {}
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for done in pool.map(_judge, parts):
            cells, fires = cells + done.cells, fires + done.fires
            ours += done.ours
            peers.update(done.peers)
            examples = done.examples | examples
    evidence.figure("expressions", len(EXPRESSIONS), policies=len(POLICIES), cells=cells, fires=fires)
    for kind in sorted(peers):
        evidence.figure("differs", peers[kind], **kind._asdict(), example=examples.get(kind))
    compared = len(EXPRESSIONS) * sum(-(-len(part) // every) for part, every in parts)
    evidence.figure("cells in which croniter and cronsim were held against the judge too, each", compared)
    evidence.demand(cells == len(stretches) * len(EXPRESSIONS) * len(POLICIES), "some cells were not judged")
    evidence.demand(fires > 10 * cells, "hardly a fire was compared")
    evidence.none_of(ours, "differences from brute force")
    evidence.close()


def _all(evidence: Evidence) -> list[Stretch]:
    found = zone_histories.histories(zone_histories.files(), FIRST_YEAR, LAST_YEAR)
    stretches = [Stretch(zone, minute) for zone, changes in found for minute in changes]
    evidence.figure("histories of offsets", len(found), clock_changes=len(stretches))
    evidence.demand((len(found), len(stretches)) == (HISTORIES, CHANGES), "not the histories that there were")
    return stretches


def _drawn() -> list[Stretch]:
    """A twentieth of all changes, from some of the zones: finding the changes of a zone takes its time."""
    drawn = Random(SEED)
    zones = {*ODD_ZONES, *drawn.sample(zone_histories.files(), SHORT_ZONES)}
    found = zone_histories.histories(sorted(zones), FIRST_YEAR, LAST_YEAR)
    stretches = [Stretch(zone, minute) for zone, changes in found for minute in changes]
    drawn.shuffle(stretches)
    of_a_kind: dict[tuple[int, int], Stretch] = {}
    for stretch in stretches:
        of_a_kind.setdefault(zone_histories.kind(*stretch), stretch)
    kinds = set(of_a_kind.values())
    others = [stretch for stretch in stretches if stretch not in kinds]
    return sorted([*kinds, *others[: round(CHANGES * SHORT_PART) - len(kinds)]])


def _judge(part: tuple[list[Stretch], int]) -> Judged:
    stretches, peers_every = part
    judged = Judged(0, 0, [], Counter(), {})
    for number, stretch in enumerate(stretches):
        begin, end = stretch.minute - BEFORE, stretch.minute + BEHIND
        window = brute_force.localise(stretch.zone, begin, end)
        change = cron_peers.change_in(window)
        for text in EXPRESSIONS:
            named, gaps = brute_force.nominal(text, window, begin)
            judged = _judge_ours(judged, stretch, text, (named, gaps))
            if number % peers_every == 0:
                for kind, example in cron_peers.differences(stretch.zone, text, begin, end, (named, gaps), change):
                    judged.peers[kind] += 1
                    judged.examples.setdefault(kind, example)
    return judged


def _judge_ours(judged: Judged, stretch: Stretch, text: str, seen: cron_peers.Nominal) -> Judged:
    """All rules over one stretch. Two rules that come to the same share one walk: it is walked once."""
    begin, end = stretch.minute - BEFORE, stretch.minute + BEHIND
    walked: dict[int, tuple[list[int], int, int | None]] = {}
    fires = judged.fires
    for gap, fold in POLICIES:
        meant = brute_force.ruled(*seen, *brute_force.rules(text, gap.value, fold.value))
        spec = compile_cron(Cron(text, stretch.zone, gap=gap, fold=fold))
        found = walked.get(id(spec.walk))
        if found is None:
            found = walked[id(spec.walk)] = _product(spec, begin, end)
        newest = meant[-1] * US_PER_MINUTE if meant else None
        if found != (meant, len(meant), newest):
            said = f"{cron_peers.difference(found[0], meant)}; count {found[1]}, last {found[2]}"
            judged.ours.append(f"{text!r} {gap}/{fold} in {stretch.zone} from UTC minute {begin}: {said}")
        fires += len(meant)
    return judged._replace(cells=judged.cells + len(POLICIES), fires=fires)


def _product(spec: CronSpec, begin: int, end: int) -> tuple[list[int], int, int | None]:
    """The fires in the UTC minutes [begin, end) by ``next``, and what ``count`` and ``last`` say."""
    after, until = begin * US_PER_MINUTE - 1, end * US_PER_MINUTE - 1
    return (
        [fire // US_PER_MINUTE for fire in _fires(spec, after, until)],
        spec.count(after, until),
        spec.last(after, until),
    )


def _fires(spec: CronSpec, after: int, until: int) -> Iterator[int]:
    """Bound: a walk that does not advance ends at the first fire that is not later, which is then a difference."""
    fire = spec.next(after)
    while fire is not None and fire <= until:
        yield fire
        following = spec.next(fire)
        if following is not None and following <= fire:
            yield following
            return
        fire = following
