"""A failure policy in a job document: ``retry`` and ``timeouts``, checked key by key.

``{"retry": {"max_attempts": 5, "delay": "10s"}, "timeouts": {"attempt": "2m", "run": "1h"}}``; ``"retry": false`` is no
retry. What must hold: ``policy_from_document(policy_to_document(p)) == p`` for every policy that came through here, so
that a document which is read, changed and written back loses nothing. How it fails: RequestError with the pointer of
the field and what to write instead.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from .errors import RequestError
from .failure_policy import DEFAULT, DELAY_US_MAX, Backoff, ClassRule, FailurePolicy, policy_to_json
from .ids import US_PER_S
from .time_text import format_duration, parse_duration

_DAY_US = 86_400 * US_PER_S

ATTEMPTS_MAX = 100
LIST_MAX = 20
"""Entries of ``delays``, ``never`` and ``by_class``."""

ATTEMPT_TIMEOUT_US_MAX = 6 * _DAY_US - US_PER_S
"""An attempt must end a day before its work record does: whoever tries again reads that record."""

QUEUE_TIMEOUT_US_MAX = 30 * _DAY_US
RUN_TIMEOUT_US_MAX = 365 * _DAY_US
POLICY_MAX = 4_096
"""Bytes of a policy's stored form: it is in every due row and work record of its job."""

KEYS = ("retry", "timeouts")
_RETRY_KEYS = ("max_attempts", "backoff", "delay", "delays", "max_delay", "jitter", "never", "by_class")
_RULE_KEYS = ("max_attempts", "delays")
_TIMEOUTS = {"queue": QUEUE_TIMEOUT_US_MAX, "attempt": ATTEMPT_TIMEOUT_US_MAX, "run": RUN_TIMEOUT_US_MAX}
_BACKOFFS = {backoff.value: backoff for backoff in Backoff}
_CLASS = re.compile(r"[\x21-\x7e\u00a0-\U0010ffff]{1,200}\Z")
_CLASS_HINT = "An error class as `run show` gives it, such as ValueError, http-500, throttled, timed-out or lost"
_THROTTLED = frozenset({"http-429", "http-502", "http-503", "http-504"})
_ZERO = re.compile(r"0+[smhd]\Z", re.ASCII)


def policy_from_document(document: Mapping[str, object], *, at_most_once: bool = False) -> FailurePolicy:
    """The policy that the keys ``retry`` and ``timeouts`` describe; without them the default. Raises RequestError.

    What runs ``at_most_once`` is never tried again: a ``retry`` that would is refused.
    """
    retry = _retry(document["retry"]) if "retry" in document else {}
    parts: dict[str, Any] = {**retry, **_timeouts(document.get("timeouts", {}))}
    policy = FailurePolicy(**parts)
    if at_most_once and retry and (policy.max_attempts > 1 or any(rule.max_attempts > 1 for rule in policy.by_class)):
        _refuse("/retry", "What is called at most once is not tried again", "Leave retry out, or at_most_once")
    if policy.run_timeout_us and policy.attempt_timeout_us > policy.run_timeout_us:
        _refuse("/timeouts/attempt", "An attempt may take longer than its whole run", "Make it shorter, or run longer")
    _check_size(policy)
    return policy


def policy_to_document(policy: FailurePolicy) -> dict[str, Any]:
    """The keys ``retry`` and ``timeouts``, each where it says something else than the default, and then in full."""
    document: dict[str, Any] = {}
    timeouts = {"queue": policy.queue_timeout_us, "attempt": policy.attempt_timeout_us, "run": policy.run_timeout_us}
    if says_retry(policy):
        document["retry"] = _retry_document(policy)
    if any(timeouts.values()):
        document["timeouts"] = {word: format_duration(us) for word, us in timeouts.items() if us}
    return document


def says_retry(policy: FailurePolicy) -> bool:
    """Whether it says something else than the default about trying again."""
    return _retry_part(policy) != _retry_part(DEFAULT)


def check_policy(policy: FailurePolicy) -> None:
    """Refuse a policy that no document could say: RequestError. For commands, which may come by no document.

    What is shown of a job can be sent back then, and what is wrong with it has one set of words. But for parts of
    seconds, which only commands can say: they are taken as they are.
    """
    try:
        document = policy_to_document(_in_whole_seconds(policy)) if _is_bounded(policy) else None
    except (TypeError, AttributeError):
        document = None
    if document is None:
        _refuse(
            "/policy", "The failure policy is out of bounds", "Send the job as a document, which is checked in full"
        )
    policy_from_document(document)
    _check_size(policy)


