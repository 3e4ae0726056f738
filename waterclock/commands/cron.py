"""``waterclock cron``: what an expression means, before a job has it."""

from __future__ import annotations

from typing import Annotated

import typer

from waterclock.clock import SystemClock
from waterclock.model.job import Cron, Fold, Gap
from waterclock.model.preview import PREVIEW_MAX, Preview, preview_cron
from waterclock.model.preview_document import row_document, shown_rows
from waterclock.model.time_text import parse_rfc3339

from .output import Format, OutputOption, default_format, say, show_one, show_rows

app = typer.Typer(add_completion=False, help="Understand cron expressions.", no_args_is_help=True)


@app.callback()
def cron() -> None:
    """Understand cron expressions."""


@app.command()
def explain(
    expression: Annotated[str, typer.Argument(help='Such as "0 9 * * 1-5"')],
    tz: Annotated[str, typer.Option("--tz", help="IANA time zone")] = "UTC",
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=PREVIEW_MAX, help="How many fires")] = 10,
    after: Annotated[str | None, typer.Option("--from", help="Count from this instant, RFC 3339 (now)")] = None,
    seconds: Annotated[bool, typer.Option("--seconds", help="Six fields, the second first")] = False,
    gap: Annotated[Gap, typer.Option(help="A local time that does not exist")] = Gap.AUTO,
    fold: Annotated[Fold, typer.Option(help="A local time that comes twice")] = Fold.AUTO,
    job: Annotated[str, typer.Option(help="Job id that H is drawn from: <tenant>:<name>")] = "",
    output: OutputOption = None,
) -> None:
    """Say in words what an expression means, what is odd about it, and when it fires next."""
    start = parse_rfc3339(after, "/from") if after else SystemClock().now()
    preview = preview_cron(Cron(expression, tz, seconds, gap, fold), start, count, job_id=job)
    explain_preview(preview, expression)
    if not preview.rows:
        show_one({"expression": expression, "next_fires": []}, output)
    elif (output or default_format()) is Format.TABLE:
        show_rows(shown_rows(preview), ("local", "utc", "remark"), output)
    else:
        show_rows([row_document(row) for row in preview.rows], (), output)


def explain_preview(preview: Preview, written: str) -> None:
    """Say what a schedule means and what is odd about it. ``written``: the cron text as it was given, or ""."""
    say(f"{preview.words} ({preview.zone})")
    if preview.read_as not in ("", written):
        say(f"read as: {preview.read_as}")
    for warning in preview.warnings:
        say(f"note: {warning}")
