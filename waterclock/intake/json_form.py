"""Job events as JSON: the job document that the command line and the API take, and what to do with it.

``{"name": "nightly", "cron": "0 2 * * *", "handler": "invoice"}`` is the whole of it: ``kind`` is CREATE where none is
given. What must hold: size and depth are capped on the bytes, before any parser; a key that nobody knows is refused
with the one that was probably meant. How it fails: RequestError with a pointer into the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from waterclock.model.errors import RequestError
from waterclock.model.job import JOB_VERBS, CommandKind
from waterclock.wire.json_text import read_json

from .sent import Sent

_OWN_KEYS = ("kind", "name", "job", "idempotency_key", "expected_revision", "note")
_KINDS = {kind.value.lower(): kind for kind in JOB_VERBS}
_REVISION_MAX = 2**63 - 1


def read_json_event(data: bytes) -> Sent:
    """The event that a JSON document spells. Raises RequestError."""
    document = read_json(data)
    if not isinstance(document, Mapping):
        _refuse("", "A job event is a JSON object", 'Such as {"name": "ping", "handler": "demo.ping", "every": "5s"}')
    if "job" in document and "name" in document:
        _refuse("/job", '"job" is another word for "name"', "Give one of them")
    named = "job" if "job" in document else "name"
    return Sent(
        kind=_kind(document.get("kind", CommandKind.CREATE.value)),
        name=_text(document, named),
        idempotency_key=_text(document, "idempotency_key"),
        document={key: value for key, value in document.items() if key not in _OWN_KEYS},
        expected_revision=_revision(document.get("expected_revision", 0)),
        note=_text(document, "note"),
        pointers={"/name": f"/{named}"},
    )


def _kind(word: object) -> CommandKind:
    """In any case: people write ``create``, Avro's symbols are ``CREATE``."""
    kind = _KINDS.get(word.lower()) if isinstance(word, str) else None
    if kind is None:
        _refuse("/kind", f"{_shown(word)} is not a kind", f"One of {', '.join(kind.value for kind in _KINDS.values())}")
    return kind


def _text(document: Mapping[str, object], key: str) -> str:
    value = document.get(key, "")
    if not isinstance(value, str):
        _refuse(f"/{key}", f"{_shown(value)} is not text", "Write a JSON string")
    return value


def _revision(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _REVISION_MAX:
        _refuse("/expected_revision", f"{_shown(value)} is not a revision", "The number that `job show` gives; 0: any")
    return value


def _shown(value: object) -> str:
    return repr(value)[:80]


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)
