"""The JSON document of a job, which people and programs write; ``stored_spec.py`` has what is kept of it.

Durations are written as ``5m``, instants as RFC 3339, the payload as any JSON value; all is checked key by key.

What must hold: ``spec_from_document(spec_to_document(spec)) == spec``, payload bytes included. How it fails: every
refusal is a RequestError with pointer and hint.
"""

from __future__ import annotations

import base64
import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn, TypeVar

import orjson

from . import triggers_document as starts
from .concurrency_document import KEYS as _CONCURRENCY_KEYS
from .concurrency_document import concurrency_from_document, concurrency_to_document
from .cron import compile_cron
from .cron_lint import has_hashed
from .dag import DagSpec
from .dag_document import dag_from_document, dag_to_document
from .dates_document import dates_from_document
from .delay_rules import check_delay
from .errors import RequestError
from .executor import EXECUTORS, Executor, HttpCall
from .executor_document import checked_url, executor_from_document, executor_to_document
from .job import NEVER, Cron, Dates, Delay, Every, Fold, Gap, JobSpec, Once, Schedule, Tier
from .policy_document import KEYS as _POLICY_KEYS
from .policy_document import policy_from_document, policy_to_document
from .time_text import format_duration, format_rfc3339, parse_duration, parse_rfc3339
from .timing import CalendarUse
from .timing_document import KEYS as _TIMING_KEYS
from .timing_document import timing_from_document, timing_to_document

PAYLOAD_MAX = 65_536
"""Bytes of payload: 64 KiB."""

HANDLER_MAX = 128

KEY_MAX = 300
"""Characters of an idempotency key and of a command id, as the shard owner takes them; doors may allow fewer."""

KINDS = ("cron", "every", "delay", "at", "dates")
_OWNERS = {"zone": ("cron", "dates"), "start_at": ("every",)} | dict.fromkeys(("seconds", "gap", "fold"), ("cron",))
"""Keys that go with some kinds alone."""
_WORK_KEYS = ("handler", *EXECUTORS, "callback_url")
_DAG_KEYS = (*_WORK_KEYS, "dag")
_REST_KEYS = ("tier", "priority", "pool", "payload", "payload_base64", "at_most_once")
_KEYS = (*_DAG_KEYS, *KINDS, starts.KEY, *_OWNERS, *_REST_KEYS, *_POLICY_KEYS, *_TIMING_KEYS, *_CONCURRENCY_KEYS)
_TIERS = {tier.word: tier for tier in Tier}
_HANDLER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*\Z")
_POOL = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}\Z")
_Choice = TypeVar("_Choice", Gap, Fold, Tier)


