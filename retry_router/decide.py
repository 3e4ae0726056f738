"""What becomes of an attempt that ended badly: again, and when, or never. Pure: it reads no clock and throws no dice.

What must hold: the same arguments give the same answer, so that a round which is done again decides as before; no run
gets more attempts that count than its policy allows; a wait stays within the policy's bounds, and never undercuts what
the target asked for. The jitter is a hash of run id and attempt: spread over runs, and not a matter of luck.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from waterclock.model.events import DRAINED, EXPIRED, Outcome, WorkRecord
from waterclock.model.failure_policy import Backoff, ClassRule, FailurePolicy, policy_from_json
from waterclock.model.ids import Instant
from waterclock.model.reduce import RunState

from .trail import Trail

NEVER_AGAIN = frozenset({"gone", "egress-refused", "executor-refused", "program-refused", "body-refused"})
"""Error classes that another attempt would not cure, unless the policy has a rule for them (``by_class``)."""

OUTCOME_UNKNOWN = "outcome-unknown"
"""The reason of a run that is called at most once, and whose worker was lost: it was called, or not."""

HANDED_BACK_MAX = 100
"""So often may a run be handed back. It costs no attempt, but nothing goes round for ever."""

_OUTCOME_WORDS = {
    Outcome.FAILED: "failed",
    Outcome.TIMED_OUT: "timed-out",
    Outcome.LOST: "lost",
    Outcome.CANCELLED: "cancelled",
}


class Again(NamedTuple):
    """Another attempt, from ``due_at`` on: ``delay_us`` from now."""

    due_at: Instant
    delay_us: int


class Never(NamedTuple):
    """The run is given up. ``reason``: the error's class, the outcome's word, or why it may not go on."""

    reason: str


def decide(work: WorkRecord, state: RunState, trail: Trail, now: Instant) -> Again | Never:
    """The verdict on a run whose last attempt ended badly. ``work``: that attempt's. ``now``: when it is decided."""
    policy = policy_from_json(work.policy)
    error_class = class_of(state, trail)
    if work.at_most_once and trail.error_class != DRAINED:  # handed back, it was never begun
        return Never(OUTCOME_UNKNOWN if state.outcome is Outcome.LOST else error_class)
    if state.outcome is Outcome.CANCELLED:
        return Never(error_class)  # somebody stopped it, and on purpose
    if trail.error_class == DRAINED:
        if state.attempt - trail.counted > HANDED_BACK_MAX:
            return Never(error_class)
        delay_us = 0
    else:
        rule = _rule_for(policy, error_class)
        if rule is None or trail.counted >= (rule.max_attempts or policy.max_attempts):
            return Never(error_class)
        wanted_us = _delay(policy, rule, trail.counted, work.run_id, state.attempt)
        delay_us = max(wanted_us, min(trail.retry_after_us, policy.max_delay_us))
    due_at = now + delay_us
    if policy.run_timeout_us and due_at >= (trail.due_at or work.due_at) + policy.run_timeout_us:
        return Never(EXPIRED)  # the whole run's time is over before another attempt could begin
    return Again(due_at, delay_us)


def class_of(state: RunState, trail: Trail) -> str:
    """What policies and reasons call this failure: the error's class, where there is none the outcome's word."""
    return trail.error_class or _OUTCOME_WORDS[state.outcome]


def _rule_for(policy: FailurePolicy, error_class: str) -> ClassRule | None:
    """The rule for a class, one without a word of its own where the policy has none; None: it is never tried again."""
    if error_class in policy.never:
        return None
    for rule in policy.by_class:
        if rule.error_class == error_class:
            return rule
    return None if error_class in NEVER_AGAIN else ClassRule(error_class)


def _delay(policy: FailurePolicy, rule: ClassRule, counted: int, run_id: str, attempt: int) -> int:
    """How long to wait after the attempt that was the ``counted``-th to count."""
    step = max(counted, 1) - 1
    if rule.delays_us or policy.backoff is Backoff.LIST:
        delays_us = rule.delays_us or policy.delays_us
        return delays_us[min(step, len(delays_us) - 1)]
    if policy.backoff is Backoff.FIXED:
        return policy.delays_us[0]
    most_us = min(policy.delays_us[0] << step, policy.max_delay_us)
    return most_us * _chance(run_id, attempt) >> _CHANCE_BITS if policy.jitter else most_us


_CHANCE_BITS = 64


def _chance(run_id: str, attempt: int) -> int:
    """A number of 64 bits: the same for the same attempt, unlike for any other."""
    return int.from_bytes(blake2b(f"{run_id}/{attempt}".encode(), digest_size=_CHANCE_BITS // 8).digest(), "big")
