"""A job document in a file, JSON or YAML. YAML says there what JSON would: no dates, no aliases, keys once."""

from __future__ import annotations

import json
import math
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
    """YAML whose values are JSON's: what looks like a date is a text."""

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
            if key.tag == "tag:yaml.org,2002:bool":
                key.tag = "tag:yaml.org,2002:str"  # YAML 1.1 takes the key "on" for true
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return found


def _finite(loader: _PlainLoader, node: yaml.ScalarNode) -> float:
    """JSON has neither infinities nor NaN: they would become null."""
    found = float(loader.construct_yaml_float(node))
    if not math.isfinite(found):
        raise yaml.YAMLError(f"{node.value} is no number of JSON")
    return found


_PlainLoader.add_constructor("tag:yaml.org,2002:float", _finite)
_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
