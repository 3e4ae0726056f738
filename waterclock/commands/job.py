"""``waterclock job``: what is to run, and when."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Any

import typer

from waterclock.clock import SystemClock
from waterclock.log.port import Log
from waterclock.model.document import schedule_text, spec_to_document
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.ids import US_PER_S, Instant, make_run_id, ordinal
from waterclock.model.job import CommandKind, JobSpec, JobStatus, Once
from waterclock.model.time_text import format_rfc3339, parse_duration, parse_rfc3339
from waterclock.model.untellable import schedule_error
from waterclock.model.upcoming import due_times, upcoming
from waterclock.serving import warning_for, who_serves
from waterclock.settings import Settings, load_settings
from waterclock.store.calendar_use import note_uses
from waterclock.store.expecting import expectation_of
from waterclock.store.job_filter import PATIENT_MAX, JobFilter, jobs_meant
from waterclock.store.next_of_delay import next_of_delay
from waterclock.store.port import JobRow, Reading
from waterclock.store.standing import RUNS_LOOKED_AT

from . import bulk, importing, versions, watching
from .connect import here, job_id_of, names_of, open_log, open_store
from .failing import CommandFailed, ExitCode
from .job_options import (
    ConcurrencyKeyOption,
    DocumentOption,
    FailuresOption,
    MaxConcurrentOption,
    MaxHeldOption,
    MaxPerKeyOption,
    MaxRunsOption,
    NewJobArgument,
    OnJobOption,
    OverlapOption,
    given,
    json_or_text,
    named,
    on_jobs,
    payload_bytes,
)
from .ordering import Obeyed, check_pool, command_for, order
from .output import Format, OutputOption, say, show_one, show_rows
from .passing import pass_one
from .saving import asks_cassandra, follow_calendars, spec_here

app = typer.Typer(add_completion=False, help="Define, look at and change jobs.", no_args_is_help=True)
app.add_typer(importing.app, name="import")

_NEXT_FIRES = 5
_PAGE_MAX = 500

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="A name, or <tenant>:<name>")]
NoteOption = Annotated[str, typer.Option(help="Why, for those who read it later")]


@app.command()
def create(
    name: NewJobArgument = None,
    handler: Annotated[str | None, typer.Option(help="The handler's name, as a worker registered it")] = None,
    cron: Annotated[str | None, typer.Option(help='Cron expression: "0 9 * * 1-5"')] = None,
    tz: Annotated[str | None, typer.Option("--tz", help="IANA time zone of the cron expression or dates (UTC)")] = None,
    every: Annotated[str | None, typer.Option(help="Interval: 5s, 10m, 2h, 1d")] = None,
    start_at: Annotated[str | None, typer.Option(help="First fire of an interval, RFC 3339")] = None,
    delay: Annotated[str | None, typer.Option(help="So long after the end of each run: 10m")] = None,
    at: Annotated[str | None, typer.Option(help="One-off: RFC 3339")] = None,
    after: Annotated[str | None, typer.Option("--in", help="One-off, so long from now: 30s, 5m")] = None,
    on_job: OnJobOption = None,
    date: Annotated[list[str] | None, typer.Option("--date", help="One of a list of dates; give it again")] = None,
    active_from: Annotated[str | None, typer.Option(help="No fire before it, RFC 3339")] = None,
    active_until: Annotated[str | None, typer.Option(help="No fire at or after it, RFC 3339")] = None,
    jitter: Annotated[str | None, typer.Option(help="Spread fires over so long: 30s, 5m")] = None,
    misfire: Annotated[str | None, typer.Option(help="Missed fires: latest, skip or all (latest)")] = None,
    catch_up_max: Annotated[int | None, typer.Option(help="Missed fires that run at most, with all (100)")] = None,
    catch_up_window: Annotated[str | None, typer.Option(help="Skip what is missed for longer (24h)")] = None,
    catch_up_order: Annotated[str | None, typer.Option(help="Which run first: oldest or newest (oldest)")] = None,
    pause_after_failures: FailuresOption = None,
    max_runs: MaxRunsOption = None,
    overlap: OverlapOption = None,
    max_concurrent: MaxConcurrentOption = None,
    concurrency_key: ConcurrencyKeyOption = None,
    max_concurrent_per_key: MaxPerKeyOption = None,
    max_held: MaxHeldOption = None,
    expect_within: Annotated[str | None, typer.Option(help="A finding when none succeeded for so long: 26h")] = None,
    placement: Annotated[str | None, typer.Option(help="Within --jitter: hash or balanced (hash)")] = None,
    calendar: Annotated[list[str] | None, typer.Option("--calendar", help="No run when it blocks; repeatable")] = None,
    on_calendar: Annotated[str | None, typer.Option(help="Blocked fires: skip or next_allowed (skip)")] = None,
    tier: Annotated[str | None, typer.Option(help="high, medium or low (medium)")] = None,
    pool: Annotated[str | None, typer.Option(help="Which workers (default)")] = None,
    payload: Annotated[str | None, typer.Option(help="JSON; what is not JSON is taken as a JSON string")] = None,
    file: DocumentOption = None,
    seconds: Annotated[bool, typer.Option("--seconds", help="The cron expression has six fields")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check it and show its next fires; send nothing")] = False,
    output: OutputOption = None,
) -> None:
    """Define a job, and show its next fires. Defining it again changes it; the same definition changes nothing."""
    written = _read_document(file)
    own_name = str(written.pop("name", ""))
    once = format_rfc3339(SystemClock().now() + parse_duration(after, "/in")) if after else at
    document = written | {
        **named(handler=handler, cron=cron, zone=tz, every=every, start_at=start_at, at=once, dates=date or None),
        **named(delay=delay, active_from=active_from, active_until=active_until, misfire=misfire),
        **named(jitter=given(window=jitter, placement=placement) if placement else jitter),
        **named(calendars=calendar or None, on_calendar=on_calendar, max_concurrent_per_key=max_concurrent_per_key),
        **named(catch_up=given(max=catch_up_max, window=catch_up_window, order=catch_up_order)),
        **named(pause_after_failures=pause_after_failures, max_runs=max_runs, expect_within=expect_within),
        **named(overlap=overlap, max_concurrent=max_concurrent, concurrency_key=concurrency_key, max_held=max_held),
        **named(tier=tier, pool=pool, seconds=seconds or None, on=on_jobs(on_job)),
        **named(payload=None if payload is None else json_or_text(payload)),
    }
    settings = here() if not dry_run or asks_cassandra(document) else load_settings()
    job_id = job_id_of(settings, name or own_name or f"job-{secrets.token_hex(5)}")
    spec = spec_here(settings, document, job_id, dry_run=dry_run)
    if dry_run:
        _show_only(job_id, spec, document.get("cron"), output)
    else:
        _define(settings, job_id, spec, output)


def _define(settings: Settings, job_id: str, spec: JobSpec, output: Format | None) -> None:
    """Order what was checked, and show what stands then."""
    with open_log(settings) as log, open_store(settings) as store:
        check_pool(settings, log, spec, job_id)
        obeyed = order(settings, log, store, command_for(CommandKind.CREATE, job_id, spec=spec))
        follow_calendars(settings, log, store, job_id, spec)
        show_one(_card(obeyed.row), output)
        warning = _warning(settings, log, spec)
    _say_of(obeyed, spec, warning)


def _show_only(job_id: str, spec: JobSpec, written: object, output: Format | None) -> None:
    from .previewing import show_preview

    show_preview(job_id, spec, SystemClock().now(), written, output)
    say("dry run: nothing was sent")


@app.command("list")
def list_jobs(
    tenant: Annotated[str | None, typer.Option(help="Whose (the tenant that is set)")] = None,
    limit: Annotated[int, typer.Option(min=1, max=_PAGE_MAX)] = 50,
    after: Annotated[str, typer.Option(help="Go on there, as the command before said")] = "",
    output: OutputOption = None,
) -> None:
    """List the jobs of a tenant, newest first."""
    settings = here()
    whose, behind = tenant or settings.tenant, bulk.place_in(after)
    with open_store(settings) as store:
        found = jobs_meant(store, whose, JobFilter(), limit, behind, PATIENT_MAX)
    columns = ("job", "status", "schedule", "tier", "handler", "next_fire")
    show_rows([_line(row) for row in found.rows], columns, output)
    if found.next_at is None and not found.rows:
        say(f"no {'more ' if behind else ''}jobs in tenant {whose}: `waterclock job create --help`")
    bulk.tell_more(found)


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
        waited_for = _waited_for(store, row) | _next_of_chain(store, row)
    with open_log(settings) as log:
        note = _warning(settings, log, row.spec)
    show_one({**_card(row), "newest_runs": runs, **waited_for, "note": note or None}, output)


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
    body = payload_bytes(payload)
    with open_log(settings) as log, open_store(settings) as store:
        _standing(store, job_id)
        answer = pass_one(settings, log, command_for(CommandKind.TRIGGER, job_id, payload=body))
        run, told = answer.run_id, named(held=answer.held or None, skipped=answer.skipped or None)
        show_one({"job": job_id, "run": run, "revision": ordinal(settings.generation, answer.offset)} | told, output)
        if answer.skipped:
            raise CommandFailed(
                f"{run} was dropped and will never run: {answer.skipped}",
                hint=f"A run of the job is open: waterclock run list {job_id}",
                exit_code=ExitCode.RUN_FAILED,
            )
        if wait:
            watching.await_end(store, run, wait_us / US_PER_S)
        elif not watching.is_shown(store, run):
            say("history does not show it yet: how far behind is it? waterclock lag")
    if not wait:
        say(f"next: waterclock run show '{run}'")


@app.command()
def pause(
    job: JobArgument,
    note: NoteOption = "",
    until: Annotated[str | None, typer.Option(help="It resumes by itself then, RFC 3339; that fire is owed")] = None,
    during: Annotated[str | None, typer.Option("--for", help="The same, so long from now: 30m, 2h, 7d")] = None,
    output: OutputOption = None,
) -> None:
    """Stop a job from firing; its fires count as paused until it is resumed."""
    if until and during:
        raise RequestError("--until and --for say the same", pointer="/for", hint="Give one of them")
    resume_at = parse_rfc3339(until, "/until") if until else 0
    if during:
        resume_at = SystemClock().now() + parse_duration(during, "/for")
    _change_and_show(CommandKind.PAUSE, job, output, note=note, resume_at=resume_at)


@app.command()
def resume(job: JobArgument, note: NoteOption = "", output: OutputOption = None) -> None:
    """Let a paused job fire again."""
    _change_and_show(CommandKind.RESUME, job, output, note=note)


@app.command()
def delete(job: JobArgument, note: NoteOption = "", output: OutputOption = None) -> None:
    """Delete a job. Its history stays."""
    _change_and_show(CommandKind.DELETE, job, output, note=note)


@app.command()
def history(
    job: JobArgument,
    limit: Annotated[int, typer.Option(min=1, max=_PAGE_MAX)] = 20,
    below: Annotated[int | None, typer.Option(help="Go on behind this revision")] = None,
    output: OutputOption = None,
) -> None:
    """List a job's versions, newest first: who changed it, when, and with which words."""
    settings = here()
    with open_store(settings) as store:
        versions.show_history(store, job_id_of(settings, job), limit, below, output)


