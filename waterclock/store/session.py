"""The connection to Cassandra: every setting of the driver in one place, and its errors turned into ours.

What must hold: LOCAL_QUORUM, libev, TCP_NODELAY (without it a request above 4 KB stalls for 44 ms), tuples, no client
timestamps (each statement has its own), retries bounded and with the same stamps. How it fails: at start it tries until
a deadline and then raises BackendDown; later the driver reconnects by itself, at most 10 s apart.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from threading import Event
from types import MappingProxyType
from typing import Any, TypeAlias

from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    DriverException,
    OperationTimedOut,
    RequestValidationException,
    Unauthorized,
    UnresolvableContactPoints,
    WriteFailure,
    WriteTimeout,
)
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable, Session
from cassandra.connection import ConnectionException
from cassandra.io.libevreactor import LibevConnection
from cassandra.policies import (
    DCAwareRoundRobinPolicy,
    ExponentialReconnectionPolicy,
    RetryPolicy,
    TokenAwarePolicy,
)
from cassandra.protocol import IsBootstrappingErrorMessage, OverloadedErrorMessage, ServerError, TruncateError
from cassandra.query import tuple_factory

from waterclock.clock import Clock
from waterclock.model.errors import AccessRefused, BackendDown, RequestError, WriteUnknown

REQUEST_TIMEOUT_S = 6.0
"""Above the server's own limits (write 2 s, read 5 s), so that its answer comes first."""

_PAUSE_S = 0.25
_TRIES_MAX = 2

CONNECTION_ERRORS = (
    DriverException,
    NoHostAvailable,
    ConnectionException,
    OSError,
    OverloadedErrorMessage,
    IsBootstrappingErrorMessage,
    TruncateError,
    ServerError,
)
"""All that the driver raises; those after DriverException are none. The last four are the answer of a node that is not
well, as it came, when all tries are used up; where no other node is left, it is NoHostAvailable instead."""

_UNUSABLE = (TypeError, ValueError, AttributeError)
"""What the driver raises for arguments that cannot be: it has no error for it."""

_Decision: TypeAlias = tuple[int, int | None]
"""What to do, and at which consistency."""


class _Bounded(RetryPolicy):  # type: ignore[misc]  # the driver ships no types
    """Two more tries with the same consistency and the same stamps, then the caller is told.

    The driver passes the query by position and all else by keyword, with names of its own.
    """

    def _again(self, how: int, consistency: int, tried: int) -> _Decision:
        return (self.RETHROW, None) if tried >= _TRIES_MAX else (how, consistency)

    def on_read_timeout(self, _query: object, consistency: int, retry_num: int, **_: object) -> _Decision:
        return self._again(self.RETRY, consistency, retry_num)

    def on_write_timeout(self, _query: object, consistency: int, retry_num: int, **_: object) -> _Decision:
        return self._again(self.RETRY, consistency, retry_num)

    def on_unavailable(self, _query: object, consistency: int, retry_num: int, **_: object) -> _Decision:
        return self._again(self.RETRY_NEXT_HOST, consistency, retry_num)

    def on_request_error(self, _query: object, consistency: int, retry_num: int, **_: object) -> _Decision:
        return self._again(self.RETRY_NEXT_HOST, consistency, retry_num)


