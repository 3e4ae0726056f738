"""The intake's process: both of its cores, one after the other where the real one has a thread for each."""

from __future__ import annotations

from waterclock.intake.loop import Intake
from waterclock.intake.topic_listener import TopicListener


class IntakeProcess:
    """A role of two cores."""

    def __init__(self, events: Intake, sources: TopicListener) -> None:
        self._cores = (events, sources)

    @property
    def ready(self) -> bool:
        """Both are."""
        return all(core.ready for core in self._cores)

    def step(self) -> bool:
        """A turn of each."""
        events, sources = self._cores
        busy = events.step()
        return sources.step() or busy

    def drain(self) -> bool:
        """Both commit where they stand."""
        events, sources = self._cores
        has_more = events.drain()
        return sources.drain() or has_more

    def close(self) -> None:
        """Give up what each has."""
        for core in self._cores:
            core.close()
