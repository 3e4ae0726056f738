"""Work records that can be run and answered for: more than that their bytes decode.

Why: a failure policy stands in a work record as text, and an id may be as long as a record. A worker reads the policy
when the attempt begins, and a router when it has failed: one that is no policy ended both, the router at each start.
An outcome has the run's id and much beside it: with one that fills a record it fitted into none. What must hold:
whoever claims work, answers for it or passes it on takes it by this door. What is stored was checked when its job was
saved, so only what none of our doors wrote is refused here; keys of a later release are not (``policy_from_json``).
"""

from __future__ import annotations

from functools import lru_cache

from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import WorkRecord
from waterclock.model.failure_policy import FailurePolicy, policy_from_json

from .codec import decode_work

_ID_MAX = 1_024
"""Characters; no id of ours comes to half of it."""
_NUMBER_MAX = 2**52
"""Attempts, and microseconds: what is added to an instant must still be one."""


def fit_work(data: bytes) -> WorkRecord:
    """The work in a framed record. Raises UndecodableRecord: it is none, or none that can be run."""
    work = decode_work(data)
    if len(work.run_id) > _ID_MAX or len(work.job_id) > _ID_MAX:
        raise UndecodableRecord(f"the work's ids are over {_ID_MAX} characters")
    if work.policy:
        _check_policy(work.policy)
    return work


@lru_cache(maxsize=4_096)
def _check_policy(stored: str) -> None:
    try:
        is_fit = _is_fit(policy_from_json(stored))
    except (ValueError, TypeError, AttributeError):
        is_fit = False
    if not is_fit:
        raise UndecodableRecord(f"the work's failure policy is none: {stored[:200]}")


def _is_fit(policy: FailurePolicy) -> bool:
    """Whether each part is of its kind, and in range. Raises TypeError, AttributeError: one is not."""
    rules = policy.by_class
    time_outs = (policy.queue_timeout_us, policy.attempt_timeout_us, policy.run_timeout_us)
    delays = (*policy.delays_us, policy.max_delay_us, *(us for rule in rules for us in rule.delays_us))
    attempts = (policy.max_attempts, *(rule.max_attempts for rule in rules))
    classes = (*policy.never, *(rule.error_class for rule in rules))
    return (
        bool(policy.delays_us)
        and all(type(number) is int and 0 <= number <= _NUMBER_MAX for number in (*time_outs, *delays, *attempts))
        and all(isinstance(each, str) for each in classes)
    )
