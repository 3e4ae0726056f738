"""The failure policy of a job document: what is written comes back, what is wrong is refused where it is wrong."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waterclock.model.document import spec_from_document, spec_to_document
from waterclock.model.errors import RequestError
from waterclock.model.failure_policy import DEFAULT, DELAY_US_MAX, Backoff, ClassRule, FailurePolicy
from waterclock.model.ids import US_PER_S
from waterclock.model.policy_document import check_policy, policy_from_document, policy_to_document
from waterclock.model.stored_spec import spec_from_json, spec_to_json
from waterclock.wire.names import Names, topic_specs

S, MINUTE, HOUR, DAY = US_PER_S, 60 * US_PER_S, 3_600 * US_PER_S, 86_400 * US_PER_S
JOB = {"handler": "h", "every": "5s"}


def test_a_job_without_a_word_on_it_has_the_first_attempt_and_three_retries() -> None:
    policy = spec_from_document(JOB).policy
    assert policy == DEFAULT
    assert (policy.max_attempts, policy.backoff, policy.jitter) == (4, Backoff.EXPONENTIAL, True)


@pytest.mark.parametrize(
    ("document", "policy"),
    [
        ({"retry": {}}, DEFAULT),
        ({"retry": False}, FailurePolicy(max_attempts=1)),
        ({"retry": {"max_attempts": 1}}, FailurePolicy(max_attempts=1)),
        ({"retry": {"max_attempts": 100, "delay": "10s", "max_delay": "28d", "jitter": False}},
         FailurePolicy(max_attempts=100, delays_us=(10 * S,), max_delay_us=28 * DAY, jitter=False)),
        ({"retry": {"backoff": "fixed", "delay": "2h"}}, FailurePolicy(backoff=Backoff.FIXED, delays_us=(2 * HOUR,))),
        ({"retry": {"delays": ["0s", "5s", "1d"]}}, FailurePolicy(backoff=Backoff.LIST, delays_us=(0, 5 * S, DAY))),
        ({"retry": {"backoff": "list", "delays": ["1m"], "max_delay": "2h"}},
         FailurePolicy(backoff=Backoff.LIST, delays_us=(MINUTE,), max_delay_us=2 * HOUR)),
        ({"retry": {"never": ["ValueError", "http-404", "lost"]}},
         FailurePolicy(never=("ValueError", "http-404", "lost"))),
        ({"retry": {"by_class": {"throttled": {"max_attempts": 9, "delays": ["1m"]}, "timed-out": {"delays": ["0s"]}}}},
         FailurePolicy(by_class=(ClassRule("throttled", 9, (MINUTE,)), ClassRule("timed-out", 0, (0,))))),
        ({"timeouts": {"queue": "10m", "attempt": "2m", "run": "1h"}},
         FailurePolicy(queue_timeout_us=10 * MINUTE, attempt_timeout_us=2 * MINUTE, run_timeout_us=HOUR)),
    ],
)  # fmt: skip
def test_what_is_said_is_what_is_meant_and_comes_back(document: dict[str, Any], policy: FailurePolicy) -> None:
    spec = spec_from_document(JOB | document)
    assert spec.policy == policy
    assert spec_from_document(orjson.loads(orjson.dumps(spec_to_document(spec)))) == spec
    assert spec_from_json(spec_to_json(spec)) == spec
    check_policy(policy)


@pytest.mark.parametrize(
    ("document", "pointer", "words"),
    [
        ({"retry": True}, "/retry", "false, or an object"),
        ({"retry": {"never": ["http-503"]}}, "/retry/never/0", "Write throttled"),
        ({"retry": {"by_class": {"http-429": {"max_attempts": 9}}}}, "/retry/by_class/http-429", "Write throttled"),
        ({"retry": None}, "/retry", "false, or an object"),
        ({"retry": 3}, "/retry", "false, or an object"),
        ({"retry": {"max_atempts": 3}}, "/retry/max_atempts", "Did you mean max_attempts?"),
        ({"retry": {"a/b~c": 3}}, "/retry/a~1b~0c", "not known"),
        ({"retry": {"max_attempts": 0}}, "/retry/max_attempts", "from 1 (never again) to 100"),
        ({"retry": {"max_attempts": 101}}, "/retry/max_attempts", "100"),
        ({"retry": {"max_attempts": True}}, "/retry/max_attempts", "whole number"),
        ({"retry": {"max_attempts": 3.0}}, "/retry/max_attempts", "whole number"),
        ({"retry": {"backoff": "linear"}}, "/retry/backoff", "exponential, fixed, list"),
        ({"retry": {"backoff": ["list"]}}, "/retry/backoff", "exponential, fixed, list"),
        ({"retry": {"backoff": "list"}}, "/retry/delays", "needs its waits"),
        ({"retry": {"backoff": "fixed", "delays": ["5s"]}}, "/retry/delays", '"backoff": "list"'),
        ({"retry": {"delays": ["5s"], "delay": "5s"}}, "/retry/delay", "another backoff"),
        ({"retry": {"backoff": "fixed", "jitter": True}}, "/retry/jitter", '"backoff": "exponential"'),
        ({"retry": {"jitter": "yes"}}, "/retry/jitter", "true or false"),
        ({"retry": {"delay": 5}}, "/retry/delay", "5s"),
        ({"retry": {"delay": "500ms"}}, "/retry/delay", "5s"),
        ({"retry": {"backoff": "fixed", "delay": "29d"}}, "/retry/delay", "At most 28d"),
        ({"retry": {"delay": "2h"}}, "/retry/delay", "Raise max_delay"),
        ({"retry": {"max_delay": "673h"}}, "/retry/max_delay", "At most 28d"),
        ({"retry": {"delays": []}}, "/retry/delays", "1 to 20"),
        ({"retry": {"delays": "5s"}}, "/retry/delays", "1 to 20"),
        ({"retry": {"delays": ["5s"] * 21}}, "/retry/delays", "1 to 20"),
        ({"retry": {"delays": ["5s", "soon"]}}, "/retry/delays/1", "5s"),
        ({"retry": {"never": "ValueError"}}, "/retry/never", "list"),
        ({"retry": {"never": ["A"] * 21}}, "/retry/never", "at most 20"),
        ({"retry": {"never": ["A", "A"]}}, "/retry/never/1", "once"),
        ({"retry": {"never": ["A", "b c"]}}, "/retry/never/1", "run show"),
        ({"retry": {"never": [""]}}, "/retry/never/0", "run show"),
        ({"retry": {"never": [5]}}, "/retry/never/0", "run show"),
        ({"retry": {"never": ["\ud800"]}}, "/retry", "UTF-8"),
        ({"retry": {"never": [f"{n}{'ä' * 199}"[:200] for n in range(20)]}}, "/retry", "4096"),
        ({"retry": {"by_class": ["A"]}}, "/retry/by_class", "object"),
        ({"retry": {"by_class": {"A": {}}}}, "/retry/by_class/A", "says nothing"),
        ({"retry": {"by_class": {"A": False}}}, "/retry/by_class/A", "object"),
        ({"retry": {"by_class": {"a/b": {"delay": "5s"}}}}, "/retry/by_class/a~1b/delay", "delays"),
        ({"retry": {"by_class": {"A": {"max_attempts": 0}}}}, "/retry/by_class/A/max_attempts", "100"),
        ({"retry": {"by_class": {"A": {"delays": ["29d"]}}}}, "/retry/by_class/A/delays/0", "28d"),
        ({"retry": {"never": ["A"], "by_class": {"A": {"max_attempts": 2}}}}, "/retry/by_class/A", "one of both"),
        ({"timeouts": "5m"}, "/timeouts", "object"),
        ({"timeouts": {"atempt": "5m"}}, "/timeouts/atempt", "Did you mean attempt?"),
        ({"timeouts": {"attempt": "6d"}}, "/timeouts/attempt", "At most 518399s"),
        ({"timeouts": {"attempt": "0s"}}, "/timeouts/attempt", "5s"),
        ({"timeouts": {"queue": "31d"}}, "/timeouts/queue", "30d"),
        ({"timeouts": {"run": "366d"}}, "/timeouts/run", "365d"),
        ({"timeouts": {"attempt": "2h", "run": "1h"}}, "/timeouts/attempt", "whole run"),
        ({"at_most_once": True, "retry": {"max_attempts": 2}}, "/retry", "at most once"),
        ({"at_most_once": True, "retry": {"delay": "5s"}}, "/retry", "at most once"),
        ({"at_most_once": True, "retry": {"max_attempts": 1, "by_class": {"A": {"max_attempts": 2}}}}, "/retry",
         "at most once"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_where_it_stands(document: dict[str, Any], pointer: str, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        spec_from_document(JOB | document)
    assert refused.value.pointer == pointer
    assert words in str(refused.value)


@pytest.mark.parametrize("retry", [{}, {"retry": False}, {"retry": {"max_attempts": 1}}])
def test_at_most_once_needs_no_retry_and_may_say_so(retry: dict[str, Any]) -> None:
    spec = spec_from_document(JOB | {"at_most_once": True, **retry})
    assert spec_from_document(spec_to_document(spec)) == spec


@pytest.mark.parametrize(
    "policy",
    [
        FailurePolicy(max_attempts=0),
        FailurePolicy(max_attempts=10**9),
        FailurePolicy(delays_us=()),
        FailurePolicy(delays_us=("1",)),  # type: ignore[arg-type]
        FailurePolicy(delays_us=(0.5,)),  # type: ignore[arg-type]
        FailurePolicy(delays_us=(-S,)),
        FailurePolicy(backoff=Backoff.LIST, delays_us=(S,) * 21),
        FailurePolicy(never=("a b",)),
        FailurePolicy(by_class=(ClassRule("A", 101),)),
        FailurePolicy(by_class=(ClassRule("A", 2, (S,) * 21),)),
        FailurePolicy(by_class=(ClassRule("A", 2, (-1,)),)),
        FailurePolicy(by_class=("A",)),  # type: ignore[arg-type]
        FailurePolicy(by_class=(ClassRule("A", 2), ClassRule("A", 3))),
        FailurePolicy(never=(5,)),  # type: ignore[arg-type]
        FailurePolicy(jitter="yes"),  # type: ignore[arg-type]
        FailurePolicy(backoff="fixed"),  # type: ignore[arg-type]
        FailurePolicy(attempt_timeout_us=7 * DAY),
        FailurePolicy(queue_timeout_us=-S),
    ],
)
def test_a_policy_of_a_command_that_is_out_of_bounds_is_refused(policy: FailurePolicy) -> None:
    with pytest.raises(RequestError):
        check_policy(policy)


@pytest.mark.parametrize(
    ("policy", "pointer", "words"),
    [
        (FailurePolicy(never=("ValueError", "http-502")), "/retry/never/1", "Write throttled"),
        (FailurePolicy(by_class=(ClassRule("http-429", 9),)), "/retry/by_class/http-429", "Write throttled"),
        (FailurePolicy(never=("A", "A")), "/retry/never/1", "once"),
        (FailurePolicy(never=("A",), by_class=(ClassRule("A", 2),)), "/retry/by_class/A", "one of both"),
        (FailurePolicy(by_class=(ClassRule("A"),)), "/retry/by_class/A", "says nothing"),
        (FailurePolicy(delays_us=(2 * HOUR,)), "/retry/delay", "Raise max_delay"),
        (FailurePolicy(attempt_timeout_us=2 * HOUR, run_timeout_us=HOUR), "/timeouts/attempt", "whole run"),
    ],
)
def test_a_command_is_refused_what_a_document_could_not_say_and_in_the_same_words(
    policy: FailurePolicy, pointer: str, words: str
) -> None:
    with pytest.raises(RequestError) as of_command:
        check_policy(policy)
    with pytest.raises(RequestError) as of_document:
        policy_from_document(policy_to_document(policy))
    assert str(of_command.value) == str(of_document.value)
    assert of_command.value.pointer == pointer
    assert words in str(of_command.value)


def test_a_command_may_bring_parts_of_seconds_which_no_document_can_say() -> None:
    half = US_PER_S // 2
    check_policy(FailurePolicy(max_attempts=2, delays_us=(half,), attempt_timeout_us=half, queue_timeout_us=1))
    check_policy(FailurePolicy(attempt_timeout_us=half, run_timeout_us=half))


def test_after_the_longest_wait_a_retry_has_days_to_be_claimed_before_what_it_follows_is_gone() -> None:
    [run_events] = [spec for spec in topic_specs(Names(), 4) if spec.name == Names().run_events]
    assert int(run_events.config["retention.ms"]) * 1_000 >= DELAY_US_MAX + 2 * DAY


_SECONDS = st.integers(0, 28 * 86_400).map(lambda seconds: seconds * S)
_RETRY_KEYS = ["max_attempts", "backoff", "delay", "delays", "max_delay", "jitter", "never", "by_class", "x"]
_LIMIT = st.sampled_from([0, S, MINUTE, HOUR])
_DELAYS = st.lists(_SECONDS, min_size=1, max_size=20).map(tuple)
_NO_CALL_ENDS_AS = {"http-429", "http-502", "http-503", "http-504"}
"""A text refuses them, for they would match nothing; texts of the product's own sources are drawn, too."""
_WORDS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=12).filter(
    lambda word: word not in _NO_CALL_ENDS_AS
)
_RULES = st.builds(ClassRule, st.just("x"), st.integers(1, 100), st.one_of(st.just(()), _DELAYS))


