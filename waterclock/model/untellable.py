"""Jobs whose fires can be told no longer: their schedule was accepted once and does not compile any more.

So it is after an upgrade in which their zone is gone, or a cron text is read more strictly. Such a job does not fire
until it compiles again or has another schedule, and whoever shows it says so. What must hold: it stands in nobody's
way, least of all in that of its own replacement or deletion.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from .cron import compile_cron
from .errors import RequestError
from .job import NEVER, Cron, JobVersion, Schedule


def schedule_error(schedule: Schedule) -> str:
    """What is wrong with a schedule that stands, and what to do; "" where it compiles."""
    return _error_of(schedule) if isinstance(schedule, Cron) else ""


@lru_cache(maxsize=16_384)
def _error_of(schedule: Cron) -> str:
    """Kept, as what compiles is: a failure looks for the nearest zone, which takes milliseconds, and is asked about for
    every job of a page, a slice or a ledger."""
    try:
        compile_cron(schedule)
    except RequestError as error:
        return (
            f"It does not fire, for its schedule does not compile any more: {str(error).removesuffix('?')}. "
            "Save it with another schedule, or delete it"
        )
    return ""


def silenced(version: JobVersion) -> JobVersion:
    """The version as far as its fires can be told: where they cannot, it has none."""
    if not schedule_error(version.spec.schedule):
        return version
    return version._replace(spec=replace(version.spec, schedule=NEVER))
