"""``waterclock run cancel``: end one run, some, or all that a filter means."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, NamedTuple

import typer

from waterclock.clock import SystemClock
from waterclock.dead_letters.acting import cancel_of
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.events import FINAL, RunStatus
from waterclock.model.ids import Instant, RunId, make_run_id, parse_run_id
from waterclock.model.time_text import parse_duration
from waterclock.settings import Settings
from waterclock.store.open_runs import OPEN, PATIENT_MAX, OpenRuns, Place, open_runs, parse_place
from waterclock.store.port import Reading, RunRow
from waterclock.store.run_rows import run_or_node

from .connect import here, job_id_of, open_log, open_store
from .output import OutputOption, say, show_one
from .passing import Unanswered, asked_here, confirm, pass_on, refusals, tell_failures

_CAP = 1_000
_RATE_PER_S = 100.0


def cancel(
    runs: Annotated[list[str] | None, typer.Argument(metavar="RUN", help="Run ids, also of nodes")] = None,
    job: Annotated[str | None, typer.Option(help="All open runs of this job")] = None,
    status: Annotated[list[str] | None, typer.Option(help="pending, running, retrying; may be repeated")] = None,
    older_than: Annotated[str | None, typer.Option(help="Made so long ago: 10m, 2h")] = None,
    note: Annotated[str, typer.Option(help="Why, for those who read it later")] = "",
    cap: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many")] = _CAP,
    rate: Annotated[float, typer.Option(min=0.1, max=1_000, help="So many a second")] = _RATE_PER_S,
    after: Annotated[str, typer.Option(help="Go on there, as the command before said")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and end nothing")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
    output: OutputOption = None,
) -> None:
    """Cancel runs: those that wait end at once, those that run are asked to stop, then stopped."""
    settings = here()
    places = [parse_run_id(run) for run in runs or ()]
    wanted = None if places else _wanted(settings, job, status or [], older_than, after)
    with open_store(settings) as store, open_log(settings) as log:
        if wanted is None:
            named = {str(place): _named(store, place) for place in places}
            found = OpenRuns(list(named.values()))
        else:
            found = open_runs(
                store, settings.tenant, wanted.job_id, wanted.statuses, wanted.before, cap, wanted.after, PATIENT_MAX
            )
            named = {make_run_id(row.job_id, row.fire_at, row.series): row for row in found.rows}
        open_ones = [run_id for run_id, row in named.items() if row.status not in FINAL]
        by_status = dict(Counter(row.status.name for row in found.rows))
        for run_id, row in named.items():
            if row.status in FINAL:
                say(f"{run_id} had ended: {row.status.name}")
        card: dict[str, Any] = {"matched": len(found.rows), "by_status": by_status, "dry_run": dry_run, "requested": 0}
        refused, done, silent = list[str](), 0, Unanswered()
        if open_ones and not dry_run:
            if not runs:
                confirm(f"Cancel {len(open_ones)} runs ({by_status})?", yes=yes)
            commands = [cancel_of(run_id, asked_here(note)) for run_id in open_ones]
            passed = pass_on(settings, log, commands, rate)
            done, _, silent = passed.tally(commands)
            refused = refusals(passed, commands)
            card["requested"] = done
    show_one(card, output)
    if not found.is_whole and not silent.unsent:  # else the same command again goes on with those
        say(f"there may be more: the same command with --after '{found.next_at}' goes on behind these")
    elif not found.rows:
        say("no open runs are meant: `waterclock run list JOB` shows what there is; history lags by about a second")
    tell_failures(refused, silent, done=done)


def _named(store: Reading, place: RunId) -> RunRow:
    row = run_or_node(store, place)
    if row is None:
        raise NotFound(
            f"History knows no run {place}", hint=f"`waterclock run list {place.job_id}` shows those it knows"
        )
    return row


class _Wanted(NamedTuple):
    """Which open runs a filter means: of this job ("": of any), of these statuses, made before, behind this place."""

    job_id: str
    statuses: frozenset[RunStatus]
    before: Instant | None
    after: Place | None


def _wanted(settings: Settings, job: str | None, words: list[str], older_than: str | None, after: str) -> _Wanted:
    """What the options say. Raises BadParameter where they would mean every run, RequestError where one is wrong."""
    if not (job or words or older_than):
        raise typer.BadParameter("name RUNs, or give --job, --status or --older-than")
    statuses = frozenset(_status(word) for word in words) or frozenset(OPEN)
    before = SystemClock().now() - parse_duration(older_than, "/older-than") if older_than else None
    job_id = job_id_of(settings, job) if job else ""
    return _Wanted(job_id, statuses, before, parse_place(after) if after else None)


def _status(word: str) -> RunStatus:
    status = next((each for each in OPEN if each.name == word.upper()), None)
    if status is None:
        raise RequestError(f"{word!r} is no status that can be cancelled", hint="pending, running or retrying")
    return status
