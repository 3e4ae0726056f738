"""``python -m tests.simulation``: ``--seed S`` replays one and tells its story, ``--seeds N [--from S]`` hunts.

``--planted NAME`` puts a bug in first (``--planted list`` names them); ``--both-cores`` hunts on two.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext

from .hunt import catch_planted, hunt
from .planted import PLANTED
from .play import play


def main(words: list[str]) -> int:
    asked = _parse(words)
    if asked.planted == "list":
        print("\n".join(PLANTED))
        return 0
    if asked.seed is not None:
        return _tell(asked.seed, asked.planted, quiet=asked.quiet)
    first = asked.first
    seeds = range(first, first + asked.seeds)
    if asked.planted:
        found = catch_planted(asked.planted, seeds)
        print(f"{asked.planted}: " + (f"caught by seed {found.seed}: {found.complaints[0]}" if found else "NOT CAUGHT"))
        return 0 if found else 1
    return _hunt(seeds, processes=2 if asked.both_cores else 1)


def _parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, help="replay this one, and tell its story")
    parser.add_argument("--quiet", action="store_true", help="only how it ended")
    parser.add_argument("--seeds", type=int, default=100, help="how many to hunt through")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--both-cores", action="store_true")
    parser.add_argument("--planted", default="", choices=["", "list", *PLANTED], metavar="NAME")
    return parser.parse_args(words)


def _tell(seed: int, planted: str, *, quiet: bool) -> int:
    verdict = play(seed, keeps_lines=not quiet, planted=PLANTED[planted] if planted else nullcontext)
    for line in verdict.lines:
        print(line)
    for complaint in verdict.complaints:
        print(f"BROKEN  {complaint}")
    if not quiet:
        print("counts  " + ", ".join(f"{name} {count}" for name, count in sorted(verdict.counts.items())))
    print(f"seed {seed} digest {verdict.digest}: {len(verdict.complaints)} complaints")
    return 1 if verdict.complaints else 0


def _hunt(seeds: range, *, processes: int) -> int:
    caught = hunt(seeds, processes=processes)
    for seed, complaints in sorted(caught.violations.items()):
        print(f"seed {seed}: {len(complaints)} complaints, the first: {complaints[0]}")
    print("counts  " + ", ".join(f"{name} {count}" for name, count in sorted(caught.counts.items())))
    print(f"never provoked: {', '.join(caught.missing) or 'nothing'}")
    print(f"{caught.seeds} seeds, {len(caught.violations)} violations, {caught.seeds_per_s:.1f} seeds/s")
    return 1 if caught.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
