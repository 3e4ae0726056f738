"""Does a role that is at work do what waits to be done? Imports nothing of ours.

Input: dumped ``run-events``, whose times must be of one clock, and what judges find to be waiting. A clock alone cannot
say that a role was late, for it may have slept with all the world. So late is what was not done while other things
went on for so long in that partition: from the first of them after it was to be done to the last before it was.
"""

import bisect
import collections
import itertools

from .records import decode

BY_THE_OWNER = ("PENDING", "HELD", "SKIPPED", "REVISED", "ANSWERED", "BACKFILL", "CANCEL_REQUESTED")
SLEEP_US = 5_000_000
"""Nobody tells a longer silence from a sleep: no more of it counts."""


class Acts:
    """When something was written in each partition, in the order of the log; of these kinds alone, or of all."""

    def __init__(self, kinds=()):
        self._kinds = kinds
        self._at = collections.defaultdict(list)

    def note(self, record, event):
        """Take in an event; a node is not its owner's."""
        if not self._kinds or (event["kind"] in self._kinds and "/" not in event["run_id"]):
            times = self._at[record["partition"]]
            times.append(max(record["timestamp_us"], times[-1] if times else 0))

    def went_on(self, partition, since, until):
        """For how long it has gone on in between."""
        times = self._at[partition]
        those = times[bisect.bisect_left(times, since) : bisect.bisect_left(times, until)]
        return sum(min(after - before, SLEEP_US) for before, after in itertools.pairwise(those))


def expiries(chronicle, events, healed_at, late_us):
    """(complaints, counts): who waits beyond its time is ended for that before much else goes on."""
    acts, complaints, counts = Acts(), [], collections.Counter()
    for record in events:
        acts.note(record, decode(record["value"])[1])
    for wait in chronicle.waits:
        if wait.kind not in ("STARTED", "RUN_EXPIRED") or wait.record["timestamp_us"] < healed_at:
            continue
        since = max(wait.over_at, healed_at)
        waited = acts.went_on(wait.record["partition"], since, wait.record["timestamp_us"])
        counts["expiries after the heal"] += wait.kind == "RUN_EXPIRED"
        if waited > late_us:
            complaints.append(f"{wait.run_id}: over its time at {wait.over_at}, {wait.kind} {waited} us too late")
    return complaints, counts
