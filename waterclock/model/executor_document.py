"""An executor in a job document: ``http``, ``grpc``, ``shell`` or ``kafka``, checked key by key.

What must hold: ``executor_from_document(word, executor_to_document(e)[word]) == e`` for every checked executor. What is
checked is form: whether an address may be reached, a program run or a topic written to is the worker's to decide, where
its settings stand. How it fails: RequestError with the pointer of the field and what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn
from urllib.parse import urlsplit

from .errors import RequestError
from .executor import (
    Executor,
    GrpcCall,
    HttpCall,
    KafkaRecord,
    Pairs,
    ShellCommand,
    executor_to_json,
    executor_word,
    is_set_by_us,
)
from .ids import US_PER_S
from .time_text import format_duration, parse_duration

EXECUTOR_MAX = 8_192
"""Bytes of an executor's stored form: it is in every due row and work record of its job."""

URL_MAX = 2_048
CALL_TIMEOUT_S_MAX = 600.0
COMMAND_TIMEOUT_S_MAX = 86_400.0
PAIRS_MAX = 32
ARGUMENTS_MAX = 64

_METHODS = ("POST", "PUT", "PATCH", "GET", "DELETE")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
_METADATA_NAME = re.compile(r"[a-z0-9_.-]{1,100}\Z")
_PAIR_VALUE = re.compile(r"[\x20-\x7e\u00a0-\U0010ffff]{0,1000}\Z")
_ASCII_VALUE = re.compile(r"[\x20-\x7e]{0,1000}\Z")
_SECRET = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}\Z")
_TARGET = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\]):(?P<port>\d{1,5})\Z")
_GRPC_METHOD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,199}/[A-Za-z_][A-Za-z0-9_]{0,99}\Z")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")


def executor_from_document(word: str, document: object) -> Executor:
    """The executor under the key ``word`` of a job document. Raises RequestError at its first fault."""
    part = _Part(f"/{word}", document, _KEYS[word])
    executor = _READERS[word](part)
    _check_size(executor)
    return executor


def executor_to_document(executor: Executor) -> dict[str, Any]:
    """``{"http": {...}}`` and so on: the part of a job document, in full."""
    inner: dict[str, Any]
    match executor:
        case HttpCall():
            inner = {"url": executor.url, "method": executor.method, "headers": dict(executor.headers)}
            inner |= {"timeout": _duration(executor.timeout_s), "secret": executor.secret}
        case GrpcCall():
            inner = {"target": executor.target, "method": executor.method, "metadata": dict(executor.metadata)}
            inner |= {"timeout": _duration(executor.timeout_s), "tls": executor.tls}
        case ShellCommand():
            inner = {"argv": list(executor.argv), "timeout": _duration(executor.timeout_s)}
        case KafkaRecord():
            inner = {"topic": executor.topic, "key": executor.key, "headers": dict(executor.headers)}
    return {executor_word(executor): inner}


def check_executor(executor: Executor) -> None:
    """Refuse an executor that no document could have made: RequestError. For commands, which come by no document."""
    _check_size(executor)
    if not isinstance(executor, KafkaRecord):
        _check_timeout(executor.timeout_s)
    try:
        document = executor_to_document(executor)
        word = executor_word(executor)
        same = executor_from_document(word, document[word]) == executor
    except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError, RecursionError):
        same = False
    if not same:
        _refuse("/executor", "The executor is out of form", "Send the job as a document, which is checked in full")


def _check_timeout(timeout_s: object) -> None:
    """Before anybody calculates with it: a text times a million is as large as its sender likes."""
    if type(timeout_s) not in {int, float} or not 0 < timeout_s <= COMMAND_TIMEOUT_S_MAX:  # type: ignore[operator]
        _refuse(
            "/executor/timeout_s", f"{_shown(timeout_s)} is no time-out", f"Seconds, at most {COMMAND_TIMEOUT_S_MAX:g}"
        )


