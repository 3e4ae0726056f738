"""History as one reader writes it who has read the whole log at once: a row repeats itself in whatever batches, through
whatever take-overs it was written."""

from __future__ import annotations

from typing import TypeAlias

from waterclock.log.following import Beginning
from waterclock.log.port import Isolation, TopicPartition
from waterclock.log.reading import read_range
from waterclock.model.errors import RequestError
from waterclock.model.fold import Fold
from waterclock.model.ids import RunId
from waterclock.recorder.batch import Batch
from waterclock.recorder.loop import ROLE
from waterclock.recorder.open_runs import kept_runs
from waterclock.recorder.shard import Shard
from waterclock.store.memory import MemoryStore, MemoryTables
from waterclock.wire.codec import decode_event

from .world import GENERATION, NAMES, World

Places: TypeAlias = list[RunId]
RunRows: TypeAlias = dict[str, tuple[object, ...]]

_WRITTEN_WITHIN_S = 1.0


def write_anew(world: World) -> MemoryStore:
    """A store of its own, with all that run-events says."""
    store = MemoryStore(world.clock, MemoryTables(world.clock))
    for number in range(world.outside.partitions(NAMES.run_events)):
        store.record(_fold(world, TopicPartition(NAMES.run_events, number)).history()).wait(_WRITTEN_WITHIN_S)
    return store


def _fold(world: World, place: TopicPartition) -> Batch:
    log, batch = world.outside, Batch(0.0)
    start = Beginning(0, 0, is_first=True)
    shard = Shard(place, start, Fold(generation=GENERATION), kept_runs(NAMES, ROLE, place.partition))
    for record in read_range(log, Isolation.COMMITTED, place, log.low_watermark(place), log.high_watermark(place)):
        try:
            batch.take(shard, decode_event(record.value or b""), record)
        except RequestError:
            continue
    return batch


def rows_of(store: MemoryStore, places: Places) -> RunRows:
    """By run id its row and those of its attempts, whole."""
    found: RunRows = {}
    for place in places:
        run = place.job_id, place.fire_at, place.series
        row = store.dag_node(place) if place.node else store.run(*run)
        found[str(place)] = (row, *store.attempts(*run, place.node))
    return found
