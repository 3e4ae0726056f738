"""Is what waits for others let go once there is room for it? Imports nothing of ours.

Of one job on its way through the log (``beside.py``): from when on there is room, by the newest revision's limits, for
one of those that wait, and until when its owner has let that one go, or there is none any more. How long that took is
how long its owner went on with other things meanwhile (``late_acts.py``).
"""

from .limits import limits_of


class Room:
    """Of one job: since when there has been room, and who waits for it first."""

    def __init__(self, acts, healed_at, late_us):
        self._acts = acts
        self._healed_at = healed_at
        self._late_us = late_us
        self._since = None
        self._who = ""

    def look(self, job, record):
        """How the job stands after an event of it. Yields what is wrong with how long it took until now."""
        at = max(record.get("readable_us", 0), record["timestamp_us"])
        who = _may_go(job, at) if job.held else ""
        if self._since is not None and who != self._who:
            since = max(self._since, self._healed_at)
            waited = self._acts.went_on(record["partition"], since, record["timestamp_us"])
            if waited > self._late_us:
                yield f"{self._who}: there was room for it, and its owner did other things for {waited} us"
            self._since = None
        if who and self._since is None:
            self._since = at
        self._who = who


def _may_go(job, at):
    """The first of those that wait for which there is room; "" where there is none, or nobody can say.

    Runs that went out before anything limited their job: an owner who counted them for another reason knows of them,
    and waits for their ends.
    """
    version = job.newest
    if version is None or job.alive.difference(job.open):
        return ""
    is_paused = job.is_paused(at)
    most, most_of_key = limits_of(version.spec) if version.status != "DELETED" else (None, None)
    if most is not None and len(job.open) >= most:
        return ""
    for run_id, group in job.held.items():
        if is_paused and run_id not in job.people:
            continue
        if group is None or most_of_key is None or sum(its == group for its in job.open.values()) < most_of_key:
            return run_id
    return ""
