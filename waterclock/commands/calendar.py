"""``waterclock calendar``: days and instants on which jobs do not fire; see docs/calendars.md."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from waterclock.clock import SystemClock
from waterclock.log.port import Log
from waterclock.model.calendar import calendar_from_text
from waterclock.model.calendar_document import check_calendar_name
from waterclock.model.errors import RequestError
from waterclock.model.job import Command, CommandKind
from waterclock.settings import Settings
from waterclock.store.calendar_port import CalendarRow
from waterclock.store.calendar_use import (
    Calendars,
    Place,
    bring,
    delete_calendar,
    is_behind,
    no_such_calendar,
    put_calendar,
    using_jobs,
)

from .connect import here, open_log, open_store
from .output import OutputOption, instant_text, say, show_one, show_rows
from .passing import Unanswered, pass_on, refusals, tell_failures, user_name

app = typer.Typer(add_completion=False, help="Days and instants on which jobs do not fire.", no_args_is_help=True)

_LISTED_MAX = 500
_FILE_MAX = 1 << 20
_RATE_PER_S = 100.0
_PAGES_MAX = 100_000

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The calendar's name, in the tenant that is set")]
FileOption = Annotated[Path, typer.Option("-f", "--file", help="The calendar: JSON, or YAML by its ending")]
ExpectOption = Annotated[int | None, typer.Option(help="Only over this version; 0: only if there is none")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Check it and show it; keep nothing")]


@app.command("put")
def put(
    name: NameArgument,
    file: FileOption,
    expect: ExpectOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = None,
) -> None:
    """Make a calendar, or a new version of it, and bring that to the jobs that use it."""
    check_calendar_name(name)
    _save(name, _read(file), expect, output, dry_run=dry_run)


@app.command("import-ics")
def import_ics(
    name: NameArgument,
    file: Annotated[Path, typer.Argument(help="An iCalendar file; nothing is fetched from a URL")],
    into: Annotated[str, typer.Option(help="exclude: its events block; include: only they allow")] = "exclude",
    zone: Annotated[str, typer.Option("--tz", help="IANA zone of times that name none")] = "UTC",
    expect: ExpectOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = None,
) -> None:
    """Make a version of a calendar from an iCalendar file: what recurs is expanded for ten years."""
    from waterclock.importing.ics import document_from_ics

    check_calendar_name(name)
    imported = document_from_ics(_bytes_of(file), now=SystemClock().now(), into=into, zone=zone)
    say(f"{imported.occurrences} occurrences")
    _save(name, imported.document, expect, output, dry_run=dry_run)


@app.command("list")
def list_calendars(
    after: Annotated[str, typer.Option(help="Go on behind this name")] = "", output: OutputOption = None
) -> None:
    """List the calendars of the tenant that is set, by name."""
    settings = here()
    with open_store(settings) as store:
        names = store.calendar_names(settings.tenant, _LISTED_MAX, after)
    rows = [
        {"calendar": each.name, "put_at": instant_text(each.version), "description": each.description}
        for each in names
        if not each.is_deleted
    ]
    show_rows(rows, ("calendar", "put_at", "description"), output)
    if len(names) >= _LISTED_MAX:
        say(f"there may be more: --after {names[-1].name}")
    elif not rows:
        say("no calendars: `waterclock calendar put --help`")


@app.command()
def show(
    name: NameArgument,
    version: Annotated[int | None, typer.Option(help="Else the newest")] = None,
    jobs: Annotated[int, typer.Option(min=0, max=_LISTED_MAX, help="So many jobs that use it")] = 20,
    output: OutputOption = None,
) -> None:
    """Show a calendar, its versions, and which jobs use it in which of them."""
    settings = here()
    with open_store(settings) as store:
        row = _standing(store, settings, name) if version is None else store.calendar(settings.tenant, name, version)
        if row is None or row.is_deleted:
            raise no_such_calendar(name)
        versions = store.calendar_versions(settings.tenant, name, 5)
        page = using_jobs(store, settings.tenant, name, SystemClock().now(), None, max(jobs, 1))
    users = [
        f"{job.job_id} {use.version}{' (behind)' if use.version < versions[0].version else ''}"
        for job in page.rows
        for use in job.spec.timing.calendars
        if use.name == name
    ]
    card = _card(row) | {"newest_versions": [each.version for each in versions], "jobs": users[:jobs]}
    show_one(card, output)
    if page.next_at is not None:
        say("more jobs use it, or did: --jobs shows more")


@app.command("apply")
def apply_calendar(name: NameArgument, output: OutputOption = None) -> None:
    """Bring a calendar's newest version to the jobs that still use an older one: after a `put` that was cut short."""
    settings = here()
    with open_store(settings) as store, open_log(settings) as log:
        _bring(settings, log, store, _standing(store, settings, name), output)


