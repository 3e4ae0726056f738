"""``waterclock job import``: jobs from a crontab, a Celery beat schedule or Kubernetes CronJobs.

Without ``--create`` nothing is sent: what is read is somebody else's, so it is shown first, as importers do (and not
applied, as `job create` is). Every remark goes to stderr, with file and line; what was left out makes exit code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from waterclock.importing.crontab import looks_like_system, read_crontab
from waterclock.importing.gathering import Draft, Found, Gathering, Remark, Weight
from waterclock.model.document import schedule_text, spec_to_document
from waterclock.model.errors import RequestError
from waterclock.model.events import CommandVerdict
from waterclock.model.ids import make_job_id
from waterclock.model.job import CommandKind
from waterclock.model.zones import check_zone
from waterclock.settings import Settings, load_settings

from .connect import here, open_log
from .failing import CommandFailed
from .ordering import check_pool, command_for
from .output import Format, OutputOption, default_format, say, show_one, show_rows
from .passing import confirm, pass_on, tell_failures

app = typer.Typer(add_completion=False, help="Make jobs of other schedulers' files.", no_args_is_help=True)

_FILE_BYTES_MAX = 1 << 20
_RATE_PER_S = 100.0

_File = Annotated[str, typer.Argument(metavar="FILE", help="- is stdin")]
_Zone = Annotated[str | None, typer.Option("--tz", help="IANA zone of its times, where it names none (UTC, and said)")]
_Pool = Annotated[str | None, typer.Option(help="Of all its jobs (default)")]
_Tier = Annotated[str | None, typer.Option(help="Of all its jobs: high, medium or low (medium)")]
_Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write one document a job, <name>.json")]
_Create = Annotated[bool, typer.Option("--create", help="Define the jobs; those that stand already are changed")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask")]

_Read = Callable[[str, Gathering], None]


@app.command()
def crontab(
    file: _File,
    tz: _Zone = None,
    form: Annotated[
        str, typer.Option(help="user, or system: with a user column; auto goes by the path (/etc/crontab, cron.d)")
    ] = "auto",
    pool: _Pool = None,
    tier: _Tier = None,
    out: _Out = None,
    create: _Create = False,
    yes: _Yes = False,
    output: OutputOption = None,
) -> None:
    """Read a crontab, of a user or of the system. Its commands run by the shell executor, which is off by default."""
    if form not in {"auto", "user", "system"}:
        raise RequestError(f"{form!r} is no form of a crontab", pointer="/form", hint="auto, user or system")
    has_user = form == "system" or (form == "auto" and looks_like_system(str(Path(file).absolute())))

    def read(text: str, gathering: Gathering) -> None:
        read_crontab(text, gathering, zone=tz, has_user=has_user)

    if has_user and form == "auto":
        say("read as a system crontab, with a user column: --form user says otherwise")
    _import(file, read, tz, {"pool": pool, "tier": tier}, out, create=create, yes=yes, output=output)


@app.command()
def celery(
    file: _File,
    tz: _Zone = None,
    pool: _Pool = None,
    tier: _Tier = None,
    out: _Out = None,
    create: _Create = False,
    yes: _Yes = False,
    output: OutputOption = None,
) -> None:
    """Read a Celery beat schedule: a Python file, of which nothing is run, or JSON. Tasks become handlers."""
    from waterclock.importing.celery_json import read_celery_json
    from waterclock.importing.celery_python import read_celery_python

    def read(text: str, gathering: Gathering) -> None:
        is_json = file.endswith(".json") or text.lstrip()[:1] == "{"
        (read_celery_json if is_json else read_celery_python)(text, gathering, zone=tz)

    _import(file, read, tz, {"pool": pool, "tier": tier}, out, create=create, yes=yes, output=output)


@app.command()
def kubernetes(
    file: _File,
    tz: _Zone = None,
    pool: _Pool = None,
    tier: _Tier = None,
    out: _Out = None,
    create: _Create = False,
    yes: _Yes = False,
    output: OutputOption = None,
) -> None:
    """Read Kubernetes CronJobs in YAML. Their commands run by the shell executor: no image is pulled."""
    from waterclock.importing.kubernetes import read_kubernetes

    def read(text: str, gathering: Gathering) -> None:
        read_kubernetes(text, gathering, zone=tz)

    _import(file, read, tz, {"pool": pool, "tier": tier}, out, create=create, yes=yes, output=output)


def _import(
    file: str,
    read: _Read,
    tz: str | None,
    more: Mapping[str, str | None],
    out: Path | None,
    *,
    create: bool,
    yes: bool,
    output: Format | None,
) -> None:
    """Read, tell, and then show, write or send."""
    if out is not None and create:
        raise RequestError("Give either --out or --create", hint="Write first, look, and create from there or here")
    if tz is not None:
        check_zone(tz)
    settings = here() if create else load_settings()
    gathering = Gathering(settings.tenant, {key: value for key, value in more.items() if value is not None})
    read(_text_of(file), gathering)
    found = gathering.found()
    _tell(file, found.remarks)
    if create and found.drafts:
        confirm(f"Define {len(found.drafts)} jobs in tenant {settings.tenant}?", yes=yes)
        _create(settings, found, output)
    elif out is not None:
        _write(out, found, output)
    else:
        _show(found, output)
    if found.left_out_count:
        raise CommandFailed(
            f"Entries left out: {found.left_out_count}; that make a job: {len(found.drafts)}",
            hint="The lines above say which, why, and what to do",
        )


def _text_of(file: str) -> str:
    try:
        if file == "-":
            raw = sys.stdin.buffer.read(_FILE_BYTES_MAX + 1)
        else:
            with Path(file).open("rb") as opened:
                raw = opened.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise RequestError(f"{file} cannot be read: {error.strerror}", hint="Give a readable file") from None
    if len(raw) > _FILE_BYTES_MAX:
        raise RequestError(f"{file} has more than {_FILE_BYTES_MAX} bytes", hint="Split it")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise RequestError(f"{file} is not UTF-8, line {line}", hint="Convert it: iconv -t UTF-8") from None


def _tell(file: str, remarks: tuple[Remark, ...]) -> None:
    for remark in remarks:
        where = f"{file}:{remark.line}" if remark.line else file
        say(f"{where}: {remark.weight.value}: {remark.what}: {remark.why}")
        if remark.hint:
            say(f"  try: {remark.hint}" if remark.weight is not Weight.NOTE else f"  {remark.hint}")


def _show(found: Found, output: Format | None) -> None:
    if (output or default_format()) is Format.TABLE:
        show_rows([_line(draft) for draft in found.drafts], ("line", "name", "schedule", "work"), output)
    else:
        show_rows([draft.document for draft in found.drafts], (), output)
    say(f"jobs that would be made: {len(found.drafts)}; nothing was sent: --create defines them, --out DIR writes them")


def _line(draft: Draft) -> dict[str, Any]:
    document = spec_to_document(draft.spec)
    work = " ".join(document["shell"]["argv"]) if "shell" in document else document["handler"]
    return {"line": draft.line, "name": draft.name, "schedule": schedule_text(document), "work": work}


def _write(folder: Path, found: Found, output: Format | None) -> None:
    """Files that say the same already are left alone; others of these names are written anew."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for draft in found.drafts:
            text = orjson.dumps(draft.document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
            (folder / f"{draft.name}.json").write_bytes(text)
    except OSError as error:
        raise RequestError(f"{folder} cannot be written to: {error.strerror}", hint="Give another --out") from None
    show_rows([{"file": str(folder / f"{draft.name}.json")} for draft in found.drafts], ("file",), output)
    if found.drafts:
        say(f"next: waterclock job create -f {folder / found.drafts[0].name}.json")


def _create(settings: Settings, found: Found, output: Format | None) -> None:
    commands = [
        command_for(CommandKind.CREATE, make_job_id(settings.tenant, draft.name), spec=draft.spec)._replace(answer=True)
        for draft in found.drafts
    ]
    with open_log(settings) as log:
        for spec in {(draft.spec.tier, draft.spec.pool): draft.spec for draft in found.drafts}.values():
            check_pool(settings, log, spec)
        passed = pass_on(settings, log, commands, _RATE_PER_S)
    done, _, silent = passed.tally(commands)
    same = sum(answer.verdict == CommandVerdict.UNCHANGED for answer in passed.answers.values())
    refused = [
        f"{command.job_id}: {answer.message}"
        for command in commands
        if (answer := passed.answers.get(command.command_id)) is not None and answer.verdict == CommandVerdict.REFUSED
    ]
    show_one({"jobs": len(commands), "defined": done - same, "unchanged": same, "refused": len(refused)}, output)
    say("next: waterclock job list")
    tell_failures(refused, silent, done=done)
