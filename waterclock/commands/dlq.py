"""``waterclock dlq``: runs that were given up: why, how many, and what to do about them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import orjson
import typer

from waterclock.clock import SystemClock
from waterclock.dead_letters.acting import TRIES_MAX, discard_of, dropped_too_often, redrive_behind, redrive_of, work_of
from waterclock.dead_letters.choosing import Choice, Group, Letter, LetterState, groups_of, state_of
from waterclock.dead_letters.finding import PATIENT_MAX, Found, dropped_before, find, mark_of_run, read_letters
from waterclock.log.port import Log
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.events import DeadLetter
from waterclock.model.ids import parse_run_id
from waterclock.model.job import Command
from waterclock.settings import Settings
from waterclock.store.port import Reading

from .connect import here, job_id_of, names_of, open_log, open_store
from .instants import instant_or_age
from .job_options import exact_json
from .output import OutputOption, instant_text, payload_text, say, show_one, show_rows
from .passing import Passed, Unanswered, asked_here, confirm, pass_on, refusals, tell_failures

app = typer.Typer(add_completion=False, help="Look at dead letters, redrive or discard them.", no_args_is_help=True)

_GROUPED_MAX = 10_000

_Job = Annotated[str | None, typer.Option(help="Only this job's")]
_Class = Annotated[str | None, typer.Option("--class", help="Only this error class")]
_Fingerprint = Annotated[str | None, typer.Option(help="Only this cause, as `dlq list --group` names it")]
_Since = Annotated[str | None, typer.Option(help="Given up since: 36h, 7d or RFC 3339 (24h)")]
_State = Annotated[str, typer.Option(help="open, redriven, discarded or all")]
_Runs = Annotated[list[str] | None, typer.Argument(metavar="RUN", help="Run ids; without: by the options")]
_Cap = Annotated[int, typer.Option(min=1, max=_GROUPED_MAX, help="At most so many")]
_Rate = Annotated[float, typer.Option(min=0.1, max=1_000, help="So many a second")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Count by cause, and change nothing")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask")]
_After = Annotated[str, typer.Option(metavar="RUN", help="Go on behind this one, as the command before said")]
_Note = Annotated[str, typer.Option(help="Why, for those who read the audit later")]


@app.command("list")
def list_letters(
    job: _Job = None,
    error_class: _Class = None,
    fingerprint: _Fingerprint = None,
    since: _Since = None,
    state: _State = "open",
    group: Annotated[bool, typer.Option("--group", help="Causes instead of letters, the largest first")] = False,
    limit: Annotated[int, typer.Option(min=1, max=_GROUPED_MAX)] = 20,
    after: _After = "",
    output: OutputOption = None,
) -> None:
    """List dead letters, newest first; with --group by cause."""
    settings = here()
    choice = _choice(settings, [], job, error_class, fingerprint, since, state)
    with open_store(settings) as store:
        found = _found(settings, store, choice, _GROUPED_MAX if group else limit, after)
    if group:
        columns: tuple[str, ...] = ("letters", "jobs", "error_class", "fingerprint", "last_at", "error")
        show_rows([_group_line(each) for each in groups_of(found.letters)], columns, output)
    else:
        columns = ("run", "state", "attempts", "ended_at", "error_class", "error", "redriven_as")
        show_rows([_line(each) for each in found.letters], columns, output)
    if not found.is_whole:
        _tell_more(found)
    elif not found.letters:
        say("no dead letters: nothing that is meant was given up")


@app.command()
def show(run: Annotated[str, typer.Argument(metavar="RUN", help="A run id")], output: OutputOption = None) -> None:
    """Show one dead letter: why it was given up, and what it was to do."""
    settings = here()
    with open_store(settings) as store, open_log(settings) as log:
        letter = _letter(store, run)
        whole = read_letters(log, names_of(settings), [letter]).get(letter.run_id)
    show_one(_line(letter) | _work_lines(whole), output)
    if letter.state is LetterState.OPEN:
        again = f"dag rerun '{run.partition('/')[0]}' --failed" if letter.failure.node else f"dlq redrive '{run}'"
        say(f"again: waterclock {again}   away: waterclock dlq discard '{run}'")


@app.command()
def redrive(
    runs: _Runs = None,
    job: _Job = None,
    error_class: _Class = None,
    fingerprint: _Fingerprint = None,
    since: _Since = None,
    state: _State = "open",
    payload: Annotated[str | None, typer.Option(help="JSON, in place of the payload of each")] = None,
    force: Annotated[bool, typer.Option("--force", help="Also what was redriven today, or often before")] = False,
    cap: _Cap = 1_000,
    rate: _Rate = 100.0,
    after: _After = "",
    note: _Note = "",
    dry_run: _DryRun = False,
    yes: _Yes = False,
    output: OutputOption = None,
) -> None:
    """Run dead letters once more: each becomes a run of its own, linked to the one that was given up."""
    settings = here()
    wanted = None if payload is None else orjson.dumps(_json(payload))
    choice = _narrow(_choice(settings, runs or [], job, error_class, fingerprint, since, state))
    with open_store(settings) as store, open_log(settings) as log:
        found = _meant(settings, store, choice, cap, after)
        kept = read_letters(log, names_of(settings), found.letters) if found.letters else {}

        def made(letter: Letter) -> Command:
            return redrive_of(letter, kept, asked_here(note), payload=wanted, force=force)

        _act(settings, store, "Redrive", found, made, rate, output, dry_run=dry_run, yes=yes or bool(runs))


@app.command()
def discard(
    runs: _Runs = None,
    job: _Job = None,
    error_class: _Class = None,
    fingerprint: _Fingerprint = None,
    since: _Since = None,
    state: _State = "open",
    cap: _Cap = 1_000,
    rate: _Rate = 100.0,
    after: _After = "",
    note: _Note = "",
    dry_run: _DryRun = False,
    yes: _Yes = False,
    output: OutputOption = None,
) -> None:
    """Put dead letters away: they are no longer open. Their bytes stay in the topic for as long as that keeps them."""
    settings = here()
    choice = _narrow(_choice(settings, runs or [], job, error_class, fingerprint, since, state))
    with open_store(settings) as store:
        found = _meant(settings, store, choice, cap, after)

        def made(letter: Letter) -> Command:
            return discard_of(letter.run_id, asked_here(note))

        _act(settings, store, "Discard", found, made, rate, output, dry_run=dry_run, yes=yes or bool(runs))


def _act(
    settings: Settings,
    store: Reading,
    verb: str,
    found: Found,
    made: Callable[[Letter], Command],
    rate: float,
    output: OutputOption,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Count, ask, send, and say what became of each."""
    commands: list[Command] = []
    refused: list[str] = []
    for letter in found.letters:
        try:
            commands.append(made(letter))
        except RequestError as error:
            refused.append(f"{letter.run_id}: {error.message}")
    groups = [_group_line(each) for each in groups_of(found.letters)]
    card: dict[str, Any] = {"matched": len(found.letters), "dry_run": dry_run, "done": 0, "refused": len(refused)}
    done, silent = 0, Unanswered()
    if dry_run or not commands:
        show_one(card | {"groups": [_group_text(each) for each in groups]}, output)
    else:
        confirm(f"{verb} {len(commands)} dead letters of {len(groups)} causes?", yes=yes)
        with open_log(settings) as log:
            passed = _pass_on(settings, store, log, commands, rate)
        done, _, silent = passed.tally(commands)
        refused += refusals(passed, commands)
        show_one(card | {"done": done, "refused": len(refused), "runs": _new_runs(passed, commands)}, output)
    if not found.is_whole and not silent.unsent:  # else the same command again goes on with those
        _tell_more(found)
    tell_failures(refused, silent, done=done, dry_run=dry_run)


