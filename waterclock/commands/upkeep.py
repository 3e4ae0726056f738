"""``waterclock upkeep``: how far the work is that goes on for ever, and what it found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from waterclock.clock import SystemClock
from waterclock.clusters.doctor_upkeep import newest_of
from waterclock.model.errors import NotFound
from waterclock.model.time_text import format_rfc3339
from waterclock.model.zones import TZDATA_VERSION
from waterclock.store.upkeep import DUE_SWEEP, LEDGER, OVERDUE, STUCK_DAGS, TZDATA, Told, UpkeepKeeping

from .connect import here, open_store
from .output import OutputOption, say, show_rows

app = typer.Typer(
    add_completion=False, help="How far sweeps and checks are, and what they found.", no_args_is_help=True
)

_WORKS = (DUE_SWEEP, LEDGER, OVERDUE, STUCK_DAGS)
_COLUMNS = ("work", "shard", "told_at", "found", "reached")


@app.callback()
def _group() -> None:
    """How far sweeps and checks are, and what they found."""


@app.command()
def status(output: OutputOption = None) -> None:
    """A line for each work and shard. `waterclock doctor` says what is wrong."""
    with open_store(here()) as store:
        rows = [row for what in _WORKS for told in store.told_of_all(what) for row in _lines(what, told)]
    show_rows(rows, _COLUMNS, output)
    if not rows:
        say("nothing was told yet: do dispatcher and recorder run?")


@app.command()
def tzdata(
    withdraw: Annotated[str | None, typer.Option(help="A version that was announced by mistake")] = None,
    output: OutputOption = None,
) -> None:
    """The versions of zone data that dispatchers announced, and with which one each shard was looked through.

    A dispatcher with older data than the newest leaves its group. After an upgrade next fires are recomputed by
    themselves; here is how far that is.
    """
    with open_store(here()) as store:
        if withdraw:
            _withdraw(store, withdraw)
        announced, swept = store.told_of_all(TZDATA), store.told_of_all(DUE_SWEEP)
    rows = [
        {
            "tzdata": each.place,
            "announced_at": format_rfc3339(each.at),
            "withdrawn": bool(each.parts.get("withdrawn")),
            "shards": sorted(int(shard.place) for shard in swept if shard.parts.get("tzdata") == each.place),
        }
        for each in announced
    ]
    show_rows(rows, ("tzdata", "announced_at", "withdrawn", "shards"), output)
    recomputed = sum(int(each.parts.get("recomputed", 0)) for each in swept)
    say(f"newest {newest_of(announced) or 'none'}, here {TZDATA_VERSION}; {recomputed} next fires recomputed so far")


def _withdraw(store: UpkeepKeeping, version: str) -> None:
    told = store.told(TZDATA, version)
    if told is None:
        raise NotFound(f"tzdata {version} was never announced", pointer="/withdraw", hint="waterclock upkeep tzdata")
    store.tell(TZDATA, version, {**told.parts, "withdrawn": True}, SystemClock().now())


def _lines(what: str, told: Told) -> Iterator[dict[str, Any]]:
    parts = told.parts
    found = {
        DUE_SWEEP: lambda: f"{parts.get('repairs', 0)} repaired, {parts.get('recomputed', 0)} recomputed",
        LEDGER: lambda: ", ".join(f"{parts.get(kind, 0)} {kind}" for kind in ("missing", "doubled", "wrong")),
        OVERDUE: lambda: f"{parts.get('count', 0)} overdue of {parts.get('watched', 0)}",
        STUCK_DAGS: lambda: f"{sum(parts.get('by_reason', {}).values())} stuck in {parts.get('looked_at', 0)} DagRuns",
    }[what]()
    reached = int(parts.get("verified_to" if what == LEDGER else "ended_at", 0))
    at = {"told_at": format_rfc3339(told.at), "reached": format_rfc3339(reached) if reached else None}
    yield {"work": what, "shard": int(told.place), "found": found, **at}
