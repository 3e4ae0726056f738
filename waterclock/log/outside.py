"""A position that is not in the log of its partition: what happened, and what to do, in the words of both ports."""

from __future__ import annotations

from waterclock.model.errors import LostResource

from .port import TopicPartition


def outside(place: TopicPartition, position: int, low: int | None, end: int | None, where: str = "") -> LostResource:
    """The loss of a position outside the log, which reaches from ``low`` to ``end``; None: nobody could tell."""
    said = f"{where}position {position} of {place.topic}[{place.partition}] is not in the log"
    if end is not None and position > end:
        return LostResource(
            f"{said}, which ends at {end}: the topic was probably deleted and made anew. Start this process again; "
            'should it say so again, see "A topic was deleted and made anew" in docs/runbook.md'
        )
    if low is not None and position < low:
        return LostResource(
            f"{said}, which begins at {low}: the records before were removed, commonly by retention that is too short"
        )
    return LostResource(f"{said}: its records were removed, or the topic was deleted and made anew (docs/runbook.md)")
