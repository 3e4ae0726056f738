"""Overlap and limits in a job document: ``overlap``, ``max_concurrent``, ``concurrency_key`` and what goes with them.

``{"overlap": "buffer_all", "max_concurrent": 3, "concurrency_key": "/customer", "max_concurrent_per_key": 1,
"max_held": 50}``. What must hold: ``concurrency_from_document(concurrency_to_document(c)) == c`` for all that came
through here. How it fails: RequestError with the pointer of the field and what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from .concurrency import CONCURRENT_MAX, HELD_MAX, HOLDS, POINTER_MAX, Concurrency, Overlap
from .errors import RequestError
from .timing import CatchUpOrder, Timing

KEYS = ("overlap", "max_concurrent", "concurrency_key", "max_concurrent_per_key", "max_held")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)+\Z")
_WORDS = {word.value: word for word in Overlap}


def concurrency_from_document(document: Mapping[str, object], timing: Timing) -> Concurrency:
    """What a document's keys say; without them the free one. Raises RequestError."""
    word = document.get("overlap", Overlap.ALLOW.value)
    if not isinstance(word, str) or word not in _WORDS:
        _refuse("/overlap", f"{_shown(word)} is not an overlap policy", f"One of {', '.join(_WORDS)}")
    found = Concurrency(
        overlap=_WORDS[word],
        max_concurrent=_number(document, "max_concurrent", CONCURRENT_MAX),
        key=_pointer(document),
        max_per_key=_number(document, "max_concurrent_per_key", CONCURRENT_MAX),
        max_held=_number(document, "max_held", HELD_MAX),
    )
    check_concurrency(found, timing)
    return found


def concurrency_to_document(concurrency: Concurrency) -> dict[str, Any]:
    """The keys, each where it says something else than the default."""
    parts = {
        "overlap": "" if concurrency.overlap is Overlap.ALLOW else concurrency.overlap.value,
        "max_concurrent": concurrency.max_concurrent,
        "concurrency_key": concurrency.key,
        "max_concurrent_per_key": concurrency.max_per_key,
        "max_held": concurrency.max_held,
    }
    return {key: part for key, part in parts.items() if part}


def check_concurrency(concurrency: Concurrency, timing: Timing) -> None:
    """Refuse what cannot be kept: RequestError. Cheap: for every command, which may come by no document."""
    overlap, key = concurrency.overlap, concurrency.key
    max_per_key, max_held = concurrency.max_per_key, concurrency.max_held
    for name, number, most in (
        ("max_concurrent", concurrency.max_concurrent, CONCURRENT_MAX),
        ("max_concurrent_per_key", max_per_key, CONCURRENT_MAX),
        ("max_held", max_held, HELD_MAX),
    ):
        if not 0 <= number <= most:
            _refuse(f"/{name}", f"{_shown(number)} is out of range", f"A whole number from 1 to {most}")
    if len(key) > POINTER_MAX or (key and not _POINTER.match(key)):
        _refuse("/concurrency_key", f"{_shown(key)} is not a JSON pointer", "Such as /customer or /order/region")
    if max_per_key and not key:
        _refuse("/max_concurrent_per_key", "There is no key", 'Say which one: "concurrency_key": "/customer"')
    if max_held and (overlap not in HOLDS or concurrency.is_free):
        _refuse("/max_held", f"Nothing is held that it could bound: {overlap}", "It goes with a limit or buffer_all")
    if overlap is Overlap.SEQUENTIAL:
        _check_sequential(concurrency, timing)


def _check_sequential(concurrency: Concurrency, timing: Timing) -> None:
    for name, number in (
        ("max_concurrent", concurrency.max_concurrent),
        ("max_concurrent_per_key", concurrency.max_per_key),
    ):
        if number > 1:
            _refuse(f"/{name}", "sequential runs one after the other", "Use buffer_all, whose runs may overlap")
    if concurrency.max_held:
        _refuse("/max_held", f"sequential holds up to {HELD_MAX}", "Leave it out, or use buffer_all")
    if timing.catch_up_order is CatchUpOrder.NEWEST:
        _refuse("/catch_up/order", "sequential goes by the order of the fires", "Use oldest, or buffer_all")


def _number(document: Mapping[str, object], key: str, most: int) -> int:
    if key not in document:
        return 0
    number = document[key]
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= most:
        _refuse(f"/{key}", f"{_shown(number)} is out of range", f"A whole number from 1 to {most}")
    return number


def _pointer(document: Mapping[str, object]) -> str:
    if "concurrency_key" not in document:
        return ""
    key = document["concurrency_key"]
    if not isinstance(key, str) or not key:
        _refuse("/concurrency_key", f"{_shown(key)} is not a JSON pointer", "Such as /customer or /order/region")
    return key


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise RequestError(message, pointer=pointer, hint=hint)


def _shown(value: object) -> str:
    """A foreign value inside a message: short."""
    return repr(value)[:80]
