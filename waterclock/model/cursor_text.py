"""A dispatcher's cursor, as others read it: its text rides in the metadata of the offsets of ``commands``.

The whole of it is the dispatcher's (``dispatcher/position.py``); here is what an outsider may build on. On-disk format.
"""

from __future__ import annotations

import re

from .ids import Instant

_TEXT = re.compile(r"1\|(\d{1,18})\|\d+\|[^|]*\|[^|]*\Z", re.ASCII)


def undecided_from(text: str) -> Instant | None:
    """The first due time that may hold a fire that is not decided yet; None: this is no cursor of this release."""
    match = _TEXT.match(text.rstrip("\0"))
    return int(match[1]) if match else None
