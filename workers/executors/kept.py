"""What is kept of a foreign answer: as much as fits into an outcome, and never a reason to fail."""

from __future__ import annotations

from typing import Any

import orjson

from .ending import RESULT_MAX_BYTES

_CUTS_MAX = 16


def fitting(result: dict[str, Any], **texts: str) -> dict[str, Any] | None:
    """``result`` with ``texts``, each cut to its end until the whole fits into 8 KiB of JSON; None where it cannot.

    The end, because that is where programs say what became of them.
    """
    for _ in range(_CUTS_MAX):
        whole = {**result, **texts}
        if _size(whole) <= RESULT_MAX_BYTES:
            return whole
        if not any(texts.values()):
            return None
        longest = max(texts, key=lambda name: len(texts[name]))
        texts[longest] = texts[longest][-(len(texts[longest]) // 2) :] if len(texts[longest]) > 1 else ""
    return None


def _size(value: dict[str, Any]) -> int:
    try:
        return len(orjson.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return RESULT_MAX_BYTES + 1
