"""Who serves a pool now, and which handlers they know: read from the beats, for people.

So a job that names a pool without a worker, or a handler that no worker knows, is told so when it is defined and when
it is looked at, and not only by runs that wait or fail. It decides nothing: beats are seconds old, and a worker may
start in the next moment. Reads the wall clock for that reason. Raises BackendDown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from waterclock.log.port import Isolation, Log, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import UndecodableRecord
from waterclock.model.events import Heartbeat
from waterclock.model.ids import US_PER_S, Instant
from waterclock.model.job import JobSpec
from waterclock.wire.codec import decode_heartbeat
from waterclock.wire.names import Names

_MARGIN_S = 1.0
_MORE = "*"
_NAMES_SHOWN = 10


class Served(NamedTuple):
    """The living workers of one pool. ``handlers``: what one of them knows at least."""

    workers: tuple[str, ...]
    handlers: frozenset[str]

    def knows(self, handler: str) -> bool:
        """Whether some worker knows the handler, or knows more names than its beats can tell."""
        return handler in self.handlers or _MORE in self.handlers


NOBODY = Served((), frozenset())


def who_serves(log: Log, names: Names, *, lease_ttl_s: float, now: Instant) -> dict[str, Served]:
    """The pools that have a worker whose newest beat is at most one lease old."""
    since = now - int((lease_ttl_s + _MARGIN_S) * US_PER_S)
    newest: dict[str, Heartbeat] = {}
    for number in range(log.partitions(names.heartbeats)):
        place = TopicPartition(names.heartbeats, number)
        start, end = log.offset_at(place, since), log.high_watermark(place)
        for record in read_range(log, Isolation.COMMITTED, place, start, end):
            beat = _beat(record.value)
            if beat is not None:
                newest[beat.worker] = beat
    pools: dict[str, list[Heartbeat]] = {}
    for beat in newest.values():
        pools.setdefault(beat.pool, []).append(beat)
    return {pool: _served(beats) for pool, beats in sorted(pools.items())}


def warning_for(spec: JobSpec, serving: dict[str, Served]) -> str:
    """What a person should know about a job's workers; "" where all is well. Of a Dag: about its first such node's."""
    if spec.dag is not None:
        of_nodes = (
            replace(spec, handler=node.handler, executor=node.executor, pool=node.pool or spec.pool, dag=None)
            for node in spec.dag.nodes
        )
        return next((warning for each in of_nodes if (warning := warning_for(each, serving))), "")
    served = serving.get(spec.pool, NOBODY)
    if not served.workers:
        where = "" if spec.pool == "default" else f" --pool {spec.pool}"
        return (
            f"no worker for pool {spec.pool}: its runs wait until one is started (waterclock worker MODULE:APP{where})"
        )
    if spec.executor is None and not served.knows(spec.handler):
        known = sorted(served.handlers)
        shown = ", ".join(known[:_NAMES_SHOWN]) + (", ..." if len(known) > _NAMES_SHOWN else "")
        return f"no worker of pool {spec.pool} knows the handler {spec.handler!r} (they know {shown or 'none'})"
    return ""


def _beat(value: bytes | None) -> Heartbeat | None:
    try:
        return decode_heartbeat(value or b"")
    except UndecodableRecord:
        return None


def _served(beats: list[Heartbeat]) -> Served:
    workers = tuple(sorted(beat.worker for beat in beats))
    return Served(workers, frozenset(name for beat in beats for name in beat.handlers))
