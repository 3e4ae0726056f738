"""The way of a command to its servers: settings, and those of the local stack of this folder where none are set.

So in a clone whose stack had to take other ports every command still finds it: an address that nobody set gives way to
the one in the state file of a living supervisor.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from waterclock.clock import SystemClock
from waterclock.log.kafka import KafkaLog
from waterclock.model.ids import make_job_id, split_job_id
from waterclock.settings import Settings, load_settings
from waterclock.stack.state import read_state
from waterclock.store.access import driver_options
from waterclock.store.cassandra import CassandraStore
from waterclock.wire.names import Names

from .failing import CommandFailed, ExitCode

_STORE_DEADLINE_S = 10.0


def here() -> Settings:
    """The settings of a command run in this folder. Raises RequestError, and CommandFailed where its stack is down.

    Down, its usual ports may be another folder's by now: a command must never end up there.
    """
    settings = load_settings()
    state = read_state(settings.stack.data_dir)
    own_kafka = "bootstrap" not in settings.kafka.model_fields_set
    own_cassandra = not {"contact_points", "port"} & settings.cassandra.model_fields_set
    if state is None or not (own_kafka or own_cassandra):
        return settings
    if not state.alive:
        raise CommandFailed(
            f"The stack of this folder does not run ({settings.stack.data_dir})",
            hint="`waterclock up` starts it again",
            exit_code=ExitCode.UNREACHABLE,
        )
    found: dict[str, object] = {}
    if own_kafka:
        found["kafka"] = settings.kafka.model_copy(update={"bootstrap": state.bootstrap})
    if own_cassandra:
        points = tuple(state.contact_points.split(","))
        found["cassandra"] = settings.cassandra.model_copy(
            update={"contact_points": points, "port": state.cassandra_port}
        )
    return settings.model_copy(update=found)


def names_of(settings: Settings) -> Names:
    """Topics and groups under the prefix that is set."""
    return Names(settings.kafka.prefix)


@contextmanager
def open_log(settings: Settings) -> Iterator[KafkaLog]:
    """The log, for the time of a command."""
    kafka = settings.kafka
    log = KafkaLog(kafka.bootstrap, client_id=f"{kafka.prefix}-cli", extra=kafka.properties)
    try:
        yield log
    finally:
        log.close()


@contextmanager
def open_store(settings: Settings) -> Iterator[CassandraStore]:
    """The store, for the time of a command. Raises BackendDown after 10 s."""
    where = settings.cassandra
    store = CassandraStore(
        where.contact_points,
        where.port,
        where.keyspace,
        SystemClock(),
        local_dc=where.local_dc,
        deadline_s=_STORE_DEADLINE_S,
        options=driver_options(where),
    )
    try:
        yield store
    finally:
        store.close()


def job_id_of(settings: Settings, word: str) -> str:
    """``<tenant>:<name>``, or a bare name in the tenant that is set. Raises RequestError."""
    if ":" in word:
        tenant, name = split_job_id(word)
        return make_job_id(tenant, name)
    return make_job_id(settings.tenant, word)