@app.command()
def diff(
    job: JobArgument,
    before: Annotated[int | None, typer.Argument(metavar="FROM", help="A revision (the one before TO)")] = None,
    after: Annotated[int | None, typer.Argument(metavar="TO", help="A revision (the newest)")] = None,
    output: OutputOption = None,
) -> None:
    """Show what differs between two versions of a job, field by field."""
    settings = here()
    with open_store(settings) as store:
        versions.show_diff(store, job_id_of(settings, job), before, after, output)


@app.command()
def rollback(
    job: JobArgument,
    revision: Annotated[int, typer.Argument(help="Whose definition comes back: `waterclock job history JOB`")],
    note: NoteOption = "",
    expect: Annotated[
        int, typer.Option(help="Only if this revision stands (the one that stands now)", show_default=False)
    ] = 0,
    output: OutputOption = None,
) -> None:
    """Bring the definition of an old version back, as a new one. A paused job stays paused."""
    settings = here()
    job_id = job_id_of(settings, job)
    with open_log(settings) as log, open_store(settings) as store:
        row = _standing(store, job_id)
        note_uses(store, job_id, versions.find(store, job_id, revision).spec, SystemClock().now())
        command = command_for(
            CommandKind.ROLLBACK, job_id, expected_revision=expect or row.revision, note=note, to_revision=revision
        )
        obeyed = order(settings, log, store, command)
        follow_calendars(settings, log, store, job_id, obeyed.row.spec)
        show_one(_card(obeyed.row), output)
    if obeyed.was_so:
        say("it was so already: nothing has changed")


