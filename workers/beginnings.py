"""Where to begin in the partitions of a tier: at assignment, and after every trouble.

From the group's committed position; where there is none, behind the newest claim (``positions.py``). What must hold:

* no position lies below the start of the log, or the client would be refused, for ever, and every tier would stand
  with it. What retention has removed there was never claimed: the reconciler, which sees the position pass, ends its
  runs. It is asked for at each start, because a tier that starves may fall behind retention while it is read;
* where nothing is kept nothing can have been left: a new pool begins at once, however much others have done.

How it fails: BackendDown; the partitions stay unstarted, and the next turn asks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from waterclock.log.port import Committed, Log, TopicPartition

from .positions import ClaimedPositions

logger = structlog.get_logger()


class Beginnings:
    """Those of all tiers of one worker: what one of them has read of run-events counts for the others too."""

    def __init__(self, log: Log, run_events: str) -> None:
        self._log = log
        self._claimed = ClaimedPositions(log, run_events)

    def of(self, committed: Mapping[TopicPartition, Committed | None]) -> dict[TopicPartition, int]:
        """Where to begin in these, as far as that is known; run-events is read for the others, see ``rebuilt``.

        Costs one question for each, about half a millisecond. Raises BackendDown.
        """
        known: dict[TopicPartition, int] = {}
        missing: list[TopicPartition] = []
        for place, position in committed.items():
            low = self._log.low_watermark(place)
            if position is not None:
                known[place] = _kept(place, position.offset, low)
            elif self._log.high_watermark(place) == low:
                known[place] = low
            else:
                missing.append(place)
        if missing:
            logger.info("positions_are_rebuilt_from_run_events", topic=missing[0].topic, partitions=len(missing))
            self._claimed.ask(missing)
        return known

    def end_of(self, place: TopicPartition) -> int:
        """Raises BackendDown."""
        return self._log.high_watermark(place)

    def look(self) -> None:
        """Read on for those that wait, a bounded slice. Raises BackendDown, LostResource."""
        self._claimed.look()

    def rebuilt(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where to begin in these, for which ``of`` had no answer; {} while that is not known. Raises BackendDown."""
        if not self._claimed.is_read:
            return {}
        return {place: max(self._claimed.next_offset(place), self._log.low_watermark(place)) for place in places}

    def close(self) -> None:
        """Give the reader up."""
        self._claimed.close()


def _kept(place: TopicPartition, offset: int, low: int) -> int:
    if offset < low:
        logger.error(
            "work_removed_before_it_was_claimed",
            topic=place.topic,
            partition=place.partition,
            from_offset=offset,
            to_offset=low,
            records_at_most=low - offset,  # offsets of markers among them
        )
    return max(offset, low)