class _Part:
    """The object under one key of a document, and where it stands."""

    def __init__(self, pointer: str, document: object, keys: tuple[str, ...]) -> None:
        if not isinstance(document, Mapping):
            _refuse(pointer, f"{_shown(document)} is not an object", f"An object with {', '.join(keys)}")
        for key in document:
            if key not in keys:
                place = str(key)[:80].replace("~", "~0").replace("/", "~1")
                _refuse(f"{pointer}/{place}", f"{_shown(key)} is not known", f"Known: {' '.join(keys)}")
        self.pointer = pointer
        self._document: Mapping[str, object] = document

    def get(self, key: str, default: object = None) -> object:
        return self._document.get(key, default)

    def refuse(self, key: str, message: str, hint: str) -> NoReturn:
        _refuse(f"{self.pointer}/{key}", message, hint)

    def text(self, key: str, pattern: re.Pattern[str], hint: str, default: str | None = None) -> str:
        """A text that matches; without a default it must be given."""
        if key not in self._document and default is not None:
            return default
        value = self.get(key)
        if not isinstance(value, str) or not (pattern.match(value) or value == default):
            what = "is missing" if value is None else f"{_shown(value)} is not allowed"
            self.refuse(key, f"{key} {what}", hint)
        return value

    def seconds(self, default_s: float, most_s: float) -> float:
        if "timeout" not in self._document:
            return default_s
        timeout_s = parse_duration(self.get("timeout"), f"{self.pointer}/timeout") / US_PER_S
        if timeout_s > most_s:
            self.refuse("timeout", "The timeout is too long", f"At most {_duration(most_s)}")
        return timeout_s

    def pairs(self, key: str, name: re.Pattern[str], value: re.Pattern[str]) -> Pairs:
        """An object of texts, its names unlike in any spelling, and none that we set ourselves."""
        given = self.get(key, {})
        if not isinstance(given, Mapping) or len(given) > PAIRS_MAX:
            self.refuse(key, f"{key} is not an object of at most {PAIRS_MAX} texts", 'Such as {"x-team": "billing"}')
        seen: set[str] = set()
        for each, text in given.items():
            where = f"{key}/{str(each)[:80].replace('~', '~0').replace('/', '~1')}"
            if not isinstance(each, str) or not name.match(each):
                self.refuse(where, f"{_shown(each)} is not a name", "Letters, digits and hyphens, at most 100")
            if is_set_by_us(each):
                self.refuse(where, f"{each} is set by Waterclock or by the transport", "Choose another name")
            if each.lower() in seen:
                self.refuse(where, f"{each} is given twice", "Names differ in more than case")
            if not isinstance(text, str) or not value.match(text):
                self.refuse(where, f"{_shown(text)} is not a value", "One line of text, at most 1,000 characters")
            seen.add(each.lower())
        return tuple(given.items())


def _http(part: _Part) -> HttpCall:
    method = part.get("method", "POST")
    if method not in _METHODS:
        part.refuse("method", f"{_shown(method)} is not a method", f"One of {', '.join(_METHODS)}")
    return HttpCall(
        url=checked_url(part.get("url"), f"{part.pointer}/url"),
        method=str(method),
        headers=part.pairs("headers", _HEADER_NAME, _ASCII_VALUE),
        timeout_s=part.seconds(30.0, CALL_TIMEOUT_S_MAX),
        secret=part.text("secret", _SECRET, "The name of a signing secret in the worker's settings", default=""),
    )


def checked_url(url: object, pointer: str) -> str:
    """An absolute http or https URL without user, password and fragment. Raises RequestError at ``pointer``."""
    hint = "Write an absolute URL, such as https://billing.example/hooks/nightly"
    if not isinstance(url, str) or not url:
        _refuse(pointer, "The URL is missing" if not url else f"{_shown(url)} is not a URL", hint)
    if len(url) > URL_MAX:
        _refuse(pointer, f"The URL has {len(url)} characters", f"At most {URL_MAX}")
    if not url.isascii() or any(ord(letter) <= 32 or ord(letter) == 127 or letter == "\\" for letter in url):
        _refuse(pointer, "The URL holds characters that a URL cannot hold", "Percent-encode them; hosts in punycode")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        _refuse(pointer, f"The URL cannot be read: {error}", hint)
    if parts.scheme not in {"http", "https"} or not host or port == 0:
        _refuse(pointer, f"{_shown(url)} is not an http or https URL with a host", hint)
    if "@" in parts.netloc:
        _refuse(pointer, "The URL holds a user or password", "Send credentials as a header")
    if "#" in url:
        _refuse(pointer, "The URL holds a fragment, which is never sent", "Leave out # and what follows")
    return url