app.command("bulk")(bulk.bulk)


def _say_of(obeyed: Obeyed, spec: JobSpec, warning: str) -> None:
    """What whoever defined a job should know beside its card."""
    if warning:
        say(f"warning: {warning}")
    if isinstance(spec.schedule, Once) and spec.schedule.at <= obeyed.row.updated_at:
        say("its instant is over: it was decided at once")
    if obeyed.was_so:
        say("it was so already: nothing has changed")
    say(f"next: waterclock run list {obeyed.row.job_id}")


def _warning(settings: Settings, log: Log, spec: JobSpec) -> str:
    """What the beats say about the workers of this job; "" where all is well."""
    now = SystemClock().now()
    serving = who_serves(log, names_of(settings), lease_ttl_s=settings.worker.lease_ttl_s, now=now)
    return warning_for(spec, serving)


def _change_and_show(
    kind: CommandKind, job: str, output: Format | None, *, note: str = "", resume_at: Instant = 0
) -> None:
    settings = here()
    job_id = job_id_of(settings, job)
    with open_log(settings) as log, open_store(settings) as store:
        _standing(store, job_id)
        command = command_for(kind, job_id, note=note, resume_at=resume_at)
        show_one(_card(order(settings, log, store, command).row), output)


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
        "pause": versions.pause_card(row.pause),
        "revision": row.revision,
        "created_at": format_rfc3339(row.created_at),
        "updated_at": format_rfc3339(row.updated_at),
        **_plan(row.job_id, row.spec, row.anchor_at, _next_fires(row, _NEXT_FIRES)),
        **({"schedule_error": error} if (error := schedule_error(row.spec.schedule)) else {}),
    }


