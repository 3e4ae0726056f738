"""Draws docs/img/*.svg from bench/results, and writes the table beside them: `python -m bench.plots`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.peers.registry import PEERS
from bench.peers.report import Figure, figures, spread
from bench.plots.bars import Bar, chart
from bench.plots.table import Rounds, written

ROOT = Path(__file__).parents[2]
CHARTS = (
    ("peers-burst", "burst.runs_per_s", "Runs end to end, enqueued and executed", "1/s", False),
    ("peers-drain", "drain.runs_per_s", "Runs of a queue that was full before", "1/s", False),
    ("peers-cpu", "burst.cpu_us_per_run", "CPU of all processes for each run", "us", True),
    ("peers-herd", "herd-5000.p99_ms", "5,000 due in one instant, p99 of due to handler", "ms", True),
    ("peers-memory", "rss_mb", "Memory of all processes", "MB", False),
)


def kept(results: Path) -> Rounds:
    """All rounds of peers that are kept.

    Raises:
        ValueError: there are none.
    """
    found = figures(line for path in sorted(results.glob("peers-*.jsonl")) for line in path.read_text().splitlines())
    if not found:
        raise ValueError(f"no results of peers in {results}: run `make bench-peers` first")
    return found


def draw(found: Rounds, images: Path) -> list[Path]:
    """One chart for each measure that any peer has."""
    drawn = []
    images.mkdir(parents=True, exist_ok=True)
    for name, what, title, unit, logarithmic in CHARTS:
        bars = [_bar(peer.name, found[peer.name, what]) for peer in PEERS if (peer.name, what) in found]
        if bars:
            drawn.append(images / f"{name}.svg")
            best_first = sorted(bars, key=lambda bar: bar.value, reverse=unit == "1/s")
            drawn[-1].write_text(chart(title, unit, best_first, logarithmic=logarithmic))
    return drawn


def _bar(name: str, rounds: Sequence[Figure]) -> Bar:
    return Bar(name, *spread(rounds))


def main() -> None:
    """Charts and table, of the checkout's own results and for its own page."""
    rounds, page = kept(ROOT / "bench" / "results"), ROOT / "docs" / "performance.md"
    drawn = draw(rounds, ROOT / "docs" / "img")
    page.write_text(written(page.read_text(), rounds, [path.stem for path in drawn]))
    print(*drawn, page, sep="\n")


if __name__ == "__main__":
    try:
        main()
    except ValueError as trouble:
        sys.exit(str(trouble))
