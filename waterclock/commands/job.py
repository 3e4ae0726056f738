"""``waterclock job``: what is to run, and when."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from waterclock.clock import SystemClock
from waterclock.log.port import Log
from waterclock.model.document import schedule_text, spec_from_document, spec_to_document
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.ids import US_PER_S, Instant, make_run_id
from waterclock.model.job import CommandKind, JobSpec, JobStatus, Once
from waterclock.model.time_text import format_rfc3339, parse_duration
from waterclock.model.upcoming import upcoming
from waterclock.serving import warning_for, who_serves
from waterclock.settings import Settings, load_settings
from waterclock.store.port import JobRow, Reading

from . import importing, watching
from .connect import here, job_id_of, names_of, open_log, open_store
from .ordering import Obeyed, check_pool, command_for, order
from .output import Format, OutputOption, say, show_one, show_rows

app = typer.Typer(add_completion=False, help="Define, look at and change jobs.", no_args_is_help=True)
app.add_typer(importing.app, name="import")

_NEXT_FIRES = 5
_PAGE_MAX = 500

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="A name, or <tenant>:<name>")]


@app.command()
def create(
    name: Annotated[
        str | None, typer.Argument(metavar="JOB", help="A name, or <tenant>:<name>; without: one is made up")
    ] = None,
    handler: Annotated[str | None, typer.Option(help="The handler's name, as a worker registered it")] = None,
    cron: Annotated[str | None, typer.Option(help='Cron expression: "0 9 * * 1-5"')] = None,
    tz: Annotated[str | None, typer.Option("--tz", help="IANA time zone of the cron expression [UTC]")] = None,
    every: Annotated[str | None, typer.Option(help="Interval: 5s, 10m, 2h, 1d")] = None,
    start_at: Annotated[str | None, typer.Option(help="First fire of an interval, RFC 3339")] = None,
    at: Annotated[str | None, typer.Option(help="One-off: RFC 3339")] = None,
    after: Annotated[str | None, typer.Option("--in", help="One-off, so long from now: 30s, 5m")] = None,
    tier: Annotated[str | None, typer.Option(help="high, medium or low [medium]")] = None,
    pool: Annotated[str | None, typer.Option(help="Which workers [default]")] = None,
    payload: Annotated[str | None, typer.Option(help="JSON; what is not JSON is taken as a JSON string")] = None,
    file: Annotated[Path | None, typer.Option("-f", "--file", help="The job as a JSON document; options win")] = None,
    seconds: Annotated[bool, typer.Option("--seconds", help="The cron expression has six fields")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check it and show its next fires; send nothing")] = False,
    output: OutputOption = None,
) -> None:
    """Define a job, and show its next fires. Defining it again changes it; the same definition changes nothing."""
    settings = load_settings() if dry_run else here()
    written = _read_document(file)
    own_name = str(written.pop("name", ""))
    job_id = job_id_of(settings, name or own_name or f"job-{secrets.token_hex(5)}")
    once = format_rfc3339(SystemClock().now() + parse_duration(after, "/in")) if after else at
    options = {
        "handler": handler,
        "cron": cron,
        "zone": tz,
        "every": every,
        "start_at": start_at,
        "at": once,
        "tier": tier,
        "pool": pool,
        "seconds": True if seconds else None,
        "payload": None if payload is None else _json_or_text(payload),
    }
    document = written | {key: value for key, value in options.items() if value is not None}
    spec = spec_from_document(document, job_id=job_id)
    if dry_run:
        from .previewing import show_preview

        show_preview(job_id, spec, SystemClock().now(), document.get("cron"), output)
        say("dry run: nothing was sent")
        return
    with open_log(settings) as log, open_store(settings) as store:
        check_pool(settings, log, spec)
        obeyed = order(settings, log, store, command_for(CommandKind.CREATE, job_id, spec=spec))
        show_one(_card(obeyed.row), output)
        warning = _warning(settings, log, spec)
    if warning:
        say(f"warning: {warning}")
    if isinstance(spec.schedule, Once) and spec.schedule.at <= obeyed.row.updated_at:
        say("its instant is over: it was decided at once")
    if obeyed.row.revision != obeyed.revision:
        say("it was so already: nothing has changed")
    say(f"next: waterclock run list {job_id}")


@app.command("list")
def list_jobs(
    tenant: Annotated[str | None, typer.Option(help="Whose [the tenant that is set]")] = None,
    limit: Annotated[int, typer.Option(min=1, max=_PAGE_MAX)] = 50,
    output: OutputOption = None,
) -> None:
    """List the jobs of a tenant, newest first."""
    settings = here()
    with open_store(settings) as store:
        lines = store.jobs(tenant or settings.tenant, limit)
        rows = [_line(store, line.job_id) for line in lines]
    shown = [row for row in rows if row]
    show_rows(shown, ("job", "status", "schedule", "tier", "handler", "next_fire"), output)
    if not shown:
        say(f"no jobs in tenant {tenant or settings.tenant}: `waterclock job create --help`")


@app.command()
def show(job: JobArgument, output: OutputOption = None) -> None:
    """Show a job: what it is, its next fires, its newest runs."""
    settings = here()
    job_id = job_id_of(settings, job)
    with open_store(settings) as store:
        row = _standing(store, job_id)
        runs = [
            f"{run.status.name:<10} {make_run_id(job_id, run.fire_at, run.series)}" for run in store.runs(job_id, 5)
        ]
    with open_log(settings) as log:
        note = _warning(settings, log, row.spec)
    show_one({**_card(row), "newest_runs": runs, "note": note or None}, output)


@app.command()
def trigger(
    job: JobArgument,
    payload: Annotated[str | None, typer.Option(help="In place of the job's own, this once")] = None,
    wait: Annotated[str | None, typer.Option(help="Wait so long for the run to end: 30s, 5m")] = None,
    output: OutputOption = None,
) -> None:
    """Run a job now, once more than its schedule says. With --wait the exit code tells how the run ended."""
    settings = here()
    job_id = job_id_of(settings, job)
    wait_us = parse_duration(wait, "/wait") if wait else 0
    body = None if payload is None else json.dumps(_json_or_text(payload), separators=(",", ":")).encode()
    with open_log(settings) as log, open_store(settings) as store:
        obeyed = _change(settings, log, store, CommandKind.TRIGGER, job_id, payload=body)
        within_s = wait_us / US_PER_S if wait_us else watching.SEEN_WITHIN_S
        run = watching.triggered_run(store, job_id, obeyed.revision, within_s)
        show_one({"job": job_id, "run": run, "revision": obeyed.revision}, output)
        if wait_us:
            watching.await_end(store, run, within_s)
    if not wait:
        say(f"next: waterclock run show '{run}'" if run else f"next: waterclock run list {job_id}")


@app.command()
def pause(job: JobArgument, output: OutputOption = None) -> None:
    """Stop a job from firing; its fires count as paused until it is resumed."""
    _change_and_show(CommandKind.PAUSE, job, output)


@app.command()
def resume(job: JobArgument, output: OutputOption = None) -> None:
    """Let a paused job fire again."""
    _change_and_show(CommandKind.RESUME, job, output)


@app.command()
def delete(job: JobArgument, output: OutputOption = None) -> None:
    """Delete a job. Its history stays."""
    _change_and_show(CommandKind.DELETE, job, output)


def _warning(settings: Settings, log: Log, spec: JobSpec) -> str:
    """What the beats say about the workers of this job; "" where all is well."""
    now = SystemClock().now()
    serving = who_serves(log, names_of(settings), lease_ttl_s=settings.worker.lease_ttl_s, now=now)
    return warning_for(spec, serving)


def _change_and_show(kind: CommandKind, job: str, output: Format | None) -> None:
    settings = here()
    job_id = job_id_of(settings, job)
    with open_log(settings) as log, open_store(settings) as store:
        show_one(_card(_change(settings, log, store, kind, job_id).row), output)


def _change(
    settings: Settings, log: Log, store: Reading, kind: CommandKind, job_id: str, *, payload: bytes | None = None
) -> Obeyed:
    """Refuse here what the dispatcher would refuse anyway: a job that is not there."""
    _standing(store, job_id)
    return order(settings, log, store, command_for(kind, job_id, payload=payload))


def _standing(store: Reading, job_id: str) -> JobRow:
    row = store.job(job_id)
    if row is None or row.status is JobStatus.DELETED:
        raise NotFound(f"There is no job {job_id}", hint="`waterclock job list` shows those there are")
    return row


def _card(row: JobRow) -> dict[str, Any]:
    return {
        "job": row.job_id,
        "status": row.status.name.lower(),
        **spec_to_document(row.spec),
        "revision": row.revision,
        "created_at": format_rfc3339(row.created_at),
        "updated_at": format_rfc3339(row.updated_at),
        "next_fires": [format_rfc3339(fire) for fire in _next_fires(row, _NEXT_FIRES)],
    }


def _line(store: Reading, job_id: str) -> dict[str, Any] | None:
    row = store.job(job_id)
    if row is None or row.status is JobStatus.DELETED:
        return None
    document = spec_to_document(row.spec)
    return {
        "job": job_id,
        "status": row.status.name.lower(),
        "schedule": schedule_text(document),
        "tier": row.spec.tier.word,
        "handler": row.spec.label,
        "next_fire": next((format_rfc3339(fire) for fire in _next_fires(row, 1)), None),
    }


def _next_fires(row: JobRow, count: int) -> list[Instant]:
    return upcoming(row.spec, row.status, row.anchor_at, SystemClock().now(), count, job_id=row.job_id)


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read_document(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        document = json.loads(file.read_text())
    except OSError as error:
        raise RequestError(f"{file} cannot be read: {error.strerror}", hint="Give a readable file") from None
    except ValueError as error:
        raise RequestError(f"{file} is not JSON: {error}", hint="Correct the file") from None
    if not isinstance(document, Mapping):
        raise RequestError(f"{file} is not a JSON object", hint='Such as {"handler": "demo.ping", "every": "5s"}')
    return dict(document)
