"""How long a store that did not answer is left alone by a role that has other work.

One that refuses does so at once; one that is silent costs its whole time-out, and everything else in that role waits
meanwhile: so it is left alone for four times as long as the question took.
"""

from __future__ import annotations

_TIMES = 4


def rest_s(took_s: float, least_s: float, most_s: float) -> float:
    """In seconds, after a question that took ``took_s``."""
    return max(least_s, min(_TIMES * took_s, most_s))
