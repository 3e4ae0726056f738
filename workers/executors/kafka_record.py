"""The executor of Kafka records: the job's payload goes to a topic in the very transaction that completes the run.

Nothing is called and nothing can be sent twice: the record is handed to the round as what a handler emits is, under the
effect id ``<run id>/out/0``. How it fails: ``emit-refused`` (no such topic, one of ours, too long), ``backend-away``
where a topic was never seen and no broker answers.
"""

from __future__ import annotations

from waterclock.model.errors import AttemptError, BackendDown, EmitRefused
from waterclock.model.executor import KafkaRecord

from . import ending
from .emitting import Outlet
from .port import Attempt, EndedAttempt


class KafkaRecords:
    """Writes the records of one worker; ``outlet`` judges them."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def serve(self, attempt: Attempt, record: KafkaRecord) -> EndedAttempt:
        """A success that carries the record. Raises AttemptError. Without a key the job id is: order is kept by job."""
        work = attempt.work
        try:
            message = self._outlet.record(
                work, 0, record.topic, record.key or work.job_id, work.payload, record.headers
            )
        except EmitRefused as refused:
            raise AttemptError(str(refused), error_class="emit-refused") from None
        except BackendDown as down:
            raise AttemptError(str(down), error_class="backend-away") from None
        return ending.succeeded(attempt, None, (message,))
