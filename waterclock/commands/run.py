"""``waterclock run``: what has run, what runs, and what waits."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer

from waterclock.clock import SystemClock
from waterclock.model.errors import NotFound
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import US_PER_S, make_run_id, parse_run_id
from waterclock.serving import warning_for, who_serves
from waterclock.settings import Settings
from waterclock.store.port import AttemptRow, FailureRow, JobRow, Reading, RunRow
from waterclock.store.run_rows import run_or_node

from .cancel import cancel
from .connect import here, job_id_of, names_of, open_log, open_store
from .liveness import judge
from .output import OutputOption, instant_text, payload_text, say, show_one, show_rows
from .run_logs import logs

app = typer.Typer(add_completion=False, help="Look at runs, and end them.", no_args_is_help=True)

app.command("logs")(logs)
app.command("cancel")(cancel)

_LISTED_MAX = 500
_PAGE = 500
_LOOKED_AT_MAX = 20_000
"""Runs of a job that a search for failed ones goes through: some seconds."""
_FAILED_HELP = """Those that failed. Without JOB: runs and nodes of Dags that were given up in the last 24 hours, but no
DagRuns (`waterclock dag runs JOB`)"""


@app.command("list")
def list_runs(
    job: Annotated[str | None, typer.Argument(metavar="JOB", help="Whose runs; without: use --failed")] = None,
    failed: Annotated[bool, typer.Option("--failed", help=_FAILED_HELP)] = False,
    limit: Annotated[int, typer.Option(min=1, max=_LISTED_MAX)] = 20,
    output: OutputOption = None,
) -> None:
    """List runs, newest first: of one job, or whatever was given up in the last 24 hours."""
    settings = here()
    if job is None and not failed:
        raise typer.BadParameter("name a JOB, or give --failed")
    with open_store(settings) as store:
        if job is None:
            given_up = [_given_up(row) for row in store.failures(settings.tenant, limit)]
            show_rows(given_up, ("run", "status", "ended_at", "error"), output)
            remark = "" if given_up else "no run was given up in the last 24 hours"
        else:
            job_id = job_id_of(settings, job)
            found, remark = _failed(store, job_id, limit) if failed else _newest(store, job_id, limit)
            columns = ("run", "status", "attempt", "started_at", "took_s", "worker", "error")
            show_rows([_line(row) for row in found], columns, output)
    if remark:
        say(remark)


@app.command()
def show(run: Annotated[str, typer.Argument(metavar="RUN", help="A run id")], output: OutputOption = None) -> None:
    """Show one run, or one node of a DagRun: its attempts, result or error; of one that waits, for what."""
    settings = here()
    place = parse_run_id(run)
    with open_store(settings) as store:
        row = run_or_node(store, place)
        if row is None:
            raise NotFound(
                f"History knows no run {run}",
                hint=f"`waterclock run list {place.job_id}` shows those it knows; history may lag: `waterclock lag`",
            )
        attempts = store.attempts(*place)
        job = store.job(place.job_id)
    card = _card(row) | {"run": str(place), "attempts": [_attempt_text(each) for each in attempts]}
    card |= _known_of_workers(settings, row, job)
    if _held(row):
        card["note"] = "it goes out when there is room, oldest first; `waterclock run cancel` ends it"
    show_one(card, output)
    if row.is_dag:
        say(f"a DagRun, node by node: waterclock dag show '{place}'")


def _known_of_workers(settings: Settings, row: RunRow, job: JobRow | None) -> dict[str, Any]:
    """Whether the worker of a run lives; of one that waits, whether there is any."""
    if row.status is RunStatus.RUNNING and not row.is_dag:  # no worker has a DagRun: its nodes have
        with open_log(settings) as log:
            now, ttl_s = SystemClock().now(), settings.worker.lease_ttl_s
            liveness = judge(log, names_of(settings), row, lease_ttl_s=ttl_s, now=now)
        dead = f"its worker is dead ({liveness.why}): the attempt is declared lost once its lease is over"
        return {"worker_alive": liveness.alive, "note": liveness.why if liveness.alive else dead}
    if row.status is RunStatus.PENDING and not _held(row) and job is not None:
        # By the job as it is now: a run made before its pool was changed may wait elsewhere.
        with open_log(settings) as log:
            now, ttl_s = SystemClock().now(), settings.worker.lease_ttl_s
            served = who_serves(log, names_of(settings), lease_ttl_s=ttl_s, now=now)
        return {"note": warning_for(job.spec, served)}
    return {}


def _newest(store: Reading, job_id: str, limit: int) -> tuple[list[RunRow], str]:
    """Its runs, and what is to be said of them."""
    found = store.runs(job_id, limit)
    return found, "" if found else f"no runs yet: `waterclock job show {job_id}` tells when it fires next"


def _failed(store: Reading, job_id: str, limit: int) -> tuple[list[RunRow], str]:
    """Its newest runs that failed, however many others are newer; and what is to be said of them."""
    found: list[RunRow] = []
    page = store.runs(job_id, _PAGE)
    looked_at = 0
    while page:  # ends: each page goes further back, and there is a bound
        looked_at += len(page)
        found += [row for row in page if row.status is RunStatus.FAILED]
        if len(found) >= limit:
            return found[:limit], ""
        if looked_at >= _LOOKED_AT_MAX:
            return found, f"only its {looked_at:,} newest runs were looked at"
        page = store.runs(job_id, _PAGE, page[-1].fire_at, page[-1].series)
    return found, "" if found else f"no run of {job_id} has failed, as far as history goes back (30 days)"


def _given_up(row: FailureRow) -> dict[str, Any]:
    return {
        "run": make_run_id(row.job_id, row.fire_at, row.series, row.node),
        "status": "FAILED",
        "ended_at": instant_text(row.ended_at),
        "error": row.reason,
    }


def _line(row: RunRow) -> dict[str, Any]:
    return {
        "run": make_run_id(row.job_id, row.fire_at, row.series),
        "status": f"{row.status.name} (held)" if _held(row) else row.status.name,
        "attempt": row.attempt or None,
        "started_at": instant_text(row.started_at),
        "took_s": _took_s(row.started_at, row.ended_at),
        "worker": row.worker or None,
        "error": _first_line(row.error) or row.reason or None,
    }


def _card(row: RunRow) -> dict[str, Any]:
    skipped = row.status is RunStatus.SKIPPED
    return {
        "run": make_run_id(row.job_id, row.fire_at, row.series),
        "job": row.job_id,
        "status": row.status.name,
        "fire_time": instant_text(row.fire_at),
        "made_by": row.origin.lower(),
        "tier": row.tier.word,
        "revision": row.revision,
        "attempt": row.attempt or None,
        "outcome": row.outcome.name.lower() if row.outcome is not Outcome.NONE else None,
        "dispatched_at": instant_text(row.dispatched_at),
        "started_at": instant_text(row.started_at),
        "ended_at": instant_text(row.ended_at),
        "took_s": _took_s(row.started_at, row.ended_at),
        "worker": row.worker or None,
        "fencing_token": row.fence or None,
        "result": _result(row.result),
        "error": row.error or None,
        "reason": None if _held(row) else row.reason or None,
        "held": _held(row),
        "next_attempt_at": instant_text(row.next_attempt_at),
        "cancel_requested": row.cancel_requested or None,
        "linked_run": row.again_of or None,
        "triggered_by": row.triggered_by or None,
        "is_last": row.is_last or None,
        "skipped_count": row.skipped_count if skipped else None,
        "skipped_to": instant_text(row.skipped_to) if skipped else None,
        "zone": row.zone or None,
        "tzdata": row.tzdata or None,
    }


def _held(row: RunRow) -> str | None:
    """Why it waits for others of its job."""
    return row.reason or None if row.status is RunStatus.PENDING else None


def _result(result: bytes | None) -> Any:
    """A handler's return value is kept as JSON."""
    if not result:
        return None
    try:
        return orjson.loads(result)
    except orjson.JSONDecodeError:
        return payload_text(result)


def _attempt_text(row: AttemptRow) -> str:
    took = _took_s(row.started_at, row.ended_at)
    return f"{row.attempt}: {row.outcome.name.lower()} on {row.worker} in {took} s {_first_line(row.error)}".rstrip()


def _took_s(started_at: int, ended_at: int) -> float | None:
    return round((ended_at - started_at) / US_PER_S, 3) if started_at and ended_at else None


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
