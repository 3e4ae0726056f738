"""Whose keyspace this is: rows of jobs go with the topics in which their commands stand, and so with one prefix.

Two prefixes over one keyspace would fire each other's jobs, for a row says by its revision alone which command made it.
So the first dispatcher notes its prefix, before it joins its group, and one of another prefix does not start. How it
fails: a store that is away, and nobody can start, as without this; a note that cannot be read is written anew, for one
cell must not stop an installation. Two first starts in one moment: the later note counts, and the other one leaves
here, or at its next start.
"""

from __future__ import annotations

import structlog

from waterclock.model.errors import RequestError, UndecodableRecord
from waterclock.model.ids import Instant
from waterclock.store.upkeep import INSTALLATION, UpkeepKeeping

_PLACE = "topics"

log_ = structlog.get_logger("dispatcher")


def claim_keyspace(store: UpkeepKeeping, prefix: str, now: Instant) -> None:
    """Note ``prefix``. Raises RequestError where the keyspace is another installation's, BackendDown, WriteUnknown."""
    if not _noted(store):
        store.tell(INSTALLATION, _PLACE, {"prefix": prefix}, now)
    noted = _noted(store)
    if noted not in ("", prefix):
        raise RequestError(
            f"this keyspace belongs to the installation whose topics begin with {noted!r}, not {prefix!r}",
            pointer="/cassandra/keyspace",
            hint="Give each installation a keyspace of its own (cassandra.keyspace), and keep its kafka.prefix",
        )


def _noted(store: UpkeepKeeping) -> str:
    try:
        told = store.told(INSTALLATION, _PLACE)
    except UndecodableRecord as error:
        log_.error("whose keyspace this is cannot be read: it is noted anew", cause=str(error))
        return ""
    return "" if told is None else str(told.parts.get("prefix", ""))
