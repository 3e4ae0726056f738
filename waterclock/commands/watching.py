"""Waits for a run: until history shows it, and until it has ended. Bounded, and the bound is told."""

from __future__ import annotations

import time

from waterclock.model.events import FINAL, RunStatus
from waterclock.model.ids import make_run_id, parse_run_id
from waterclock.store.port import Reading, RunRow

from .failing import CommandFailed, ExitCode
from .output import say

SEEN_WITHIN_S = 3.0
"""How long to look for a run's id where nobody waits for its end."""

_LOOK_AGAIN_S = 0.1
_NEWEST = 20


def triggered_run(store: Reading, job_id: str, series: int, within_s: float = SEEN_WITHIN_S) -> str | None:
    """The id of the run that the command with this revision number made, as soon as history shows it; else None."""
    give_up_at = time.monotonic() + within_s
    while time.monotonic() < give_up_at:
        for row in store.runs(job_id, _NEWEST):
            if row.series == series:
                return make_run_id(job_id, row.fire_at, series)
        time.sleep(_LOOK_AGAIN_S)
    return None


def row_of(store: Reading, run: str | None) -> RunRow | None:
    """What history knows of a run."""
    if run is None:
        return None
    place = parse_run_id(run)
    return store.run(place.job_id, place.fire_at, place.series)


def await_end(store: Reading, run: str | None, within_s: float) -> RunRow:
    """The run's row once it is final. Raises CommandFailed: code 7 when it failed, 6 when it takes longer.

    ``run`` None: history has not shown it, although that was waited for.
    """
    if run is None:
        raise CommandFailed(
            f"The command was obeyed, but history shows no run of it within {within_s:g} s",
            hint="Is a recorder running, and how far behind is it? waterclock status, waterclock lag",
            exit_code=ExitCode.TIMEOUT,
        )
    place = parse_run_id(run)
    give_up_at = time.monotonic() + within_s
    while True:
        row = store.run(place.job_id, place.fire_at, place.series)
        if row is not None and row.status in FINAL:
            break
        if time.monotonic() > give_up_at:
            status = row.status.name if row else "not seen yet"
            raise CommandFailed(
                f"{run} has not ended within {within_s:g} s: {status}",
                hint=f"waterclock run show '{run}'",
                exit_code=ExitCode.TIMEOUT,
            )
        time.sleep(_LOOK_AGAIN_S)
    if row.status is not RunStatus.SUCCEEDED:
        raise CommandFailed(
            f"{run} ended {row.status.name}: {row.error or row.reason}",
            hint=f"waterclock run show '{run}'",
            exit_code=ExitCode.RUN_FAILED,
        )
    say(f"{run} ended {row.status.name}")
    return row
