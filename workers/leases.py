"""Who lives, judged from the records of one worker on ``leases`` (pure).

The rule (design §7): an incarnation is the offset of its HELLO, and it lives only while that is its worker's newest
record. A newer HELLO or FENCED kills every incarnation whose HELLO stands before it. HELLO and FENCED are written in
transactions of the worker's own transactional id, so whoever writes one has fenced the others first.

A worker reads its own records uncommitted: an aborted record costs it at most a new incarnation, and nobody's open
transaction can keep it from learning of its death. ``by`` of a HELLO names the process, which tells a twin (another
process under our name) from an earlier HELLO of our own.
"""

from __future__ import annotations

from typing import NamedTuple

from waterclock.model.events import Lease, LeaseKind


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


def twin_of(standing: Standing, process: str, hello_known: int) -> str:
    """The other process that lives under our name, or "" if there is none.

    ``hello_known`` is the newest HELLO that we read after our last init: whoever wrote one up to there, we have fenced
    them since. Only a HELLO behind it, not ours and not fenced, is a twin's, and the twin has fenced us.
    """
    newest_is_hello = standing.hello > standing.fenced
    if newest_is_hello and standing.hello > hello_known and standing.hello_by != process:
        return standing.hello_by or "another process"
    return ""
