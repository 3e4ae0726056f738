"""A spec as a command brings it, checked once more before it becomes a version: nothing may stumble over it later."""

from __future__ import annotations

from waterclock.model.concurrency_document import check_concurrency
from waterclock.model.delay_rules import check_delay
from waterclock.model.document import HANDLER_MAX, PAYLOAD_MAX, check_dag, is_pool_name
from waterclock.model.errors import RequestError
from waterclock.model.executor_document import check_executor
from waterclock.model.job import JobSpec
from waterclock.model.policy_document import check_policy
from waterclock.model.timing_document import check_timing
from waterclock.model.triggers_document import check_starts


def check_spec(spec: JobSpec, job_id: str) -> None:
    """The door has checked all this; but anybody may write to ``commands``, and a bad spec would stop the shard."""
    check_starts(spec.schedule, spec.on, job_id)
    check_timing(spec.timing, spec.schedule)
    check_concurrency(spec.concurrency, spec.timing)
    check_delay(spec.schedule, spec.timing, spec.concurrency)
    check_payload(spec.payload)
    if len(spec.handler) > HANDLER_MAX:
        raise RequestError(f"the handler's name has {len(spec.handler)} characters", pointer="/spec/handler",
                           hint=f"At most {HANDLER_MAX}")  # fmt: skip
    if bool(spec.handler) + (spec.executor is not None) + (spec.dag is not None) != 1:
        raise RequestError(
            "a job has a handler, an executor or a Dag", pointer="/spec/handler", hint="Give exactly one of them"
        )
    if spec.executor is not None:
        check_executor(spec.executor)
    if spec.dag is not None:
        check_dag(spec.dag)
    check_policy(spec.policy)
    if not is_pool_name(spec.pool):
        raise RequestError(
            f"{spec.pool[:80]!r} is not a pool", pointer="/pool", hint="1 to 63 of a-z, 0-9, '.', '_' and '-'"
        )


def check_payload(payload: bytes) -> None:
    """One that fits into a command need not fit into a work record: its shard would stop at the fire."""
    if len(payload) > PAYLOAD_MAX:
        raise RequestError(
            f"the payload has {len(payload)} bytes",
            pointer="/payload",
            hint=f"At most {PAYLOAD_MAX}: keep large data elsewhere and pass a reference",
        )
