"""What roles do part by part, as a successor that looks at no time would do it."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

_Result = TypeVar("_Result")


def all_at_once(parts: Generator[None, None, _Result]) -> _Result:
    """All parts now, and what comes of them."""
    try:
        while True:  # ends with its parts
            next(parts)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # a generator's value, which StopIteration does not type