def _in_whole_seconds(policy: FailurePolicy) -> FailurePolicy:
    """With its time-outs raised to what a document could say: half a second must not read as none."""
    raised = {word: -(-getattr(policy, word) // US_PER_S) * US_PER_S for word in map("{}_timeout_us".format, _TIMEOUTS)}
    return replace(policy, **raised)


def _is_bounded(policy: FailurePolicy) -> bool:
    """Whether its numbers and lists are within what may be stored. Raises TypeError, AttributeError: no policy."""
    rules = policy.by_class
    waits = (*policy.delays_us, policy.max_delay_us, *(us for rule in rules for us in rule.delays_us))
    return (
        1 <= policy.max_attempts <= ATTEMPTS_MAX
        and all(0 <= rule.max_attempts <= ATTEMPTS_MAX for rule in rules)
        and 1 <= len(policy.delays_us) <= LIST_MAX
        and max(len(policy.never), len(rules), *(len(rule.delays_us) for rule in rules), 0) <= LIST_MAX
        and len({rule.error_class for rule in rules}) == len(rules)
        and all(0 <= us <= DELAY_US_MAX for us in waits)
        and _time_outs_fit(policy)
        and all(isinstance(number, int) for number in (policy.max_attempts, *waits))
    )


def check_time_outs(policy: FailurePolicy) -> None:
    """Refuse time-outs that no event could hold: RequestError. Of work that was made by the rules of its own time."""
    try:
        fits = _time_outs_fit(policy)
    except TypeError:
        fits = False
    if not fits:
        _refuse("/work", "The time-outs of the work are out of bounds", "Trigger the job instead")


def _time_outs_fit(policy: FailurePolicy) -> bool:
    return all(0 <= getattr(policy, f"{word}_timeout_us") <= most for word, most in _TIMEOUTS.items())


def _retry(value: object) -> dict[str, Any]:
    """The parts of a policy that ``retry`` gives."""
    if value is False:
        return {"max_attempts": 1}
    retry = _object(value, "/retry", _RETRY_KEYS, 'false, or an object such as {"max_attempts": 5, "delay": "10s"}')
    never = _never(retry.get("never", []))
    parts: dict[str, Any] = {"never": never, "by_class": _rules(retry.get("by_class", {}), never)}
    if "max_attempts" in retry:
        parts["max_attempts"] = _attempts(retry["max_attempts"], "/retry/max_attempts")
    if "max_delay" in retry:
        parts["max_delay_us"] = _delay(retry["max_delay"], "/retry/max_delay")
    return parts | _waits(retry, parts.get("max_delay_us", DEFAULT.max_delay_us))


def _waits(retry: Mapping[str, object], max_delay_us: int) -> dict[str, Any]:
    """``backoff``, and what goes with it. Where only ``delays`` is given, that says it."""
    word = retry.get("backoff", "list" if "delays" in retry else "exponential")
    if not isinstance(word, str) or word not in _BACKOFFS:
        _refuse("/retry/backoff", f"{_shown(word)} is not a backoff", f"One of {', '.join(_BACKOFFS)}")
    backoff = _BACKOFFS[word]
    if backoff is Backoff.LIST:
        _only_with(retry, ("delay", "jitter"), "exponential")
        if "delays" not in retry:
            _refuse("/retry/delays", 'The backoff "list" needs its waits', 'Such as "delays": ["5s", "1m", "10m"]')
        return {"backoff": backoff, "delays_us": _delays(retry["delays"], "/retry/delays")}
    _only_with(retry, ("delays",), "list")
    delay_us = _delay(retry["delay"], "/retry/delay") if "delay" in retry else DEFAULT.delays_us[0]
    parts: dict[str, Any] = {"backoff": backoff, "delays_us": (delay_us,)}
    if backoff is Backoff.FIXED:
        _only_with(retry, ("jitter",), "exponential")
        return parts
    if delay_us > max_delay_us:
        _refuse("/retry/delay", f"It is longer than max_delay, {format_duration(max_delay_us)}", "Raise max_delay too")
    if "jitter" in retry:
        parts["jitter"] = _flag(retry["jitter"], "/retry/jitter")
    return parts


def _only_with(retry: Mapping[str, object], keys: Iterable[str], backoff: str) -> None:
    for key in keys:
        if key in retry:
            hint = f'Remove it, or write "backoff": "{backoff}"'
            _refuse(f"/retry/{key}", f'"{key}" goes with another backoff', hint)


def _never(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > LIST_MAX:
        _refuse("/retry/never", f"never is not a list of at most {LIST_MAX} error classes", _CLASS_HINT)
    for place, word in enumerate(value):
        _check_class(word, f"/retry/never/{place}")
        if word in value[:place]:
            _refuse(f"/retry/never/{place}", f"{_shown(word)} is there twice", "Name each class once")
    return tuple(value)


def _rules(value: object, never: tuple[str, ...]) -> tuple[ClassRule, ...]:
    if not isinstance(value, Mapping) or len(value) > LIST_MAX:
        hint = 'Such as {"throttled": {"max_attempts": 10, "delays": ["1m"]}}'
        _refuse("/retry/by_class", f"by_class is not an object of at most {LIST_MAX} rules", hint)
    return tuple(_rule(word, rule, never) for word, rule in value.items())


def _rule(word: object, value: object, never: tuple[str, ...]) -> ClassRule:
    pointer = f"/retry/by_class/{_escaped(word)}"
    error_class = _check_class(word, pointer)
    if error_class in never:
        _refuse(pointer, f"{error_class} is in never, too", "Say one of both")
    rule = _object(value, pointer, _RULE_KEYS, 'Such as {"max_attempts": 10, "delays": ["1m"]}')
    if not rule:
        _refuse(pointer, "The rule says nothing", "Give max_attempts, delays, or both")
    attempts = _attempts(rule["max_attempts"], f"{pointer}/max_attempts") if "max_attempts" in rule else 0
    delays = _delays(rule["delays"], f"{pointer}/delays") if "delays" in rule else ()
    return ClassRule(error_class, attempts, delays)


def _check_class(word: object, pointer: str) -> str:
    if not isinstance(word, str) or not _CLASS.match(word):
        _refuse(pointer, f"{_shown(word)} is not an error class", _CLASS_HINT)
    if word in _THROTTLED:
        _refuse(pointer, f"No HTTP call ends as {word}", "Write throttled: that is what 429, 502, 503 and 504 get")
    return word


def _attempts(value: object, pointer: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= ATTEMPTS_MAX:
        hint = f"A whole number from 1 (never again) to {ATTEMPTS_MAX}; the first attempt counts"
        _refuse(pointer, f"{_shown(value)} is not a number of attempts", hint)
    return value


def _delays(value: object, pointer: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= LIST_MAX:
        _refuse(pointer, f"delays is not a list of 1 to {LIST_MAX} waits", 'Such as ["5s", "1m", "10m"]')
    return tuple(_delay(each, f"{pointer}/{place}") for place, each in enumerate(value))


def _delay(value: object, pointer: str) -> int:
    """A duration that may be nothing: ``0s``."""
    if isinstance(value, str) and _ZERO.match(value):
        return 0
    return _at_most(parse_duration(value, pointer), DELAY_US_MAX, pointer)


def _timeouts(value: object) -> dict[str, int]:
    timeouts = _object(value, "/timeouts", tuple(_TIMEOUTS), 'Such as {"queue": "10m", "attempt": "2m", "run": "1h"}')
    return {
        f"{word}_timeout_us": _at_most(parse_duration(timeouts[word], f"/timeouts/{word}"), most, f"/timeouts/{word}")
        for word, most in _TIMEOUTS.items()
        if word in timeouts
    }


def _at_most(us: int, most_us: int, pointer: str) -> int:
    if us > most_us:
        _refuse(pointer, f"{format_duration(us)} is too long", f"At most {format_duration(most_us)}")
    return us


def _flag(value: object, pointer: str) -> bool:
    if not isinstance(value, bool):
        _refuse(pointer, f"{_shown(value)} is not true or false", "true: each wait is drawn from 0 to its full length")
    return value


def _object(value: object, pointer: str, keys: tuple[str, ...], hint: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        _refuse(pointer, f"{_shown(value)} is not an object", hint)
    for key in value:
        if key not in keys:
            near = difflib.get_close_matches(str(key)[:40], keys, n=1, cutoff=0.5)
            known = f"Did you mean {near[0]}?" if near else f"Known: {' '.join(keys)}"
            _refuse(f"{pointer}/{_escaped(key)}", f"{_shown(key)} is not known", known)
    return value


def _check_size(policy: FailurePolicy) -> None:
    try:
        size = len(policy_to_json(policy).encode())
    except (TypeError, ValueError):  # a lone surrogate: no text that any of our formats can hold
        _refuse("/retry", "It holds text that is no Unicode", "Write valid UTF-8")
    if size > POLICY_MAX:
        _refuse("/retry", f"It takes {size} bytes", f"At most {POLICY_MAX}: name fewer classes, or shorter lists")


def _retry_part(policy: FailurePolicy) -> tuple[object, ...]:
    waits = (policy.backoff, policy.delays_us, policy.max_delay_us, policy.jitter)
    return policy.max_attempts, *waits, policy.never, policy.by_class


def _retry_document(policy: FailurePolicy) -> dict[str, Any]:
    document: dict[str, Any] = {"max_attempts": policy.max_attempts, "backoff": policy.backoff.value}
    if policy.backoff is Backoff.LIST:
        document["delays"] = [_duration(us) for us in policy.delays_us]
    else:
        document["delay"] = _duration(policy.delays_us[0])
    document["max_delay"] = _duration(policy.max_delay_us)
    if policy.backoff is Backoff.EXPONENTIAL:
        document["jitter"] = policy.jitter
    if policy.never:
        document["never"] = list(policy.never)
    if policy.by_class:
        document["by_class"] = {rule.error_class: _rule_document(rule) for rule in policy.by_class}
    return document


def _rule_document(rule: ClassRule) -> dict[str, Any]:
    attempts = {"max_attempts": rule.max_attempts} if rule.max_attempts else {}
    return attempts | ({"delays": [_duration(us) for us in rule.delays_us]} if rule.delays_us else {})


def _duration(us: int) -> str:
    return format_duration(us) if us else "0s"


def _escaped(key: object) -> str:
    """As a part of a JSON pointer: short."""
    return str(key)[:80].replace("~", "~0").replace("/", "~1")


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)


def _shown(value: object) -> str:
    """A foreign value inside a message: short."""
    return repr(value)[:80]