@app.command()
def delete(name: NameArgument, expect: ExpectOption = None, output: OutputOption = None) -> None:
    """Delete a calendar that no job uses. Its versions can still be shown."""
    settings = here()
    with open_store(settings) as store:
        delete_calendar(store, settings.tenant, name, actor=_actor(), now=SystemClock().now(), expected=expect)
    show_one({"calendar": name, "deleted": True}, output)


def _save(name: str, document: Mapping[str, Any], expect: int | None, output: Any, *, dry_run: bool) -> None:
    if dry_run:
        from waterclock.model.calendar_document import compile_calendar

        compiled = compile_calendar(document).as_text()
        text = orjson.dumps(dict(document)).decode()
        show_one(_card(CalendarRow("", name, 0, "", text, compiled)), output)
        say("dry run: nothing was kept")
        return
    settings = here()
    with open_store(settings) as store, open_log(settings) as log:
        now = SystemClock().now()
        row, is_new = put_calendar(store, settings.tenant, name, document, actor=_actor(), now=now, expected=expect)
        show_one(_card(row), output)
        if not is_new:
            say("it was so already: no version was made")
        _bring(settings, log, store, row, None)


def _bring(settings: Settings, log: Log, store: Calendars, row: CalendarRow, output: Any) -> None:
    """Page by page; what is done stays done, and a second call goes on with the rest."""
    now = SystemClock().now()
    pattern = Command(CommandKind.CALENDAR, "", uuid.uuid4().hex, _actor(), now, answer=True)
    after: Place | None = None
    using = done = 0
    silent = Unanswered()
    refused: list[str] = []
    for number in range(_PAGES_MAX):
        page = using_jobs(store, settings.tenant, row.name, now, after)
        behind = [job.job_id for job in page.rows if is_behind(job, row.use)]
        commands = bring(behind, (row.use,), pattern._replace(command_id=f"{pattern.command_id}/{number}"))
        if commands:
            passed = pass_on(settings, log, commands, _RATE_PER_S)
            done_here, _, silent_here = passed.tally(commands)
            done += done_here
            refused += refusals(passed, commands)
            silent = silent_here._replace(standing=silent.standing + silent_here.standing)
        using += len(page.rows)
        after = page.next_at
        if after is None or silent.cause:
            break
        say(f"{using} jobs looked at, {done} have the new version")
    if output is not None:
        show_one({"calendar": row.name, "version": row.version, "using": using, "brought": done}, output)
    else:
        say(f"{using} jobs use it, {done} were brought the version")
    if after is not None:
        say("not all jobs were looked at: the same command goes on with the rest, once the backend answers")
    tell_failures(refused, silent, done=done)


def _standing(store: Calendars, settings: Settings, name: str) -> CalendarRow:
    (row,) = store.calendars(settings.tenant, [check_calendar_name(name)])
    if row is None or row.is_deleted:
        raise no_such_calendar(name)
    return row


def _card(row: CalendarRow) -> dict[str, Any]:
    calendar = calendar_from_text(row.compiled)
    sides = (calendar.include, calendar.exclude)
    return {
        "calendar": row.name,
        "version": row.version or None,
        "put_at": instant_text(row.version),
        "actor": row.actor or None,
        "definition": orjson.loads(row.document),
        "days": sum(side.days.bit_count() for side in sides),
        "periods": sum(len(side.ranges) for side in sides),
    }


def _actor() -> str:
    return f"cli:{user_name()}"


def _bytes_of(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(_FILE_MAX + 1)
    except OSError as error:
        raise RequestError(f"{file} cannot be read: {error.strerror}", hint="Give a readable file") from None
    if len(data) > _FILE_MAX:
        raise RequestError(f"{file} has more than {_FILE_MAX} bytes", hint="Give fewer days and periods")
    return data


def _read(file: Path) -> dict[str, Any]:
    import yaml

    data = _bytes_of(file)
    try:
        is_yaml = file.suffix in (".yaml", ".yml")
        # Text alone: no tag makes an object, and a date stays as it is written.
        document = yaml.load(data, Loader=yaml.BaseLoader) if is_yaml else orjson.loads(data)  # noqa: S506
    except ValueError as error:
        raise RequestError(f"{file} is not JSON: {error}", hint="Correct it, or name it .yaml") from None
    except yaml.YAMLError as error:
        raise RequestError(f"{file} is not YAML: {str(error)[:200]}", hint="Correct the file") from None
    if not isinstance(document, Mapping):
        raise RequestError(f"{file} holds no calendar", hint='Such as {"exclude": {"days": ["2026-12-25"]}}')
    return dict(document)
