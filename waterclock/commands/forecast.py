"""``waterclock forecast``: the load of the next 24 hours, drawn by the hour, and the busiest minutes and their jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from waterclock.clock import SystemClock
from waterclock.model.errors import RequestError
from waterclock.model.forecast import BUSIEST_MAX, JOBS_MAX, STEPS_MAX, Forecast, forecast_document
from waterclock.model.ids import US_PER_MINUTE
from waterclock.model.schedule import AT_MAX
from waterclock.model.time_text import format_rfc3339, parse_rfc3339
from waterclock.store.planned import known_tenants, planned_pages

from .connect import here, open_store
from .output import Format, OutputOption, default_format, say, show_one, show_rows

app = typer.Typer(add_completion=False, help="The load of the next 24 hours.")

_BAR_WIDTH = 30
_EIGHTHS = " ▏▎▍▌▋▊▉"


@app.command()
def forecast(
    tenant: Annotated[str | None, typer.Option(help="Whose (the tenant that is set)")] = None,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="All that are known: see docs/forecast.md")
    ] = False,
    from_: Annotated[str | None, typer.Option("--from", help="Begin there, RFC 3339 (now)")] = None,
    busiest: Annotated[int, typer.Option(min=0, max=BUSIEST_MAX, help="So many busy minutes")] = 5,
    max_jobs: Annotated[int, typer.Option(min=1, max=100_000, help="Count at most so many jobs")] = JOBS_MAX,
    output: OutputOption = None,
) -> None:
    """Count the fires of all active jobs by minute and tier, from the schedules alone; JSON has every minute."""
    if tenant and all_tenants:
        raise RequestError("Give either --tenant or --all-tenants", hint="`waterclock forecast --help`")
    from_at = parse_rfc3339(from_, "/from") if from_ else SystemClock().now()
    if not 0 <= from_at < AT_MAX:
        raise RequestError("The instant is out of range", pointer="/from", hint="From 1970 to 2199")
    settings = here()
    counted = Forecast(from_at, jobs_max=max_jobs, steps_max=STEPS_MAX * max(1, max_jobs // JOBS_MAX))
    with open_store(settings) as store:
        tenants = [tenant or settings.tenant]
        if all_tenants:
            tenants = known_tenants(store, [settings.tenant, *settings.intake.tenants.values()])
        for page in planned_pages(store, tenants):
            if not counted.take(*page):
                break
    document = forecast_document(counted, busiest) | {"tenants": tenants}
    if (output or default_format()) is Format.TABLE:
        _draw(counted, document)
    else:
        show_one(document, output)
    if counted.stopped:
        say(f"not all jobs: {counted.stopped}; --max-jobs counts more, --tenant those of one tenant")


def _draw(counted: Forecast, document: dict[str, Any]) -> None:
    """Two tables: the hours, and the busiest minutes."""
    hours = hours_of(counted)
    columns = ("from", "fires", "high", "medium", "low", "busiest_minute", "after_jitter", "load")
    show_rows(hours, columns, Format.TABLE)
    say()
    rows = [
        {
            "minute": minute["minute_at"],
            "fires": minute["fire_count"],
            "jobs": minute["job_count"],
            "most_of_them": [f"{job['fire_count']} {job['tier']} {job['job_id']}" for job in minute["jobs"]],
        }
        for minute in document["busiest"]
    ]
    show_rows(rows, ("minute", "fires", "jobs", "most_of_them"), Format.TABLE)
    say(f"{counted.fire_count} fires of {counted.job_count} jobs, {document['begin_at']} to {document['end_at']}")
    if counted.delay_job_count:
        say(f"{counted.delay_job_count} jobs have a fixed delay: when they fire follows from their runs")


def hours_of(counted: Forecast) -> list[dict[str, Any]]:
    """A row for each hour from the beginning on, by fire time; the bar's length goes by the fullest hour.

    ``after_jitter``: the busiest minute by due time.
    """
    rows: list[dict[str, Any]] = []
    for start in range(0, len(next(iter(counted.by_minute.values()))), 60):
        parts = {tier.word: sum(minutes[start : start + 60]) for tier, minutes in counted.by_minute.items()}
        fires, due = (_by_minute(each.values(), start) for each in (counted.by_minute, counted.due_by_minute))
        at = format_rfc3339(counted.begin_at + start * US_PER_MINUTE)
        rows.append({"from": at, "fires": sum(fires), **parts, "busiest_minute": max(fires), "after_jitter": max(due)})
    fullest = max(row["fires"] for row in rows)
    for row in rows:
        row["load"] = bar(row["fires"], fullest)
    return rows


def _by_minute(tiers: Iterable[Sequence[int]], start: int) -> list[int]:
    """The sums over all tiers for the hour that begins with this minute."""
    return [sum(each) for each in zip(*(minutes[start : start + 60] for minutes in tiers), strict=True)]


def bar(count: int, fullest: int) -> str:
    """A bar in eighths of a character; anything at all shows."""
    if not count:
        return ""
    eighths = max(1, round(count * _BAR_WIDTH * 8 / fullest))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