def _pass_on(
    settings: Settings, store: Reading, log: Log, commands: Sequence[Command], rate: float, tries: int = TRIES_MAX
) -> Passed:
    """As ``pass_on``; a redrive that was dropped before is tried once more, and that counts."""
    passed = pass_on(settings, log, commands, rate)
    dropped = dropped_before(store, [passed.answers.get(each.command_id) for each in commands])
    if not dropped or not tries:
        ids = [commands[at].command_id for at in dropped]
        return passed._replace(answers=passed.answers | {each: dropped_too_often(passed.answers[each]) for each in ids})
    again = {at: redrive_behind(commands[at], run_id, asked_here().command_id) for at, run_id in dropped.items()}
    then = _pass_on(settings, store, log, list(again.values()), rate, tries - 1)
    answers, tickets = dict(passed.answers), dict(passed.tickets)
    for at, command in again.items():
        told, standing = then.answers.get(command.command_id), then.tickets.get(command.command_id)
        del answers[commands[at].command_id], tickets[commands[at].command_id]
        if told is not None:
            answers[commands[at].command_id] = told
        if standing is not None:
            tickets[commands[at].command_id] = standing
    return Passed(answers, tickets, passed.cause or then.cause)


def _new_runs(passed: Passed, commands: Sequence[Command]) -> list[str]:
    found = (passed.answers.get(command.command_id) for command in commands)
    return [answer.run_id for answer in found if answer is not None and answer.run_id and not answer.skipped]


