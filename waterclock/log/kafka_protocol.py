"""How old a broker is, by the requests that it understands.

Why so: the client has no question for the version, and no broker setting tells it since 4.0. It does log what a broker
answered to its ApiVersions request, so one client with that log switched on is asked once. It tells a release from
which on the broker speaks as it does, never the exact one. How it fails: None where the log says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from confluent_kafka.admin import AdminClient

from .kafka_metadata import cluster_metadata
from .kafka_properties import Properties
from .kafka_watch import Watch

_LINE = re.compile(r"ApiKey \S+ \((\d+)\) Versions \d+\.\.(\d+)")
_PRODUCE, _END_TXN = 0, 26
_TIMEOUT_S = 10.0
_SERVE_S = 0.2


class _Listening(Watch):
    """A watch that also keeps the newest version of each request."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.newest: dict[int, int] = {}

    def log(self, level: int, form: str, *parts: object) -> None:
        found = _LINE.search(form % parts)
        if found:
            self.newest[int(found[1])] = int(found[2])
        elif not parts or parts[0] not in {"APIVERSION", "FEATURE", "INIT", "APIVERSIONS"}:
            super().log(level, form, *parts)


def speaks_since(bootstrap: str, extra: Mapping[str, str]) -> tuple[int, int] | None:
    """The release from which on brokers speak as this one does: (4, 1), (4, 0), or (3, 0) for all before."""
    properties = Properties(
        bootstrap, client_id="waterclock-version", transaction_timeout_s=10, session_timeout_s=10, extra=extra
    )
    watch = _Listening("version")
    conf = properties.admin() | {"debug": "feature", "log_level": 7}
    with AdminClient(conf, logger=watch, error_cb=watch.on_error) as admin:
        cluster_metadata(admin, watch, _TIMEOUT_S, doing="version")
        admin.poll(_SERVE_S)  # serves its log lines
    return release_of(watch.newest)


def release_of(newest: Mapping[int, int]) -> tuple[int, int] | None:
    """By the newest version of each request: Produce by topic id is 4.1's, transactions with epochs (KIP-890) 4.0's."""
    if not newest:
        return None
    if newest.get(_PRODUCE, 0) >= 13:
        return (4, 1)
    return (4, 0) if newest.get(_END_TXN, 0) >= 5 else (3, 0)
