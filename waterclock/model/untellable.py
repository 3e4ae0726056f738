"""Jobs whose fires can be told no longer: their schedule was accepted once and does not compile any more.

So it is after an upgrade in which their zone is gone, or a cron text is read more strictly. Such a job does not fire
until it compiles again or has another schedule, and whoever shows it says so. What must hold: it stands in nobody's
way, least of all in that of its own replacement or deletion. So its versions have no fires (``timetable.py``), and who
has to know why asks here.
"""

from __future__ import annotations

from .cron import compile_cron
from .errors import RequestError
from .job import Cron, Schedule


def schedule_error(schedule: Schedule) -> str:
    """What is wrong with a schedule that stands, and what to do; "" where it compiles."""
    why = why_not_compiled(schedule)
    if not why:
        return ""
    return (
        f"It does not fire, for its schedule does not compile any more: {why}. "
        "Save it with another schedule, or delete it"
    )


def why_not_compiled(schedule: Schedule) -> str:
    """The reason alone; "" where the schedule compiles."""
    if not isinstance(schedule, Cron):
        return ""
    try:
        compile_cron(schedule)
    except RequestError as error:
        return str(error).removesuffix("?")
    return ""
