"""Positions as the Kafka client wants them."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import TopicPartition as Place

from .port import Committed, TopicPartition


def places_of(positions: Mapping[TopicPartition, int]) -> list[Place]:
    """Partitions, each with an offset."""
    return [Place(at.topic, at.partition, offset) for at, offset in positions.items()]


def committed_places(positions: Mapping[TopicPartition, Committed]) -> list[Place]:
    """What a group commits. A position without text must not carry an empty one: the client would store a NUL."""
    return [
        Place(at.topic, at.partition, to.offset, to.metadata)
        if to.metadata
        else Place(at.topic, at.partition, to.offset)
        for at, to in positions.items()
    ]
