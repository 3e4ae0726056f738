"""``waterclock backfill``: run a job's fires of a past range; see docs/backfill.md."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from waterclock.clock import SystemClock
from waterclock.model.backfill import CONCURRENCY_MAX, ENDED, BackfillStatus, parse_backfill_id
from waterclock.model.backfill_document import backfill_to_document
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.ids import Instant
from waterclock.model.job import Command, CommandKind, JobStatus, JobVersion, Tier
from waterclock.model.time_text import format_rfc3339, parse_rfc3339
from waterclock.settings import Settings
from waterclock.store.backfill_count import count_backfill
from waterclock.store.backfill_port import BackfillReading, BackfillRow
from waterclock.store.cassandra import CassandraStore

from .connect import here, job_id_of, open_log, open_store
from .output import Format, OutputOption, say, show_one, show_rows
from .passing import pass_on, refusals, tell_failures, user_name

app = typer.Typer(add_completion=False, help="Run a job's fires of a past range.", no_args_is_help=True)

_LISTED_MAX = 500
_LOOKED_AT_MAX = 10_000
_COLUMNS = ("backfill_id", "status", "from", "to", "fires", "made", "left_out", "open", "failed", "eta_s")
_RATE_PER_S = 100.0

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="A name, or <tenant>:<name>")]
BackfillArgument = Annotated[str, typer.Argument(metavar="BACKFILL", help="<tenant>:<name>~<number>, as listed")]
NoteOption = Annotated[str, typer.Option(help="Why, for those who read it later")]


@app.command()
def create(
    job: JobArgument,
    from_: Annotated[str, typer.Option("--from", help="The first instant, RFC 3339")],
    to: Annotated[str | None, typer.Option(help="Up to there, not included, RFC 3339 (now)")] = None,
    revision: Annotated[
        int, typer.Option(help="The version whose fires are meant (the one that stands)", show_default=False)
    ] = 0,
    tier: Annotated[str, typer.Option(help="The lane of its runs: high, medium or low")] = "low",
    concurrency: Annotated[int, typer.Option(min=1, max=CONCURRENCY_MAX, help="How many of its runs may be open")] = 10,
    note: NoteOption = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and run nothing")] = False,
    output: OutputOption = None,
) -> None:
    """Run the fires of a range that is over: those that never ran, and those that were skipped, each once."""
    settings = here()
    job_id = job_id_of(settings, job)
    now = SystemClock().now()
    from_at = parse_rfc3339(from_, "/from")
    to_at = parse_rfc3339(to, "/to") if to else now
    lane = _tier(tier)
    with open_store(settings) as store:
        counted = count_backfill(store, _version(store, job_id, revision), from_at, to_at, now)
    card: dict[str, Any] = {
        "job": job_id,
        "from": format_rfc3339(from_at),
        "to": format_rfc3339(min(to_at, now)),
        "fires": counted.fire_count,
        "left_out": counted.left_count,
        "blocked": counted.blocked_count,
        "would_run": counted.made_count,
        "dry_run": dry_run,
    }
    if dry_run:
        show_one(card, output)
        return
    command = _command(CommandKind.BACKFILL, job_id, note)._replace(
        from_at=from_at, to_at=to_at, to_revision=revision, concurrency=concurrency, tier=lane
    )
    backfill_id = _give(settings, command)
    show_one({"backfill": backfill_id, **card}, output)
    say(f"next: waterclock backfill show '{backfill_id}'")


@app.command("list")
def list_(
    job: Annotated[str | None, typer.Option(help="Of this job alone")] = None,
    limit: Annotated[int, typer.Option(min=1, max=_LISTED_MAX)] = 100,
    running: Annotated[bool, typer.Option("--open", help="Only those that have not ended")] = False,
    output: OutputOption = None,
) -> None:
    """List backfills, those of a job newest first."""
    settings = here()
    job_id = job_id_of(settings, job) if job else ""
    found: list[BackfillRow] = []
    looked_at = 0
    with open_store(settings) as store:
        for row in _all_of(store, settings.tenant, job_id):
            looked_at += 1
            if not (running and row.told.status in ENDED):
                found.append(row)
            if len(found) > limit:
                break
    show_rows([_card(row) for row in found[:limit]], _COLUMNS, output)
    if len(found) > limit:
        say(f"there are more: --limit shows up to {_LISTED_MAX}, --job those of one job")
    elif looked_at == (_LISTED_MAX if job_id else _LOOKED_AT_MAX):
        further = "" if job_id else ": --job looks at those of one job"
        say(f"only {looked_at} were looked at, there may be more{further}")
    elif looked_at and not found:
        say(f"none is open, {looked_at} have ended: without --open they are listed too")
    elif not found:
        say("there are none; they are kept for 30 days: waterclock backfill create --help")


def _all_of(store: BackfillReading, tenant: str, job_id: str) -> Iterator[BackfillRow]:
    """The newest ``_LISTED_MAX`` of a job; for "" those of the tenant, the first ``_LOOKED_AT_MAX``."""
    if job_id:
        yield from store.backfills_of_job(job_id, _LISTED_MAX)
        return
    after: tuple[str, int] | None = None
    for _ in range(_LOOKED_AT_MAX // _LISTED_MAX):
        page = store.backfills(tenant, _LISTED_MAX, after)
        yield from page
        if len(page) < _LISTED_MAX:
            return
        after = page[-1].job_id, page[-1].told.number


@app.command()
def show(backfill: BackfillArgument, output: OutputOption = None) -> None:
    """Show how a backfill stands: what it has run, what is left, about how long that takes."""
    settings = here()
    with open_store(settings) as store:
        row = _named(settings, store, backfill)
        job = store.job(row.job_id)
    card = _card(row)
    if row.told.status is BackfillStatus.WAITING and job is not None and job.pause is not None:
        card["waits_for"] = "its job is paused: what lies inside the pause is decided when it is resumed"
    show_one(card, output)


@app.command()
def pause(backfill: BackfillArgument, note: NoteOption = "", output: OutputOption = None) -> None:
    """Make no more runs for now; what is open goes on."""
    _turn(CommandKind.PAUSE_BACKFILL, backfill, note, output)


@app.command()
def resume(backfill: BackfillArgument, note: NoteOption = "", output: OutputOption = None) -> None:
    """Go on where it was paused; what has run meanwhile is left out."""
    _turn(CommandKind.RESUME_BACKFILL, backfill, note, output)


@app.command()
def cancel(backfill: BackfillArgument, note: NoteOption = "", output: OutputOption = None) -> None:
    """Make no more runs, for ever; what is open goes on (waterclock run cancel ends that)."""
    _turn(CommandKind.CANCEL_BACKFILL, backfill, note, output)


def _turn(kind: CommandKind, word: str, note: str, output: Format | None) -> None:
    settings = here()
    with open_store(settings) as store:
        row = _named(settings, store, word)
    backfill_id = _give(settings, _command(kind, row.job_id, note)._replace(backfill_id=_card(row)["backfill_id"]))
    show_one({"backfill": backfill_id, "done": kind.value.removesuffix("_BACKFILL").lower()}, output)
    say(f"next: waterclock backfill show '{backfill_id}'")


def _give(settings: Settings, command: Command) -> str:
    """Send it; the backfill's id, once its owner has answered. Raises CommandFailed."""
    with open_log(settings) as log:
        passed = pass_on(settings, log, [command], _RATE_PER_S)
    answer = passed.answers.get(command.command_id)
    done, _, silent = passed.tally([command])
    tell_failures(refusals(passed, [command]), silent, done=done)
    assert answer is not None, "neither refused nor silent"
    return answer.run_id


