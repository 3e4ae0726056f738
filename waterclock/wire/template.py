"""The messages of a job revision's runs, with all that is the same for each of them made once.

For the dispatcher's hot path: a herd is thousands of PENDING events and work records whose bytes and headers differ in
the run id and three instants. The result is equal to ``event_message`` and ``work_message`` (a property test).
"""

from __future__ import annotations

from waterclock.log.port import Outgoing
from waterclock.model.events import EventKind, Pending, WorkRecord
from waterclock.model.ids import Instant
from waterclock.model.job import Tier

from . import headers
from .binary import put_bytes
from .framing import checked
from .names import Names
from .run_event import pending_stretches, put_pending
from .work_record import put_work_head, work_tail

_WORK_TYPE = ("ce_type", b"io.waterclock.run.work")
_PENDING_TYPE = headers.EVENT_TYPE[EventKind.PENDING]
_NO_ATTEMPT = headers.attempt(0)


class WorkTemplate:
    """Work records of one job revision."""

    __slots__ = ("_constant", "_key", "_tail", "_topic")

    def __init__(
        self,
        names: Names,
        *,
        job_id: str,
        revision: int,
        tier: Tier,
        pool: str,
        handler: str,
        payload: bytes,
        executor: str = "",
        at_most_once: bool = False,
        policy: str = "",
        triggered_by: str = "",
    ) -> None:
        self._topic = names.runs(tier, pool)
        self._key = job_id.encode()
        pattern = WorkRecord(
            "", 0, 0, 0, job_id, revision, tier, pool, handler, payload, executor, at_most_once, policy
        )._replace(triggered_by=triggered_by)
        self._tail = work_tail(pattern)
        self._constant = (headers.source(names.prefix, "dispatcher"), headers.tenant(job_id), *headers.TAIL)

    def work(self, run_id: str, fire_at: Instant, due_at: Instant, attempt: int = 1) -> Outgoing:
        """The message of one attempt. Raises RequestError over the record cap."""
        subject = run_id.encode()
        number = headers.attempt(attempt)
        story = (
            _WORK_TYPE,
            ("ce_subject", subject),
            number,
            headers.time(due_at),
            ("ce_id", b"%b/%b/work" % (subject, number[1])),
            ("idempotency-key", subject),
            *self._constant,
        )
        value = put_work_head(put_bytes(subject), fire_at, due_at, attempt) + self._tail
        return Outgoing(self._topic, self._key, checked(value), story)


class PendingTemplate:
    """PENDING events of one job revision; ``pattern`` holds what is the same for all (its instants don't count)."""

    __slots__ = ("_after", "_before", "_constant", "_key", "_topic")

    def __init__(self, names: Names, job_id: str, pattern: Pending) -> None:
        self._topic = names.run_events
        self._key = job_id.encode()
        self._before, self._after = pending_stretches(job_id, pattern)
        self._constant = (headers.source(names.prefix, "dispatcher"), headers.tenant(job_id), *headers.TAIL)

    def pending(self, run_id: str, at: Instant, fire_at: Instant, due_at: Instant | None, entry: str = "") -> Outgoing:
        """The message of one run, written at ``at``. ``due_at`` is None where no timeline made the run."""
        subject = run_id.encode()
        story = (
            _PENDING_TYPE,
            ("ce_subject", subject),
            _NO_ATTEMPT,
            headers.time(at),
            ("ce_id", subject + b"/0/pending"),
            *self._constant,
        )
        value = put_pending(self._before, self._after, put_bytes(subject), at, (fire_at, due_at, entry))
        return Outgoing(self._topic, self._key, checked(value), story)
