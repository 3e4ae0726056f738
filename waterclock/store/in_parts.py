"""Many rows are read in one go, and one that this release does not understand is in the way of all: which one?

So whoever reads jobs that a later release may have written reads the halves again, and so on to the one alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from waterclock.model.stored_spec import NOT_UNDERSTOOD

_Key = TypeVar("_Key")
_Found = TypeVar("_Found")


def read_in_parts(
    keys: Sequence[_Key], read: Callable[[Sequence[_Key]], _Found], none: Callable[[_Key, Exception], _Found]
) -> list[_Found]:
    """What ``read`` brings of all of them, in as many parts as it takes; ``none``: what stands for a key that cannot be
    understood, and why it cannot. Raises what ``read`` raises but for ``NOT_UNDERSTOOD``."""
    try:
        return [read(keys)]
    except NOT_UNDERSTOOD as odd:
        if len(keys) == 1:
            return [none(keys[0], odd)]
    half = len(keys) // 2
    return [*read_in_parts(keys[:half], read, none), *read_in_parts(keys[half:], read, none)]
