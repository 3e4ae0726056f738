"""What a job refuses as it stands, whoever asks: for every command that changes its status or its calendars."""

from __future__ import annotations

from waterclock.model.errors import RequestError
from waterclock.model.job import Command, CommandKind, JobStatus, JobVersion
from waterclock.model.untellable import why_not_compiled


def check_compiles(standing: JobVersion) -> None:
    """Refuse what would make another version that is active and never fires.

    Nobody knows the rows of the one that stands. Its own would stand beside them once the schedule compiles again, and
    each would make the run.
    """
    if why := why_not_compiled(standing.spec.schedule):
        raise RequestError(
            f"the schedule of {standing.job_id} does not compile any more: {why}",
            pointer="/kind",
            hint="Save the job with another schedule, or delete it",
        )


def check_end(command: Command, standing: JobVersion) -> None:
    """Refuse to pause or resume what is at its end, and to end what has none, or is paused."""
    if standing.status is JobStatus.ENDED and command.kind in (CommandKind.PAUSE, CommandKind.RESUME):
        raise RequestError(
            f"{command.job_id} is at its end: it has made its {standing.spec.timing.max_runs} runs",
            pointer="/kind",
            hint="Raise its max_runs, or trigger it",
        )
    if command.kind is CommandKind.END and (standing.status is JobStatus.PAUSED or not standing.spec.timing.max_runs):
        raise RequestError(
            f"{command.job_id} is not at an end",
            pointer="/kind",
            hint="The dispatcher itself ends a job whose max_runs are made",
        )
