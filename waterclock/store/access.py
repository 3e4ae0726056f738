"""How a Cassandra cluster lets us in: user, certificate, and whatever else the driver is to be told.

What must hold: with TLS on, the server's certificate is always checked against the authorities named (the system's
where none is), and so is its name unless ``check_host`` says otherwise. How it fails: a file that is missing or is no
certificate raises RequestError at start, with the setting that names it.
"""

from __future__ import annotations

import ssl
from typing import Any

from cassandra.auth import PlainTextAuthProvider

from waterclock.model.errors import RequestError
from waterclock.settings import CassandraSettings, CassandraTls

OURS = frozenset(
    {"contact_points", "port", "protocol_version", "connection_class", "execution_profiles", "auth_provider"}
    | {"ssl_context", "sockopts", "reconnection_policy", "compression", "schema_metadata_enabled"}
    | {"token_metadata_enabled"}
)
"""What the guarantees, or other settings, stand on: not to be replaced through ``cassandra.client``."""


def driver_options(settings: CassandraSettings) -> dict[str, Any]:
    """What the settings add to the driver's own. Raises RequestError."""
    taken = sorted(OURS & settings.client.keys())
    if taken:
        raise RequestError(
            f"cassandra.client.{taken[0]} is not free", pointer=f"/cassandra/client/{taken[0]}", hint="Leave it out"
        )
    options: dict[str, Any] = dict(settings.client)
    if settings.user:
        options["auth_provider"] = PlainTextAuthProvider(settings.user, settings.password.get_secret_value())
    if settings.tls.enabled:
        options["ssl_context"] = _context(settings.tls)
    return options


def _context(tls: CassandraTls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except OSError as error:
        raise _unusable("ca_file", error) from None
    context.check_hostname = tls.check_host
    if tls.cert_file is not None:
        try:
            context.load_cert_chain(tls.cert_file, tls.key_file)
        except OSError as error:
            raise _unusable("cert_file", error) from None
    return context


def _unusable(name: str, error: OSError) -> RequestError:
    return RequestError(
        f"cassandra.tls.{name} cannot be used: {error}",
        pointer=f"/cassandra/tls/{name}",
        hint="Name a PEM file that this user may read",
    )
