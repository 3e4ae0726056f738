"""Text of others on a terminal: what a handler printed, raised or sent must not steer whoever reads it."""

from __future__ import annotations

import unicodedata

_TURNING = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
"""Kinds of characters that turn the direction of writing."""


def visible(text: str) -> str:
    """The text with every control character, and what turns the direction of writing, spelt out."""
    if text.isprintable():
        return text
    return "".join(each if each == "\t" or _is_harmless(each) else _spelt(each) for each in text)


def visible_lines(text: str) -> str:
    """The same of each line; lines stay lines."""
    return "\n".join(visible(line) for line in text.split("\n"))


def _is_harmless(each: str) -> bool:
    return unicodedata.category(each) not in ("Cc", "Zl", "Zp") and unicodedata.bidirectional(each) not in _TURNING


def _spelt(each: str) -> str:
    code = ord(each)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