def _waited_for(store: Reading, row: JobRow) -> dict[str, Any]:
    """Of a job that says ``expect_within``: until when its next success is waited for."""
    found = expectation_of(store, row, SystemClock().now())
    if found is None:
        return {}
    succeeded = format_rfc3339(found.succeeded_at) if found.succeeded_at else "never"
    by = format_rfc3339(found.by)
    return {"last_success": succeeded, "expected_by": f"{by} (overdue)" if found.is_overdue else by}


def _next_of_chain(store: Reading, row: JobRow) -> dict[str, Any]:
    """Of a fixed delay: its next fire, as far as history tells."""
    next_at = next_of_delay(row, store.runs(row.job_id, RUNS_LOOKED_AT))
    return {"next_fires": [format_rfc3339(next_at)]} if next_at is not None else {}


def _plan(job_id: str, spec: JobSpec, anchor_at: Instant, fires: list[Instant]) -> dict[str, Any]:
    """The fires to come, and where jitter moves them when each is due."""
    plan = {"next_fires": [format_rfc3339(fire) for fire in fires]}
    if spec.timing.jitter_us:
        plan["next_due"] = [format_rfc3339(due) for due in due_times(job_id, spec, anchor_at, fires)]
    return plan


def _line(row: JobRow) -> dict[str, Any]:
    document = spec_to_document(row.spec)
    if error := schedule_error(row.spec.schedule):
        say(f"{row.job_id}: {error}")
    return {
        "job": row.job_id,
        "status": row.status.name.lower(),
        "schedule": schedule_text(document),
        "tier": row.spec.tier.word,
        "handler": row.spec.label,
        "next_fire": next((format_rfc3339(fire) for fire in _next_fires(row, 1)), None),
    }


def _next_fires(row: JobRow, count: int) -> list[Instant]:
    return upcoming(row.spec, row.status, row.anchor_at, SystemClock().now(), count)


def _read_document(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    from .documents import read_document  # YAML is loaded for a file alone

    return read_document(file)
