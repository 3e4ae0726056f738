"""One run-events partition in the recorder's hands: its fold, and what is kept of runs that stay open for long."""

from __future__ import annotations

from collections.abc import Iterator

from waterclock.kept_runs import KeptRuns
from waterclock.log.following import Beginning, Followed
from waterclock.log.port import Committed, Outgoing, TopicPartition
from waterclock.model.events import EventKind, RunEvent
from waterclock.model.fold import Fold, OpenRun
from waterclock.model.reduce import Verdict

from .projection import Known

_SKIPPED = EventKind.SKIPPED


class Shard(Followed[Known]):
    """A partition, its fold and its kept runs."""

    __slots__ = ("_kept", "_must_stand")

    def __init__(self, partition: TopicPartition, start: Beginning, fold: Fold[Known], kept: KeptRuns[Known]) -> None:
        super().__init__(partition, start, fold)
        self._kept = kept
        self._must_stand = False

    def apply(self, event: RunEvent, offset: int, run: OpenRun[Known] | None) -> Verdict:
        """Fold one event of ``run``, if that is open; raises as ``Fold.apply`` does."""
        fold = self.fold
        verdict = fold.apply(event, offset)
        if event.kind is _SKIPPED:  # of a range, which may end other runs that were HELD, whatever its first one was
            for run_id, _ in fold.skipped:
                self._kept.ended(run_id)
        if run is not None and run.state.final:
            self._kept.ended(event.run_id)
        for run_id, touched in fold.touched:  # by an event of a DagRun its nodes, by one of a node its DagRun
            if touched.state.final:
                self._kept.ended(run_id)
        return verdict

    def keep(self, now_s: float) -> list[Outgoing]:
        """What the state topic must be told in the round that commits the position; nothing while not live."""
        found = list(self._kept.messages(self.fold, now_s)) if self.live else []
        self._must_stand = bool(found)
        return found

    def to_commit(self) -> Committed | None:
        """As of any partition that is followed; also where it has not moved, but something is to be told.

        Only offsets fence a recorder that has lost its partitions and does not know it (design §5.4), and with what is
        kept the fold's beginning moves.
        """
        return self.stand() if self._must_stand else super().to_commit()

    def dag_runs(self) -> Iterator[str]:
        """Those that are open."""
        return (run_id for run_id, run in self.fold.open.items() if run.state.is_dag)
