"""A job document in a file, JSON or YAML. YAML says there what JSON would: values alike, no aliases, keys once.

YAML 1.1 reads 9:30 as 570, 0755 as 493 and no as false; here what JSON would not take for a value is a text.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from waterclock.model.errors import RequestError
from waterclock.wire.json_text import read_json

_FILE_BYTES_MAX = 1 << 20
_EXAMPLE = 'Such as {"handler": "demo.ping", "every": "5s"}'


def read_document(file: Path) -> dict[str, Any]:
    """The object in ``file``; ``-`` is stdin. Raises RequestError."""
    text = _text_of(file)
    try:
        is_json = text.lstrip()[:1] == "{"
        document = _json(file, text) if is_json else yaml.load(text, Loader=_PlainLoader)  # noqa: S506
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise RequestError(f"{file} is neither JSON nor YAML: {_said(error)}", hint="Correct the file") from None
    if not isinstance(document, Mapping):
        raise RequestError(f"{file} is not an object", hint=_EXAMPLE)
    return dict(document)


def _text_of(file: Path) -> str:
    try:
        data = sys.stdin.buffer.read(_FILE_BYTES_MAX + 1) if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise RequestError(f"{file} cannot be read: {error.strerror}", hint="Give a readable file") from None
    if len(data) > _FILE_BYTES_MAX:
        raise RequestError(f"{file} has more than {_FILE_BYTES_MAX} bytes", hint="A job is far smaller than that")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise RequestError(f"{file} is not UTF-8", hint="Save it as UTF-8") from None


def _json(file: Path, text: str) -> Any:
    json.loads(text)  # its words tell the place
    try:
        return read_json(text.encode(), limit=_FILE_BYTES_MAX)
    except RequestError as error:
        raise RequestError(f"{file}: {error.message}", hint=error.hint) from None


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]  # the library has no types
    """YAML whose values are JSON's: what JSON would not take for a number, true, false or null is a text."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not read here: write it out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001 - its name
        names = [key.value for key, _ in node.value]
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None:
            raise yaml.YAMLError(f"{twice!r} is given twice in one object")
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                key.tag = _TEXT  # as every key of JSON
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return found


def _as_json(_: _PlainLoader, node: yaml.ScalarNode) -> Any:
    """What JSON makes of the same characters: no infinity, no NaN, no integer that would lose digits."""
    try:
        return read_json(_WORDS.get(node.value, node.value).encode())
    except RequestError:
        line = node.start_mark.line + 1
        raise yaml.YAMLError(f"{node.value} in line {line} is no value of JSON: in quotes it is a text") from None


_TEXT, _NULL, _LIST, _OBJECT = (f"tag:yaml.org,2002:{word}" for word in ("str", "null", "seq", "map"))
_BOOL, _INT, _FLOAT = (f"tag:yaml.org,2002:{word}" for word in ("bool", "int", "float"))
_PLAIN_WORDS = (
    (_BOOL, r"true|True|TRUE|false|False|FALSE", "tTfF"),
    (_FLOAT, r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", "-0123456789"),
    (_FLOAT, r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),  # nobody means a text by them: refused, as in JSON
    (_NULL, r"null|Null|NULL|~|", ("n", "N", "~", "")),
)
# As YAML 1.2's core schema: whoever writes True, ~ or nothing means no text either.
_WORDS = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
_WORDS |= dict.fromkeys(("Null", "NULL", "~", ""), "null")
_PlainLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in _PLAIN_WORDS:
    _PlainLoader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), list(_first))
_PlainLoader.yaml_constructors = {
    **{tag: yaml.SafeLoader.yaml_constructors[tag] for tag in (_TEXT, _LIST, _OBJECT, None)},
    **dict.fromkeys((_BOOL, _INT, _FLOAT, _NULL), _as_json),
}
