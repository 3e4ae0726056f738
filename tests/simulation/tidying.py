"""The garbage collector, kept from looking through a whole play again and again: it works between two of them.

A play makes a million objects and drops most of them at once, which needs no collector; what it leaves in circles (its
world, its schedule) goes when it is over, and so do the records that the oracles have decoded.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from tests.oracle.records import decode


@contextmanager
def tidied_up_afterwards() -> Iterator[None]:
    """Nothing is collected inside; everything is, at the end. One inside another one is that one's."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        decode.cache_clear()
        gc.collect()
        _set_aside_what_stays()


@cache
def _set_aside_what_stays() -> None:
    """Once, after the first play: what that has imported and built for good is not looked through any more."""
    gc.freeze()