def spec_from_document(
    document: object, *, job_id: str = "", calendars: Mapping[str, CalendarUse] | None = None
) -> JobSpec:
    """The spec that a document describes. Raises RequestError at its first fault.

    Keys: one of ``handler``, ``http``, ``grpc``, ``shell``, ``kafka`` and ``dag`` (``dag_document.py``); one of
    ``cron`` (with ``zone``, ``seconds``, ``gap``, ``fold``), ``every`` (with ``start_at``), ``delay``, ``at`` and
    ``dates`` (with ``zone``), or ``on`` alone, which may also stand beside one (``triggers_document.py``); ``tier``,
    ``pool``, ``at_most_once``; ``retry`` and ``timeouts`` (``policy_document.py``); ``active_from``, ``active_until``,
    ``jitter``, ``misfire``, ``catch_up``, ``calendars`` and ``on_calendar`` (``timing_document.py``); ``overlap`` and
    the limits (``concurrency_document.py``); ``payload`` (any JSON value, kept compact) or ``payload_base64`` (any
    bytes). Two more spellings: ``callback_url`` for an ``http`` with that ``url`` alone, and ``priority``, in any case,
    for ``tier``. ``H`` in a cron text is replaced here by what it means for ``job_id``, so that nobody later needs the
    id to know the fires; without a ``job_id`` it is refused. ``calendars``: those that it names, as they stand; None:
    this door looks none up, and refuses a document that names any.
    """
    if not isinstance(document, Mapping):
        _refuse("", "A job is a JSON object", 'Such as {"handler": "demo.ping", "every": "5s"}')
    for key in document:
        _check_key(key)
    on = starts.triggers_from_document(document, job_id)
    schedule = _schedule(document)
    if isinstance(schedule, Cron) and job_id and has_hashed(schedule.text):
        schedule = replace(schedule, text=compile_cron(schedule, job_id).resolved)
    starts.check_starts(schedule, on, job_id)
    dag = dag_from_document(document["dag"], _node_parts) if "dag" in document else None
    if dag is not None:
        _check_beside_dag(document)
    handler, executor = _work(document) if dag is None else ("", None)
    timing = timing_from_document(document, schedule, calendars)
    concurrency = concurrency_from_document(document, timing)
    check_delay(schedule, timing, concurrency)
    at_most_once = _flag(document, "at_most_once", "true: called once or never, and not tried again")
    return JobSpec(
        handler=handler,
        schedule=schedule,
        tier=_tier(document),
        pool=_matching({"pool": "default", **document}, "pool", _POOL, 63, "Use 1 to 63 of a-z, 0-9, '.', '_' and '-'"),
        payload=_payload(document),
        executor=executor,
        at_most_once=at_most_once,
        policy=policy_from_document(document, at_most_once=at_most_once),
        timing=timing,
        concurrency=concurrency,
        dag=dag,
        on=on,
    )


def dag_document(dag: DagSpec) -> dict[str, Any]:
    """What a job's document has under ``dag``."""
    return dag_to_document(dag, _payload_document)


def check_dag(dag: DagSpec) -> None:
    """Refuse a Dag that no document could have made: RequestError. For commands, which may come by no document."""
    try:
        same = dag_from_document(dag_document(dag), _node_parts) == dag
    except RequestError:
        raise
    except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError, RecursionError):
        same = False
    if not same:
        _refuse("/dag", "The Dag is out of form", "Send the job as a document, which is checked in full")


def is_pool_name(text: str) -> bool:
    """Whether a pool may be called so."""
    return _POOL.match(text) is not None


def spec_to_document(spec: JobSpec) -> dict[str, Any]:
    """The document of a spec: JSON-able, defaults included (but a failure policy only where it is not the default).

    A payload that is no compact JSON goes as base64.
    """
    document: dict[str, Any] = executor_to_document(spec.executor) if spec.executor else {"handler": spec.handler}
    if spec.dag is not None:
        document = {"dag": dag_document(spec.dag)}
    match spec.schedule:
        case Cron() as cron:
            document |= {"cron": cron.text, "zone": cron.zone, "seconds": cron.seconds}
            document |= {"gap": cron.gap.value, "fold": cron.fold.value}
        case Every() as every:
            document["every"] = format_duration(every.every_us)
            if every.start_at is not None:
                document["start_at"] = format_rfc3339(every.start_at)
        case Delay() as delay:
            document["delay"] = format_duration(delay.delay_us)
        case Once() as once:
            document["at"] = format_rfc3339(once.at)
        case Dates() as dates if dates != NEVER:
            document["dates"] = [format_rfc3339(at) for at in dates.times]
    document |= starts.triggers_to_document(spec.on)
    document |= {"tier": spec.tier.word, "pool": spec.pool}
    if spec.at_most_once:
        document["at_most_once"] = True
    document |= policy_to_document(spec.policy)
    document |= timing_to_document(spec.timing)
    document |= concurrency_to_document(spec.concurrency)
    if spec.payload:
        document |= _payload_document(spec.payload)
    return document