def _command(kind: CommandKind, job_id: str, note: str) -> Command:
    return Command(kind, job_id, uuid.uuid4().hex, f"cli:{user_name()}", SystemClock().now(), note=note, answer=True)


def _named(settings: Settings, store: BackfillReading, word: str) -> BackfillRow:
    job_id, number = parse_backfill_id(word if ":" in word else f"{settings.tenant}:{word}")
    row = store.backfill(job_id, number)
    if row is None:
        raise NotFound(
            f"History knows no backfill {word}",
            hint="`waterclock backfill list` shows those it knows",
        )
    return row


def _version(store: CassandraStore, job_id: str, revision: int) -> JobVersion:
    """The version whose fires are meant."""
    row = store.job(job_id)
    if row is None or row.status is JobStatus.DELETED:
        raise NotFound(f"There is no job {job_id}", hint="`waterclock job list` shows those there are")
    found = store.version(job_id, revision or row.revision)
    if found is None:
        raise NotFound(
            f"{job_id} has no version {revision}", pointer="/revision", hint=f"`waterclock job history {job_id}`"
        )
    return found


def _tier(word: str) -> Tier:
    for tier in Tier:
        if tier.word == word.lower():
            return tier
    raise RequestError(f"{word!r} is no tier", pointer="/tier", hint="high, medium or low")


def _card(row: BackfillRow) -> dict[str, Any]:
    now: Instant = SystemClock().now()
    return backfill_to_document(row.job_id, row.told, row.at, now)
