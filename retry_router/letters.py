"""Dead letters: why a run was given up, and its work record as it was, byte for byte.

The work records are read back before the round begins (``work_records.py``). What must hold: a letter is written only
for a verdict that was read back as accepted. How it fails: a record that retention has removed, or a topic that is
gone, leaves the letter without work, and the letter says so; so does that of a run without a claim whose work a bounded
search did not come to (``made_work.py``).
"""

from __future__ import annotations

from waterclock.model.events import DeadLetter, SourceRecord
from waterclock.model.fingerprint import fingerprint
from waterclock.model.ids import Instant

from .shard import GivenUp
from .work_records import work_in

WORK_GONE = "work-record-gone"
NEVER_CLAIMED = "never-claimed"


def letter(given_up: GivenUp, work: SourceRecord | None, now: Instant) -> DeadLetter:
    """The dead letter of an accepted final failure; that its work record is missing is added to the reason."""
    event, attempts, trail, *_ = given_up
    reason = event.reason
    if work is not None and work_in(work, event.run_id) is None:
        work = None
    if work is None and reason != WORK_GONE:
        reason = f"{reason}; {NEVER_CLAIMED if given_up.work_place is None else WORK_GONE}"
    return DeadLetter(
        event.run_id,
        event.job_id,
        reason,
        trail.error_class,
        trail.error_message,
        fingerprint(trail.error_class or event.reason, trail.error_message),
        attempts,
        trail.first_failure_at or event.at,
        trail.last_failure_at or event.at,
        now,
        work,
    )