def connect(
    contact_points: Sequence[str],
    port: int,
    clock: Clock,
    *,
    keyspace: str | None = None,
    local_dc: str = "datacenter1",
    deadline_s: float = 60.0,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> Session:
    """A session, as soon as the server answers (and the keyspace exists). Raises BackendDown after ``deadline_s``.

    ``options``: what ``access.driver_options`` made. Raises AccessRefused at once where the server will not have us,
    RequestError where the driver will not have ``options``, or no node is in ``local_dc``.
    Call it after any fork: the driver's threads do not survive one.
    """
    until = clock.monotonic_s() + deadline_s
    while True:
        cluster: Cluster | None = None
        try:
            cluster = _cluster(contact_points, port, local_dc, options)  # it looks the names up
            session = cluster.connect(keyspace)
        except CONNECTION_ERRORS as error:
            datacenters: set[str] = set()
            if cluster is not None:
                datacenters = {host.datacenter for host in cluster.metadata.all_hosts() if host.datacenter}
                cluster.shutdown()
            if options and (unusable := _unusable(error)) is not None:
                raise _cannot_be_used(unusable) from error
            refused = _refusal(error)
            if refused is not None:
                raise AccessRefused("cassandra", f"{', '.join(contact_points)} port {port}: {refused}") from error
            if datacenters and local_dc not in datacenters:  # a node has answered, and the driver asks none of these
                raise RequestError(
                    f"No node of cassandra is in the datacenter {local_dc!r}, but in {', '.join(sorted(datacenters))}",
                    pointer="/cassandra/local_dc",
                    hint="Set cassandra.local_dc",
                ) from error
            if clock.monotonic_s() >= until:
                where = f"{', '.join(contact_points)} port {port}" + (f", keyspace {keyspace}" if keyspace else "")
                raise BackendDown(
                    "cassandra", f"no answer from {where} in {deadline_s:g} s: {_words(error)}"
                ) from error
            Event().wait(_PAUSE_S)
        else:
            session.use_client_timestamp = False
            return session


def _words(error: BaseException) -> str:
    """What the driver says; it has none for names without an address, which may come yet."""
    return "no such host" if isinstance(error, UnresolvableContactPoints) else str(error)


def _refusal(error: BaseException) -> BaseException | None:
    """What says that waiting will not help: our credentials or a certificate, as the first node saw it."""
    behind: object = error.errors if isinstance(error, NoHostAvailable) else None
    seen: list[BaseException] = [error, *(behind.values() if isinstance(behind, dict) else ())]
    for each in seen:
        # The driver makes other errors of what the socket raises, and keeps its words.
        if isinstance(each, (AuthenticationFailed, Unauthorized)) or "CERTIFICATE_VERIFY_FAILED" in str(each):
            return each
    return None


def _unusable(error: BaseException) -> BaseException | None:
    """What the driver stumbled over with every node alike: an argument of a wrong type, as no server could cause it."""
    found = list(error.errors.values()) if isinstance(error, NoHostAvailable) and isinstance(error.errors, dict) else []
    return found[0] if found and all(isinstance(each, _UNUSABLE) for each in found) else None


def _cannot_be_used(error: BaseException) -> RequestError:
    return RequestError(
        f"cassandra.client cannot be used: {error}",
        pointer="/cassandra/client",
        hint="It takes arguments of the driver's Cluster, such as connect_timeout",
    )


def _cluster(contact_points: Sequence[str], port: int, local_dc: str, options: Mapping[str, Any]) -> Cluster:
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(local_dc=local_dc)),
        retry_policy=_Bounded(),
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        row_factory=tuple_factory,
        request_timeout=REQUEST_TIMEOUT_S,
    )
    try:
        return Cluster(
            list(contact_points),
            port=port,
            protocol_version=4,
            compression=False,
            connection_class=LibevConnection,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            reconnection_policy=ExponentialReconnectionPolicy(0.5, 10.0, max_attempts=None),
            sockopts=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
            **{"monitor_reporting_enabled": False, **options},
        )
    except (*_UNUSABLE, ImportError) as refused:
        raise _cannot_be_used(refused) from refused


def translated(operation: str, error: BaseException, *, writing: bool) -> BaseException:
    """``error`` as one of ours; a refusal by the server (a bug of ours) is left as it is, to crash.

    A write without an answer in time is WriteUnknown. BackendDown on a write may have been applied as well (the
    connection may have gone after the request): the cure is the same, the same write with the same stamps.
    """
    if isinstance(error, Unauthorized):
        return AccessRefused("cassandra", f"{operation}: {error}")
    if isinstance(error, (BackendDown, RequestValidationException)):
        return error
    if writing and isinstance(error, (WriteTimeout, WriteFailure, OperationTimedOut)):
        return WriteUnknown("cassandra", f"{operation}: not acknowledged: {error}")
    if isinstance(error, CONNECTION_ERRORS):
        return BackendDown("cassandra", f"{operation}: {error}")
    return error
