"""Figures as JSON lines: printed, and kept in bench/results/."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "bench" / "results"


class Figures:
    """Collects the figures of one bench."""

    def __init__(self, bench: str) -> None:
        self.bench = bench
        self.lines: list[dict[str, object]] = []

    def add(self, name: str, value: float, unit: str, *, vs: str = "", ratio: float | None = None, n: int = 0) -> None:
        line = {
            "bench": f"{self.bench}:{name}",
            "value": round(value, 3),
            "unit": unit,
            "vs": vs,
            "ratio": ratio,
            "n": n,
        }
        self.lines.append(line)
        print(json.dumps(line), flush=True)

    def save(self) -> Path:
        RESULTS.mkdir(parents=True, exist_ok=True)
        path = RESULTS / f"{self.bench}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return path


def quantiles(values: list[float]) -> dict[str, float]:
    """p50, p95, p99, max."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {
        "p50": statistics.median(ordered),
        "p95": ordered[min(last, int(len(ordered) * 0.95))],
        "p99": ordered[min(last, int(len(ordered) * 0.99))],
        "max": ordered[-1],
    }
