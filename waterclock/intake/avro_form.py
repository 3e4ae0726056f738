"""Job events as Avro: the record ``JobEvent``, put into the words of a job document, so that one door checks all.

What must hold: nothing of the record is lost on the way (a header that comes twice is refused, not merged), and any
64-bit number may stand where an instant or an interval belongs. How it fails: RequestError with a pointer that names
the field of the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from waterclock.model.errors import RequestError
from waterclock.model.executor import EXECUTORS
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind
from waterclock.model.job_event import JobEvent
from waterclock.model.order_words import checked_revision
from waterclock.model.schedule import AT_MAX
from waterclock.model.time_text import format_duration, format_rfc3339
from waterclock.wire.json_text import read_json

from .sent import Sent

_POINTERS = {
    "/every": "/every_us",
    "/at": "/once_at",
    **{f"/{word}/timeout": f"/{word}/timeout_s" for word in EXECUTORS},
    **{f"/retry/{key}": f"/retry/{key}_s" for key in ("delay", "delays", "max_delay")},
    **{f"/timeouts/{key}": f"/timeouts/{key}_s" for key in ("queue", "attempt", "run")},
    **{f"/{key}": f"/{key}_at" for key in ("active_from", "active_until")},
    "/expect_within": "/expect_within_s",
    **{f"/{key}/window": f"/{key}/window_s" for key in ("catch_up", "jitter")},
}
_CRON_PARTS = ("zone", "seconds", "gap", "fold")
_PAIRS = ("headers", "metadata")


def from_record(event: JobEvent) -> Sent:
    """The event that a record describes. Raises RequestError."""
    if event.kind is CommandKind.UNKNOWN:
        _refuse("/kind", "The kind is unknown to this release", "Upgrade the intake, or send a kind that it knows")
    return Sent(
        kind=event.kind,
        name=event.name,
        idempotency_key=event.idempotency_key,
        document=_document(event),
        expected_revision=checked_revision(event.expected_revision),
        note=event.note,
        payload=event.payload,
        pointers=_POINTERS,
    )


def _document(event: JobEvent) -> dict[str, object]:
    """The job's part; fields at their defaults are left out, so that a PAUSE brings an empty one."""
    document: dict[str, object] = _schedule(event)
    if event.handler:
        document["handler"] = event.handler
    for word in EXECUTORS:
        part = getattr(event, word)
        if part is not None:
            document[word] = _executor(word, part)
    for key, text in (("dag", event.dag), ("on", event.on)):
        if text:
            document[key] = _object(key, text)
    if event.at_most_once:
        document["at_most_once"] = True
    if event.retry is not None:
        document["retry"] = _retry(event.retry)
    if event.timeouts is not None:
        limits = ((key.removesuffix("_s"), limit_s) for key, limit_s in event.timeouts.items())
        document["timeouts"] = {key: f"{limit_s}s" for key, limit_s in limits if limit_s}
    document |= _timing(event) | _concurrency(event)
    if event.tier != "MEDIUM":
        document["tier"] = event.tier.lower()
    if event.pool != "default":
        document["pool"] = event.pool
    return document


def _object(key: str, text: str) -> object:
    try:
        return read_json(text.encode())
    except RequestError as error:
        _refuse(f"/{key}", error.message, error.hint)


def _schedule(event: JobEvent) -> dict[str, object]:
    document: dict[str, object] = {}
    if event.cron is not None:
        parts = {"zone": event.zone, "seconds": event.seconds, "gap": event.gap.lower(), "fold": event.fold.lower()}
        document |= {"cron": event.cron} | {key: parts[key] for key in _CRON_PARTS}
    if event.every_us is not None:
        if event.every_us % US_PER_S:
            _refuse("/every_us", f"{event.every_us} is no whole number of seconds", "Microseconds, in whole seconds")
        document["every"] = format_duration(event.every_us)
    if event.start_at is not None:
        document["start_at"] = _instant("/start_at", event.start_at)
    if event.once_at is not None:
        document["at"] = _instant("/once_at", event.once_at)
    if event.delay_us is not None:
        if event.delay_us % US_PER_S:
            _refuse("/delay_us", f"{event.delay_us} is no whole number of seconds", "Microseconds, in whole seconds")
        document["delay"] = format_duration(event.delay_us)
    if event.dates is not None:
        document["dates"] = [_instant(f"/dates/{place}", at) for place, at in enumerate(event.dates)]
    return document


