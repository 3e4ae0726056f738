"""Wires a dispatcher to the real ports and turns it: ``python -m waterclock.dispatcher``."""

from __future__ import annotations

from waterclock.clock import SystemClock
from waterclock.leaving import leave_after
from waterclock.process import open_log, run_role
from waterclock.settings import Settings
from waterclock.store.opening import store_to_build_on
from waterclock.wire.names import Names

from .installation import claim_keyspace
from .loop import Dispatcher
from .pace import Pace
from .store_thread import StoreThread

_SESSION_TIMEOUT_S = 6.0


def build(settings: Settings) -> Dispatcher:
    """A dispatcher on real Kafka and Cassandra. Raises BackendDown, and RequestError where it must not own anything."""
    pace = Pace(
        look_ahead_s=settings.dispatcher.look_ahead_s,
        grace_s=settings.dispatcher.grace_s,
        round_records=settings.dispatcher.round_records,
        catch_up_share=settings.dispatcher.catch_up_share,
        catch_up_per_s=settings.dispatcher.catch_up_per_s,
        herd_fires=settings.dispatcher.herd_fires,
    )
    clock = SystemClock()
    with store_to_build_on(settings) as store:
        claim_keyspace(store, settings.kafka.prefix, clock.now())
        return Dispatcher(
            clock,
            open_log(settings, "dispatcher", session_timeout_s=_SESSION_TIMEOUT_S),
            store,
            Names(settings.kafka.prefix),
            instance=settings.instance_of("dispatcher"),
            generation=settings.generation,
            pace=pace,
            beside=StoreThread(),
        )


if __name__ == "__main__":
    leave_after(lambda: run_role("dispatcher", build))
