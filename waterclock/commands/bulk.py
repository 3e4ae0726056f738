"""``waterclock job bulk``: pause, resume, delete or trigger all jobs that a filter means."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from waterclock.clock import SystemClock
from waterclock.model.errors import RequestError
from waterclock.model.events import CommandVerdict
from waterclock.model.ids import Instant
from waterclock.model.job import Command, CommandKind, JobStatus, Tier
from waterclock.model.time_text import parse_rfc3339
from waterclock.store.job_filter import PATIENT_MAX, STANDING, FoundJobs, JobFilter, Place, jobs_meant, place_of
from waterclock.store.port import JobRow

from .connect import here, open_log, open_store
from .output import OutputOption, say, show_one
from .passing import Unanswered, pass_on, refusals, tell_failures, user_name

_CAP = 1_000
_RATE_PER_S = 100.0
_SAMPLE = 20


class Action(StrEnum):
    """What can be done."""

    PAUSE = "pause"
    RESUME = "resume"
    DELETE = "delete"
    TRIGGER = "trigger"


_USUAL = {
    Action.PAUSE: frozenset({JobStatus.ACTIVE}),
    Action.RESUME: frozenset({JobStatus.PAUSED}),
    Action.DELETE: STANDING,
    Action.TRIGGER: STANDING,
}
_STATUSES = {status.name.lower(): status for status in STANDING}
_TIERS = {tier.word: tier for tier in Tier}


def bulk(
    action: Annotated[Action, typer.Argument(help="What to do with them")],
    prefix: Annotated[str, typer.Option(help="Names that begin so")] = "",
    tier: Annotated[list[str] | None, typer.Option(help="high, medium, low; may be repeated")] = None,
    handler: Annotated[str, typer.Option(help="As `job list` shows it")] = "",
    status: Annotated[
        list[str] | None, typer.Option(help="active, paused, ended; without: those that it changes")
    ] = None,
    note: Annotated[str, typer.Option(help="Why, for those who read it later")] = "",
    until: Annotated[str | None, typer.Option(help="With pause: they resume by themselves then, RFC 3339")] = None,
    cap: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many")] = _CAP,
    rate: Annotated[float, typer.Option(min=0.1, max=1_000, help="So many a second")] = _RATE_PER_S,
    after: Annotated[str, typer.Option(help="Go on there, as the command before said")] = "",
    apply: Annotated[bool, typer.Option("--apply", help="Do it; without, they are only counted")] = False,
    output: OutputOption = None,
) -> None:
    """Change all jobs that a filter means. Without --apply it only says how many those are, and names some."""
    wanted = _wanted(action, prefix, tier or [], handler, status or [])
    resume_at = parse_rfc3339(until, "/until") if until else 0
    if resume_at and action is not Action.PAUSE:
        raise RequestError("--until goes with pause alone", pointer="/until", hint="Leave it out")
    settings = here()
    with open_store(settings) as store, open_log(settings) as log:
        found = jobs_meant(store, settings.tenant, wanted, cap, place_in(after), PATIENT_MAX)
        card = _card(action, found, dry_run=not apply)
        refused, applied, silent = list[str](), 0, Unanswered()
        if apply and found.rows:
            commands = [_command(action, row, note, resume_at) for row in found.rows]
            passed = pass_on(settings, log, commands, rate)
            _, _, silent = passed.tally(commands)
            refused = refusals(passed, commands)
            words = Counter(answer.verdict for answer in passed.answers.values())
            applied = words[CommandVerdict.APPLIED]
            card |= {"applied": applied, "unchanged": words[CommandVerdict.UNCHANGED]}
    show_one(card, output)
    tell_more(_reached(found, silent))
    if not apply and found.rows:
        say("nothing was changed: the same command with --apply does it")
    tell_failures(refused, silent, done=applied)


def place_in(text: str) -> Place | None:
    """Behind which job to go on, as ``tell_more`` names it; None for "". Raises RequestError."""
    if not text:
        return None
    at, _, job_id = text.partition("|")
    if not (at.isascii() and at.isdecimal()) or not job_id or len(at) > 18:
        raise RequestError("This is not where such a command ended", pointer="/after", hint="Give it as it was told")
    return int(at), job_id


def _reached(found: FoundJobs, silent: Unanswered) -> FoundJobs:
    """The same; where not all were sent, going on begins behind the last one that was."""
    if not silent.unsent:
        return found
    last = next(row for row in found.rows if row.job_id == silent.last_sent)
    return found._replace(next_at=place_of(last))


def tell_more(found: FoundJobs) -> None:
    """Say how to go on where jobs may have been left out."""
    if found.next_at is not None:
        at, job_id = found.next_at
        say(f"there may be more: the same command with --after '{at}|{job_id}' goes on behind these")


def _wanted(action: Action, prefix: str, tiers: list[str], handler: str, statuses: list[str]) -> JobFilter:
    """Raises RequestError."""
    _check("tier", tiers, _TIERS)
    _check("status", statuses, _STATUSES)
    if not (prefix or tiers or handler or statuses):
        raise RequestError("Say which jobs", hint="Give --prefix, --tier, --handler or --status")
    meant = frozenset(_STATUSES[word] for word in statuses) or _USUAL[action]
    return JobFilter(prefix, frozenset(_TIERS[word] for word in tiers), handler, meant)


def _check(option: str, words: Sequence[str], known: Mapping[str, object]) -> None:
    for word in words:
        if word not in known:
            raise RequestError(f"{word[:40]!r} is no {option}", pointer=f"/{option}", hint=", ".join(known))


def _command(action: Action, row: JobRow, note: str, resume_at: Instant) -> Command:
    """Of this job as it was looked at; a trigger asks for no revision, for it changes nothing."""
    return Command(
        CommandKind(action.value.upper()),
        row.job_id,
        uuid.uuid4().hex,
        f"cli:{user_name()}",
        SystemClock().now(),
        expected_revision=0 if action is Action.TRIGGER else row.revision,
        note=note,
        resume_at=resume_at,
        answer=True,
    )


def _card(action: Action, found: FoundJobs, *, dry_run: bool) -> dict[str, Any]:
    return {
        "action": action.value,
        "dry_run": dry_run,
        "matched": len(found.rows),
        "by_status": dict(Counter(row.status.name.lower() for row in found.rows)),
        "sample": [row.job_id for row in found.rows[:_SAMPLE]],
    }
