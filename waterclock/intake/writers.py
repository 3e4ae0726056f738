"""Which writers of Confluent framing this process knows: by the registry that is set, or none."""

from __future__ import annotations

import os

from waterclock.clock import Clock
from waterclock.log.kafka_registry import KafkaRegistry
from waterclock.settings import Settings

from .confluent import NoRegistry, RegistryWriters
from .parse import Writers


def writers_of(settings: Settings, clock: Clock) -> Writers:
    """``intake.registry_url``, else ``SCHEMA_REGISTRY_URL``: asked when it is first needed; without either, none."""
    url = settings.intake.registry_url or os.environ.get("SCHEMA_REGISTRY_URL", "")
    client = settings.intake.registry
    return RegistryWriters(lambda: KafkaRegistry(url, client), clock) if url else NoRegistry()
