"""What asks for the run of a trigger, and what a shard owner refuses of that. Pure.

Whatever stands here goes into every record of the run, and what is gathered into arithmetic: so it is checked before
anything is decided by it. Anybody may write to ``commands``, and a shard that stumbles over one would not come past it.
"""

from __future__ import annotations

import re

from waterclock.model.cause import NO_CAUSE, Cause
from waterclock.model.errors import RequestError
from waterclock.model.events import RunStatus
from waterclock.model.gathering import Arrival
from waterclock.model.ids import US_PER_S, Instant, job_of_run, parse_run_id, split_job_id
from waterclock.model.job import Command, JobSpec
from waterclock.model.triggers import HOPS_MAX, Triggers

SOURCE_MAX = 300
"""Characters of a run id: tenant, name, instant, series."""

AHEAD_US = 60 * US_PER_S
"""So much may the clock that asks for a window's end be ahead of the brokers'."""

_RECORD = re.compile(r"[A-Za-z0-9._-]{1,249}/[0-9]{1,10}/[0-9]{1,19}\Z", re.ASCII)
_STATUSES = {status.name.lower(): status for status in RunStatus}


def cause_of(command: Command) -> Cause:
    """What stands behind a TRIGGER; refused is a chain of runs that is too long, for jobs that start each other in a
    ring would never rest. Raises RequestError."""
    source = command.triggered_by
    if not source:
        return NO_CAUSE
    if len(source) > SOURCE_MAX:
        raise RequestError(f"it names a run by {len(source)} characters", pointer="/triggered_by",
                           hint=f"A run id has at most {SOURCE_MAX}")  # fmt: skip
    if "@" not in source:
        return _record(source)
    parse_run_id(source)
    if split_job_id(job_of_run(source))[0] != split_job_id(command.job_id)[0]:
        raise RequestError(f"{source} is of another tenant", pointer="/triggered_by", hint="Name one of the job's own")
    if not 0 <= command.hops <= HOPS_MAX:
        raise RequestError(
            f"{source} is the last of {HOPS_MAX} runs in a row that were started by the end of another, "
            "or ends in a ring in which it would start too many at once",
            pointer="/hops",
            hint=f"At most {HOPS_MAX}: look for jobs that start each other in a ring (`waterclock job show`)",
        )
    return Cause(source, command.hops)


def _record(source: str) -> Cause:
    if not _RECORD.match(source):
        raise RequestError(f"{source!r} is neither a run nor a record", pointer="/triggered_by",
                           hint="A record is <topic>/<partition>/<offset>")  # fmt: skip
    return Cause(source)


def arrival_of(command: Command, cause: Cause, spec: JobSpec, number: int, at: Instant) -> Arrival | None:
    """What a TRIGGER brings to a job with a window; None where nothing is gathered. Raises RequestError.

    Refused is what the job, as it stands, does not wait for: in a window it would count for nothing, and of what was
    told for a window that is gone it would make a whole run.
    """
    source, on = cause.source, spec.on
    has_window = on is not None and on.within_us > 0
    if not source or not (has_window or command.gathers):
        return None
    places = _places_met(on, command) if on is not None else ()
    if not places:
        ended = f" ({command.ended[:40] or 'no end'})" if "@" in source else ""
        raise RequestError(
            f"{command.job_id} does not wait for {source}{ended} any more",
            pointer="/triggered_by",
            hint="Its conditions were changed meanwhile: nothing follows from it",
        )
    return Arrival(source, cause.hops, at, number, places) if has_window else None


def _places_met(on: Triggers, command: Command) -> tuple[int, ...]:
    source = command.triggered_by
    if "@" not in source:
        headers = {name: text.encode() for name, text in command.headers}
        return on.places_passed_by(source.partition("/")[0], headers)
    name, status = split_job_id(job_of_run(source))[1], _STATUSES.get(command.ended)
    return on.places_met_by(name, status, command.ended_at) if status is not None else ()


def check_lapse(command: Command, appended_at: Instant) -> None:
    """Refuse the end of a window that is far from over: RequestError."""
    if command.due_at - appended_at > AHEAD_US:
        raise RequestError("the window is not over", pointer="/due_at", hint="The dispatcher itself ends a window")
