"""``waterclock dag show``, ``runs`` and ``stuck``: DagRuns as history has them."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from waterclock.clock import SystemClock
from waterclock.dag_runs.listing import LOOKED_AT_MAX, dag_runs_of
from waterclock.dag_runs.looking import stuck_in
from waterclock.dag_runs.picture import nodes_seen
from waterclock.dag_runs.reading import DagRunSeen, Read, read_dag_run
from waterclock.dag_runs.views import dag_run_in_full, dag_run_view, stuck_view
from waterclock.model.errors import BackendDown, NotFound, RequestError
from waterclock.model.ids import Instant, RunId, parse_run_id
from waterclock.serving import who_serves
from waterclock.settings import Settings
from waterclock.store.open_runs import OPEN, PATIENT_MAX, open_runs

from .connect import here, job_id_of, names_of, open_log, open_store
from .dag_tree import draw_run
from .output import Format, OutputOption, default_format, say, show_one, show_rows
from .visible import visible_lines

_PAGE_MAX = 500
_OPEN_LOOKED_AT_MAX = 10_000

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A DagRun's id")]


def show(run: RunArgument, output: OutputOption = None) -> None:
    """Draw a DagRun: how each node stands, how long it took, what took longest, and what is stuck."""
    settings, now = here(), SystemClock().now()
    with open_store(settings) as store:
        seen = known_dag_run(store, run)
    nodes, stuck = nodes_seen(seen), stuck_in(seen, _served_pools(settings, now) if seen.is_open else None, now)
    if (output or default_format()) is not Format.TABLE:
        show_one(dag_run_in_full(seen, nodes, stuck, now), output)
        return
    is_plain = "NO_COLOR" in os.environ
    for line in draw_run(seen, nodes, stuck, now):
        text = visible_lines(line.text)
        typer.echo(text if is_plain or not line.colour else typer.style(text, fg=line.colour))


def runs(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Whose DagRuns")],
    limit: Annotated[int, typer.Option(min=1, max=_PAGE_MAX)] = 20,
    output: OutputOption = None,
) -> None:
    """List a job's DagRuns, newest first."""
    settings = here()
    with open_store(settings) as store:
        job_id = job_id_of(settings, job)
        found = dag_runs_of(store, job_id, limit)
        if not found.rows and store.job(job_id) is None:
            raise _no_job(job_id)
    rows = [_line(dag_run_view(row)) for row in found.rows]
    show_rows(rows, ("run_id", "status", "dispatched_at", "took_s", "linked_run", "reason"), output)
    if len(rows) < limit and found.last is not None:
        say(f"there are older runs than the {LOOKED_AT_MAX} that were looked at: the API goes on with its cursor")
    elif not rows:
        say("no DagRuns yet: `waterclock job show JOB` tells when it fires next")


def stuck(
    what: Annotated[str | None, typer.Argument(metavar="JOB|RUN", help="Only there; without: all open DagRuns")] = None,
    output: OutputOption = None,
) -> None:
    """Name the nodes that wait for what does not come by itself, each with its reason; none when all is well."""
    settings, now = here(), SystemClock().now()
    served = _served_pools(settings, now)
    findings: list[dict[str, Any]] = []
    with open_store(settings) as store:
        if what is not None and "@" in what:
            places, is_whole = [parse_run_id(what)], True
            known_dag_run(store, what)
        else:
            job_id = job_id_of(settings, what) if what else ""
            found = open_runs(
                store, settings.tenant, job_id, frozenset(OPEN), None, _OPEN_LOOKED_AT_MAX, None, PATIENT_MAX
            )
            if job_id and not found.rows and store.job(job_id) is None:  # else a misspelt name looks like one at rest
                raise _no_job(job_id)
            places = [RunId(row.job_id, row.fire_at, row.series) for row in found.rows if row.is_dag]
            is_whole = found.is_whole
        for place in places:
            seen = read_dag_run(store, place)
            if seen is not None:
                findings += [stuck_view(str(place), each) for each in stuck_in(seen, served, now)]
    show_rows(findings, ("run_id", "node", "reason", "since", "behind", "why"), output)
    if not findings:
        say(f"nothing is stuck in {len(places)} open DagRuns")
    if not is_whole:
        say(f"there are more than {_OPEN_LOOKED_AT_MAX} open runs: name a JOB")


def known_dag_run(store: Read, run: str) -> DagRunSeen:
    """The DagRun that was named. Raises NotFound, RequestError."""
    place = parse_run_id(run)._replace(node="")
    seen = read_dag_run(store, place)
    if seen is None:
        raise NotFound(
            f"History knows no DagRun {place}",
            hint=f"`waterclock dag runs {place.job_id}` shows those it knows; history may lag: `waterclock lag`",
        )
    return seen


def whole_dag_run(store: Read, run: str) -> DagRunSeen:
    """The same for acts, which are never meant for a single node. Raises NotFound, RequestError."""
    place = parse_run_id(run)
    if place.node:
        whole = place._replace(node="")
        raise RequestError(
            f"{place} is a node of a DagRun",
            pointer="/run_id",
            hint=f"The DagRun is {whole}. To cancel this node: `waterclock run cancel {place}`; to run it again: "
            f"`waterclock dag rerun {whole} --from {place.node.partition('.')[0]}`",
        )
    return known_dag_run(store, run)


def _no_job(job_id: str) -> NotFound:
    return NotFound(f"There is no job {job_id}", hint="`waterclock job list` shows those there are")


def _line(document: dict[str, Any]) -> dict[str, Any]:
    status = document["status"]
    held, paused = document["held"], document["paused"] and not document["ended_at"]
    return document | {"status": f"{status} (held)" if held else f"{status} (paused)" if paused else status}


def _served_pools(settings: Settings, now: Instant) -> frozenset[str] | None:
    """The pools that have a worker; None where the log does not answer."""
    try:
        with open_log(settings) as log:
            serving = who_serves(log, names_of(settings), lease_ttl_s=settings.worker.lease_ttl_s, now=now)
    except BackendDown as down:
        say(f"who serves which pool cannot be told: {down}")
        return None
    return frozenset(pool for pool, served in serving.items() if served.workers)
