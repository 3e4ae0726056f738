"""A Confluent schema registry, by the client library's own client: the extra ``registry``.

Asked for single schemas by id or GUID, at one fixed address, without retries: whoever asks has a bound of its own. The
client is imported when the registry is first needed (a third of a second). How it fails: BackendDown where the registry
does not answer, refuses us, or the extra is not installed or cannot be set up so.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from waterclock.model.errors import BackendDown

BACKEND = "schema registry"

_TIMEOUT_S = 2.0
_NOT_FOUND = 404
_AVRO = "AVRO"


class KafkaRegistry:
    """``extra``: the client's own settings, such as ``basic.auth.user.info`` or ``ssl.ca.location``."""

    def __init__(self, url: str, extra: Mapping[str, str] = MappingProxyType({})) -> None:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415 - slow, and an extra
        except ImportError as missing:
            raise BackendDown(BACKEND, f"its client is not installed ({missing.name}): waterclock[registry]") from None
        try:
            self._client = SchemaRegistryClient({**extra, "url": url, "timeout": _TIMEOUT_S, "max.retries": 0})
        except (ValueError, TypeError, OSError) as refused:  # a name, a value, a file that is not there
            why = str(refused).replace(url, "intake.registry_url")  # which may hold a password
            raise BackendDown(BACKEND, f"its client cannot be made of intake.registry: {why}") from None

    def schema_text(self, prefix: bytes) -> str | None:
        """The text of the Avro schema under ``00 <id>`` or ``01 <guid>``; None where there is none, or none of Avro."""
        try:
            found = self._found(prefix)
        except Exception as error:  # its client lets through what its HTTP library raises: one seam for all
            if getattr(error, "http_status_code", 0) == _NOT_FOUND:
                return None
            raise BackendDown(BACKEND, f"{type(error).__name__}: {str(error)[:200]}") from error
        if found.schema_type != _AVRO or found.references:
            return None
        return str(found.schema_str)

    def _found(self, prefix: bytes) -> Any:
        if prefix[0] == 0:
            return self._client.get_schema(int.from_bytes(prefix[1:], "big"))
        return self._client.get_schema_by_guid(str(uuid.UUID(bytes=prefix[1:])))
