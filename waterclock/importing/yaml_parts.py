"""YAML as parts that know their lines. Nothing is constructed: tags, anchors and aliases make no objects.

Missing keys are empty parts, so that a reader asks for a path without asking for each step. Bounds: the file (its
caller's), depth by Python's own stack, and a part is only looked at where somebody asks: an alias costs nothing.
"""

from __future__ import annotations

import yaml

from waterclock.model.errors import RequestError

_DOCUMENTS_MAX = 5_000


class Part:
    """A node of a document, or none. ``line`` counts from 1; of what is not there it is the nearest thing above."""

    def __init__(self, node: yaml.Node | None, line: int) -> None:
        self._node = node
        self.line = node.start_mark.line + 1 if node is not None and node.start_mark is not None else line

    @property
    def is_empty(self) -> bool:
        """Whether nothing, or null, stands here."""
        return self._node is None or self._node.tag == "tag:yaml.org,2002:null"

    def get(self, *path: str) -> Part | None:
        """What stands under these keys, one within the other; None: nothing."""
        found = self.at(*path)
        return None if found.is_empty else found

    def at(self, *path: str) -> Part:
        """The same; empty where there is nothing."""
        part = self
        for key in path:
            part = next((value for name, value in part._pairs() if name == key), Part(None, part.line))
        return part

    def text(self, *path: str) -> str:
        """The text of a scalar as it is written; "" where there is none."""
        node = self.at(*path)._node
        is_text = isinstance(node, yaml.ScalarNode) and not self.at(*path).is_empty
        return str(node.value).strip() if is_text and node is not None else ""

    def number(self, key: str, default: int = 0) -> int:
        """A whole number that is not negative. Raises RequestError where it is none."""
        part = self.get(key)
        if part is None:
            return default
        text = part.text()
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise RequestError(f"{key} in line {part.line} is no whole number", hint="Correct the file")
        return int(text)

    def items(self, *path: str) -> list[Part]:
        """The items of a list; none where there is no list."""
        node = self.at(*path)._node
        if not isinstance(node, yaml.SequenceNode):
            return []
        return [Part(item, self.line) for item in node.value]

    def texts(self, key: str) -> list[str]:
        """A list of texts, as they are: blanks and newlines belong to them."""
        nodes = [part._node for part in self.items(key)]
        return [str(node.value) for node in nodes if isinstance(node, yaml.ScalarNode)]

    def keys(self) -> list[str]:
        """The keys that stand here, each as often as it does."""
        return [key for key, _ in self._pairs()]

    def others(self, known: set[str]) -> list[tuple[str, Part]]:
        """What stands here under other keys than these."""
        return [(key, part) for key, part in self._pairs() if key not in known]

    def named(self, keys: set[str]) -> list[tuple[str, Part]]:
        """What stands here under these keys."""
        return [(key, part) for key, part in self._pairs() if key in keys]

    def _pairs(self) -> list[tuple[str, Part]]:
        if not isinstance(self._node, yaml.MappingNode):
            return []
        return [(str(key.value), Part(value, key.start_mark.line + 1)) for key, value in self._node.value]


def read_parts(text: str) -> list[Part]:
    """The documents of a file. Raises RequestError where it is no YAML, or holds too many."""
    found: list[Part] = []
    try:
        for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
            found.append(Part(node, 1))
            if len(found) > _DOCUMENTS_MAX:
                raise RequestError(f"The file holds more than {_DOCUMENTS_MAX} documents", hint="Split it")
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        said = " ".join(str(error).split())[:200]
        raise RequestError(
            f"The file is not YAML: {said}", hint="Correct it; a chart has to be rendered first"
        ) from None
    return found
