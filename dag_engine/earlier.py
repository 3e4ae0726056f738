"""What a DagRun that is run again has left on the log: how its nodes ended, with which results, and its payload.

A rerun names the older DagRun; nothing but the log knows its results. It is found by time (no PENDING is written
before its fire time) and folded to its end, a slice at each turn, so that nobody else waits for it. What must hold:
whatever is found follows from the log alone, so that whoever takes over in between finds the same. How it fails: what
retention has removed, or what has not ended yet, cannot be kept, and the rerun ends and says so.

A rerun without a payload of its own has that of the one that it runs again, which may be a rerun, too. All of them have
the same fire time, and each stands behind the one that it names: one reading sees them all.
"""

from __future__ import annotations

from typing import NamedTuple

from waterclock.log.following import Beginning
from waterclock.log.port import Isolation, Log, Reader, TopicPartition
from waterclock.model.dag_graph import Graph
from waterclock.model.dag_release import rebuild
from waterclock.model.dag_steps import NodeState
from waterclock.model.dag_work import kept_nodes
from waterclock.model.errors import RequestError
from waterclock.model.events import Pending, RunEvent
from waterclock.model.fold import Fold
from waterclock.model.ids import US_PER_S, parse_run_id
from waterclock.wire.codec import decode_event
from waterclock.wire.names import Names

from .kept import KeptDags
from .open_dag import OpenDag
from .shard import Shard

_MARGIN_US = 60 * US_PER_S
"""By so much the clocks of those who write run-events may differ."""

SLICE = 2_000
"""Records that one turn of the engine reads, of all older DagRuns together."""

EARLIER_MAX = 8
"""Of one partition at a time; other reruns wait."""

FAMILY_MAX = 100
"""Reruns of one fire whose payloads are known at once: the newest. Whoever names an older one has a payload of its own,
or ends."""


class Given(NamedTuple):
    """What a DagRun's nodes are given in place of the job's payload; None: nothing. ``is_gone``: nobody knows."""

    payload: bytes | None = None
    is_gone: bool = False


class Earlier:
    """The reading of one older DagRun. ``done``: it was read to its end, or to that of the log.

    Raises BackendDown, RequestError where ``run_id`` is none.
    """

    def __init__(self, log: Log, names: Names, place: TopicPartition, run_id: str, generation: int) -> None:
        self.run_id = run_id
        self.done = False
        self._place = place
        start = max(log.low_watermark(place), log.offset_at(place, parse_run_id(run_id).fire_at - _MARGIN_US))
        self._end = log.high_watermark(place)
        fold: Fold[None] = Fold(generation=generation, window=1)
        self._shard = Shard(place, Beginning(start, start, is_first=False), fold, KeptDags(names, "", 0))
        self._found: OpenDag | None = None
        self._family: dict[str, Given] = {}
        self._reader: Reader = log.reader(Isolation.COMMITTED)
        self._reader.assign({place: start})

    def look(self, most: int) -> bool:
        """Read on, so many records at most; True where there is more. Raises BackendDown, LostResource."""
        for record in self._reader.poll(most, 0.0):
            try:
                event = decode_event(record.value or b"")
                self._note_given(event)
                if event.run_id.partition("/")[0] != self.run_id:
                    continue
                self._shard.take(event, record.offset)
            except RequestError:
                continue
            self._found = self._shard.dags.get(self.run_id, self._found)
            if self._found is not None and self._found.run.state.final:
                self.done = True
                break
        self.done = self.done or self._reader.position(self._place) >= self._end
        if self.done:
            self._reader.close()
        return not self.done

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()

    @property
    def given(self) -> Given:
        """What its nodes were given."""
        return self._family.get(self.run_id, Given(is_gone=True))

    def _note_given(self, event: RunEvent) -> None:
        """Of a DagRun of the same fire: its own payload, or that of the one that it runs again."""
        detail = event.detail
        if not isinstance(detail, Pending) or detail.dag is None or _fire_of(event.run_id) != _fire_of(self.run_id):
            return
        given = Given(detail.dag.payload)
        if given.payload is None and detail.linked_run:
            given = self._family.get(detail.linked_run, Given(is_gone=True))
        self._family.pop(event.run_id, None)
        self._family[event.run_id] = given
        if len(self._family) > FAMILY_MAX:
            del self._family[next(iter(self._family))]

    def kept(self, graph: Graph, revision: int, rerun_from: tuple[str, ...]) -> dict[str, NodeState] | None:
        """By name the nodes that are kept as they were; None where it is gone, or was of another version."""
        found = self._found
        if found is None or not found.run.state.final or found.revision != revision:
            return None
        try:
            before = rebuild(graph, found.known).whole_nodes()
            return kept_nodes(graph, before, rerun_from)
        except (KeyError, ValueError):
            return None


def _fire_of(run_id: str) -> str:
    """What a DagRun's id and those of its reruns have in common."""
    return run_id.partition("~")[0]
