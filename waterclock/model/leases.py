"""Who lives, judged from the records of one worker on ``leases`` (pure; worker, keeper and router judge alike).

The rule (design §7): an incarnation is the offset of its HELLO, and it lives only while that is its worker's newest
record. A newer HELLO or FENCED kills every incarnation whose HELLO stands before it. HELLO and FENCED are written in
transactions of the worker's own transactional id, so whoever writes one has fenced the others first.
"""

from __future__ import annotations

from typing import NamedTuple

from .events import Lease, LeaseKind


class Standing(NamedTuple):
    """The newest HELLO and FENCED of one worker, by offset (-1: none), and the process that said HELLO."""

    hello: int = -1
    hello_by: str = ""
    fenced: int = -1


def after(standing: Standing, offset: int, lease: Lease) -> Standing:
    """The standing once the record at ``offset`` has been read. Kinds of a later release change nothing."""
    if lease.kind is LeaseKind.HELLO and offset > standing.hello:
        return standing._replace(hello=offset, hello_by=lease.by)
    if lease.kind is LeaseKind.FENCED and offset > standing.fenced:
        return standing._replace(fenced=offset)
    return standing


def is_dead(standing: Standing, incarnation: int) -> bool:
    """Whether a newer HELLO or FENCED stands behind the HELLO at ``incarnation``."""
    return standing.hello > incarnation or standing.fenced > incarnation
