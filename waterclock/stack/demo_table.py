"""How the demo looks: a live table on a terminal, plain lines elsewhere.

Statuses are told by shape and by colour. Nothing is decided here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from waterclock.model.events import Origin, RunStatus
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Tier

from .demo_sight import SeenRun, Sight

_SUMMARY_EVERY_S = 10.0
_SIGNS = {
    RunStatus.PENDING: ("…", "yellow"),
    RunStatus.RUNNING: ("▶", "cyan"),
    RunStatus.RETRYING: ("↻", "yellow"),
    RunStatus.SUCCEEDED: ("✓", "green"),
    RunStatus.FAILED: ("✗", "red"),
    RunStatus.CANCELLED: ("■", "magenta"),
    RunStatus.SKIPPED: ("-", "dim"),
}


class View(NamedTuple):
    """What is shown. ``lags``: records per tier that no worker has claimed; None: not known (yet)."""

    sight: Sight
    lags: Mapping[Tier, int | None]
    footer: str


class Display(Protocol):
    """Where the demo is shown; a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def tell(self, line: str) -> None:
        """One line that stays."""
        ...

    def show(self, view: View) -> None:
        """How things stand now."""
        ...


class LiveTable:
    """On a terminal: lines scroll by above a table that is redrawn."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def tell(self, line: str) -> None:
        self._live.console.print(Text(line), highlight=False)

    def show(self, view: View) -> None:
        self._live.start()  # the table begins when there is something in it
        self._live.update(drawn(view), refresh=True)


class PlainLines:
    """In a pipe or a log: lines alone, and every ten seconds the sums."""

    def __init__(self) -> None:
        self._next_s = time.monotonic() + _SUMMARY_EVERY_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def tell(self, line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def show(self, view: View) -> None:
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + _SUMMARY_EVERY_S
        tiers = view.sight.tiers.values()
        sums = {name: sum(getattr(tier, name) for tier in tiers) for name in ("due", "running", "done", "failed")}
        self.tell("  ".join(f"{name} {count}" for name, count in sums.items()))


def display() -> Display:
    """What fits stdout."""
    console = Console()
    return LiveTable(console) if console.is_terminal else PlainLines()


def drawn(view: View) -> RenderableType:
    """The table of tiers, the last runs, and the footer."""
    return Group(Text(), _tiers(view), Text(), _last_runs(view.sight), Text(), Text(view.footer, style="dim"))


def _tiers(view: View) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("TIER", min_width=8)
    for name in ("DUE", "RUNNING", "DONE", "FAILED", "LAG"):
        table.add_column(name, justify="right", min_width=8)
    for tier, count in view.sight.tiers.items():
        lag = view.lags.get(tier)
        table.add_row(
            tier.word,
            str(count.due),
            Text(str(count.running), style="cyan" if count.running else ""),
            Text(str(count.done), style="green" if count.done else ""),
            Text(str(count.failed), style="red" if count.failed else ""),
            "" if lag is None else str(lag),
        )
    return table


def _last_runs(sight: Sight) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("LAST RUNS", min_width=44, no_wrap=True)
    table.add_column("TIER", min_width=6)
    table.add_column("STATUS", min_width=11)
    for name in ("TRIGGER DELAY", "STARTED AFTER", "RAN"):
        table.add_column(name, justify="right")
    for run in sight.last:
        sign, style = _SIGNS[run.status]
        table.add_row(
            run.run_id,
            run.tier.word,
            Text(f"{sign} {run.status.name}", style=style),
            trigger_delay(run),
            _ms(run.fire_at, run.started_at),
            _ms(run.started_at, run.ended_at),
        )
    return table


def trigger_delay(run: SeenRun) -> str:
    """From the fire time to the moment in which the run could be seen on the log.

    A trigger's fire time is its command's stamp, so its delay holds the way through the dispatcher as well.
    """
    return _ms(run.fire_at, run.seen_at)


def ended_line(run: SeenRun) -> str:
    """One run that ended, as a line."""
    sign, _ = _SIGNS[run.status]
    made_by = "triggered" if run.origin is Origin.TRIGGER else "due"
    return (
        f"{sign} {run.status.name:<9} {run.run_id}  {made_by} to visible {trigger_delay(run)}, ran "
        f"{_ms(run.started_at, run.ended_at)}"
    )


def _ms(start: int, end: int) -> str:
    if not start or not end:
        return ""
    ms = (end - start) * 1_000 / US_PER_S
    return f"{ms:.0f} ms" if ms < 10_000 else f"{ms / 1_000:.1f} s"
