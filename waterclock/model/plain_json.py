"""JSON of what user code returns or emits: the encoder is given plain values alone, and so runs no code of a user's.

Why: orjson asks a dataclass for its fields, a datetime for its zone's offset and an Enum for its value, and takes the
process down where the answer is an exception. So what is not plain is made plain here, in Python, where an exception is
one. What must hold: the text is what orjson itself makes of good values, and a plain value costs next to nothing more:
``marshal`` looks at it in C, calls nothing, and takes exact built-in types alone (and buffers, which are no JSON).

How it fails: NotJson, which says what is wrong with the value.
"""

from __future__ import annotations

import dataclasses
import marshal
from collections.abc import Callable
from datetime import date, datetime, time
from enum import EnumType
from typing import Any, TypeAlias
from uuid import UUID

import orjson

_Key: TypeAlias = Callable[[Any], Any]
"""What becomes of a dict's key."""

# What slipped through would be refused rather than asked.
_TEXT_KEYS = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
_ANY_KEYS = _TEXT_KEYS | orjson.OPT_NON_STR_KEYS
_MARSHAL_VERSION = 2
"""Later ones remember every object they met, for references that nobody reads here."""

_SCALARS = frozenset({str, int, float, bool, type(None)})
_WRITTEN = frozenset({UUID, date, datetime, time})


class NotJson(ValueError):
    """No JSON can be made of the value."""


def to_json(value: object, *, any_keys: bool = False) -> bytes:
    """The value as JSON. ``any_keys``: keys of a dict may be other scalars than text. Raises NotJson."""
    try:
        if type(value) not in _SCALARS and not _is_plain(value):
            value = _plain(value, _any_key if any_keys else _text_key)
        return orjson.dumps(value, None, _ANY_KEYS if any_keys else _TEXT_KEYS)
    except RecursionError:
        raise NotJson("it is nested too deeply, or holds itself") from None
    except TypeError as error:  # orjson's own and ours, for the most part: they name the type
        raise NotJson(_text_of(error)) from None
    except Exception as error:  # noqa: BLE001 - user code: properties, zones and fields may raise anything
        raise NotJson(f"reading it raised {type(error).__name__}: {_text_of(error)}") from None


def _is_plain(value: Any) -> bool:
    try:
        marshal.dumps(value, _MARSHAL_VERSION)
    except ValueError:  # also where it is nested too deeply
        return False
    return True


def _plain(value: Any, key: _Key) -> Any:
    """The same, of exact built-in types. Kinds are told apart in orjson's own order."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is tuple or issubclass(kind, list):
        parts = list(value) if kind is tuple else list.copy(value)
        return [_plain(part, key) for part in parts]
    if issubclass(kind, dict):
        return {key(name): _plain(part, key) for name, part in list(dict.items(value))}
    return _plain_one(value, kind, key)


def _plain_one(value: Any, kind: type, key: _Key) -> Any:
    if kind in _WRITTEN:
        return _written(value)
    if kind is orjson.Fragment:
        return orjson.loads(orjson.dumps(value))  # whoever reads a result must not find that it is none
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int):
        return int.__int__(value)
    if type(kind) is EnumType:
        return _plain(value.value, key)
    if "__dataclass_fields__" in vars(kind):
        return {_text_key(name): _plain(part, key) for name, part in _fields_of(value, kind)}
    raise TypeError(f"Type is not JSON serializable: {kind.__name__}")


def _text_key(name: Any) -> Any:
    if type(name) is not str:
        raise TypeError("Dict key must be str")
    return name


def _any_key(name: Any) -> Any:
    plain = _plain(name, _any_key)
    if type(plain) not in _SCALARS:
        raise TypeError(f"Dict key must be text or another scalar, not {type(name).__name__}")
    return plain


def _fields_of(value: Any, kind: type) -> list[tuple[Any, Any]]:
    """As orjson takes them: what stands in the instance, or the fields where it has slots; none with an underscore."""
    held = None if "__slots__" in vars(kind) else getattr(value, "__dict__", None)
    if type(held) is dict:
        return [(name, part) for name, part in list(held.items()) if type(name) is not str or name[:1] != "_"]
    names = [field.name for field in dataclasses.fields(kind)]
    return [(name, getattr(value, name)) for name in names if name[:1] != "_"]


def _written(value: UUID | date | time) -> str:
    """As orjson writes them. RFC 3339 knows offsets in whole minutes, and some zones had others: they are rounded."""
    if isinstance(value, time) and value.tzinfo is not None:
        raise TypeError("datetime.time must not have tzinfo set")
    if not isinstance(value, datetime):
        return str(value)
    offset = value.utcoffset()
    text = value.replace(tzinfo=None).isoformat()
    if offset is None:
        return text
    seconds = offset.days * 86_400 + offset.seconds
    hours, minutes = divmod((abs(seconds) + 30) // 60, 60)
    return f"{text}{'-' if seconds < 0 else '+'}{hours:02}:{minutes:02}"


def _text_of(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - user code again: __str__ may raise anything
        return "<the exception could not be printed>"
