"""The stored form of a failure policy: what a later release writes stops no router of this one."""

from __future__ import annotations

from waterclock.model.failure_policy import Backoff, policy_from_json


def test_a_backoff_of_a_later_release_falls_back_and_the_rest_of_its_policy_counts() -> None:
    policy = policy_from_json('{"backoff":"fibonacci","max_attempts":7,"delays_us":[5000000],"colour":"blue"}')
    assert policy.backoff is Backoff.EXPONENTIAL
    assert (policy.max_attempts, policy.delays_us) == (7, (5_000_000,))
    assert policy_from_json('{"backoff":"fixed"}').backoff is Backoff.FIXED
