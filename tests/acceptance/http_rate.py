"""How many HTTP callbacks a worker makes on one core, guard and signature on, beside the bare client library.

One process calls a target on the other core, 100 calls in flight, by turns: the bare library, and the executor as the
worker's round thread uses it. Whole, the median must be 2,000 calls a second and 0.6 of the bare library's, over the
turns in which the caller had its core for itself. The target counts for itself, and verifies samples by the signature
scheme's own package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.acceptance.evidence import Evidence

ROOT = Path(__file__).resolve().parents[2]
_SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="  # noqa: S105 - of this check alone
_RATE_MIN = 2_000
_SHARE_MIN = 0.6
_TURNS_MIN = 4
"""Of both together: under two pairs there is no median."""


class Size(NamedTuple):
    """Turns of each, and how long one lasts."""

    turns: int
    seconds: float


WHOLE = Size(7, 3.0)
SHORT = Size(2, 0.7)


def main(short: bool = False) -> None:
    evidence = Evidence("http-rate", None)
    cores = len(os.sched_getaffinity(0))
    evidence.demand(cores >= 2, f"there is {cores} core: caller and target need one each")
    turns, counts = measure(SHORT if short else WHOLE)
    _judge(evidence, turns, counts, judge_rate=not short)
    evidence.close()


def measure(size: Size) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The turns of both callers, and what the target counted."""
    cores = sorted(os.sched_getaffinity(0))
    target = subprocess.Popen(
        [sys.executable, "-m", "tests.acceptance.calls.quick_target", _SECRET],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        os.sched_setaffinity(target.pid, {cores[-1]})
        assert target.stdout is not None
        place = f"127.0.0.1:{int(target.stdout.readline())}"
        turns = _turns(place, cores[0], size)
        with urllib.request.urlopen(f"http://{place}/counts", timeout=10.0) as answer:
            counts = json.load(answer)
    finally:
        target.kill()
        target.wait()
    return turns, counts


def _turns(place: str, core: int, size: Size) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.acceptance.calls.rate_caller", place, _SECRET, str(core)]
    command += [str(size.turns), str(size.seconds)]
    limit_s = 60.0 + 10 * size.turns * size.seconds
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _judge(evidence: Evidence, turns: list[dict[str, Any]], counts: dict[str, int], *, judge_rate: bool) -> None:
    counted = [turn for turn in turns if turn["alone"]] if judge_rate else turns
    evidence.figure("turns", len(turns), alone_on_the_core=sum(turn["alone"] for turn in turns))
    evidence.demand(all(turn["bad"] == 0 for turn in turns), "calls ended badly")
    evidence.figure("at the target", counts)
    ours = sum(turn["good"] for turn in turns if turn["who"] == "ours")
    evidence.demand(counts["signed"] >= ours > 0, "the target saw fewer signed calls than ended well")
    evidence.demand(counts["calls"] >= sum(turn["good"] for turn in turns), "the target saw fewer than ended well")
    evidence.demand(counts["checked"] > 0, "no call was verified")
    evidence.demand(counts["bad"] == 0, "signed calls did not verify")
    if len(counted) < _TURNS_MIN:
        evidence.demand(False, "the core was hardly ever free: there is no rate to judge")
    else:
        _judge_rate(evidence, counted, judge_rate=judge_rate)


def _judge_rate(evidence: Evidence, turns: list[dict[str, Any]], *, judge_rate: bool) -> None:
    rates = {who: [turn["good"] / turn["wall_s"] for turn in turns if turn["who"] == who] for who in ("bare", "ours")}
    for who, found in rates.items():
        evidence.figure(f"calls a second, {who}", round(median(found)), turns=[round(rate) for rate in found])
    spent = {who: [turn["cpu_s"] * 1e6 / turn["good"] for turn in turns if turn["who"] == who] for who in rates}
    evidence.figure("microseconds of processor a call", {who: round(median(found)) for who, found in spent.items()})
    share = median(ours / bare for ours, bare in zip(rates["ours"], rates["bare"], strict=True))
    evidence.figure("of the bare library's rate", round(share, 2))
    if judge_rate:
        evidence.demand(median(rates["ours"]) >= _RATE_MIN, f"under {_RATE_MIN} calls a second")
        evidence.demand(share >= _SHARE_MIN, f"under {_SHARE_MIN} of the bare library")