def _grpc(part: _Part) -> GrpcCall:
    target = part.text("target", _TARGET, "Write host:port, such as billing.example:443")
    if not 0 < int(target.rpartition(":")[2]) < 65_536:
        part.refuse("target", f"{target} has no such port", "A port from 1 to 65535")
    tls = part.get("tls", True)
    if not isinstance(tls, bool):
        part.refuse("tls", f"{_shown(tls)} is not true or false", "false only inside a network that you trust")
    metadata = part.pairs("metadata", _METADATA_NAME, _ASCII_VALUE)
    for name, _ in metadata:
        if name.endswith("-bin"):
            part.refuse(f"metadata/{name}", "Binary metadata is not supported", "Send it in the payload")
    return GrpcCall(
        target=target,
        method=part.text("method", _GRPC_METHOD, "Write package.Service/Method"),
        metadata=metadata,
        timeout_s=part.seconds(30.0, CALL_TIMEOUT_S_MAX),
        tls=tls,
    )


def _shell(part: _Part) -> ShellCommand:
    argv = part.get("argv")
    hint = 'A list: the program and its arguments, such as ["/srv/jobs/backup.sh", "--full"]'
    if not isinstance(argv, list) or not 0 < len(argv) <= ARGUMENTS_MAX:
        part.refuse("argv", f"argv is not a list of 1 to {ARGUMENTS_MAX} texts", hint)
    for place, argument in enumerate(argv):
        if not isinstance(argument, str) or "\0" in argument or not (argument or place):
            part.refuse(f"argv/{place}", f"{_shown(argument)} is not an argument", hint)
    return ShellCommand(tuple(argv), part.seconds(60.0, COMMAND_TIMEOUT_S_MAX))


def _kafka(part: _Part) -> KafkaRecord:
    topic = part.text("topic", _TOPIC, "1 to 249 of letters, digits, '.', '_' and '-'")
    if topic in {".", ".."}:
        part.refuse("topic", f"{topic} is not a topic", "Name a topic that exists")
    key = part.get("key", "")
    if not isinstance(key, str) or len(key) > 1_000:
        part.refuse("key", f"{_shown(key)} is not a key", "A text of at most 1,000 characters")
    return KafkaRecord(topic, key, part.pairs("headers", _HEADER_NAME, _PAIR_VALUE))


_KEYS = {
    "http": ("url", "method", "headers", "timeout", "secret"),
    "grpc": ("target", "method", "metadata", "timeout", "tls"),
    "shell": ("argv", "timeout"),
    "kafka": ("topic", "key", "headers"),
}
_READERS: dict[str, Callable[[_Part], Executor]] = {"http": _http, "grpc": _grpc, "shell": _shell, "kafka": _kafka}


def _check_size(executor: Executor) -> None:
    try:
        size = len(executor_to_json(executor).encode())
    except (TypeError, ValueError):  # a lone surrogate: no text that any of our formats can hold
        _refuse(f"/{executor_word(executor)}", "It holds text that is no Unicode", "Write valid UTF-8")
    if size > EXECUTOR_MAX:
        _refuse(
            f"/{executor_word(executor)}", f"It takes {size} bytes", f"At most {EXECUTOR_MAX}: move data to the payload"
        )


def _duration(seconds: float) -> str:
    return format_duration(round(seconds * US_PER_S))


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)


def _shown(value: object) -> str:
    """A foreign value inside a message: short."""
    return repr(value)[:80]
