"""The real Store of one process, from its settings. Only roles that use Cassandra import this: the driver costs each
process 0.2 s of its start.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from waterclock.clock import SystemClock
from waterclock.settings import Settings

from .access import driver_options
from .cassandra import CassandraStore

_DEADLINE_S = 5.0
"""A role tries again by itself, and looks in between whether it is to stop."""


def open_store(settings: Settings) -> CassandraStore:
    """Waits for the server for 5 s, or as long as one try takes. Raises BackendDown, AccessRefused."""
    cassandra = settings.cassandra
    return CassandraStore(
        list(cassandra.contact_points),
        cassandra.port,
        cassandra.keyspace,
        SystemClock(),
        local_dc=cassandra.local_dc,
        deadline_s=_DEADLINE_S,
        options=driver_options(cassandra),
    )


@contextmanager
def store_to_build_on(settings: Settings) -> Iterator[CassandraStore]:
    """The same, closed again where what is built on it fails: whoever waits for another backend begins anew each time.

    Raises BackendDown, AccessRefused.
    """
    store = open_store(settings)
    try:
        yield store
    except BaseException:
        store.close()
        raise
