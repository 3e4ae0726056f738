"""The next fire of distinct (expression, zone, base) costs at most a 25th of croniter's construct + next.

One process, no thread, its own processor time: rounds of ours and of croniter's over the same triples by turns, the
median of the rounds' ratios. No triple comes twice before its round is over and memos are emptied before each, so none
is met; a second look at the same triples shows what a memo saves. Both sides compile what they keep beforehand: ours
the expression, croniter nothing, because its object stands for one base. Its cheapest use (the object kept,
``set_current``) is told beside it. Answers are compared where clocks never change.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from statistics import median
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from croniter import croniter

from tests.acceptance.evidence import FallsShort
from tests.bench.figures import Figures
from waterclock.model.cron import CronSpec, compile_cron
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import Cron

SHORT_FORM = False
RATIO_MIN = 25.0
ROUNDS, TRIPLES = 15, 2_000
SEED = 20261122
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Asia/Tokyo", "Australia/Lord_Howe", "America/Sao_Paulo",
         "Asia/Kolkata", "Pacific/Chatham")  # fmt: skip
_SHAPES = ("{m} * * * *", "*/{s} * * * *", "{m} {h} * * *", "{m} {h} * * 1-5", "{m} {h} {d} * *", "{m} {h} L * *",
           "{m} {h} * * 5#3", "{m} */{t} * * *", "{m},{n} {h} 1,15 * *", "{m} {h} {d} {o} *")  # fmt: skip


class Triple(NamedTuple):
    """What is asked: when does this fire next."""

    text: str
    zone: str
    base: Instant
    spec: CronSpec
    local: datetime
    """The base as croniter takes it."""


def main(short: bool = False) -> None:
    triples = _triples(Random(SEED))
    _compare(triples)
    figures = Figures("next-fire")
    sides: dict[str, Callable[[], object]] = {
        "ours": lambda: [triple.spec.next(triple.base) for triple in triples],
        "memo": lambda: [triple.spec.next(triple.base) for triple in triples],
        "croniter": lambda: [croniter(triple.text, triple.local).get_next(float) for triple in triples],
    }
    kept = [croniter(triple.text, triple.local) for triple in triples]
    sides["croniter kept"] = lambda: [_again(each, triple) for each, triple in zip(kept, triples, strict=True)]
    took: dict[str, list[float]] = {name: [] for name in sides}
    gc.collect()
    gc.disable()  # its passes would fall to whoever is at work
    try:
        for _ in range(ROUNDS):
            _forget(triples)
            for name, side in sides.items():  # the memo right behind ours: it has just seen the triples
                began_s = time.process_time()
                side()
                took[name].append((time.process_time() - began_s) / len(triples) * 1e6)
    finally:
        gc.enable()
    ratio = _ratio(took["croniter"], took["ours"])
    n = ROUNDS * len(triples)
    figures.add("us_per_next", median(took["ours"]), "us", vs="croniter build + next", ratio=round(ratio, 1), n=n)
    figures.add("us_per_next.memo", median(took["memo"]), "us", vs="croniter build + next",
                ratio=round(_ratio(took["croniter"], took["memo"]), 1), n=n)  # fmt: skip
    figures.add("us_per_next.croniter", median(took["croniter"]), "us", n=n)
    figures.add("us_per_next.croniter_kept", median(took["croniter kept"]), "us", vs="ours",
                ratio=round(_ratio(took["croniter kept"], took["ours"]), 1), n=n)  # fmt: skip
    print(f"kept in {figures.save()}")
    if ratio < RATIO_MIN:
        raise FallsShort(f"{ratio:.1f} times as fast as croniter, wanted {RATIO_MIN:g}")


def _triples(drawn: Random) -> list[Triple]:
    """Distinct, also by (walk, base minute): what a memo could know. Bases of ten years, zones warm."""
    found: dict[tuple[int, int], Triple] = {}
    while len(found) < TRIPLES:
        text = drawn.choice(_SHAPES).format(
            m=drawn.randrange(60), n=drawn.randrange(60), h=drawn.randrange(24), d=drawn.randint(1, 28),
            o=drawn.randint(1, 12), s=drawn.choice((2, 5, 10, 15)), t=drawn.choice((2, 3, 6)),
        )  # fmt: skip
        zone = drawn.choice(ZONES)
        base = 1_735_689_600 + drawn.randrange(10 * 365 * 86_400)
        spec = compile_cron(Cron(text, zone))
        local = (EPOCH + timedelta(seconds=base)).astimezone(ZoneInfo(zone))
        found.setdefault((id(spec.walk), base // 60), Triple(text, zone, base * US_PER_S, spec, local))
    return list(found.values())


def _compare(triples: list[Triple]) -> None:
    """Where there are no clock changes both must say the same: else somebody is quick and wrong."""
    for triple in triples:
        ours = triple.spec.next(triple.base)
        if triple.zone in {"UTC", "Asia/Tokyo", "Asia/Kolkata"}:
            theirs = croniter(triple.text, triple.local).get_next(float)
            if ours != round(theirs) * US_PER_S:
                raise FallsShort(f"{triple}: {ours} here, {theirs} by croniter")


def _again(kept: Any, triple: Triple) -> object:
    kept.set_current(triple.local, force=True)
    return kept.get_next(float)


def _forget(triples: list[Triple]) -> None:
    """Memos are emptied; what is compiled stays."""
    for triple in triples:
        triple.spec.walk._memo.clear()


def _ratio(theirs: list[float], ours: list[float]) -> float:
    return median(their / our for their, our in zip(theirs, ours, strict=True))
