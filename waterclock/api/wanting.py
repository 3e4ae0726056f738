"""The fields of a bulk request: read key by key, each refusal with its place and what would do. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, TypeVar

import orjson

from waterclock.model.document import PAYLOAD_MAX
from waterclock.model.errors import RequestError
from waterclock.model.ids import Instant
from waterclock.model.time_text import parse_rfc3339

CAP, CAP_MAX = 1_000, 10_000
"""How many things one request acts on: if it does not say, and at most."""

RATE_PER_S, RATE_MAX = 100.0, 1_000.0
RUN_IDS_MAX = 1_000
NOTE_MAX = 500
_TEXT_MAX = 400
_Meaning = TypeVar("_Meaning")


def check_known(document: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuse a key that is none of these: a misspelt filter must not look like an empty one."""
    unknown = next((key for key in document if key not in known), None)
    if unknown is not None:
        raise RequestError(f"There is no {unknown[:80]!r} here", pointer=f"/{unknown[:80]}", hint=", ".join(known))


def text(document: Mapping[str, Any], key: str, limit: int = _TEXT_MAX) -> str:
    """A text, "" where there is none."""
    value = document.get(key, "")
    if not isinstance(value, str) or len(value) > limit:
        raise RequestError(f"{key} is text of at most {limit} characters", pointer=f"/{key}")
    return value


def instant(document: Mapping[str, Any], key: str) -> Instant:
    """An instant, RFC 3339; 0 where there is none."""
    return parse_rfc3339(document[key], f"/{key}") if document.get(key) is not None else 0


def flag(document: Mapping[str, Any], key: str, *, default: bool = False) -> bool:
    """True or false; ``default`` where there is none."""
    value = document.get(key, default)
    if not isinstance(value, bool):
        raise RequestError(f"{key} is true or false", pointer=f"/{key}")
    return value


def cap(document: Mapping[str, Any]) -> int:
    """On how many to act at most."""
    value = document.get("cap", CAP)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= CAP_MAX:
        raise RequestError(f"cap is a number from 1 to {CAP_MAX}", pointer="/cap", hint=f"{CAP} if none is given")
    return value


def rate_per_s(document: Mapping[str, Any]) -> float:
    """How many a second."""
    value = document.get("rate_per_s", RATE_PER_S)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.1 <= value <= RATE_MAX:
        raise RequestError(f"rate_per_s is a number from 0.1 to {RATE_MAX:g}", pointer="/rate_per_s")
    return float(value)


def revision(document: Mapping[str, Any], key: str) -> int:
    """A revision number, which must be there."""
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise RequestError(f"{key} is a revision number", pointer=f"/{key}", hint="As the job's versions list it")
    return value


def texts(document: Mapping[str, Any], key: str, limit: int = RUN_IDS_MAX) -> list[str]:
    """A list of texts, empty where there is none."""
    value = document.get(key, [])
    if not isinstance(value, list) or len(value) > limit or not all(isinstance(each, str) for each in value):
        raise RequestError(f"{key} is a list of at most {limit} texts", pointer=f"/{key}")
    return value


def words(document: Mapping[str, Any], key: str, known: Mapping[str, _Meaning]) -> list[_Meaning]:
    """What a word or a list of words means; empty where there is none."""
    value = document.get(key, [])
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list) or not all(isinstance(each, str) and each.lower() in known for each in given):
        raise RequestError(
            f"{key} is one or several of {', '.join(known)}", pointer=f"/{key}", hint="Leave it out for any"
        )
    return [known[each.lower()] for each in given]


def payload(document: Mapping[str, Any]) -> bytes | None:
    """``payload`` (any JSON value) or ``payload_base64``; None where there is neither."""
    if "payload" in document and "payload_base64" in document:
        raise RequestError("Give payload or payload_base64", pointer="/payload_base64")
    found: bytes | None = None
    if "payload" in document:
        found = orjson.dumps(document["payload"])
    elif "payload_base64" in document:
        try:
            found = base64.b64decode(document["payload_base64"], validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise RequestError("This is not base64", pointer="/payload_base64", hint="Padded by =") from None
    if found is not None and len(found) > PAYLOAD_MAX:
        raise RequestError(f"The payload has {len(found)} bytes", pointer="/payload", hint=f"At most {PAYLOAD_MAX}")
    return found
