"""The id of a topic on a real Kafka: one that is made anew under the same name has another."""

from __future__ import annotations

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from waterclock.model.errors import BackendDown

from .kafka_errors import BACKEND, query_error

TIMEOUT_S = 10.0


def topic_id_of(admin: AdminClient, topic: str) -> str:
    """As text. Raises NotFound, BackendDown."""
    asked = admin.describe_topics(TopicCollection([topic]), request_timeout=TIMEOUT_S)
    try:
        return str(asked[topic].result(TIMEOUT_S + 1).topic_id)
    except KafkaException as error:
        raise query_error(error.args[0], f"id of {topic}") from error
    except TimeoutError as error:
        raise BackendDown(BACKEND, f"id of {topic}: no answer") from error
