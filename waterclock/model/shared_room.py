"""Room that tenants share, and that one of them could fill. Pure.

The last tenth of a bound is for those who have not more than half. Also where nobody else has anything there: who has
nothing now may come in the next moment.
"""

from __future__ import annotations


def finds_room(mine: int, count: int, most: int, *, more: int = 1) -> bool:
    """Whether ``more`` find room for a tenant that has ``mine`` of ``count``, where there may be ``most``."""
    if count + more > most:
        return False
    return mine <= most // 2 or (count + more) * 10 <= most * 9
