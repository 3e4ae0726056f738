"""What started a run that its schedule did not: told in commands, in PENDING and HELD, and in a run's history."""

from __future__ import annotations

from typing import NamedTuple


class Cause(NamedTuple):
    """``source``: the run by whose end it was started, "": by none. ``hops``: how many stood one before the other; an
    end that has started several jobs of its own ring counts for as many."""

    source: str = ""
    hops: int = 0


NO_CAUSE = Cause()
