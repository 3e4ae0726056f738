"""The table of the peers for docs/performance.md: medians and ranges, between two marks of that page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.peers.registry import PEERS
from bench.peers.report import Figure, spread

BEGIN, END = "<!-- peers: begin (make bench-plots) -->", "<!-- peers: end -->"
COLUMNS = (
    ("burst.runs_per_s", "burst, runs/s"),
    ("drain.runs_per_s", "drain, runs/s"),
    ("burst.cpu_us_per_run", "CPU, us a run"),
    ("herd-5000.p50_ms", "herd p50, ms"),
    ("herd-5000.p99_ms", "herd p99, ms"),
    ("rss_mb", "memory, MB"),
    ("burst.others_cores", "others, cores"),
)

Rounds = Mapping[tuple[str, str], Sequence[Figure]]


def written(page: str, found: Rounds, images: Sequence[str]) -> str:
    """The page with the table and the charts of these rounds.

    Raises:
        ValueError: the page has no place for them.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no {BEGIN} ... {END}")
    charts = "\n".join(f"![{name}](img/{name}.svg)" for name in images)
    return f"{before}{BEGIN}\n{table(found)}\n\n{charts}\n{END}{after}"


def table(found: Rounds) -> str:
    """A row for each peer that has figures; in a cell the median, and below it the range of several rounds."""
    peers = [peer.name for peer in PEERS if any(name == peer.name for name, _ in found)]
    rows = [["Peer", *(title for _, title in COLUMNS), "rounds"], ["---"] * (len(COLUMNS) + 2)]
    for name in peers:
        cells = [_cell(found.get((name, what), ())) for what, _ in COLUMNS]
        rounds = max(len(found.get((name, what), ())) for what, _ in COLUMNS)
        rows.append([name, *cells, str(rounds)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(rounds: Sequence[Figure]) -> str:
    if not rounds:
        return ""
    median, least, most = spread(rounds)
    return _short(median) if len(rounds) == 1 else f"{_short(median)} ({_short(least)} to {_short(most)})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if value < 10 else f"{value:.1f}"