@st.composite
def policies(draw: st.DrawFn) -> FailurePolicy:
    backoff = draw(st.sampled_from(list(Backoff)))
    words = draw(st.lists(_WORDS, max_size=6, unique=True))
    cut = draw(st.integers(0, len(words)))
    rules = tuple(_named(word, draw(_RULES)) for word in words[cut:])
    most = draw(_SECONDS)
    delays = draw(_DELAYS) if backoff is Backoff.LIST else (draw(_SECONDS),)
    if backoff is Backoff.EXPONENTIAL:
        delays = (min(delays[0], most),)
    return FailurePolicy(
        draw(st.integers(1, 100)), backoff, delays, most, backoff is not Backoff.EXPONENTIAL or draw(st.booleans()),
        tuple(words[:cut]), rules, draw(_LIMIT), S, draw(st.sampled_from([0, HOUR])),
    )  # fmt: skip


def _named(word: str, rule: ClassRule) -> ClassRule:
    return ClassRule(word, rule.max_attempts, rule.delays_us)


@settings(deadline=None)
@given(policies())
def test_any_policy_survives_being_shown(policy: FailurePolicy) -> None:
    assert policy_from_document(orjson.loads(orjson.dumps(policy_to_document(policy)))) == policy
    check_policy(policy)


@settings(deadline=None)
@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["5s", "list"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(_RETRY_KEYS),
        inner,
        max_size=5,
    ),
    max_leaves=12,
))  # fmt: skip
def test_whatever_comes_is_read_or_refused_and_nothing_else(junk: object) -> None:
    refusal = None
    try:
        check_policy(policy_from_document({"retry": junk, "timeouts": {}}))
    except RequestError as refused:
        refusal = refused
    assert refusal is None or (refusal.pointer.startswith("/retry") and refusal.hint)