def _timing(event: JobEvent) -> dict[str, object]:
    document: dict[str, object] = {}
    for key, at in (("active_from", event.active_from_at), ("active_until", event.active_until_at)):
        if at is not None:
            document[key] = _instant(f"/{key}_at", at)
    if event.misfire != "LATEST":
        document["misfire"] = event.misfire.lower()
    if event.catch_up is not None:
        part = event.catch_up
        window, order = f"{part['window_s']}s", part["order"].lower()
        document["catch_up"] = {"max": part["max"], "window": window, "order": order}
    if event.expect_within_s:
        document["expect_within"] = f"{event.expect_within_s}s"
    if event.jitter is not None:
        document["jitter"] = {"window": f"{event.jitter['window_s']}s", "per_fire": event.jitter["per_fire"]}
    if event.pause_after_failures:
        document["pause_after_failures"] = event.pause_after_failures
    if event.max_runs:
        document["max_runs"] = event.max_runs
    return document


def _concurrency(event: JobEvent) -> dict[str, object]:
    """0 and "" are not given; what is less than that is refused with the rest."""
    parts: dict[str, object] = {
        "overlap": "" if event.overlap == "ALLOW" else event.overlap.lower(),
        "max_concurrent": event.max_concurrent,
        "concurrency_key": event.concurrency_key,
        "max_concurrent_per_key": event.max_concurrent_per_key,
        "max_held": event.max_held,
    }
    return {key: part for key, part in parts.items() if part}


def _instant(pointer: str, at: int) -> str:
    if not 0 <= at < AT_MAX:
        _refuse(pointer, f"{at} is no instant between 1970 and 2199", "Microseconds since 1970, UTC")
    return format_rfc3339(at)


def _executor(word: str, part: Mapping[str, Any]) -> dict[str, object]:
    """A nested record in the words of the document: seconds as a duration, pairs as an object."""
    document = dict(part)
    if "timeout_s" in document:
        document["timeout"] = f"{document.pop('timeout_s')}s"
    for key in _PAIRS:
        if key in document:
            document[key] = _pairs(f"/{word}/{key}", document[key])
    return document


def _retry(part: Mapping[str, Any]) -> dict[str, object]:
    """The retry policy in the words of the document; what does not go with its backoff is left out."""
    backoff = part["backoff"].lower()
    document: dict[str, object] = {"max_attempts": part["max_attempts"], "backoff": backoff}
    document["max_delay"] = f"{part['max_delay_s']}s"
    if backoff == "list" or part["delays_s"]:
        document["delays"] = _waits(part["delays_s"])
    else:
        document["delay"] = f"{part['delay_s']}s"
    if backoff == "exponential":
        document["jitter"] = part["jitter"]
    if part["never"]:
        document["never"] = part["never"]
    rules = {rule["error_class"]: _rule(rule) for rule in part["by_class"]}
    if len(rules) != len(part["by_class"]):
        _refuse("/retry/by_class", "A class is given twice", "Give each class once")
    return document | ({"by_class": rules} if rules else {})


def _rule(rule: Mapping[str, Any]) -> dict[str, object]:
    attempts = {"max_attempts": rule["max_attempts"]} if rule["max_attempts"] else {}
    return attempts | ({"delays": _waits(rule["delays_s"])} if rule["delays_s"] else {})


def _waits(delays_s: list[int]) -> list[str]:
    return [f"{delay_s}s" for delay_s in delays_s]


def _pairs(pointer: str, pairs: list[Mapping[str, str]]) -> dict[str, str]:
    found = {pair["name"]: pair["value"] for pair in pairs}
    if len(found) != len(pairs):
        _refuse(pointer, "A name is given twice", "Give each name once")
    return found


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)
