"""What asked for the run of a trigger, and how long a chain of such runs may be. Pure."""

from __future__ import annotations

from waterclock.model.cause import Cause
from waterclock.model.errors import RequestError
from waterclock.model.job import Command
from waterclock.model.triggers import HOPS_MAX


def cause_of(command: Command) -> Cause:
    """Refuse a chain of runs that is too long: jobs that start each other in a ring would never rest. RequestError."""
    if not 0 <= command.hops <= HOPS_MAX:
        raise RequestError(
            f"{command.triggered_by} is the last of {HOPS_MAX} runs in a row that were started by the end of another",
            pointer="/hops",
            hint=f"At most {HOPS_MAX}: look for jobs that start each other in a ring (`waterclock job show`)",
        )
    return Cause(command.triggered_by, command.hops)
