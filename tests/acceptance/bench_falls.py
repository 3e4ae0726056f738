"""This tree is not slower than another commit: ``BASE=<commit> make show NAME=bench-falls``.

The throughput of ``bench-first`` (from stored due rows until counted in Cassandra), each tree by its own harness and
with its own environment, one after the other in rounds that change the order; Cassandra as ``waterclock up`` starts it,
in both. Bar (medians of three rounds): runs/s fall by <= 5 %.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from tests.bench import amount
from tests.bench.figures import Figures

SHORT_FORM = False
ROOT = Path(__file__).resolve().parents[2]
FALLS_MAX = 0.05
ROUNDS = 3
_TOOK_AT_MOST_S = 900
_ONE = """
import inspect, json
from tests.bench import pipeline
from tests.bench.figures import Figures
figures = Figures("bench-falls")
node = {"node": pipeline.ALONE} if "node" in inspect.signature(pipeline.throughput).parameters else {}
pipeline.throughput(figures, **node)
print("FIGURES " + json.dumps({line["bench"]: line["value"] for line in figures.lines}))
"""
"""Runs in either tree; an older harness starts Cassandra so without being told."""


def main(short: bool = False) -> None:
    base = os.environ.get("BASE", "")
    if not base:
        raise SystemExit("against which commit? BASE=<commit> make show NAME=bench-falls")
    figures, trees = Figures("bench-falls"), {"base": _tree_of(base), "here": ROOT}
    found: dict[str, list[dict[str, float]]] = {"base": [], "here": []}
    for turn in range(1 if short else amount.rounds(ROUNDS)):
        for who in ("base", "here") if turn % 2 == 0 else ("here", "base"):
            found[who].append(_measured(trees[who]))
            print(json.dumps({"round": turn, "tree": who, **found[who][-1]}), flush=True)
    names = sorted(found["base"][0].keys() & found["here"][0].keys())
    middle = {
        who: {name: statistics.median(run[name] for run in runs) for name in names} for who, runs in found.items()
    }
    for name in names:
        before, now = middle["base"][name], middle["here"][name]
        unit = "runs/s" if name.endswith("per_s") else "us" if "cpu" in name else "s"
        ratio = round(now / before, 3) if before else None
        figures.add(name.partition(":")[2], now, unit, vs=base, ratio=ratio, n=len(found["here"]))
    print(f"kept in {figures.save()}")
    (rate,) = (name for name in names if name.endswith(":runs_per_s"))
    falls = 1 - middle["here"][rate] / middle["base"][rate]
    if short or not amount.is_whole(ROUNDS):
        raise SystemExit(f"a quick look: fewer than {ROUNDS} rounds")
    if falls > FALLS_MAX:
        raise SystemExit(f"{falls:.1%} fewer runs/s than {base}, not {FALLS_MAX:.0%} at most")


def _tree_of(commit: str) -> Path:
    """A checkout of ``commit`` beside this one, with its environment and servers; kept for the next time."""
    asked = ["git", "rev-parse", "--short", f"{commit}^{{commit}}"]
    sha = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    tree = ROOT / ".waterclock" / f"base-{sha}"
    if not tree.exists():
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), sha], cwd=ROOT, check=True)
    subprocess.run(["make", "venv-dev", "jars", "archives"], cwd=tree, check=True)
    return tree


def _measured(tree: Path) -> dict[str, float]:
    """What one run of the tree's own harness says."""
    python = tree / ".venv" / "bin" / "python" if tree != ROOT else Path(sys.executable)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("WATERCLOCK_", "PYTHON"))}
    words = [str(python), "-c", _ONE]
    done = subprocess.run(
        words, cwd=tree, env=env, capture_output=True, text=True, timeout=_TOOK_AT_MOST_S, check=False
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("FIGURES ")]
    if done.returncode or not told:
        raise RuntimeError(f"{tree} ended with {done.returncode}: {(done.stdout + done.stderr)[-2_000:]}")
    answer: dict[str, float] = json.loads(told[0].removeprefix("FIGURES "))
    return answer