def schedule_text(document: Mapping[str, Any]) -> str:
    """The schedule of such a document in a line: its kind, what that says, a cron's zone; or else what starts it."""
    kind = next((key for key in KINDS if key in document), "")
    if not kind:
        return starts.triggers_text(document)
    zone = f" {document['zone']}" if kind == "cron" else ""
    said = document[kind] if kind != "dates" else f"{len(document[kind])} from {document[kind][0]}"
    return f"{kind} {said}{zone}"


def payload_from_document(document: Mapping[str, object]) -> bytes:
    """What ``payload`` or ``payload_base64`` stand for, b"" without either: also for a trigger. Raises RequestError."""
    return _payload(document)


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)


def _shown(value: object) -> str:
    """A foreign value inside a message: short."""
    return repr(value)[:80]


def _check_key(key: object) -> None:
    if key in _KEYS:
        return
    near = difflib.get_close_matches(str(key)[:40], _KEYS, n=1, cutoff=0.5)
    pointer = "/" + str(key)[:80].replace("~", "~0").replace("/", "~1")
    _refuse(pointer, f"{_shown(key)} is not known", f"Did you mean {near[0]}?" if near else f"Known: {' '.join(_KEYS)}")


def _check_beside_dag(document: Mapping[str, object]) -> None:
    """What goes with single pieces of work stands with the nodes of a Dag."""
    for key in (*_WORK_KEYS, "at_most_once"):
        if key in document:
            _refuse(f"/{key}", f'A Dag has no "{key}" of its own', "Give it to its nodes")


def _node_parts(document: Mapping[str, object]) -> dict[str, Any]:
    """What a node says in a job's words; absent is what it takes from its job."""
    handler, executor = _work(document)
    parts: dict[str, Any] = {"handler": handler, "executor": executor}
    if "tier" in document or "priority" in document:
        parts["tier"] = _tier(document)
    if "pool" in document:
        parts["pool"] = _matching(document, "pool", _POOL, 63, "Use 1 to 63 of a-z, 0-9, '.', '_' and '-'")
    if "payload" in document or "payload_base64" in document:
        parts["payload"] = _payload(document)
    once = parts["at_most_once"] = _flag(document, "at_most_once", "true: called once or never, and not tried again")
    if any(key in document for key in _POLICY_KEYS):
        parts["policy"] = policy_from_document(document, at_most_once=once)
    return parts


def _work(document: Mapping[str, object]) -> tuple[str, Executor | None]:
    """The handler's name, or the executor: exactly one of them is given."""
    given = [key for key in _WORK_KEYS if key in document]
    if len(given) > 1:
        _refuse(f"/{given[1]}", f"A job has one way to reach its work, not {' and '.join(given)}", "Give exactly one")
    word = given[0] if given else "handler"
    if word == "handler":
        hint = "Name a registered handler, such as demo.ping, or give one of http, grpc, shell, kafka"
        return _matching(document, "handler", _HANDLER, HANDLER_MAX, hint), None
    if word == "callback_url":
        return "", HttpCall(checked_url(document["callback_url"], "/callback_url"))
    return "", executor_from_document(word, document[word])


def _tier(document: Mapping[str, object]) -> Tier:
    if "priority" not in document:
        return _choice(document, "tier", _TIERS, Tier.MEDIUM)
    if "tier" in document:
        _refuse("/priority", '"priority" is another word for "tier"', "Give one of them")
    word = document["priority"]
    lower = {"priority": word.lower() if isinstance(word, str) else word}
    return _choice(lower, "priority", _TIERS, Tier.MEDIUM)


def _flag(document: Mapping[str, object], key: str, hint: str) -> bool:
    value = document.get(key, False)
    if not isinstance(value, bool):
        _refuse(f"/{key}", f"{_shown(value)} is not true or false", hint)
    return value


