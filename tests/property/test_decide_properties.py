"""What must hold of the verdict on any attempt that ended badly, whatever the policy and the run's story."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from waterclock.retry_router.decide import NEVER_AGAIN, OUTCOME_UNKNOWN, Again, Never, decide
from waterclock.retry_router.trail import Trail

from waterclock.model.events import DRAINED, EXPIRED, Outcome, RunStatus, WorkRecord
from waterclock.model.failure_policy import Backoff, ClassRule, FailurePolicy, policy_to_json
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Tier
from waterclock.model.reduce import RunState

NOW = 1_795_000_000 * US_PER_S
DUE = NOW - 60 * US_PER_S
_CLASSES = ["", "ValueError", "http-503", "gone", "lost", "throttled"]
_BAD = [Outcome.FAILED, Outcome.TIMED_OUT, Outcome.LOST]

_us = st.integers(0, 30 * 86_400 * US_PER_S)
_delays = st.lists(_us, min_size=1, max_size=20).map(tuple)
_rules = st.lists(
    st.builds(ClassRule, st.sampled_from(_CLASSES[1:]), st.integers(0, 100), st.just(()) | _delays),
    max_size=3,
    unique_by=lambda rule: rule.error_class,
).map(tuple)
policies = st.builds(
    FailurePolicy,
    max_attempts=st.integers(1, 100),
    backoff=st.sampled_from(Backoff),
    delays_us=_delays,
    max_delay_us=_us,
    jitter=st.booleans(),
    never=st.lists(st.sampled_from(["KeyError", "http-404"]), max_size=2, unique=True).map(tuple),
    by_class=_rules,
)


def work_of(
    policy: FailurePolicy, *, at_most_once: bool = False, run_id: str = "acme:a@20261121T090000Z"
) -> WorkRecord:
    return WorkRecord(
        run_id, DUE, DUE, 1, "acme:a", 1, Tier.HIGH, "default", "h", b"", "", at_most_once, policy_to_json(policy)
    )


def ended(attempt: int, outcome: Outcome = Outcome.FAILED) -> RunState:
    return RunState(RunStatus.RUNNING, attempt, outcome, "w", 1, 2)


def failed(error_class: str, counted: int, retry_after_us: int = 0) -> Trail:
    return Trail(None, error_class, "no", retry_after_us, DUE, NOW, counted)


@settings(deadline=None)
@given(policies, st.lists(st.tuples(st.sampled_from(_CLASSES), st.sampled_from(_BAD)), min_size=101, max_size=101))
def test_no_run_gets_more_attempts_than_its_policy_allows(
    policy: FailurePolicy, story: list[tuple[str, Outcome]]
) -> None:
    """Given a run that fails in any ways, at most the largest limit of any rule that spoke was used up."""
    limits = {rule.error_class: rule.max_attempts for rule in policy.by_class if rule.max_attempts}
    words = {Outcome.FAILED: "failed", Outcome.TIMED_OUT: "timed-out", Outcome.LOST: "lost"}
    for counted, (error_class, outcome) in enumerate(story, 1):
        verdict = decide(work_of(policy), ended(counted, outcome), failed(error_class, counted), NOW)
        limit = limits.get(error_class or words[outcome], policy.max_attempts)
        if isinstance(verdict, Never):
            assert verdict.reason == (error_class or words[outcome])
            return
        assert counted < limit
    raise AssertionError("it went on for more than a hundred attempts")


@settings(deadline=None)
@given(policies, st.integers(1, 99), st.sampled_from(_CLASSES), st.integers(0, 10**13))
def test_a_wait_stays_within_the_policy_and_never_undercuts_retry_after(
    policy: FailurePolicy, counted: int, error_class: str, retry_after_us: int
) -> None:
    verdict = decide(work_of(policy), ended(counted), failed(error_class, counted, retry_after_us), NOW)
    if isinstance(verdict, Never):
        return
    rule = next((each for each in policy.by_class if each.error_class == (error_class or "failed")), ClassRule(""))
    asked_us = min(retry_after_us, policy.max_delay_us)
    listed = rule.delays_us or (policy.delays_us if policy.backoff is Backoff.LIST else ())
    if listed:
        most_us = least_us = listed[min(counted, len(listed)) - 1]
    elif policy.backoff is Backoff.FIXED:
        most_us = least_us = policy.delays_us[0]
    else:
        most_us = min(policy.delays_us[0] * 2 ** (counted - 1), policy.max_delay_us)
        least_us = 0 if policy.jitter else most_us
    assert verdict.due_at == NOW + verdict.delay_us
    assert max(least_us, asked_us) <= verdict.delay_us <= max(most_us, asked_us)


@settings(deadline=None)
@given(policies, st.integers(1, 99), st.sampled_from(_CLASSES), st.integers(0, 10**12), st.integers(0, 10**12))
def test_the_same_is_decided_again_and_later_is_never_due_earlier(
    policy: FailurePolicy, counted: int, error_class: str, retry_after_us: int, later_us: int
) -> None:
    run = work_of(policy), ended(counted), failed(error_class, counted, retry_after_us)
    first = decide(*run, NOW)
    assert decide(*run, NOW) == first
    second = decide(*run, NOW + later_us)
    assert type(second) is type(first)
    if isinstance(first, Again) and isinstance(second, Again):
        assert second == (first.due_at + later_us, first.delay_us)


@settings(deadline=None)
@given(policies, st.integers(1, 60), st.integers(0, 10**12), st.integers(0, 10**12))
def test_asking_for_more_time_never_brings_less(
    policy: FailurePolicy, counted: int, some_us: int, more_us: int
) -> None:
    one = decide(work_of(policy), ended(counted), failed("x", counted, some_us), NOW)
    two = decide(work_of(policy), ended(counted), failed("x", counted, some_us + more_us), NOW)
    assert type(one) is type(two)
    if isinstance(one, Again) and isinstance(two, Again):
        assert two.delay_us >= one.delay_us


@settings(deadline=None)
@given(
    policies.filter(lambda policy: policy.backoff is Backoff.EXPONENTIAL and not policy.by_class), st.integers(1, 98)
)
def test_without_jitter_waits_never_shrink(policy: FailurePolicy, counted: int) -> None:
    work = work_of(FailurePolicy(100, policy.backoff, policy.delays_us, policy.max_delay_us, jitter=False))
    one, two = (decide(work, ended(n), failed("x", n), NOW) for n in (counted, counted + 1))
    assert isinstance(one, Again)
    assert isinstance(two, Again)
    assert one.delay_us <= two.delay_us


@settings(deadline=None)
@given(policies, st.integers(0, 99), st.integers(1, 100))
def test_handing_back_costs_nothing_and_waits_for_nothing(policy: FailurePolicy, counted: int, drained: int) -> None:
    trail = failed(DRAINED, counted, retry_after_us=10**9)
    assert decide(work_of(policy), ended(counted + drained), trail, NOW) == Again(NOW, 0)


@settings(deadline=None)
@given(policies, st.integers(0, 10**12), st.integers(1, 10**12))
def test_no_attempt_is_due_after_the_runs_time(policy: FailurePolicy, age_us: int, limit_us: int) -> None:
    parts = {name: getattr(policy, name) for name in ("backoff", "delays_us", "max_delay_us", "jitter", "by_class")}
    limited = FailurePolicy(max_attempts=100, run_timeout_us=limit_us, **parts)
    free = FailurePolicy(max_attempts=100, **parts)
    trail = failed("x", 1)._replace(due_at=NOW - age_us)
    verdict, unlimited = (decide(work_of(each), ended(1), trail, NOW) for each in (limited, free))
    assert isinstance(unlimited, Again)
    if unlimited.due_at < NOW - age_us + limit_us:
        assert verdict == unlimited
    else:
        assert verdict == Never(EXPIRED)


@settings(deadline=None)
@given(policies, st.sampled_from(_BAD), st.sampled_from(_CLASSES))
def test_what_is_called_at_most_once_is_never_tried_again(
    policy: FailurePolicy, outcome: Outcome, error_class: str
) -> None:
    verdict = decide(work_of(policy, at_most_once=True), ended(1, outcome), failed(error_class, 1), NOW)
    assert isinstance(verdict, Never)
    assert (verdict.reason == OUTCOME_UNKNOWN) == (outcome is Outcome.LOST)


def test_what_is_called_at_most_once_and_was_handed_back_before_it_began_is_handed_out_again() -> None:
    assert decide(work_of(FailurePolicy(), at_most_once=True), ended(1), failed(DRAINED, 0), NOW) == Again(NOW, 0)


@settings(deadline=None)
@given(st.sampled_from(sorted(NEVER_AGAIN)))
def test_what_no_retry_will_cure_is_given_up_unless_a_rule_says_otherwise(error_class: str) -> None:
    plain = decide(work_of(FailurePolicy()), ended(1), failed(error_class, 1), NOW)
    assert plain == Never(error_class)
    ruled = FailurePolicy(by_class=(ClassRule(error_class, 3, (0,)),))
    assert decide(work_of(ruled), ended(1), failed(error_class, 1), NOW) == Again(NOW, 0)


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**9), min_size=200, max_size=200, unique=True))
def test_jitter_spreads_the_retries_of_a_herd(numbers: list[int]) -> None:
    """Given many runs that fail alike, their first retries fill the second: no tenth of it stays empty."""
    policy = FailurePolicy()
    waits = []
    for number in numbers:
        verdict = decide(work_of(policy, run_id=f"acme:a@x~{number}"), ended(1), failed("x", 1), NOW)
        assert isinstance(verdict, Again)
        waits.append(verdict.delay_us)
    assert {wait * 10 // US_PER_S for wait in waits} == set(range(10))
