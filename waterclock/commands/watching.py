"""Waits for a run that was made: until history shows it, or until it has ended. Bounded, and the bound is told."""

from __future__ import annotations

import time

from waterclock.model.errors import BackendDown
from waterclock.model.events import FINAL, RunStatus
from waterclock.model.ids import parse_run_id
from waterclock.store.port import Reading, RunRow

from .failing import CommandFailed, ExitCode
from .output import say

SEEN_WITHIN_S = 3.0
"""How long history is given to show a run whose end nobody waits for: then the next command finds it."""

_LOOK_AGAIN_S = 0.1


def is_shown(store: Reading, run: str) -> bool:
    """Whether history shows a run that was just made, within ``SEEN_WITHIN_S``; a store that is away does not."""
    place = parse_run_id(run)
    give_up_at = time.monotonic() + SEEN_WITHIN_S
    try:
        while store.run(place.job_id, place.fire_at, place.series) is None:
            if time.monotonic() > give_up_at:
                return False
            time.sleep(_LOOK_AGAIN_S)
    except BackendDown:
        return False
    return True


def await_end(store: Reading, run: str, within_s: float) -> RunRow:
    """The run's row once it is final. Raises CommandFailed: code 7 when it failed, 6 when it takes longer."""
    place = parse_run_id(run)
    give_up_at = time.monotonic() + within_s
    while True:
        row = store.run(place.job_id, place.fire_at, place.series)
        if row is not None and row.status in FINAL:
            break
        if time.monotonic() > give_up_at:
            raise _not_ended(run, row, within_s)
        time.sleep(_LOOK_AGAIN_S)
    if row.status is not RunStatus.SUCCEEDED:
        raise CommandFailed(
            f"{run} ended {row.status.name}: {row.error or row.reason}",
            hint=f"waterclock run show '{run}'",
            exit_code=ExitCode.RUN_FAILED,
        )
    say(f"{run} ended {row.status.name}")
    return row


def _not_ended(run: str, row: RunRow | None, within_s: float) -> CommandFailed:
    late = f"{run} has not ended within {within_s:g} s"
    if row is None:
        hint = "Is a recorder running, and how far behind is it? waterclock status, waterclock lag"
        return CommandFailed(f"{late}: history does not show it yet", hint=hint, exit_code=ExitCode.TIMEOUT)
    return CommandFailed(f"{late}: {row.status.name}", hint=f"waterclock run show '{run}'", exit_code=ExitCode.TIMEOUT)