def _schedule(document: Mapping[str, object]) -> Schedule:
    kinds = [kind for kind in KINDS if kind in document]
    if not kinds and starts.KEY in document:
        return starts.without_schedule(document, _OWNERS)
    if len(kinds) != 1:
        what = " and ".join(kinds) or "none of them"
        words = f"{', '.join(KINDS[:-1])} and {KINDS[-1]}"
        _refuse(f"/{kinds[1]}" if kinds else "", f"A job has one of {words}, not {what}",
                'Give exactly one; one that only others start has "on" instead')  # fmt: skip
    kind = kinds[0]
    for key, owners in _OWNERS.items():
        if key in document and kind not in owners:
            whom = " and ".join(f'"{owner}"' for owner in owners)
            _refuse(f"/{key}", f'"{key}" goes with {whom} alone', f'Remove it: this job has "{kind}"')
    if kind == "cron":
        return _cron(document)
    if kind == "every":
        start_at = parse_rfc3339(document["start_at"], "/start_at") if "start_at" in document else None
        return Every(parse_duration(document["every"], "/every"), start_at)
    if kind == "delay":
        return Delay(parse_duration(document["delay"], "/delay"))
    if kind == "dates":
        return dates_from_document(document["dates"], document.get("zone"))
    return Once(parse_rfc3339(document["at"], "/at"))


def _cron(document: Mapping[str, object]) -> Cron:
    text, zone = document["cron"], document.get("zone", "UTC")
    if not isinstance(text, str):
        _refuse("/cron", f"{_shown(text)} is not a cron expression", "Write text, such as 0 9 * * 1-5")
    if not isinstance(zone, str):
        _refuse("/zone", f"{_shown(zone)} is not a time zone", "Write an IANA name, such as Europe/Berlin")
    seconds = _flag(document, "seconds", "true: six fields, the second first")
    gap = _choice(document, "gap", {gap.value: gap for gap in Gap}, Gap.AUTO)
    fold = _choice(document, "fold", {fold.value: fold for fold in Fold}, Fold.AUTO)
    return Cron(text, zone, seconds, gap, fold)


def _choice(document: Mapping[str, object], key: str, choices: Mapping[str, _Choice], default: _Choice) -> _Choice:
    word = document.get(key, None)
    if key not in document:
        return default
    if not isinstance(word, str) or word not in choices:
        _refuse(f"/{key}", f"{_shown(word)} is not a {key}", f"One of {', '.join(choices)}")
    return choices[word]


def _matching(document: Mapping[str, object], key: str, pattern: re.Pattern[str], limit: int, hint: str) -> str:
    word = document.get(key)
    if word is None:
        _refuse(f"/{key}", f'A job needs "{key}"', hint)
    if not isinstance(word, str) or len(word) > limit or not pattern.match(word):
        _refuse(f"/{key}", f"{_shown(word)} is not a {key}", hint)
    return word


def _payload(document: Mapping[str, object]) -> bytes:
    if "payload_base64" in document:
        if "payload" in document:
            _refuse("/payload_base64", "A job has one payload", "Give payload or payload_base64")
        payload = _from_base64(document["payload_base64"])
        pointer = "/payload_base64"
    elif "payload" in document:
        try:
            payload = orjson.dumps(document["payload"])
        except TypeError as error:
            _refuse("/payload", f"The payload is not JSON: {str(error)[:120]}", "Bytes go as payload_base64")
        pointer = "/payload"
    else:
        return b""
    if len(payload) > PAYLOAD_MAX:
        _refuse(pointer, f"The payload has {len(payload)} bytes", f"At most {PAYLOAD_MAX}: pass a reference instead")
    return payload


def _from_base64(text: object) -> bytes:
    try:
        if not isinstance(text, str):
            raise TypeError(text)
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        _refuse("/payload_base64", f"{_shown(text)} is not base64", "Use the standard alphabet, padded by =")


def _payload_document(payload: bytes) -> dict[str, object]:
    """``payload`` where the bytes are just the JSON that reading it back makes, ``payload_base64`` otherwise."""
    try:
        value = orjson.loads(payload)
        if orjson.dumps(value) == payload:
            return {"payload": value}
    except ValueError:
        pass  # no JSON: bytes of a client of its own
    return {"payload_base64": base64.b64encode(payload).decode()}
