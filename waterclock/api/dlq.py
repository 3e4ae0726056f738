"""Routes of dead letters: which there are, by cause; one with its bytes; redrive and discard, by filter or by name.

History tells which letters there are and what was done about them (it lags by about a second); the topic holds the
letters themselves. What must hold: a tenant sees and touches its own alone; nothing is done to all of them by an empty
filter; a letter that history still shows as open and that was redriven a moment ago is not redriven twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from waterclock.dead_letters.acting import (
    TRIES_MAX,
    Asked,
    discard_of,
    dropped_too_late,
    dropped_too_often,
    redrive_behind,
    redrive_of,
    why_not,
    work_of,
)
from waterclock.dead_letters.choosing import Choice, Letter, LetterState, groups_of, state_of
from waterclock.dead_letters.finding import Found, Mark, Read, dropped_before, find, mark_of, read_in_stretches
from waterclock.model.errors import RequestError
from waterclock.model.events import Answered, DeadLetter, RunStatus
from waterclock.model.ids import Instant, RunId
from waterclock.model.job import Command
from waterclock.model.time_text import parse_duration, parse_rfc3339
from waterclock.store.dag_port import NodeRow
from waterclock.store.port import FailureRow, LetterRow, RunRow

from . import letter_views, pacing, shapes, views, wanting
from .access import Held, Reader, Writer, own_job_id
from .bodies import read_object
from .cursors import read_cursor, unknown_cursor, write_cursor
from .keyring import Caller
from .orders import is_refused
from .problems import Problem
from .repeats import RepeatKey, once
from .runs import own_run, run_row
from .services import Services
from .shapes import Answers

PAGE_MAX = 500
_TURN_S = 5.0
_FILTER = ("job", "error_class", "fingerprint", "since", "state", "run_ids")
_ACTION = (*_FILTER, "dry_run", "cap", "rate_per_s", "note", "cursor")
_CURSOR_MAX = 500

routes = APIRouter(tags=["dead letters"])

_Since = Annotated[str, Query(max_length=40, description="RFC 3339, or so long ago: `36h`; without: the last day")]
_State = Annotated[str, Query(max_length=20, description="open, redriven, discarded or all")]
_Text = Annotated[str, Query(max_length=400)]


@routes.get(
    "/dlq",
    summary="Dead letters, newest first, or by cause",
    responses=shapes.answers(Answers.READ, {200: letter_views.LetterPage, 404: shapes.Problem, 422: shapes.Problem}),
)
async def list_letters(
    services: Held,
    caller: Reader,
    job: _Text = "",
    error_class: _Text = "",
    fingerprint: _Text = "",
    since: _Since = "",
    state: _State = "open",
    group: Annotated[bool, Query(description="Causes instead of letters")] = False,  # noqa: FBT002 - by name, in a URL
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: Annotated[str, Query(max_length=_CURSOR_MAX, description="`next_cursor` of the page before")] = "",
) -> Response:
    """With `group=true` the causes (error class and fingerprint), the largest first.

    Not `is_whole`: there may be more behind `next_cursor`, also where this page has none.
    """
    given = {"job": job, "error_class": error_class, "fingerprint": fingerprint, "since": since, "state": state}
    choice = _choice(services, caller, given)
    limit = wanting.CAP_MAX if group else limit
    found = await services.call(find, services.store, caller.tenant, choice, limit, _mark(cursor))
    told: dict[str, Any] = {"letters": [], "groups": [], "is_whole": found.is_whole}
    if group:
        told["groups"] = [letter_views.group_view(each) for each in groups_of(found.letters)]
    else:
        told["letters"] = [letter_views.letter_view(each) for each in found.letters]
    return views.reply(200, told | {"next_cursor": _cursor(found.next_at)})


@routes.post(
    "/dlq/redrive",
    summary="Run dead letters once more",
    openapi_extra=shapes.body("RedriveBody"),
    responses=shapes.answers(Answers.BULK, {200: letter_views.Redriven}),
)
async def redrive(request: Request, services: Held, caller: Writer) -> Response:
    """Each becomes a run of its own, linked to the one that was given up; also of a job that was deleted since."""
    document = await read_object(request)
    wanting.check_known(document, (*_ACTION, "payload", "payload_base64", "force"))
    payload, force = wanting.payload(document), wanting.flag(document, "force")

    async def act(_repeat_key: RepeatKey) -> Response:
        found = await _meant(services, caller, document)
        kept = await _read(services, found.letters)
        commands: list[Command] = []
        refused: list[dict[str, Any]] = []
        for letter in found.letters:
            try:
                asked = _asked(services, caller, document)
                commands.append(redrive_of(letter, kept, asked, payload=payload, force=force))
            except RequestError as error:
                refused.append({"run_id": letter.run_id, "why": error.message})
        return await _carry_out(services, document, found, commands, refused)

    return await once(services, caller, request, document, act)


@routes.post(
    "/dlq/discard",
    summary="Put dead letters away",
    openapi_extra=shapes.body("DiscardBody"),
    responses=shapes.answers(Answers.BULK, {200: letter_views.Redriven}),
)
async def discard(request: Request, services: Held, caller: Writer) -> Response:
    """They are no longer open; their bytes stay in the topic for as long as that keeps them."""
    document = await read_object(request)
    wanting.check_known(document, _ACTION)

    async def act(_repeat_key: RepeatKey) -> Response:
        found = await _meant(services, caller, document)
        commands = [discard_of(letter.run_id, _asked(services, caller, document)) for letter in found.letters]
        return await _carry_out(services, document, found, commands, [])

    return await once(services, caller, request, document, act)


@routes.get(
    "/dlq/{run_id:path}",
    summary="A dead letter",
    responses=shapes.answers(Answers.READ_ONE, {200: letter_views.LetterInFull}),
)
async def show_letter(run_id: str, services: Held, caller: Reader) -> Response:
    """With what the run was to do, as it was; null where the topic no longer has it. Also of a node of a DagRun."""
    place = own_run(run_id, caller.tenant, nodes=True)
    row = await run_row(services, place)
    if row is None or not await _has_letter(services, place, row):
        raise Problem("not-found", f"There is no dead letter of {run_id[:300]!r}", hint="GET /api/v1/dlq lists them")
    done: list[LetterRow | None] = await services.call(services.store.letter_rows, [place])
    listed: list[FailureRow | None] = await services.call(services.store.failure_rows, [(row.ended_at, place)])
    given_up_at = row.ended_at if listed[0] is None else listed[0].wts
    failure = FailureRow(*place, row.ended_at, row.reason, "", given_up_at)
    kept = await _read(services, [Letter(failure, done[0])])
    whole = kept.get(str(place))
    if whole is not None:
        failure = failure._replace(
            fingerprint=whole.fingerprint,
            attempts=whole.attempts,
            error_class=whole.error_class or whole.reason,
            error=whole.error_message,
        )
    else:
        failure = failure._replace(error=row.error, attempts=row.attempt)
    return views.reply(200, letter_views.full_view(Letter(failure, done[0]), whole, _redrives(whole)))


async def _read(services: Services, letters: Sequence[Letter]) -> Read:
    """Stretch by stretch, between which others ask the log: a search for letters that are gone reads many of them."""
    found: Read = {}
    stretches = read_in_stretches(services.log, services.names, letters)
    while (some := await services.look_back(_TURN_S, lambda: next(stretches, None))) is not None:
        found |= some
    return found


async def _has_letter(services: Services, place: RunId, row: RunRow | NodeRow) -> bool:
    """Whether it was given up. A DagRun is not, nor is a node that only ended with its time: no list has them."""
    if row.status is not RunStatus.FAILED:
        return False
    if isinstance(row, RunRow):
        return not row.is_dag
    found: list[FailureRow | None] = await services.call(services.store.failure_rows, [(row.ended_at, place)])
    return found[0] is not None


async def _carry_out(
    services: Services,
    document: Mapping[str, Any],
    found: Found,
    commands: list[Command],
    refused: list[dict[str, Any]],
) -> Response:
    """Send, unless it is a dry run, and say what became of it."""
    dry_run = wanting.flag(document, "dry_run")
    done: list[dict[str, Any]] = []
    answers: list[Answered | None] = []
    if not dry_run:
        answers = await _answers(services, commands, wanting.rate_per_s(document))
    for command, answer in zip(commands, answers, strict=False):
        if answer is not None and (is_refused(answer) or answer.skipped):
            refused.append({"run_id": command.run_id, "why": why_not(answer)})
        else:
            made = answer.run_id if answer is not None else ""
            done.append({"run_id": command.run_id, "redriven_as": made or None, "answered": answer is not None})
    told = {
        "dry_run": dry_run,
        "matched": len(found.letters),
        "groups": [letter_views.group_view(each) for each in groups_of(found.letters)],
        "done": done,
        "refused": refused,
        "left": 0 if dry_run else len(commands) - len(answers),
        "is_whole": found.is_whole,
        "next_cursor": _cursor(found.next_at),
    }
    if told["left"]:
        told["next_cursor"] = _cursor(_reached(found, commands[: len(answers)])) or document.get("cursor")
    return views.reply(200, told)


async def _answers(
    services: Services,
    commands: list[Command],
    rate_per_s: float,
    within_s: float | None = None,
    tries: int = TRIES_MAX,
) -> list[Answered | None]:
    """Those of the commands for which there was time. A redrive that was dropped before is tried once more."""
    give_up_at_s = services.clock.monotonic_s() + (pacing.WITHIN_S if within_s is None else within_s)
    answers = (await pacing.send_paced(services, commands, rate_per_s, within_s)).answers
    dropped = await services.call(dropped_before, services.store, answers)
    left_s = give_up_at_s - services.clock.monotonic_s()
    said: list[Answered | None] = []
    if dropped and tries and left_s > 0:
        again = [redrive_behind(commands[at], run_id, services.next_command_id()) for at, run_id in dropped.items()]
        try:
            said = await _answers(services, again, rate_per_s, left_s, tries - 1)
        except Problem:  # there is no room now: what was sent before is told, and these are to be asked again
            said = []
    for at, answer in zip(dropped, said, strict=False):
        answers[at] = answer
    untried = [*dropped][len(said) :]
    return [
        (dropped_too_late(each) if tries else dropped_too_often(each)) if each and at in untried else each
        for at, each in enumerate(answers)
    ]


async def _meant(services: Services, caller: Caller, document: Mapping[str, Any]) -> Found:
    """The letters that the body means, at most ``cap``. Raises RequestError where it means all there are."""
    choice = _choice(services, caller, document)
    if not choice.narrows:
        raise RequestError(
            "Say which letters",
            pointer="",
            hint="Give job, error_class, fingerprint, since or run_ids; dry_run shows what they mean",
        )
    after = _mark(wanting.text(document, "cursor", _CURSOR_MAX))
    return await services.call(find, services.store, caller.tenant, choice, wanting.cap(document), after)


def _reached(found: Found, sent: list[Command]) -> Mark | None:
    """Behind the last letter that something was done about; None: nothing was."""
    last = sent[-1].run_id if sent else ""
    return next((mark_of(letter) for letter in found.letters if letter.run_id == last), None)


def _mark(cursor: str) -> Mark | None:
    if not cursor:
        return None
    mark = Mark(*read_cursor(cursor))
    try:
        series = mark.place[1].series
    except RequestError:
        raise unknown_cursor() from None
    if series >= 2**63:
        raise unknown_cursor()
    return mark


def _cursor(mark: Mark | None) -> str | None:
    return write_cursor(*mark) if mark is not None else None


def _choice(services: Services, caller: Caller, document: Mapping[str, Any]) -> Choice:
    job = wanting.text(document, "job")
    run_ids = frozenset(str(own_run(each, caller.tenant, nodes=True)) for each in wanting.texts(document, "run_ids"))
    now = services.clock.now()
    return Choice(
        job_id=own_job_id(caller, job) if job else "",
        error_class=wanting.text(document, "error_class"),
        fingerprint=wanting.text(document, "fingerprint"),
        since=_since(wanting.text(document, "since"), now),
        state=state_of(wanting.text(document, "state") or LetterState.OPEN),
        run_ids=run_ids,
    )


def _since(word: str, now: Instant) -> Instant | None:
    """An instant, or an age."""
    if not word:
        return None
    return parse_rfc3339(word, "/since") if "T" in word else now - parse_duration(word, "/since")


def _redrives(whole: DeadLetter | None) -> int:
    if whole is None or whole.work is None:
        return 0
    try:
        return work_of(whole).redrives
    except RequestError:
        return 0


def _asked(services: Services, caller: Caller, document: Mapping[str, Any]) -> Asked:
    note = wanting.text(document, "note", wanting.NOTE_MAX)
    return Asked(caller.actor, services.next_command_id(), services.clock.now(), note)
