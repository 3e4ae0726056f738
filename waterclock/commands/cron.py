"""``waterclock cron``: what an expression means, before a job has it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import typer
from cron_descriptor import ExpressionDescriptor, FormatError, Options

from waterclock.clock import SystemClock
from waterclock.model.cron import CronSpec, compile_cron
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import Cron
from waterclock.model.time_text import format_rfc3339, parse_rfc3339

from .output import OutputOption, say, show_one, show_rows

app = typer.Typer(add_completion=False, help="Understand cron expressions.", no_args_is_help=True)

_COUNT_MAX = 1_000


@app.callback()
def cron() -> None:
    """Understand cron expressions."""


@app.command()
def explain(
    expression: Annotated[str, typer.Argument(help='Such as "0 9 * * 1-5"')],
    tz: Annotated[str, typer.Option("--tz", help="IANA time zone")] = "UTC",
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=_COUNT_MAX, help="How many fires")] = 10,
    after: Annotated[str | None, typer.Option("--from", help="Count from this instant, RFC 3339 [now]")] = None,
    seconds: Annotated[bool, typer.Option("--seconds", help="Six fields, the second first")] = False,
    job: Annotated[str, typer.Option(help="Job id that H is drawn from")] = "",
    output: OutputOption = None,
) -> None:
    """Say in words what an expression means, what is odd about it, and when it fires next."""
    spec = compile_cron(Cron(expression, tz, seconds), job)
    start = parse_rfc3339(after, "/from") if after else SystemClock().now()
    say(_in_words(spec))
    if spec.resolved != spec.text:
        say(f"read as: {spec.resolved}")
    for warning in spec.warnings:
        say(f"note: {warning}")
    rows = _fires(spec, start, count)
    if not rows:
        show_one({"expression": expression, "next_fires": []}, output)
        return
    show_rows(rows, ("local", "utc", "remark"), output)


def _fires(spec: CronSpec, after: Instant, count: int) -> list[dict[str, str | None]]:
    zone = ZoneInfo(spec.zone)
    rows: list[dict[str, str | None]] = []
    offset_before = _offset_at(after, zone)
    while len(rows) < count and (fire := spec.next(after)) is not None:
        local = datetime.fromtimestamp(fire / US_PER_S, UTC).astimezone(zone)
        offset = _offset_at(fire, zone)
        remark = None if offset == offset_before else f"after the clock change to UTC{local.strftime('%z')}"
        rows.append({"local": local.strftime("%a %Y-%m-%d %H:%M:%S %Z"), "utc": format_rfc3339(fire), "remark": remark})
        offset_before, after = offset, fire
    return rows


def _offset_at(at: Instant, zone: ZoneInfo) -> object:
    return datetime.fromtimestamp(at / US_PER_S, UTC).astimezone(zone).utcoffset()


def _in_words(spec: CronSpec) -> str:
    """In English, by cron-descriptor; the expression itself where that has no words for it."""
    options = Options()
    options.use_24hour_time_format = True
    try:
        words = str(ExpressionDescriptor(spec.resolved, options))
    except FormatError:
        words = spec.resolved
    return f"{words} ({spec.zone})"
