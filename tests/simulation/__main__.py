"""``python -m tests.simulation``, also ``waterclock sim``: the whole system in one process, from one seed.

``--seed S`` replays one and tells its story, ``--seeds N [--from S]`` hunts on all cores and keeps what fails, made
smaller within a bound, ``--seed S --shrink`` makes one smaller for longer, ``--plan FILE`` replays a plan that was
saved. ``--long``: seeds of hours in which little happens (``long_plan.py``). ``--planted NAME`` puts a bug in first
(``--planted list`` names them); ``--ledger`` writes the batch down (``ledger.py``).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from . import ledger
from .hunt import EVERY_BUG, LONG, USUAL, Catch, Seeds, catch_planted, hunt
from .keeping import FOLDER, kept
from .plan import Plan
from .plan_text import plan_to_text, read_plan
from .planted_hours import PLANTED_IN_HOURS
from .play import play_plan
from .shrink import shrink

Planted = Callable[[], AbstractContextManager[None]]


def main(words: list[str]) -> int:
    """0: nothing was broken; 1: something was."""
    asked = _parse(words)
    if asked.planted == "list":
        print("\n".join(EVERY_BUG))
        return 0
    kind = LONG if asked.long or asked.planted in PLANTED_IN_HOURS else USUAL
    planted: Planted = EVERY_BUG[asked.planted] if asked.planted else nullcontext
    if asked.seed is not None or asked.plan is not None:
        plan = read_plan(asked.plan) if asked.plan is not None else kind.draws(asked.seed)
        return _shrink(plan, planted, asked.save) if asked.shrink else _tell(plan, planted, quiet=asked.quiet)
    first = ledger.fresh_seed() if asked.first is None else asked.first
    seeds = range(first, first + asked.seeds)
    if asked.planted:
        found = catch_planted(asked.planted, seeds, kind)
        print(f"{asked.planted}: " + (f"caught by seed {found.seed}: {found.complaints[0]}" if found else "NOT CAUGHT"))
        return 0 if found else 1
    caught = _hunt(seeds, processes=asked.processes, kind=kind)
    if asked.ledger:
        ledger.add(ledger.batch_of(first, caught), ledger.FILE_OF_LONG if kind is LONG else ledger.FILE)
    for line in kept(caught.violations, asked.keep, draws=kind.draws):
        print(line)
    return 1 if caught.violations else 0


def _parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="waterclock sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this one, and tell its story")
    parser.add_argument("--plan", type=Path, help="replay the plan in this file")
    parser.add_argument("--long", action="store_true", help="seeds of hours in which little happens")
    parser.add_argument("--quiet", action="store_true", help="only how it ended")
    parser.add_argument("--seeds", type=int, default=100, help="how many to hunt through")
    parser.add_argument("--from", dest="first", type=int, help="the first seed; without it, fresh ones")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--ledger", action="store_true", help="write the batch into the ledger of seeds")
    parser.add_argument("--shrink", action="store_true", help="make the plan that fails smaller, and save it")
    parser.add_argument("--keep", type=Path, default=FOLDER, help="the folder for plans that a hunt found failing")
    parser.add_argument("--save", type=Path, default=Path("failing-plan.json"), help="where to")
    parser.add_argument("--planted", default="", choices=["", "list", *EVERY_BUG], metavar="NAME")
    return parser.parse_args(words)


def _tell(plan: Plan, planted: Planted, *, quiet: bool) -> int:
    verdict = play_plan(plan, keeps_lines=not quiet, planted=planted)
    for line in verdict.lines:
        print(line)
    for complaint in verdict.complaints:
        print(f"BROKEN  {complaint}")
    if not quiet:
        print("counts  " + ", ".join(f"{name} {count}" for name, count in sorted(verdict.counts.items())))
    print(f"seed {plan.seed} digest {verdict.digest}: {len(verdict.complaints)} complaints")
    return 1 if verdict.complaints else 0


def _shrink(plan: Plan, planted: Planted, save: Path) -> int:
    try:
        found = shrink(plan, planted)
    except ValueError as nothing:
        print(nothing)
        return 0
    save.write_text(plan_to_text(found.plan) + "\n", encoding="utf-8")
    smallest = found.plan
    print(f"{found.plays} plays: {len(smallest.orders)} orders, {len(smallest.troubles)} troubles are left of")
    print(f"{len(plan.orders)} and {len(plan.troubles)}; {save} replays them with --plan")
    for each in (*smallest.orders, *smallest.garbage, *smallest.troubles):
        print(f"  {each}")
    for complaint in found.complaints:
        print(f"BROKEN  {complaint}")
    return 1


def _hunt(seeds: range, *, processes: int, kind: Seeds) -> Catch:
    caught = hunt(seeds, processes=processes, kind=kind)
    for seed, complaints in sorted(caught.violations.items()):
        print(f"seed {seed}: {len(complaints)} complaints, the first: {complaints[0]}")
    print("counts  " + ", ".join(f"{name} {count}" for name, count in sorted(caught.counts.items())))
    print(f"never provoked: {', '.join(caught.missing) or 'nothing'}")
    print(
        f"{caught.seeds} seeds from {seeds.start}, {len(caught.violations)} violations, {len(caught.short)} too short,"
    )
    print(f"{caught.seeds_per_s:.1f} seeds/s in {processes} processes")
    return caught


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