def _found(settings: Settings, store: Reading, choice: Choice, limit: int, after: str) -> Found:
    return find(store, settings.tenant, choice, limit, mark_of_run(store, after) if after else None, PATIENT_MAX)


def _tell_more(found: Found) -> None:
    if found.next_at is not None:
        say(f"there may be more: the same command with --after '{found.next_at.run_id}' goes on behind these")


def _meant(settings: Settings, store: Reading, choice: Choice, cap: int, after: str) -> Found:
    found = _found(settings, store, choice, max(cap, len(choice.run_ids)), after)
    missing = choice.run_ids - {letter.run_id for letter in found.letters}
    if missing and not after:
        one = min(missing)
        raise NotFound(
            f"There is no {choice.state} dead letter of {one}",
            hint=f"`waterclock dlq show '{one}'` tells how it stands; --state all takes it all the same",
        )
    return found


def _letter(store: Reading, run: str) -> Letter:
    found = find(store, "", Choice(state=LetterState.ALL, run_ids=frozenset([str(parse_run_id(run))])), 1)
    if not found.letters:
        raise NotFound(
            f"There is no dead letter of {run}", hint=f"`waterclock run show '{run}'` tells how the run ended"
        )
    return found.letters[0]


def _choice(
    settings: Settings,
    runs: Sequence[str],
    job: str | None,
    error_class: str | None,
    fingerprint: str | None,
    since: str | None,
    state: str,
) -> Choice:
    return Choice(
        job_id=job_id_of(settings, job) if job else "",
        error_class=error_class or "",
        fingerprint=fingerprint or "",
        since=instant_or_age(since, SystemClock().now(), "/since") if since else None,
        state=state_of(state),
        run_ids=frozenset(str(parse_run_id(run)) for run in runs),
    )


def _narrow(choice: Choice) -> Choice:
    """The same. Raises BadParameter where it would mean every letter."""
    if not choice.narrows:
        raise typer.BadParameter("name RUNs, or give --job, --class, --fingerprint or --since")
    return choice


def _line(letter: Letter) -> dict[str, Any]:
    failure, done = letter.failure, letter.done
    return {
        "run": letter.run_id,
        "state": letter.state.value,
        "attempts": failure.attempts or None,
        "ended_at": instant_text(failure.ended_at),
        "reason": failure.reason,
        "error_class": failure.error_class or failure.reason,
        "error": failure.error or None,
        "fingerprint": failure.fingerprint,
        "redriven_as": (done.linked_run or None) if done else None,
        "done_at": instant_text(done.at) if done else None,
        "done_by": (done.actor or None) if done else None,
    }


def _work_lines(whole: DeadLetter | None) -> dict[str, Any]:
    """What it was to do, as its letter holds it."""
    if whole is None:
        return {"note": "the topic no longer has this letter"}
    lines: dict[str, Any] = {
        "first_failure_at": instant_text(whole.first_failure_at),
        "last_failure_at": instant_text(whole.last_failure_at),
    }
    try:
        work = work_of(whole)
    except RequestError as error:
        return lines | {"note": error.message}
    source = whole.work
    return lines | {
        "handler": work.handler or work.executor,
        "pool": work.pool,
        "redrives": work.redrives or None,
        "payload": payload_text(work.payload),
        "work_record": f"{source.topic}[{source.partition}]@{source.offset}" if source else None,
    }


def _group_line(group: Group) -> dict[str, Any]:
    return {
        "letters": group.letter_count,
        "jobs": group.job_count,
        "error_class": group.error_class,
        "fingerprint": group.fingerprint,
        "first_at": instant_text(group.first_at),
        "last_at": instant_text(group.last_at),
        "error": group.error,
        "sample": group.sample,
    }


def _group_text(line: dict[str, Any]) -> str:
    return f"{line['letters']} x {line['error_class']}: {line['error']} ({line['fingerprint']})"


def _json(text: str) -> Any:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        raise RequestError("The payload is no JSON", pointer="/payload", hint="Quote it: '{\"row\": 7}'") from None
    return exact_json(text)
