"""Names that fall where a check wants them: into one partition, as Kafka's own partitioner puts their keys."""

from __future__ import annotations

from collections.abc import Iterator

from waterclock.model.ids import partition_of

_TRIED = 10_000


def names_at(partition: int, word: str, partitions: int) -> Iterator[str]:
    """``word-0``, ``word-1`` and so on, but those alone that lie in this one of ``partitions``."""
    tried = (f"{word}-{number}" for number in range(_TRIED))
    return (name for name in tried if partition_of(name, partitions) == partition)


def spread(word: str, count: int, partitions: int) -> list[str]:
    """So many names, in turn one in each partition."""
    places = [names_at(partition, word, partitions) for partition in range(partitions)]
    return [next(places[number % partitions]) for number in range(count)]
