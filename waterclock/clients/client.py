"""The front door for programs: ``waterclock.Client``. It makes one of two clients and is none itself.

By Kafka: no server of ours in between, and the schedule may be part of the caller's own transaction. By HTTP: the
answer says what became of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from .http import HttpClient
from .kafka import KafkaClient


class Client:
    """``Client.kafka(...)`` or ``Client.http(...)``; what they make is a ``Client.Kafka`` or a ``Client.Http``."""

    Kafka: TypeAlias = KafkaClient
    Http: TypeAlias = HttpClient

    @staticmethod
    def kafka(
        bootstrap: str,
        *,
        tenant: str = "default",
        prefix: str = "waterclock",
        topic: str = "",
        config: Mapping[str, str | int | bool] | None = None,
    ) -> KafkaClient:
        """A client that appends to ``<prefix>.job-events``, or to ``topic``.

        ``tenant`` must be the one that the topic is bound to (``default`` for job-events itself): the record does not
        carry it, and nobody can schedule for a tenant by naming it. ``config`` goes to librdkafka as it is (TLS, SASL).
        """
        return KafkaClient.connect(bootstrap, tenant=tenant, prefix=prefix, topic=topic, config=config)

    @staticmethod
    def http(url: str, key: str = "", *, timeout_s: float = 10.0, allow_plain_http: bool = False) -> HttpClient:
        """A client of the API at ``url`` under an API key.

        ``timeout_s`` bounds each wait for the network; a verb tries at most four times. A key is sent over plain HTTP
        to this machine only, unless ``allow_plain_http``. Raises RequestError for a URL or a key that is none.
        """
        return HttpClient(url, key, timeout_s=timeout_s, allow_plain_http=allow_plain_http)
