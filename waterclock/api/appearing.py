"""What was just made, or done, shows in history a moment later: it is looked for again, a second at most."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

_T = TypeVar("_T")
_LOOKS = 8
_LOOK_AGAIN_S = 0.125


async def appearing(look: Callable[[], Awaitable[_T | None]]) -> _T | None:
    """The first answer that is one; None: it does not show yet. Raises what ``look`` raises."""
    for number in range(_LOOKS):
        if number:
            await asyncio.sleep(_LOOK_AGAIN_S)
        found = await look()
        if found is not None:
            return found
    return None
