"""How a run reaches its work where that is no Python function: an HTTP or gRPC call, a command, a Kafka record.

Values and their stored form. The stored form is JSON with the keys that differ from their defaults; it stands in job
rows, due rows and work records, so it is on-disk format: keys may be added, none may change meaning. It is trusted,
because only what ``executor_document.py`` has checked is stored; for any other text reading it raises ValueError,
TypeError or KeyError.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import orjson

LABEL_MAX = 128
"""Characters of a label."""

_KEPT_MAX = 1_024
"""Stored texts up to this length are read once and kept: a job's runs all carry the same one."""

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values, in order: headers, metadata."""

_SET_BY_US = frozenset(
    [
        "accept-encoding",
        "connection",
        "content-length",
        "cookie",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "te",
        "traceparent",
        "tracestate",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    ]
)
_SET_BY_US_BEGIN = ("webhook-", "waterclock-", "ce_", "ce-", "proxy-", "grpc-")


def is_set_by_us(name: str) -> bool:
    """Whether a header is Waterclock's or the transport's to set. For the door and the worker: both refuse the same."""
    low = name.lower()
    return low in _SET_BY_US or low.startswith(_SET_BY_US_BEGIN)


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A signed HTTP request whose body is the payload. ``secret`` names the worker's signing secret, "" its default."""

    url: str
    method: str = "POST"
    headers: Pairs = ()
    timeout_s: float = 30.0
    secret: str = ""


@dataclass(frozen=True, slots=True)
class GrpcCall:
    """A unary gRPC call with the payload as the request's bytes: ``method`` is ``package.Service/Method``."""

    target: str
    method: str
    metadata: Pairs = ()
    timeout_s: float = 30.0
    tls: bool = True


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A program and its arguments, never a shell's text; the payload is its standard input."""

    argv: tuple[str, ...]
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """A record, written in the transaction that completes the run: the payload, under ``key`` or else the job id."""

    topic: str
    key: str = ""
    headers: Pairs = ()


Executor: TypeAlias = HttpCall | GrpcCall | ShellCommand | KafkaRecord

EXECUTORS: dict[str, type[Executor]] = {
    "http": HttpCall,
    "grpc": GrpcCall,
    "shell": ShellCommand,
    "kafka": KafkaRecord,
}
"""By the word that names them in documents and in the stored form."""

_WORDS = {made: word for word, made in EXECUTORS.items()}


def executor_word(executor: Executor) -> str:
    """``http``, ``grpc``, ``shell`` or ``kafka``."""
    return _WORDS[type(executor)]


def executor_to_json(executor: Executor) -> str:
    """The stored form, compact. Exact inverse: :func:`executor_from_json`."""
    return orjson.dumps(executor_to_stored(executor)).decode()


def executor_to_stored(executor: Executor) -> dict[str, dict[str, Any]]:
    """The stored form as a dict: ``{"http": {"url": ...}}``, without what is at its default."""
    kept = {field.name: getattr(executor, field.name) for field in fields(executor)}
    given = {field.name: kept[field.name] for field in fields(executor) if kept[field.name] != field.default}
    return {executor_word(executor): given}


def executor_from_json(text: str) -> Executor:
    """The executor of a stored form. Trusted input: nothing is checked."""
    return _from_json_kept(text) if len(text) <= _KEPT_MAX else _from_json(text)


def executor_from_stored(stored: dict[str, dict[str, Any]]) -> Executor:
    """The executor of a stored form that was read already. Keys of a later release are dropped."""
    ((word, parts),) = stored.items()
    made = EXECUTORS[word]
    known = {field.name for field in fields(made)}
    return made(**{name: _as_tuples(part) for name, part in parts.items() if name in known})


def executor_label(executor: Executor) -> str:
    """What people read where a handler's name would stand, such as ``http POST https://host/path`` (no query)."""
    match executor:
        case HttpCall():
            where = urlsplit(executor.url)
            label = f"http {executor.method} {where.scheme}://{where.netloc}{where.path}"
        case GrpcCall():
            label = f"grpc {executor.target}/{executor.method}"
        case ShellCommand():
            label = f"shell {executor.argv[0].rpartition('/')[2]}"
        case KafkaRecord():
            label = f"kafka {executor.topic}"
    return label[:LABEL_MAX]


def _from_json(text: str) -> Executor:
    return executor_from_stored(orjson.loads(text))


_from_json_kept = lru_cache(maxsize=16_384)(_from_json)


def _as_tuples(part: Any) -> Any:
    return tuple(map(_as_tuples, part)) if isinstance(part, list) else part
