"""JSON from strangers: refused before it is parsed where it is too long or too deep, and read without guessing.

Why: every door (API, intake, command line) takes JSON, and a parser alone is no door. What must hold: the depth is
counted on the bytes, before any parser recurses; a key that comes twice, a number that would lose digits, half a
surrogate pair and bytes that are no UTF-8 are refused, because two readers would understand two things. The cost is
linear in the size, which is capped first. How it fails: RequestError, with what to change.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import orjson

from waterclock.model.errors import RequestError

JSON_MAX = 256 * 1024
"""Bytes of a document."""

DEPTH_MAX = 32
"""Objects and lists inside one another."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)  # never fails once begun, so it is linear
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_OPENING = frozenset(b"[{")
_INTEGER_MAX = 2**63


def read_json(data: bytes, *, limit: int = JSON_MAX, depth: int = DEPTH_MAX) -> Any:
    """The value that ``data`` spells. Raises RequestError."""
    if len(data) > limit:
        _refuse(f"The document has {len(data)} bytes", f"At most {limit}: keep large data elsewhere, pass a reference")
    if _is_deeper(data, depth):
        _refuse(f"The document is nested more than {depth} levels deep", f"At most {depth}: send it as text or base64")
    try:
        orjson.loads(data)  # the strict one: UTF-8, no NaN, no half surrogates
        return json.loads(data, object_pairs_hook=_without_repeats, parse_int=_kept_exactly)
    except RequestError:
        raise
    except (ValueError, RecursionError) as error:
        _refuse(f"This is not JSON: {str(error)[:160]}", "Correct the document: `python -m json.tool` shows the place")


def _is_deeper(data: bytes, depth: int) -> bool:
    """Strings are left out; an unclosed one ends what can be counted, and the parser refuses it."""
    level = 0
    for bracket in _STRING.sub(b"", data).translate(None, _NO_BRACKETS):
        level += 1 if bracket in _OPENING else -1
        if level > depth:
            return True
    return False


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            _refuse(f"{name[:80]!r} is given twice in one object", "Give each key once")
        found[name] = value
    return found


def _kept_exactly(digits: str) -> int:
    """Integers up to 64 bits; a longer one would come out of other parsers as another number."""
    if len(digits) > 20 or not -_INTEGER_MAX <= int(digits) < 2 * _INTEGER_MAX:
        _refuse(f"{digits[:24]} has more digits than an integer of 64 bits", "Send it as text")
    return int(digits)


def _refuse(message: str, hint: str) -> NoReturn:
    raise RequestError(message, hint=hint)
