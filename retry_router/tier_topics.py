"""Whether the tier's topic is there to which waiting work goes: a record for one that is gone blocks every round.

What must hold: no broker is asked for each record, and only a broker's word denies a topic. A yes holds until there is
trouble, which is what the end of a topic makes; then it is asked for anew. A no holds for one round, for its price is a
record on rejects. How it fails: BackendDown; the round that first meets a topic's end is lost, and made again.
"""

from __future__ import annotations

from waterclock.log.port import Log
from waterclock.model.errors import NotFound


class TierTopics:
    """Asks the log, and remembers."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._there: set[str] = set()
        self._gone: dict[str, NotFound] = {}

    def check(self, topic: str) -> None:
        """Raises NotFound, BackendDown."""
        if topic in self._there:
            return
        if topic in self._gone:
            raise self._gone[topic]
        try:
            self._log.topic_id(topic)  # never told from memory, and also of a partition without a leader
        except NotFound as denied:
            self._gone[topic] = denied
            raise
        self._there.add(topic)

    def begin_round(self) -> None:
        """What was missing may be there now."""
        self._gone.clear()

    def forget(self) -> None:
        """There was trouble: what was there may be gone."""
        self._there.clear()
