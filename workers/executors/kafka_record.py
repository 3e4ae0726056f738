"""The executor of Kafka records: the job's payload goes to a topic in the very transaction that completes the run.

Nothing is called and nothing can be sent twice: the record is handed to the round as what a handler emits is, under the
effect id ``<run id>/out/0``.

What must hold: whoever may make jobs writes with the worker's rights here, not with their own; so a record goes to the
topics that the worker's settings name and to no other, and without such a setting to none. A handler's ``ctx.emit`` is
not held to them: its code is the worker's own.

How it fails: ``executor-off`` where no topic is allowed, ``executor-refused`` where this one is not, ``emit-refused``
(no such topic, one of ours, one that the intake reads, too long), ``backend-away`` where a topic was never seen and no
broker answers.
"""

from __future__ import annotations

from collections.abc import Collection

from waterclock.model.errors import AttemptError, BackendDown, EmitRefused
from waterclock.model.executor import KafkaRecord

from . import ending
from .emitting import Outlet
from .port import Attempt, EndedAttempt


class KafkaRecords:
    """Writes the records of one worker to the topics that ``allow`` names; ``outlet`` judges them."""

    def __init__(self, outlet: Outlet, allow: Collection[str] = ()) -> None:
        self._outlet = outlet
        self._allow = frozenset(allow)

    def serve(self, attempt: Attempt, record: KafkaRecord) -> EndedAttempt:
        """A success that carries the record. Raises AttemptError. Without a key the job id is: order is kept by job."""
        work = attempt.work
        self._check_allowed(record.topic)
        try:
            message = self._outlet.record(
                work, 0, record.topic, record.key or work.job_id, work.payload, record.headers
            )
        except EmitRefused as refused:
            raise AttemptError(str(refused), error_class="emit-refused") from None
        except BackendDown as down:
            raise AttemptError(str(down), error_class="backend-away") from None
        return ending.succeeded(attempt, None, (message,))

    def _check_allowed(self, topic: str) -> None:
        if not self._allow:
            raise AttemptError(
                "this worker writes no records for jobs: name the topics in kafka_records.allow there, or send the job "
                "to a pool whose workers do",
                error_class="executor-off",
            )
        if topic not in self._allow:
            raise AttemptError(
                f"{topic[:249]!a} is not among the topics that jobs may write to: add it to kafka_records.allow there",
                error_class="executor-refused",
            )
